"""One episode is walked turn by turn, played by a policy, replayed from its record, or solved by the built-in solver."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import ReplayMismatch, Unsolvable, UsageError
from agent_envs.base.protocol import Malformed, Say
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of, shown_messages, turn_wrappers, wrapper_usage
from agent_envs.core.episode import border_notes
from agent_envs.core.snapshot import Snapshot, fork, restore, snapshot
from agent_envs.core.trajectory import MOST_EQUAL, Header, Task, Trajectory, Turn, ends_by_agent, equal_malformed
from agent_envs.rollout.policy import (
    CompanionPolicy,
    Context,
    Policy,
    Reply,
    Request,
    check_actions,
    origin_of,
    replies_of,
    traits_of,
)
from agent_envs.services.chat.model import known_counts

_INFO_KEYS = ("prefill", "stop", "context", "success")  # of the newest info: what requests and the record read
_REPLAYED = ("index", "action", "parsed", "observation", "results", "reward", "terms", "terminated", "truncated", "events",
             "context")  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """One planned episode: the spec as JSON (see `spec_json`), the task, and the seed."""

    key: str
    spec: str
    task: int | str
    split: str
    seed: int
    trial: int = 0


@dataclass(frozen=True)
class EpisodeResult:
    """A finished episode. With `fault` set there is no reward in it for training or analysis.

    Attributes:
        trajectory: what was seen and done.
        status: `terminated`, `truncated`, `fault` or `budget`.
        fault: what failed, where it stayed.
        usage: tokens by name, over all attempts at the episode; of feedback (`feedback_input`, ...) in the last one, because
            a second attempt finds what the first was given.
        attempts: what failed in attempts before this one.
        terms: of the reward, each summed over the turns, None for one that does not apply; no part of equality.
        seconds: wall time of all attempts; `agent_seconds` is the policy's part. They are no part of equality.
    """

    trajectory: Trajectory
    status: str
    fault: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    attempts: tuple[str, ...] = field(default=(), compare=False)
    seconds: float = field(default=0.0, compare=False)
    agent_seconds: float = field(default=0.0, compare=False)
    terms: dict[str, float | None] = field(default_factory=dict, compare=False)

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return self.trajectory.success


class EpisodeWalk:
    """One episode from its reset on, a turn at a time; `run_episode` is a loop over it.

        walk = EpisodeWalk(env, seed=0)
        while not walk.over:
            walk.take(Reply(choose(walk.request())))
        record = walk.result()

    Stepping costs O(1) in the number of earlier turns.

    Attributes:
        env: the stack that is stepped; nobody else may step it.
        turns: taken so far, each as `record_turn` gives it.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int | None = None,
        task: int | str | Task | None = None,
        split: str | None = None,
        episode_key: str | None = None,
        can_prefill: bool = True,
    ) -> None:
        """Reset the environment. `can_prefill`: whether the policy can begin its reply with a given text.

        Raises:
            UsageError: the core of the stack is no TurnEnv, or it has no such task or split.
            EnvFault: an outside service failed.
        """
        self._core = core_of(env)
        options = {"task": task, "split": split, "episode_key": episode_key}
        _, info = env.reset(seed=seed, options={name: value for name, value in options.items() if value is not None})
        self.env, self.turns, self.over = env, list[Turn](), False
        self._prompt, self._tools, self._info = shown_messages(env, info), info["tools"], info
        self._expanded = "action_mask" in info
        self._context = Context(info["messages"], joined=self._expanded)
        self._can_prefill = can_prefill
        self._usage: dict[str, int] = {}

    @property
    def header(self) -> Header:
        """The header of the episode, with its branch."""
        return self._core.episode.header

    @property
    def origin(self) -> str:
        """The name of its conversation, as `Request.origin`."""
        return origin_of(self.header.episode_key, self.header.branch)

    def request(self) -> Request:
        """Return the next request to the policy; a second call returns the same. Raises UsageError: the episode is over."""
        self._check_running("request()")
        return self.state_request()

    def state_request(self) -> Request:
        """Return the request of the state that the walk is in, also behind the end: what a value function judges.

        Nobody is to answer it where the episode is over.
        """
        info, header, turn = self._info, self.header, len(self.turns) + 1
        prefill = info["prefill"]
        noted = bool(prefill) and not self._can_prefill
        return Request(
            header.episode_key,
            turn,
            self._context.view(f"\n\nBegin your reply with {prefill}" if noted else ""),  # type: ignore[arg-type]
            [] if prefill else self._tools,  # a turn whose beginning is given is no turn to call a tool
            "" if noted else prefill,
            tuple(info["stop"]),
            turn_seed(self.origin, turn),
            context=info["context"],
            branch=header.branch,
            thoughts=self._core.thoughts,
        )

    def take(self, reply: Reply) -> Turn:
        """Step what the policy replied and return the turn as recorded; UsageError after the end or for what is no Reply.

        Raises:
            UsageError: the episode is over, or this is no Reply.
            EnvFault: an outside service failed; the walk cannot go on.
        """
        self._check_running("take()")
        if not isinstance(reply, Reply):
            raise UsageError(f"{self.header.env_id}: take() was given a {type(reply).__name__}; give Reply(action)")
        self._core.reply_cut = reply.outcome == "cut"
        step = self.env.step(reply.action)
        turn, info = record_turn(self.env, step, reply), step[4]
        self.turns.append(turn)
        if "calls" in reply.usage and isinstance(turn.parsed, Malformed):
            turn = self._end_if_stuck(turn)
        self.over, self._info = turn.terminated or turn.truncated, info
        if info["context"] == "replace":
            self._context = Context(info["messages"], joined=self._expanded)
        else:
            opaque = {"opaque": reply.opaque} if reply.opaque else {}
            message = {"role": "assistant", "content": _policy_text(turn, self._expanded), **opaque}
            self._context.extend([message, *info["messages"]])
        for name, count in reply.usage.items():
            self._usage[name] = self._usage.get(name, 0) + count
        return turn

    def _end_if_stuck(self, turn: Turn) -> Turn:
        """Return the newest turn, truncated where a model called again and again has written the same without an action."""
        count = equal_malformed(self.turns)
        if count == MOST_EQUAL // 2:
            what = f"{count} equal turns without an action in a row, {str(turn.action)[:80]!r}"
            warnings.warn(f"{self.header.env_id}: {what}; the episode ends at {MOST_EQUAL}", stacklevel=3)
        if count == MOST_EQUAL and not turn.terminated:
            turn = self.turns[-1] = replace(turn, truncated=True)
        return turn

    def result(self) -> EpisodeResult:
        """Return the record of the episode; raises UsageError where it has not ended."""
        if not self.over:
            raise UsageError(f"{self.header.env_id}: result() before the end; take() turns until `over`")
        success = bool(self._info.get("success", False))
        trajectory = Trajectory(self.header, self._prompt, tuple(self.turns), self._core.episode.task, success)
        usage = known_counts(self._usage | wrapper_usage(self.env))
        status = "terminated" if self.turns[-1].terminated else "truncated"
        return EpisodeResult(trajectory, status, usage=usage, terms=self._core.reward_spec.sums(trajectory))

    def to_json(self) -> dict[str, Any]:
        """Return the walk as it stands, as plain JSON: what `from_json` goes on from, in any process."""
        record = Trajectory(self.header, self._prompt, tuple(self.turns))
        return {
            "snapshot": snapshot(self.env).to_bytes().decode("utf-8", "surrogatepass"), "record": record.to_json(),
            "messages": self._context.view().since(), "tools": list(self._tools),
            "info": {name: self._info[name] for name in _INFO_KEYS if name in self._info}, "usage": dict(self._usage),
            "expanded": self._expanded, "can_prefill": self._can_prefill,
        }  # fmt: skip

    @classmethod
    def from_json(cls, env: gym.Env[Any, Any], row: Mapping[str, Any]) -> "EpisodeWalk":
        """Return the walk of `to_json`, in an environment made as its own was; UsageError if unfit.

        Args:
            env: the environment; it is put to where the episode stands.
            row: what `to_json` returned.

        Raises:
            UsageError: the environment is another one, or the row is damaged.
        """
        restore(env, Snapshot.from_bytes(row["snapshot"].encode("utf-8", "surrogatepass")))
        record = Trajectory.from_json(row["record"])
        walk = cls.__new__(cls)
        walk.env, walk._core, walk.turns = env, core_of(env), list(record.turns)
        walk.over = bool(walk.turns) and (walk.turns[-1].terminated or walk.turns[-1].truncated)
        walk._prompt, walk._tools, walk._info = record.prompt, list(row["tools"]), dict(row["info"])
        walk._expanded, walk._can_prefill = bool(row["expanded"]), bool(row["can_prefill"])
        walk._context, walk._usage = Context(row["messages"], joined=walk._expanded), dict(row["usage"])
        return walk

    def fork(self, branch: str) -> "EpisodeWalk":
        """Return a walk on from this moment, with samples of its own, this one unchanged; UsageError if over or unnamed.

        Args:
            branch: a name, of letters, digits, - and _. Requests of the same branch have the same seeds.

        Raises:
            UsageError: the episode is over, or the branch has no sound name.
        """
        self._check_running("fork()")
        if not branch:
            raise UsageError(f"{self.header.env_id}: fork(branch='') would draw its trunk's samples; name the branch")
        twin = copy.copy(self)
        twin.env = fork(self.env, branch)
        twin._core, twin._context = core_of(twin.env), self._context.copy()
        twin.turns, twin._usage = list(self.turns), dict(self._usage)
        return twin

    def _check_running(self, call: str) -> None:
        """Raise UsageError if the episode is over."""
        if self.over:
            raise UsageError(f"{self.header.env_id}: {call} after the end of the episode; begin another EpisodeWalk")


def _policy_text(turn: Turn, expanded: bool) -> str:
    """Return a turn's action as text; with expanded actions "" for all but a text that was parsed as Say."""
    if expanded and not (isinstance(turn.action, str) and isinstance(turn.parsed, Say)):
        return ""
    return str(turn.action)


def run_episode(
    env: gym.Env[Any, Any],
    policy: Policy,
    *,
    seed: int | None = None,
    task: int | str | Task | None = None,
    split: str | None = None,
    episode_key: str | None = None,
) -> EpisodeResult:
    """Play one episode from a reset to its end and return the record of what the policy saw and did; faults are raised.

    Args:
        env: the environment, in any state.
        policy: the agent.
        seed: of the reset; None continues the environment's random generator.
        task: an index or id in the split, or a task; None draws one.
        split: `train`, `dev` or `test`; None takes the environment's default.
        episode_key: the key of the episode's outside samples; None derives it from environment, task and seed.

    Raises:
        EnvFault: an outside service failed; what was played is lost, and the episode may be tried again.
    """
    traits = traits_of(policy)
    check_actions(policy, core_of(env))
    walk = EpisodeWalk(env, seed=seed, task=task, split=split, episode_key=episode_key, can_prefill=traits.can_prefill)
    actor: Policy = policy.begin(env) if traits.needs_env else policy  # type: ignore[attr-defined]
    while not walk.over:
        walk.take(replies_of(actor, [walk.request()])[0])
    return walk.result()


def turn_seed(name: str, turn: int) -> int:
    """Return the sampling seed of a turn, in [0, 2**31), of the episode with this key, or of a fork with this origin."""
    return int(digest([name, turn])[:8], 16) >> 1


def record_turn(env: gym.Env[Any, Any], step: tuple[Any, ...], reply: Reply | None = None) -> Turn:
    """Return the turn that a step just took, as wrappers showed it, with the reply's tokens; a refusal or full context ends it.

    Args:
        env: the stack that was stepped; wrappers may have changed what was shown or where the episode ended.
        step: what `env.step(...)` returned.
        reply: tokens, logprobs, entropies, outcome and its like of the policy, where there are any.
    """
    _, reward, terminated, truncated, info = step
    core = core_of(env)
    reply, step_turn = reply or Reply(""), core.episode.turns[-1]
    truncated = truncated or (reply.outcome in ("refused", "full") and not terminated)
    return Turn(  # `replace` would take five times as long
        step_turn.index, step_turn.origin, step_turn.action, step_turn.parsed, shown_messages(env, info), step_turn.results,
        float(reward), tuple(info["reward_terms"].items()), terminated, truncated, tuple(info["events"]), info["context"],
        reply.token_ids, reply.logprobs, reply.entropies, reply.sampled, reply.finish_reason, reply.outcome, reply.opaque,
    )  # fmt: skip


def replay(env: gym.Env[Any, Any], trajectory: Trajectory) -> Trajectory:
    """Reset, step a recorded trajectory's actions again and return the new record; ReplayMismatch where anything differs.

    Args:
        env: an environment made with the arguments and wrappers of the recorded one.
        trajectory: the record; its actions are stepped and everything else is compared.

    Raises:
        ReplayMismatch: something differs; the message names the turn and the field.
    """
    head = trajectory.header
    core = core_of(env)
    options = {"task": head.task_id, "split": head.split, "episode_key": head.episode_key}
    _, info = env.reset(seed=None if head.seed < 0 else head.seed, options=options)
    fresh = core.trajectory
    _check_equal("reset", "spec_digest", head.spec_digest, fresh.header.spec_digest)
    _check_equal("reset", "task_digest", head.task_digest, fresh.header.task_digest)
    prompt = shown_messages(env, info)
    _check_equal("reset", "prompt", trajectory.prompt, prompt)
    turns: list[Turn] = []
    for old in trajectory.turns:
        if turns and (turns[-1].terminated or turns[-1].truncated):
            raise ReplayMismatch(f"turn {old.index}: the episode ended before it, in turn {turns[-1].index}")
        core.reply_cut = old.outcome == "cut"
        step = env.step(old.action)
        new, info = record_turn(env, step, Reply("", finish_reason=old.finish_reason, outcome=old.outcome)), step[4]
        new = replace(new, events=border_notes(old.events) + new.events)
        if old.truncated and not new.terminated and ends_by_agent([*turns, new]):
            new = replace(new, truncated=True)
        for name in _REPLAYED:
            _check_equal(f"turn {old.index}", name, getattr(old, name), getattr(new, name))
        turns.append(new)
    _check_equal("end", "success", trajectory.success, bool(info.get("success", False)))
    return replace(fresh, prompt=prompt, turns=tuple(turns), success=trajectory.success)


def _check_equal(where: str, name: str, old: Any, new: Any) -> None:
    """Raise ReplayMismatch, with both values cut to 300 characters, unless they are equal."""
    if old != new:
        raise ReplayMismatch(f"{where}: {name} was {str(old)[:300]!r}, and is {str(new)[:300]!r}")


def solve(env: gym.Env[Any, Any]) -> list[str | int]:
    """Return actions, tried in a fork, that solve the episode or gain what can be; Unsolvable if it is over or gains nothing.

    Raises:
        Unsolvable: the episode is over, or the solver gains nothing any more.
        UsageError: the class has no solver.
    """
    if core_of(env).episode.over or any(wrapper.over for wrapper in turn_wrappers(env)):
        raise Unsolvable(f"{core_of(env).env_id}: the episode is over")
    twin = fork(env)
    for wrapper in turn_wrappers(twin):
        wrapper.is_lookahead = True
    solver = CompanionPolicy("solver", twin)
    actions: list[str | int] = []
    gained, over, info = 0.0, False, dict[str, Any]()
    while not over:
        action = solver.act([Request("", len(actions) + 1, ())])[0].action
        _, reward, terminated, truncated, info = twin.step(action)
        actions.append(action)
        gained += float(reward)
        over = terminated or truncated
    if not info.get("success", False) and gained <= 0:
        raise Unsolvable(f"{core_of(env).env_id}: nothing can be gained any more in task {info['task_id']}")
    return actions
