"""A chat model plays the other side of a conversation: a customer under guidelines of ours, or an agent under the policy.

The model is asked through the port (live, recorded or replayed), each message at a place of its own, and keeps nothing in
mind: what it is shown is made of the conversation every time. Its words never become a reward: what cannot be read is asked
for once more, and is then a fault, after which a recorded run asks for the second reply again.

A live model answers no two times alike, and all episodes of a task and seed must begin alike (the members of a group in
GRPO): its words before the other side's first turn are asked for once a process and shared.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from importlib.resources import files
from string import Template
from typing import Any
from weakref import WeakKeyDictionary

from agent_envs.base.caches import SharedCache, Uncopied, shared
from agent_envs.base.dialects import outside_thoughts
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.protocol import Call, Malformed
from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.agent_view import SideView, signature
from agent_envs.envs.tau2.dialogue import Dialogue, Line
from agent_envs.envs.tau2.official import user_guidelines
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_schema import Tau2Task, scenario_text
from agent_envs.envs.tau2.toolkit import Side
from agent_envs.envs.tau2.turn_taking import USER_STOPS
from agent_envs.envs.tau2.users.persona import MANNERS
from agent_envs.rollout.episode_runner import turn_seed
from agent_envs.services.chat import ChatModel, ChatPort, ChatReply, ChatRequest, ask, chat_port, make_chat_model
from agent_envs.services.chat.conversation import clean
from agent_envs.services.recording import Recording, calls_again

MAX_TOKENS = 1024
LONGEST = 100_000  # characters of a message
_NUDGE = (
    "(This is no part of the conversation. Your last reply could not be read: {reason}. Reply once more, with {form} "
    "alone, as if nothing had happened.)"
)
_TEMPLATES = {
    name: Template(files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip())
    for name in ("guidelines", "guidelines_tools")
}
_NO_TOOLS = "You have no tools: all that you can do is write."
OPENINGS = 4096  # that are kept, of a model
_OPENINGS: SharedCache[Dialogue] = OrderedDict()  # of models by name, which are the same in every environment
_OPENINGS_OF: WeakKeyDictionary[ChatModel, SharedCache[Dialogue]] = WeakKeyDictionary()
_OPENINGS_LOCK = threading.Lock()


class ChatPartner(Uncopied):
    """Plays either side of a conversation with a chat model."""

    def __init__(
        self,
        model: str | ChatModel,
        persona: str | Mapping[str, Any] = "task",
        *,
        guidelines: str = "own",
        temperature: float | None = None,
        max_tokens: int = MAX_TOKENS,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the model, by name or as an object, and the manners and guidelines of a customer that it plays.

        Args:
            model: a chat model, or its name (`openai:MODEL@URL`, ...).
            persona: a customer's manners: "task" leaves them to the task, a name of `MANNERS`, or words that describe
                them; knobs of a scripted user are none.
            guidelines: of a customer: "own", or "official" for those of the original, read from its data.
            temperature: None leaves it to the service, as newer models demand.
            max_tokens: of a message.
            wait: how to sleep between attempts.

        Raises:
            UsageError: no such model or persona.
        """
        self._model = make_chat_model(model) if isinstance(model, str) else model
        if not isinstance(persona, str) or not (persona == "task" or persona in MANNERS or " " in persona.strip()):
            names = ", ".join(("task", *MANNERS))
            raise UsageError(f"persona={persona!r}; the personas are {names}, or a sentence that describes one")
        self.service = self._model.name
        self.name = self.service if persona == "task" else f"{self.service}/{persona}"
        self._persona, self._guidelines = persona, guidelines
        self._sampling = ChatRequest((), temperature=temperature, max_tokens=max_tokens)
        self._wait = wait
        self._port: tuple[Recording | None, ChatPort] | None = None
        self._openings = _OPENINGS if isinstance(model, str) else _openings_of(model)

    def opening(self, key: Hashable, begin: Callable[[], Dialogue]) -> Dialogue:
        """Return a conversation with the model's first words; `begin` is called once for each key in a process.

        Threads that ask for one key wait for one call of `begin`; one that raises is not remembered. For a live model: what
        is recorded is found again by its place.
        """
        return shared(self._openings, (self.name, key), begin, OPENINGS)

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return the model's next line, never None, and the scene's memory unchanged; EnvFault after two unreadable replies.

        Raises:
            EnvFault: the service failed, or gave nothing that can be read twice.
            UsageError: the service needs a key and there is none.
        """
        port, tools = self._port_now(scene.recording), scene.rules.tools_of(scene.side)
        names = tuple(tool["function"]["name"] for tool in tools)
        request = replace(self._sampling, messages=self._messages(scene), tools=tools)

        def read(reply: ChatReply) -> Line | Malformed:
            """Parse a reply as a line of this scene's side, with the names of its tools."""
            return _line(reply, scene.side, names)

        reply = self._ask(port, request, scene, 0, lambda answer: not _leaves(scene, read(answer)))
        line = read(reply)
        if isinstance(line, Malformed):
            attempt = {"role": "assistant", "content": reply.canonical.strip() or "(nothing)"}
            form = "one message, or calls of your tools," if tools else "one message"
            nudge = {"role": "user", "content": _NUDGE.format(reason=line.reason, form=form)}
            again = replace(request, messages=[*request.messages, attempt, nudge])
            line = read(self._ask(port, again, scene, 1, lambda answer: _serves(scene, read(answer))))
        if isinstance(line, Malformed):
            why = f"{self.service}: no readable message in two replies: {line.reason}"
            raise EnvFault(why, calls_again(scene.recording))
        return line, scene.memory

    def _ask(
        self, port: ChatPort, request: ChatRequest, scene: Scene, attempt: int, usable: Callable[[ChatReply], bool]
    ) -> ChatReply:
        """Ask the model at the call site of an attempt, with the seed that follows from it."""
        site = replace(scene.site, ordinal=scene.site.ordinal + attempt)
        seed = turn_seed(f"{site.episode_key}|{site.branch}|{scene.side}", site.ordinal)
        return ask(port, replace(request, seed=seed), site, usable)

    def _port_now(self, recording: Recording | None) -> ChatPort:
        """Return the port to the model, made anew only where the recording changed."""
        entry = self._port
        if entry is None or entry[0] is not recording:
            # Rebound as a whole, so that forks and threads that share the partner are never in each other's way.
            entry = self._port = (recording, chat_port(self._model, recording=recording, wait=self._wait))
        return entry[1]

    def _messages(self, scene: Scene) -> list[dict[str, Any]]:
        """Return the conversation as the model's context: guidelines for a customer, for an agent its side's prompt."""
        rules = scene.rules
        face = SideView(rules, scene.side, rules.max_agent_turns or rules.max_steps)
        own = _guidelines(scene, self._persona, self._guidelines) if scene.side == "user" else ""
        return [message.as_dict() for message in face.conversation(scene.public, scene.dialogue, own)]


def _openings_of(model: ChatModel) -> SharedCache[Dialogue]:
    """Return the openings that a model's partners share; a new store for each call where the model cannot be a key."""
    try:
        with _OPENINGS_LOCK:
            return _OPENINGS_OF.setdefault(model, OrderedDict())
    except TypeError:  # a model that has no hash or no weak references: each partner keeps its own
        return OrderedDict()


def scenario_of(task: Tau2Task, persona: str) -> str:
    """Return a customer's scenario: the task's own for persona "task", else with those manners, by name or in words."""
    return task.scenario if persona == "task" else scenario_text(MANNERS.get(persona, persona), task.instructions)


def _guidelines(scene: Scene, persona: str, whose: str) -> str:
    """Return the prompt of a model that plays the customer: "official" is the original's, any other ours with signatures."""
    tools, scenario = scene.rules.tools_of("user"), scenario_of(scene.public, persona)
    if whose == "official":
        return user_guidelines(scenario, bool(tools))
    described = ((signature(tool), tool["function"]["description"].strip()) for tool in tools)
    signatures = "\n".join(f"  - {name}: {text.partition(chr(10))[0]}" for name, text in described)
    tool_text = _TEMPLATES["guidelines_tools"].substitute(signatures=signatures) if tools else _NO_TOOLS
    return _TEMPLATES["guidelines"].substitute(tools=tool_text, scenario=scenario)


def _serves(scene: Scene, line: Line | Malformed) -> bool:
    """Return whether a line can be played: it is well formed, and does not end the conversation before its first turn."""
    return not isinstance(line, Malformed) and not _leaves(scene, line)


def _leaves(scene: Scene, line: Line | Malformed) -> bool:
    """Return whether a customer ends the conversation before the first turn, which makes no episode."""
    if isinstance(line, Malformed) or line.calls or scene.side != "user" or scene.dialogue.agent_turns:
        return False
    return any(stop in line.text for stop in USER_STOPS)


def _line(reply: ChatReply, side: Side, tools: tuple[str, ...]) -> Line | Malformed:
    """Return a reply as a line, calls of unknown tools too; Malformed if unreadable, or a call by a side without tools."""
    parsed = read_action(outside_thoughts(clean(reply.canonical)[:LONGEST])[0], tools)
    if isinstance(parsed, Malformed):
        return parsed
    if isinstance(parsed, Call):
        return Line(side, "", parsed.calls) if tools else Malformed("you have no tools")
    return Line(side, parsed.text)
