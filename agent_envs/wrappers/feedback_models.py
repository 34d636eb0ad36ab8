"""Feedback comes from a family's script, or from a chat model behind the port (live, recorded or replayed).

That of a chat model costs tokens and dollars, which are counted under names of their own and limited: for one environment and
its forks, or over all environments of a run that limit the same model alike (`Services` hand the budgets of a run down).
"""

import random
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym

from agent_envs.base.arguments import number, whole_number
from agent_envs.base.caches import SharedCache, Uncopied, shared
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import Message
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of
from agent_envs.core.registry import companion
from agent_envs.core.trajectory import Header
from agent_envs.rollout.episode_runner import turn_seed
from agent_envs.services.chat import ChatModel, ChatPort, ChatReply, ChatRequest, ask, chat_port, make_chat_model
from agent_envs.services.chat.conversation import clean
from agent_envs.services.chat.named import FORMS, is_chat_model, is_chat_name
from agent_envs.services.chat.spending import Budget, Charged, Metered, SpendingLimits
from agent_envs.services.recording import CallSite, Recording, calls_again
from agent_envs.wrappers.feedback_prompts import Templates
from agent_envs.wrappers.scripted_feedback import QUALITIES

SCRIPTED = "scripted:"
MOST_CHARACTERS = 1_200
MAX_TOKENS = 1024
PORT = "feedback/"  # before the model's name in recordings: it may play another part in the same run
REMEMBERED = 4096  # messages of a live model that a process keeps, so that a fork or a second attempt finds them again
_TAG = re.compile(r"<[/|]?[A-Za-z_][^<>\n]{0,80}>")
_NUDGE = "(Your last reply was empty. Write the advice now, in plain words.)"
_SENTENCE_END = re.compile(r"[.!?](?=\s)")

FeedbackReply = tuple[str, dict[str, int]]  # a message and the tokens that it took


PREFIX = "feedback_"  # of the names in an episode's usage


@dataclass(frozen=True)
class Moment:
    """The turn of an episode for which a feedback model speaks.

    Attributes:
        header: which episode; its key, branch, task and seed key all chance.
        mode: `explore` or `exploit`.
        talk: the conversation as the policy sees it.
        tools: that the policy is offered natively.
        prefill: what its next turn must begin with.
        recording: where outside services are recorded or replayed from.
        charged: stands before the chat model where a run counts what it costs.
    """

    header: Header
    turn: int
    mode: str
    talk: tuple[Message, ...]
    tools: Sequence[Any] = ()
    prefill: str = ""
    recording: Recording | None = None
    charged: Charged | None = None


class FeedbackModel(Protocol):
    """A model that gives verbal feedback (f_psi in VEG's paper).

    Attributes:
        name: as reports tell it.
        service: the chat model's name, "" where no outside service is asked.
        templates: 12 hex digits that name the content of its templates, "" where it has none.
        identity: what shapes its words, as JSON.
    """

    name: str
    service: str
    templates: str
    identity: dict[str, Any]

    def speak(self, moment: Moment) -> FeedbackReply:
        """Return a message and the tokens that it took.

        Raises:
            EnvFault: the service failed, or gave nothing twice.
            BudgetSpent: a limit is reached.
            UsageError: a script gave nothing.
        """
        ...


class ScriptedFeedback:
    """A family's `give_feedback` in one of its qualities."""

    service = templates = ""

    def __init__(self, script: Callable[..., str], quality: str) -> None:
        self.name = SCRIPTED + quality
        self.identity = {"feedback": self.name}
        self._script, self._quality = script, quality

    def speak(self, moment: Moment) -> FeedbackReply:
        """Return the script's message; raises UsageError where it gives no text, or nothing that can be read."""
        chance = random.Random(chance_key(moment.header, moment.turn, "message"))
        message = self._script(moment.talk, moment.mode, self._quality, chance)
        text = readable(message) if isinstance(message, str) else ""
        if not text:
            script = (
                f"{self._script.__module__}:{getattr(self._script, '__qualname__', type(self._script).__qualname__)}"
            )
            raise UsageError(
                f"{moment.header.env_id}: VerbalFeedback: feedback={self.name!r}: {script} returned {message!r:.80}; a script "
                "of feedback returns words in every turn"
            )
        return text, {}


class ChatFeedback(Uncopied):
    """A chat model under the two templates. It is shown the conversation and the instructions, and nothing else."""

    def __init__(
        self,
        model: ChatModel,
        templates: Templates,
        budget: Budget | None = None,
        *,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the model, the templates, and the budget that it pays from where the run has none; None for no limit."""
        self.name = self.service = model.name
        self.templates = templates.digest
        settings = getattr(model, "settings", None) or {}
        self.identity = {
            "feedback": self.name,
            "templates": self.templates,
            **({"settings": settings} if settings else {}),
        }
        self.budget = budget or Budget()
        self._model, self._texts, self._wait = model, templates, wait
        self._port: tuple[Recording | None, Charged | None, ChatPort] | None = None
        self._replies: SharedCache[FeedbackReply] = OrderedDict()

    def speak(self, moment: Moment) -> FeedbackReply:
        """Return the model's message, asked once more if empty; without a recording, the cached one of an equal call."""
        port = self._port_now(moment)
        head = moment.header
        site = CallSite(head.episode_key, head.branch, 2 * moment.turn)
        seed = turn_seed(f"{head.episode_key}|{head.branch}|feedback", moment.turn)
        messages = self._texts.messages(moment.mode, moment.talk, moment.tools, moment.prefill)
        request = ChatRequest(messages, max_tokens=MAX_TOKENS, seed=seed)
        if moment.recording is not None:
            return self._ask_model(port, request, site)
        key = port.key(request.to_json(), site)
        return shared(self._replies, key, lambda: self._ask_model(port, request, site), REMEMBERED)

    def _ask_model(self, port: ChatPort, request: ChatRequest, site: CallSite) -> FeedbackReply:
        """Return the model's feedback, asked again where the reply is empty, and the usage of both; EnvFault after two."""
        reply = ask(port, request, site)
        text, usage = readable(reply.text), _count_call(reply)
        if not text:
            nudge = [{"role": "assistant", "content": "(nothing)"}, {"role": "user", "content": _NUDGE}]
            again = replace(request, messages=[*request.messages, *nudge])
            reply = ask(port, again, replace(site, ordinal=site.ordinal + 1), lambda reply: bool(readable(reply.text)))
            text = readable(reply.text)
            usage += _count_call(reply)
        if not text:
            raise EnvFault(f"{self.service}: no feedback in two replies", calls_again(port.recording))
        return text, dict(usage)

    def _port_now(self, moment: Moment) -> ChatPort:
        """Return the port of this moment's recording and budget; it is made anew only where either has changed."""
        cache_entry, recording, charged = self._port, moment.recording, moment.charged
        if cache_entry is None or cache_entry[0] is not recording or cache_entry[1] is not charged:
            model = (charged or Metered)(self._model, self.budget)
            port = chat_port(model, recording=recording, wait=self._wait)
            port.name = PORT + port.name
            # Rebound as a whole, so that forks and threads that share the voice are never in each other's way.
            cache_entry = self._port = (recording, charged, port)
        return cache_entry[2]


def make_feedback_model(
    env: gym.Env[Any, Any],
    feedback: str | ChatModel,
    templates: Templates,
    options: dict[str, Any],
    limits: SpendingLimits,
    prices: str = "",
) -> FeedbackModel:
    """Make a scripted feedback model by its quality, or a chat model, named or an object; UsageError for anything else.

    Raises UsageError: there is no such voice; the message says which there are.
    """
    name = core_of(env).env_id
    is_model_name = isinstance(feedback, str) and is_chat_name(feedback)
    if options and not is_model_name:
        raise UsageError(f"{name}: VerbalFeedback: options={options!r} are of a chat model that is named")
    if isinstance(feedback, str) and feedback.startswith(SCRIPTED):
        return _make_scripted(env, feedback.removeprefix(SCRIPTED))
    if isinstance(feedback, str) and is_model_name:
        feedback = make_chat_model(feedback, **options)
    if isinstance(feedback, str) or not (is_chat_model(feedback) and hasattr(feedback, "complete")):
        forms = ", ".join((*(SCRIPTED + one for one in QUALITIES), *FORMS))
        bare = "; for none, leave the wrapper out" if feedback == "none" else ""
        raise UsageError(f"{name}: VerbalFeedback: feedback={feedback!r}; give one of {forms}, or a chat model{bare}")
    return ChatFeedback(feedback, templates, feedback_budget(feedback.name, limits, prices))


def _make_scripted(env: gym.Env[Any, Any], quality: str) -> ScriptedFeedback:
    """Make an environment's scripted feedback of a quality; UsageError if either does not exist."""
    name = core_of(env).env_id
    if quality not in QUALITIES:
        names = ", ".join(SCRIPTED + one for one in QUALITIES)
        raise UsageError(f"{name}: VerbalFeedback: feedback={SCRIPTED + quality!r}; the scripted ones are {names}")
    script = companion(env, "feedback")
    if script is None:
        raise UsageError(
            f"{name}: VerbalFeedback: feedback={SCRIPTED + quality!r}: this environment has no scripted feedback; name a "
            f"chat model ({', '.join(FORMS)}), or register_companions(cls, feedback=...)"
        )
    return ScriptedFeedback(script, quality)


def chance_key(header: Header, turn: int, what: str) -> str:
    """Return the text that keys one kind of chance in one turn of a rollout."""
    return digest([what, header.task_digest, header.seed, header.episode_key, header.branch, turn])


def readable(text: str) -> str:
    """Return a reply as one paragraph: no thoughts, tags or control marks, cut at a sentence within 1,200 characters."""
    text = clean(text).rpartition("</think>")[2][: 8 * MOST_CHARACTERS]
    while (shorter := _TAG.sub("", text)) != text:  # what a removed tag leaves may be one again
        text = shorter
    text = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    if len(text) <= MOST_CHARACTERS:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text[: MOST_CHARACTERS + 1])]
    return text[: ends[-1]] if ends else text[: MOST_CHARACTERS - 4] + " ..."


def _count_call(reply: ChatReply) -> Counter[str]:
    """Return the usage of one reply with the call itself counted."""
    return Counter({"calls": 1, **reply.usage})


def merge(before: tuple[tuple[str, int], ...], more: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return counts by name, summed, in the order of their names."""
    return tuple(sorted((Counter(dict(before)) + Counter(more)).items()))


def feedback_usage(usage: Mapping[str, int]) -> dict[str, int]:
    """Return the part of an episode's usage that its feedback took, under the plain names."""
    return {name.removeprefix(PREFIX): count for name, count in usage.items() if name.startswith(PREFIX)}


def feedback_limits(max_calls: int, max_cost: float) -> SpendingLimits:
    """Return limits as a wrapper is given them, 0 for none; raises UsageError where one is no such number."""
    whole_number("VerbalFeedback", "max_calls", max_calls, 0)
    return SpendingLimits(max_calls, number("VerbalFeedback", "max_cost", max_cost, 0))


def feedback_budget(model: str, limits: SpendingLimits, prices: str) -> Budget:
    """Return a new budget for a model by the table at `prices`, "" for ours; UsageError for dollars without a price.

    Raises UsageError: dollars are limited and no price is known for the model.
    """
    if not limits.usd:
        return Budget(limits)
    from agent_envs.services.chat.prices import load_prices

    price = load_prices(Path(prices) if prices else None).price(model)
    if price is None:
        raise UsageError(
            f"VerbalFeedback: max_cost={limits.usd}: no price is known for {model!r}; give prices=FILE, a table as "
            "docs/veg.md shows one, or limit the calls with max_calls"
        )
    return Budget(limits, {model: price})
