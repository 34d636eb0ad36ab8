"""A policy answers requests with actions, and the agents that every environment has built in are policies too.

A policy never sees an environment; a built-in agent is bound to one (`needs_env`). Runs of the built-in solver, which may read
the gold (`privileged`), are marked. What a policy has been shown and has said in an episode is its `Context`, which grows in
place: requests read it where it is.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.spaces import OneOf

from agent_envs.base.errors import ContextFull, UsageError
from agent_envs.base.messages import FEEDBACK_MARK
from agent_envs.core.env import TurnEnv, core_of
from agent_envs.core.registry import companion
from agent_envs.core.trajectory import CONTEXT_FULL, OUTCOMES

Row = dict[str, Any]


MOST_COUNT = 10**12
MOST_REASON = 100  # characters of a finish reason


@dataclass(frozen=True, slots=True)
class ContextView:
    """A context as it stood at one turn, of `length` messages; the context may have grown since."""

    rows: list[Row]
    last: Row
    length: int

    def since(self, start: int = 0) -> list[Row]:
        """Return the messages from index `start` on, as fresh dicts; [] beyond the end."""
        if start >= self.length:
            return []
        return [*map(dict, self.rows[start : self.length - 1]), dict(self.last)]


class Context:
    """The chat messages of an episode so far.

    Messages are added at the end and never changed, but for the last one where messages of the assistant are `joined`: a view
    keeps its own last message, so that it reads the same for ever.
    """

    def __init__(self, messages: Iterable[Row], *, joined: bool = False) -> None:
        """Take the first messages.

        Args:
            messages: fresh dicts with `role` and `content`; the context keeps them.
            joined: whether messages of the assistant that follow one another become one, and empty ones of it are left out.
        """
        self._rows: list[Row] = []
        self._joined = joined
        self.extend(messages)

    def extend(self, messages: Iterable[Row]) -> None:
        """Add messages at the end; in a joined context, the assistant's texts grow into one, and empty ones are left out."""
        for row in messages:
            if not self._joined or row["role"] != "assistant":
                self._rows.append(row)
            elif self._rows and self._rows[-1]["role"] == "assistant":
                self._rows[-1] = {**self._rows[-1], "content": self._rows[-1]["content"] + row["content"]}
            elif row["content"]:
                self._rows.append(row)

    def view(self, note: str = "") -> ContextView:
        """Return the context as it stands, with a note at the end of its last message."""
        last = self._rows[-1]
        return ContextView(self._rows, {**last, "content": last["content"] + note} if note else last, len(self._rows))

    def copy(self) -> "Context":
        """Return a context that grows apart from this one."""
        twin = Context((), joined=self._joined)
        twin._rows = list(self._rows)
        return twin


class LazyMessages:
    """An attribute of a dataclass that may be given a `ContextView`, whose messages are made when they are first read."""

    def __get__(self, owner: Any, kind: type | None = None) -> list[Row]:
        """Return the messages, made from their view at first reading; AttributeError on the class, which has no default."""
        if owner is None:
            raise AttributeError("messages")  # which tells dataclasses that there is no default
        messages = owner.__dict__["messages"]
        if isinstance(messages, ContextView):
            messages = owner.__dict__["messages"] = messages.since()
        return messages  # type: ignore[no-any-return]

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__["messages"] = value


def origin_of(episode_key: str, branch: str) -> str:
    """Return the origin of an episode or of a fork, which names its conversation and seeds its sampling."""
    return f"{episode_key}/{branch}" if branch else episode_key


@dataclass(frozen=True)
class Request:
    """A request to a policy for one turn: the whole context as chat messages, and how to sample.

    `seed` is derived from the episode key, the branch of a fork and the turn, so that sampling does not depend on
    concurrency. `context` is `append` where the messages are those of the turn before, the policy's action and what followed,
    and `replace` where an observation replaced them all. `thoughts` is the environment's argument: with `skip` a stop string
    inside an open thought does not end the turn.
    """

    episode_key: str
    turn: int
    messages: Sequence[dict[str, Any]] = LazyMessages()  # type: ignore[assignment]
    tools: Sequence[dict[str, Any]] = ()
    prefill: str = ""
    stop: Sequence[str] = ()
    seed: int = 0
    max_tokens: int = 1024
    context: str = "append"
    branch: str = ""
    thoughts: str = "skip"

    @property
    def origin(self) -> str:
        """The episode key, and behind a slash the branch of a fork: it names the conversation."""
        return origin_of(self.episode_key, self.branch)

    def messages_since(self, start: int) -> list[dict[str, Any]]:
        """Return the messages from index `start` on: a policy that keeps the earlier ones pays for the new ones alone."""
        messages = self.__dict__["messages"]
        return messages.since(start) if isinstance(messages, ContextView) else [dict(row) for row in messages[start:]]


@dataclass(frozen=True)
class Reply:
    """A policy's turn: a text or an expanded action, with tokens where an engine knows them.

    `sampled` says which of the tokens the policy drew, where some were given (a prefill); empty for all of them.
    `finish_reason`, `outcome` and `opaque` are those of a `Turn`.
    """

    action: str | int
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    sampled: tuple[bool, ...] = ()
    finish_reason: str = ""
    outcome: str = "acted"
    opaque: str = ""


@dataclass(frozen=True)
class PolicyTraits:
    """Traits of a policy beside its name and batch; it sets those that differ from the defaults as attributes of its own.

    A wrapper of policies hands all of them through as one value, `traits = traits_of(policy)`, which may be changed with
    `dataclasses.replace`.

    Attributes:
        needs_env: `begin(env)` returns the policy of one episode.
        privileged: it reads the gold; its runs are marked.
        can_prefill: it can begin its reply with a given text.
        text_only: it cannot choose expanded actions.
    """

    needs_env: bool = False
    privileged: bool = False
    can_prefill: bool = True
    text_only: bool = False


class Policy(Protocol):
    """An agent. `batch` = 1: called from every worker thread with one request at a time; N: with up to N, one call at a time.

    Optional attributes: those of `PolicyTraits`; `warn_if_environment_differs(env)` (evaluation calls it with an environment
    of each entry before it plays); `charged(budget)`, this policy with each attempt at its `model` paid from a `Budget`;
    `fork(origin, new)` and `drop(origin)` of one that keeps conversations by the origin of requests: `new` begins as
    `origin` stands, or is over.
    """

    name: str
    batch: int

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return one reply a request; raises EnvFault where the service behind the policy failed."""
        ...


def traits_of(policy: Policy) -> PolicyTraits:
    """Return the traits of a policy: the value that a wrapper hands through, or what it sets as attributes."""
    traits = getattr(policy, "traits", None)
    if isinstance(traits, PolicyTraits):
        return traits
    return PolicyTraits(
        **{trait.name: bool(getattr(policy, trait.name, trait.default)) for trait in fields(PolicyTraits)}
    )


def replies_of(policy: Policy, requests: Sequence[Request]) -> list[Reply]:
    """Ask a policy and return its checked replies; ContextFull on a single request becomes an empty reply that truncates.

    A context that is full is the agent's own limit: the reply to its request is empty, and its turn truncates the episode.
    """
    try:
        return check_replies(policy.name, policy.act(requests), len(requests))
    except ContextFull as full:
        if len(requests) > 1:  # of whom is not known
            raise
        reason = f"{CONTEXT_FULL} {full.prompt_tokens}/{full.context_tokens}"
        return [Reply("", usage=full.usage, finish_reason=reason, outcome="full")]


def check_replies(name: str, replies: Any, count: int) -> list[Reply]:
    """Return the replies of `act` as a list, numpy's integers made plain; UsageError unless one sound Reply a request.

    Raises UsageError: it is not one Reply a request, or a Reply holds what cannot be kept; the message names the agent.
    """
    rows = list(replies) if isinstance(replies, Iterable) else []
    if len(rows) != count or not all(isinstance(reply, Reply) for reply in rows):
        kinds = ", ".join(type(reply).__name__ for reply in rows[:5]) or type(replies).__name__
        raise UsageError(f"agent {name}: act() returned {kinds}; it returns one Reply(action) a request")
    for reply in rows:
        if isinstance(reply.action, bool) or not isinstance(reply.action, str | int | np.integer):
            kind = type(reply.action).__name__
            raise UsageError(f"agent {name}: an action is a text or the id of an expanded action, not a {kind}")
        numbers = (*reply.logprobs, *reply.entropies)
        if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
            raise UsageError(f"agent {name}: logprobs and entropies are finite numbers; give a floor in place of -inf")
        if reply.sampled and len(reply.sampled) != len(reply.token_ids):
            raise UsageError(f"agent {name}: sampled has one entry for each of token_ids, or none at all")
        if not isinstance(reply.finish_reason, str) or len(reply.finish_reason) > MOST_REASON:
            raise UsageError(f"agent {name}: finish_reason is a text of at most {MOST_REASON} characters")
        if reply.outcome not in OUTCOMES or not isinstance(reply.opaque, str):
            raise UsageError(f"agent {name}: outcome is one of {', '.join(OUTCOMES)}, and opaque a text")
        usage = reply.usage
        if not isinstance(usage, dict) or not all(type(n) is int and 0 <= n <= MOST_COUNT for n in usage.values()):
            raise UsageError(f"agent {name}: usage is a dict of whole numbers from 0 to 10**12, not {str(usage)[:100]}")
    return [reply if isinstance(reply.action, str) else replace(reply, action=int(reply.action)) for reply in rows]


def check_actions(policy: Policy, core: TurnEnv) -> None:
    """Raise UsageError for a policy that only writes text where expanded actions are needed.

    Raises UsageError: the message names the environment, and the same tasks as text where they have an id.
    """
    if traits_of(policy).text_only and isinstance(core.action_space, OneOf):
        twin = core.env_id.replace("ExpA-", "-")
        hint = f"; the same tasks as text are {twin}" if twin != core.env_id and twin in gym.registry else ""
        raise UsageError(f"{core.env_id} takes expanded actions, which agent {policy.name} cannot choose{hint}")


class CompanionPolicy:
    """A built-in agent: `random`, `solver` or `heuristic`, from the companions of the environment's class."""

    batch = 1

    def __init__(self, kind: str, env: gym.Env[Any, Any] | None = None) -> None:
        """Find the agent's function among the environment's companions; UsageError if it has none."""
        self.name = kind
        self.needs_env = True
        self.privileged = kind == "solver"
        self._env = env
        if env is not None:
            function = companion(env, "sampler" if kind == "random" else kind)
            if function is None:
                raise UsageError(f"{core_of(env).env_id}: no {kind} agent; register_companions(cls, ...) names one")
            self._function: Callable[..., str | int] = function

    def begin(self, env: gym.Env[Any, Any]) -> "CompanionPolicy":
        """Return this agent for one episode of `env`."""
        return CompanionPolicy(self.name, env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the companion's action for each request."""
        return [Reply(self._action(request)) for request in requests]

    def _action(self, request: Request) -> str | int:
        """Choose an action: the solver reads the environment, `random` draws by seed, the heuristic reads all but feedback."""
        env = self._env  # a name by which `authors_code` finds whose function it is
        if self.name == "solver":
            return self._function(env)
        if self.name == "random":
            return self._function(env, random.Random(f"random:{request.seed}"))
        # It reads the newest message for what the environment said, and takes no advice.
        rows = [row for row in request.messages if not str(row["content"]).startswith(FEEDBACK_MARK)]
        return self._function(replace(request, messages=rows))


class NullPolicy:
    """A policy of empty texts, whose score is a lower bound for others."""

    name = "null"
    batch = 1

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return empty texts."""
        return [Reply("") for _ in requests]
