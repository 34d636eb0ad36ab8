"""Verbal epsilon-greedy lets a feedback model speak before every turn, to explore or to exploit (VEG).

    z ~ Bernoulli(epsilon);  v ~ f_psi(. | conversation, template of z);  observation <- observation + v

The message joins the observation as one of its own (author `feedback`) and stays in the conversation. Rewards never see it,
and trainers put no gradient on it, as on any other observation. Algorithm 1 of the paper, lines z to s; see docs/veg.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import portion
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import FEEDBACK_MARK, Message
from agent_envs.base.protocol import Say
from agent_envs.base.serialization import canonical_json, state_type
from agent_envs.core.env import TurnWrapper, core_of, shown_messages, turn_wrappers
from agent_envs.core.snapshot import Snapshot, restore, snapshot
from agent_envs.core.trajectory import Header, Turn
from agent_envs.services.chat import ChatModel
from agent_envs.wrappers.feedback_models import PREFIX, Moment, chance_key, feedback_limits, make_feedback_model, merge
from agent_envs.wrappers.feedback_prompts import EPSILON, read_templates
from agent_envs.wrappers.memory import Memory


@state_type
@dataclass(frozen=True, slots=True)
class FeedbackState:
    """The state of the wrapper in an episode.

    Attributes:
        talk: the conversation as the policy sees it, feedback included.
        usage: tokens that its feedback took, by name.
    """

    talk: tuple[Message, ...] = ()
    usage: tuple[tuple[str, int], ...] = ()


class VerbalFeedback(TurnWrapper):
    """Give feedback at the reset and after every turn that does not end the episode.

    Attributes:
        epsilon: how often it is to explore.
        voice: who gives it; `voice.name`.
        templates: 12 hex digits that name the content of the two templates; "" where none is used.
    """

    state: FeedbackState = FeedbackState()

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        feedback: str | ChatModel = "scripted:good",
        epsilon: float = EPSILON,
        templates: str | Mapping[str, str] = "",
        max_calls: int = 0,
        max_cost: float = 0.0,
        prices: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap `env`.

        Args:
            env: the environment.
            feedback: who gives it: `scripted:good`, `scripted:weak`, `scripted:misleading` (of the environment's family), a
                chat model's name (`anthropic:MODEL`, `openai:MODEL@URL`), or a chat model.
            epsilon: how often it is to explore; in [0, 1] (the paper's default: 0.1).
            templates: of a chat model: a folder with explore.md and exploit.md, or their texts by these names; "" for ours.
            max_calls: attempts at calls of the chat model, by this environment and its forks, or by all that a run plays which
                have the same limits; 0 for no limit.
            max_cost: US dollars for these, 0 for no limit.
            prices: the path of a table of prices, "" for the one that comes with the package.
            options: of a chat model that is named, as `make_chat_model` takes them.

        Raises:
            UsageError: there is no such feedback, or an argument is out of its range.
        """
        name = core_of(env).env_id
        portion(f"{name}: VerbalFeedback", "epsilon", epsilon)
        texts, chat_options = read_templates(templates), _check_options(name, options)
        limits = feedback_limits(max_calls, max_cost)
        if not isinstance(prices, str):
            raise UsageError(f"{name}: VerbalFeedback: prices={prices!r}; give the path of a table of prices as a text")
        arguments = {"feedback": feedback, "epsilon": epsilon, "templates": texts.texts if templates else "",
                 "max_calls": max_calls, "max_cost": max_cost, "prices": prices, "options": chat_options}  # fmt: skip
        super().__init__(env, **arguments)
        self.epsilon = float(epsilon)
        self.model = make_feedback_model(env, feedback, texts, chat_options, limits, prices)
        self.templates = self.model.templates
        # What shapes the feedback, and not what it may cost: snapshots fit where only a limit differs.
        self.label = f"VerbalFeedback({canonical_json({'epsilon': self.epsilon, **self.model.identity})})"
        self.state = FeedbackState()
        self._most_turns: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what makes it again: a chat model that is named travels as its name, without its key and its connections."""
        state = {"state": self.state, "_most_turns": self._most_turns}
        return partial(type(self), **self._saved_kwargs), (self.env,), state

    @property
    def waits(self) -> bool:
        """Whether a chat model gives the feedback."""
        return bool(self.model.service)

    @property
    def extra_messages(self) -> tuple[Message, ...]:
        """The feedback of the episode."""
        return tuple(message for message in self.state.talk if message.author == "feedback")

    @property
    def usage(self) -> dict[str, int]:
        """Calls and tokens of the episode's feedback, as `feedback_calls`, `feedback_input`, ..."""
        return {PREFIX + name: count for name, count in self.state.usage}

    def on_turn_limit(self, turns: int) -> None:
        """Adopt the limit of an outer wrapper: behind its last turn no feedback is given."""
        self._most_turns = turns if self._most_turns is None else min(turns, self._most_turns)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and give the first feedback: a message behind the prompt, in observation, messages and `info["feedback"]`."""
        self.state = FeedbackState()
        observation, info = self.env.reset(seed=seed, options=options)
        return self._add_feedback(observation, info, shown_messages(self.env, info))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a turn, and give feedback before the next, `info["feedback"]` "" without; UsageError before a reset.

        Raises:
            EnvFault: the feedback model failed; the turn is as if it had not been taken. Where a wrapper of somebody else's
                stands within, which cannot be put back, the episode is over, and the next call is `reset`.
            BudgetSpent: so is it when nothing may be spent any more.
        """
        if not self.state.talk:
            raise UsageError(
                f"{self.turn_env().env_id}: no episode, or one that failing feedback ended; call reset() first"
            )
        before = self._moment()
        observation, reward, terminated, truncated, info = self.env.step(action)
        turn = self.turn_env().episode.turns[-1]
        talk = self._extend_talk(turn, info)
        info["feedback"] = ""
        if terminated or truncated or not self._expects_feedback(turn, info):
            self.state = replace(self.state, talk=talk)
            return observation, reward, terminated, truncated, info
        try:
            observation, info = self._add_feedback(observation, info, talk)
        except BaseException:
            if before is None:
                # The turn stays taken, and nobody was shown what came of it; what feedback took was paid for.
                self.state = FeedbackState(usage=self.state.usage)
            else:
                restore(self.env, before)
            raise
        return observation, reward, terminated, truncated, info

    def _moment(self) -> Snapshot | None:
        """Return a snapshot of the environment; None where a wrapper of somebody else's cannot be put back."""
        try:
            return snapshot(self.env)
        except TypeError:  # a wrapper of somebody else's
            return None

    def _expects_feedback(self, turn: Turn, info: dict[str, Any]) -> bool:
        """Return whether feedback is due: no lookahead, not the last turn, with expanded actions only after a hand-back."""
        if self.is_lookahead or (self._most_turns is not None and info["turn"] >= self._most_turns):
            return False
        # With expanded actions: when an action has handed its result back to language, and not within a call or a text.
        return "action_mask" not in info or (isinstance(turn.action, int) and bool(info["action_mask"][0]))

    def _extend_talk(self, turn: Turn, info: dict[str, Any]) -> tuple[Message, ...]:
        """Return the conversation as the policy sees it after a turn: replaced as a whole, or with the turn's texts added."""
        news = shown_messages(self.env, info)
        if info["context"] == "replace":
            own_by_text = {(message.role, message.content): message for message in self.extra_messages}
            return tuple(own_by_text.get((message.role, message.content), message) for message in news)
        # With expanded actions only a text that was taken is part of the history.
        is_text = "action_mask" not in info or (isinstance(turn.action, str) and isinstance(turn.parsed, Say))
        own = (Message("assistant", str(turn.action), "policy"),) if is_text else ()
        return (*self.state.talk, *own, *news)

    def _add_feedback(
        self, observation: Any, info: dict[str, Any], talk: tuple[Message, ...]
    ) -> tuple[Any, dict[str, Any]]:
        """Return observation and info with the feedback added, and keep it in the state; UsageError for no text observed."""
        core = self.turn_env()
        if not isinstance(observation, str):
            kind = type(observation).__name__
            raise UsageError(f"{core.env_id}: VerbalFeedback: the observation is a {kind}; feedback joins texts alone")
        head, turn = core.episode.header, int(info["turn"])
        mode = "explore" if exploration_draw(head, turn) < self.epsilon else "exploit"
        prefill = info["prefill"]
        offered = () if prefill else core.tools  # a turn whose beginning is given is no turn to call a tool
        moment = Moment(head, turn, mode, talk, offered, prefill, core.services.recording, core.services.charged)
        text, usage = self.model.speak(moment)
        if "action_mask" in info and turn > 0:
            # The history is one growing text of the assistant, in which others' words stand too.
            message = Message("assistant", f"\n[feedback: {text}]\n", "feedback")
            observation += message.content
        else:
            message = Message("user", FEEDBACK_MARK + text, "feedback")
            observation = "\n\n".join(filter(None, (observation, message.content)))
        self.state = FeedbackState((*talk, message), merge(self.state.usage, usage))
        for memory in (wrapper for wrapper in turn_wrappers(self.env) if isinstance(wrapper, Memory)):
            memory.hear(message)
        info["messages"] = [*info["messages"], message.as_dict()]
        info["feedback"] = mode
        return observation, info


def _check_options(name: str, options: Any) -> dict[str, Any]:
    """Return a chat model's options as a dict, {} for None; UsageError for what is no JSON and cannot travel."""
    try:
        if not isinstance(options, Mapping | None) or not all(isinstance(key, str) for key in options or ()):
            raise TypeError("it is no mapping of names")
        canonical_json(chat_options := dict(options or {}))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name}: VerbalFeedback: options={options!r:.200}: {error}; give names and their values as JSON"
        ) from None
    return chat_options


def exploration_draw(header: Header, turn: int) -> float:
    """Return the uniform number in [0, 1) that decides between exploring and exploiting in a turn of a rollout."""
    return int(chance_key(header, turn, "epsilon")[:13], 16) / 2**52
