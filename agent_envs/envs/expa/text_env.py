"""`TagEnv` plays the same tasks as text: tag pairs call tools, and results come back in result tags (the Prompt baselines)."""

import json
from dataclasses import dataclass, replace

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Answer, Call, Malformed, MarkedAnswerProtocol, TagProtocol
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Episode, Outcome, Task, TurnEnv
from agent_envs.envs.expa.actions import ExternalEnvironment, Latent, Refusal
from agent_envs.envs.expa.problem import JSON, MAX_LIMIT, TEXT, Problem
from agent_envs.tools.native_tags import ANSWER, PROTOCOLS, NativeTags, replied

MAX_RESULT_CHARACTERS = 2000
_CANONICAL = json.JSONDecoder()  # `json.loads` looks for white space, which canonical text has not


@state_type
@dataclass(frozen=True, slots=True)
class TagState:
    """The latent state of the external environments."""

    latent: Latent


class TagEnv(TurnEnv):
    """Base of the text ids. One turn is one generation: up to a tool's closing tag, or the answer that ends the episode."""

    problem: Problem
    native: NativeTags | None = None  # of native calls
    _protocol = "tags"

    def words_of(self, protocol: str) -> str:
        """Take the protocol (UsageError for an unknown one), and return JSON for "json", TEXT for "tags"."""
        self._protocol = choice(type(self).__name__, "protocol", protocol, PROTOCOLS)
        return JSON if protocol == "json" else TEXT

    def play_problem(self, problem: Problem, max_generations: int, mark: str = "") -> None:
        """Take a problem's tasks, reward and environments, a limit on turns and the answer's mark; UsageError for a bad limit.

        Args:
            problem: what is played.
            max_generations: limit on turns.
            mark: what stands before the answer; "" for `<answer>` tags.
        """
        whole_number(type(self).__name__, "max_generations", max_generations, 1, MAX_LIMIT)
        self.problem, self._mark = problem, mark
        self.source, self.reward_spec, self.max_turns = problem.source, problem.reward, max_generations
        self.answer_tags = (f"{mark} ", "") if mark else ("<answer>", "</answer>")
        self.route_to(*problem.environments)

    def route_to(self, *environments: ExternalEnvironment) -> None:
        """Make these the external environments, each with a tag of its name; rebuild the protocol and the example turn."""
        self.problem = replace(self.problem, environments=environments)
        tools = {environment.name: (environment.name, "text") for environment in environments}
        about = {environment.name: environment.usage for environment in environments}
        marked = MarkedAnswerProtocol(tools, self._mark, about)
        self._tags = marked if self._mark else TagProtocol(tools, about=about)
        if self._protocol == "json":
            self.native = NativeTags(self._tags)
            self.tools = self.native.schemas
        else:
            self.written, self.stop = self._tags, self._tags.stop
        if environments and self.problem.described:
            first = environments[0]
            self.example_turn = self.spoken(f"<{first.name}>{first.example}</{first.name}>")
        self._by_name = {environment.name: environment for environment in environments}

    def _begin(self, task: Task, key: str) -> tuple[TagState, tuple[Message, ...]]:
        """Begin over the task's world: return the state and the opening messages."""
        return TagState(Latent(self.problem.world(task))), self.problem.opening(task)

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Play a turn: an answer ends the episode, a call is carried out, a malformed turn gets the reason and goes on."""
        parsed = (self.native or self._tags).parse(action)
        if isinstance(parsed, Answer):
            answer = (ToolResult("call_0", ANSWER[0], parsed.text),) if self.native else ()
            outcome = Outcome(episode.state, parsed, (), answer, terminated=True)
        elif isinstance(parsed, Call):
            outcome = self._call_tool(episode.state, parsed)
        else:
            assert isinstance(parsed, Malformed)
            why = parsed.reason if self.problem.described else f"finish with {self.problem.finish}"
            message = Message("user", self.teach(episode, why), "environment")
            outcome = Outcome(episode.state, parsed, (message,), events=(f"malformed: {parsed.reason}",))
        return self.problem.with_success(episode, action, outcome, self.max_turns)

    def spoken(self, text: str, prefill: str = "") -> str:
        """Return a turn written in tags, as native calls if the protocol is "json" and no prefill is given; else unchanged."""
        return self.native.write(text) if self.native and not prefill else text

    def restate(self, episode: Episode) -> str:
        """Return the question."""
        return episode.task.question

    def _call_tool(self, state: TagState, call: Call) -> Outcome:
        """Carry out a tag's call; a refusal, or a tool not in this task, keeps the latent state, and alone is an event."""
        name = call.calls[0].name
        text = _CANONICAL.raw_decode(call.calls[0].arguments)[0]["text"]
        environment = self._by_name[name]
        if environment.available(state.latent):
            observation, latent, trace = environment.call(state.latent, text)
        else:
            observation, latent, trace = Refusal(f"Error: there is no {name} in this task"), state.latent, ()
        content = observation.strip()[:MAX_RESULT_CHARACTERS]
        refused = isinstance(observation, Refusal)
        result = ToolResult("call_0", name, content, refused, trace)
        messages: tuple[Message, ...] = (Message("user", f"<result> {content} </result>", "tool"),)
        if self.native:
            messages = replied(call, content)
        return Outcome(TagState(latent), call, messages, (result,), (f"{name}: {content}",) if refused else ())
