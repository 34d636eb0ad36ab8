"""`Remote` is an environment that a server steps: `gym.make("agent_envs:agent_envs/Remote-v0", url=...)`.

Each turn has the handle of a snapshot that the server keeps, so that snapshots, forks and pickles of this side are handles, and
an episode goes on from its handle after a lost connection, from another process, or many times.
"""

import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import index
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete, OneOf

from agent_envs.base.arguments import number
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import Author, Message, ToolCall, ToolResult, Utterance
from agent_envs.base.serialization import decode_state, state_type
from agent_envs.core.env import Episode, Outcome, Task, TurnEnv
from agent_envs.core.episode import RewardSpec, Term, cut_text
from agent_envs.core.registry import register_companions
from agent_envs.core.trajectory import Trajectory
from agent_envs.services.http import HttpClient, endpoint_of
from agent_envs.services.http.faults import parse_json
from agent_envs.serving.wire import MAX_MESSAGE, Data

ROOM = 4096  # bytes of a message beside its action
MAX_ANSWER = 64 * 2**20  # bytes
AUTHORS: dict[str, Author] = {"assistant": "policy", "tool": "tool"}
VARIABLE = "env:"  # begins a token that stands in an environment variable
COMPUTED = (
    "messages",
    "tools",
    "reward_terms",
    "success",
    "turn",
    "turns_left",
    "context",
    "events",
    "legal",
    "task_id",
)


@state_type
@dataclass(frozen=True, slots=True)
class RemoteState:
    """What the server's info has beside what is computed here, as JSON, and the handle of the moment, which may have equals."""

    info: str
    handle: str = field(compare=False)


class ServerTasks:
    """The tasks of a server by id: no question and no answer of theirs is here."""

    def __init__(self, ask: Any, about: Data) -> None:
        """Take the call of the server, and what it said of itself."""
        self._ask, self._sizes = ask, _of(dict, about["splits"])
        self.name, self.splits, self.digest = (
            _of(str, about["source"]),
            tuple(self._sizes),
            _of(str, about["spec_digest"]),
        )

    def size(self, split: str) -> int:
        """Return the number of a split's tasks."""
        return index(self._sizes[split])

    def get(self, split: str, key: int | str) -> Task:
        """Return the task of an index or id, as far as a client knows it; KeyError where there is none."""
        try:
            name: str = self._ask("task", lambda answer: _of(str, answer["task"]["id"]), split=split, index=key)
        except UsageError as error:
            raise KeyError(key) from error
        return Task(name, split, "")


class Remote(TurnEnv):
    """An environment that an `agent-envs serve` steps.

    Description: what the server has; observations, rewards and info are as if the environment were made here.

    Arguments:
        url: of the server, with `/NAME` for one of several environments.
        token: the server's token, or `env:NAME` of the environment variable that holds it. As with every argument, a token in
            plain text stands in the spec, in pickles and in records of runs.
        seconds: the deadline of a call.
    Episode end: as there. A call that fails is an EnvFault; the episode stands where it stood, and goes on with the next step.
    """

    def __init__(self, *, url: str, token: str | None = None, seconds: float = 150.0) -> None:
        """Ask the server what it serves.

        Raises:
            UsageError: the URL is none, or the token is wrong or its variable is not set.
            EnvFault: no server answers there.
        """
        self._url, self._seconds = endpoint_of("Remote", url, ""), number("Remote", "seconds", seconds, 0, above=True)
        self._client = HttpClient("Remote", max_bytes=MAX_ANSWER)
        self._headers = {} if token is None else {"Authorization": f"Bearer {_token(token)}"}
        self._ask("about", self._describe)
        if self.expanded_actions:
            self.action_space = OneOf((Utterance(), Discrete(len(self.expanded_actions))))

    def _describe(self, about: Data) -> None:
        """Take over what the server says of the environment."""
        self.source, self.reward_spec = ServerTasks(self._ask, about), _reward_spec(about["reward"])
        self.max_turns, self.context, self.stop = (
            _of(int, about["max_turns"]),
            _of(str, about["context"]),
            _texts(about["stop"]),
        )
        self.tools, self.answer_tags = tuple(map(dict, about["tools"])), tuple(_of(list, about["answer_tags"]))
        self.served_id = _of(str, about["env_id"])
        self.expanded_actions = tuple(SimpleNamespace(**row) for row in _of(list, about["expanded_actions"]))
        self._served_digest = about["spec_digest"]

    @property
    def spec_digest(self) -> str:
        """The digest of the environment that is served: equal seeds begin equal episodes here and there."""
        return str(self._served_digest)

    @property
    def waits(self) -> bool:
        """Whether a step waits for something outside: always, for the server."""
        return True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TurnEnv.reset`. The server gets the seed, too."""
        self._seed = seed
        return super().reset(seed=seed, options=options)

    def close(self) -> None:
        """Drop the connections; what the server keeps ends by its idle limit."""
        self._client.close()
        super().close()

    def _ask(self, kind: str, read: Callable[[Data], Any], **data: Any) -> Any:
        """Return a reading of the answer to a message; UsageError where this call or the URL is wrong, EnvFault else."""
        reply = self._client.send(
            "POST", f"{self._url}/{kind}", seconds=self._seconds, headers=self._headers, json=data
        )
        try:
            answer = parse_json(reply.body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise EnvFault(
                f"Remote: {self._url} answered {reply.status} with no JSON object: is it an agent-envs server?"
            )
        if reply.status == 200:
            try:
                return read(answer)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                words = f"Remote: {self._url} answered {kind!r} as no agent-envs server of this version does"
                raise EnvFault(f"{words} ({type(error).__name__}: {str(error)[:200]})", retryable=False) from error
        words = f"Remote: {self._url} answered {reply.status}: {str(answer.get('message', ''))[:500]}"
        if answer.get("code", "VALIDATION_ERROR") == "VALIDATION_ERROR" and reply.status in (401, 403, 404, 422):
            raise UsageError(words)
        raise EnvFault(words, retryable=bool(answer.get("retryable")))

    def _read(self, action: Any) -> tuple[str | int, tuple[str, ...]]:
        """Return a text, cut to what a message holds, or the id of an expanded action, which the server judges."""
        if self.expanded_actions and isinstance(action, tuple) and len(action) == 2:
            action = action[1]
        if self.expanded_actions and not isinstance(action, str | bool | np.bool_):
            try:
                number = index(action)
            except TypeError:
                return super()._read(action)
            return (number if abs(number) < 2**31 else -1), ()
        text, notes = super()._read(action)
        most = len(text)
        while (size := len(json.dumps(text[:most], ensure_ascii=False).encode())) > MAX_MESSAGE - ROOM:
            most = min(most - 1, most * (MAX_MESSAGE - ROOM) // size)
        text, cut = cut_text(text, most)
        return text, notes + cut

    def _outcome(self, episode: Episode, action: Any) -> Outcome:
        """Let the server read the action as it stands."""
        return self._advance(episode, action)

    def _begin(self, task: Task, key: str) -> tuple[RemoteState, tuple[Message, ...]]:
        """Begin the episode on the server."""
        data = {"task": task.id, "split": task.split, "episode_key": key, "seed": self._seed}
        state, prompt = self._ask("begin", lambda answer: (self._state(answer), _messages(answer)), **data)
        return state, prompt

    def _advance(self, episode: Episode, action: str | int) -> Outcome:
        """Take the turn on the server, from the handle of the episode."""
        if not isinstance(episode.state, RemoteState):
            self._refuse("the snapshot is of the environment itself, not of this client", "restore one of Remote's")
        data = {"snapshot": episode.state.handle, "action": action, "branch": episode.header.branch}
        outcome: Outcome = self._ask("act", self._read_turn, **data)
        return outcome

    def _read_turn(self, answer: Data) -> Outcome:
        """Return the turn of an answer."""
        row, names = answer["observation"], [term.name for term in self.reward_spec.terms]
        values = tuple(repr(float(row["info"]["reward_terms"][name])) for name in names)
        return Outcome(
            self._state(answer), decode_state(answer["parsed"]), _messages(answer),
            (ToolResult("", "reward", "", ids=values),), _texts(row["info"]["events"]),
            row["end"] == "terminated", row["end"] == "truncated", bool(row["success"]),
        )  # fmt: skip

    def _state(self, answer: Data) -> RemoteState:
        """Return the state after an answer."""
        info = {name: value for name, value in answer["observation"]["info"].items() if name not in COMPUTED}
        if "legal" in answer["observation"]["info"]:
            info["mask"] = answer["observation"]["info"]["legal"]
            np.zeros(len(self.expanded_actions))[np.array(info["mask"], dtype=int)]  # raises where one is none of them
        return RemoteState(json.dumps(info), _of(str, answer["snapshot"]))

    def _extras(self, episode: Episode) -> dict[str, Any]:
        """Return the keys of the server's info that are not computed here."""
        info: dict[str, Any] = json.loads(episode.state.info)
        if "mask" in info:
            mask = np.zeros(len(self.expanded_actions), dtype=np.bool_)
            mask[info.pop("mask")] = True
            info["action_mask"] = mask
        return info


def _token(token: str) -> str:
    """Return a token, from its environment variable where it names one; UsageError where that is not set."""
    if not token.startswith(VARIABLE):
        return token
    value = os.environ.get(token.removeprefix(VARIABLE), "").strip()
    if not value:
        raise UsageError(f"Remote: token={token!r}; this environment variable is not set")
    return value


def _of(kind: type[Any], value: Any) -> Any:
    """Return a value of an answer; TypeError where it is of another type."""
    if type(value) is not kind:
        raise TypeError(f"a {kind.__name__} is due, not a {type(value).__name__}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of an answer; TypeError for anything else."""
    return tuple(_of(str, text) for text in _of(list, value))


def _messages(answer: Data) -> tuple[Message, ...]:
    """Return the messages of an answer; who wrote them is told by their role."""
    messages = []
    for row in answer["observation"]["messages"]:
        calls = tuple(ToolCall(call["id"], **call["function"]) for call in row.get("tool_calls", ()))
        author = AUTHORS.get(row["role"], "environment")
        messages.append(
            Message(row["role"], _of(str, row["content"]), author, calls, _of(str, row.get("tool_call_id", "")))
        )
    return tuple(messages)


def _reward_spec(declared: Mapping[str, Any]) -> RewardSpec:
    """Return the declared reward, whose terms are what the server said of the newest turn."""

    def term(place: int, row: Mapping[str, Any]) -> Term:
        """Return the term of a place."""

        def value(trajectory: Trajectory) -> float:
            """Return the server's value."""
            return float(trajectory.last.results[-1].ids[place])

        return Term(_of(str, row["name"]), float(row["low"]), float(row["high"]), row["doc"], value)

    low, high = declared["episode"]
    terms = tuple(term(place, row) for place, row in enumerate(declared["terms"]))
    return RewardSpec(_of(str, declared["name"]), terms, (float(low), float(high)))


def sample_action(env: gym.Env[Any, Any], rng: random.Random) -> str | int:
    """Return a random action: a legal id, or words that were shown, inside a tag where the environment's turns have some."""
    core = env.unwrapped
    assert isinstance(core, Remote)
    if "mask" in (info := json.loads(core.episode.state.info)):
        return int(rng.choice(info["mask"]))
    turns = core.episode.turns
    latest = turns[-1].observation if turns and turns[-1].observation else core.episode.prompt
    words = " ".join(message.content for message in latest).split() or ["yes"]
    text = " ".join(rng.choices(words, k=rng.randint(1, 4)))
    tag = rng.choice(core.stop) if core.stop else ""
    return f"{tag.replace('</', '<', 1)}{text}{tag}"


register_companions(Remote, sampler=sample_action)
