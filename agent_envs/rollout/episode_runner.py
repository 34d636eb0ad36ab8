"""The runner plays one episode of a policy in an environment, replays a recorded one, and solves by the built-in solver."""

from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import ReplayMismatch, Unsolvable
from agent_envs.base.protocol import Say
from agent_envs.base.serialization import digest
from agent_envs.core.episode import border_notes
from agent_envs.core.snapshot import fork
from agent_envs.core.trajectory import Task, Trajectory, Turn
from agent_envs.core.wrapper_stack import core_of, shown_messages, turn_wrappers, wrapper_usage
from agent_envs.rollout.policy import CompanionPolicy, Policy, Reply, Request, check_actions, checked_replies, traits_of

_REPLAYED = ("index", "action", "parsed", "observation", "results", "reward", "terms", "terminated", "truncated", "events",
             "context")  # fmt: skip


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
        seconds: wall time of all attempts; `agent_seconds` is the policy's part. They are no part of equality.
    """

    trajectory: Trajectory
    status: str
    fault: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    attempts: tuple[str, ...] = field(default=(), compare=False)
    seconds: float = field(default=0.0, compare=False)
    agent_seconds: float = field(default=0.0, compare=False)

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return self.trajectory.success


def run_episode(
    env: gym.Env[Any, Any],
    policy: Policy,
    *,
    seed: int | None = None,
    task: int | str | Task | None = None,
    split: str | None = None,
    episode_key: str | None = None,
) -> EpisodeResult:
    """Play one episode from a reset to its end and return the record of what the policy saw and did.

    Raises:
        EnvFault: an outside service failed; what was played is lost, and the episode may be tried again.
    """
    core, traits = core_of(env), traits_of(policy)
    check_actions(policy, core)
    given = {"task": task, "split": split, "episode_key": episode_key}
    _, info = env.reset(seed=seed, options={name: value for name, value in given.items() if value is not None})
    actor: Policy = policy.begin(env) if traits.needs_env else policy  # type: ignore[attr-defined]
    prompt = shown_messages(env, info)
    context = list(info["messages"])
    tools: list[dict[str, Any]] = info["tools"]
    turns: list[Turn] = []
    usage: dict[str, int] = {}
    over, success = False, False
    while not over:
        request = _request(core.episode.key, len(turns) + 1, context, tools, info, traits.can_prefill)
        reply = checked_replies(actor.name, actor.act([request]), 1)[0]
        step = env.step(reply.action)
        turn, info = record_turn(env, step, reply), step[4]
        over = turn.terminated or turn.truncated
        turns.append(turn)
        success = bool(info.get("success", False))
        context = _grown(context, turn, info)
        for name, count in reply.usage.items():
            usage[name] = usage.get(name, 0) + count
    usage |= wrapper_usage(env)
    trajectory = Trajectory(core.trajectory.header, prompt, tuple(turns), core.episode.task, success)
    return EpisodeResult(trajectory, "terminated" if turns[-1].terminated else "truncated", usage=usage)


def turn_seed(episode_key: str, turn: int) -> int:
    """Return the sampling seed of a turn, in [0, 2**31)."""
    return int(digest([episode_key, turn])[:8], 16) >> 1


def _request(
    key: str,
    turn: int,
    context: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    info: dict[str, Any],
    prefills: bool,
) -> Request:
    messages = [dict(message) for message in context]
    prefill = info["prefill"]
    if prefill and not prefills:
        messages[-1]["content"] += f"\n\nBegin your reply with {prefill}"
        prefill = ""
    offered = [] if info["prefill"] else tools  # a turn whose beginning is given is no turn to call a tool
    seed = turn_seed(key, turn)
    return Request(key, turn, messages, offered, prefill, tuple(info["stop"]), seed, context=info["context"])


def record_turn(env: gym.Env[Any, Any], step: tuple[Any, ...], reply: Reply | None = None) -> Turn:
    """Return the turn that a step just took, as the policy lived it: for loops of your own.

    Args:
        env: the stack that was stepped; wrappers may have changed what was shown or where the episode ended.
        step: what `env.step(...)` returned.
        reply: tokens, logprobs and entropies of the policy, where there are any.
    """
    _, reward, terminated, truncated, info = step
    core = core_of(env)
    reply = reply or Reply("")
    return replace(
        core.episode.turns[-1],
        observation=shown_messages(env, info),
        reward=float(reward),
        terms=tuple(info["reward_terms"].items()),
        terminated=terminated,
        truncated=truncated,
        events=tuple(info["events"]),
        context=info["context"],
        token_ids=reply.token_ids,
        logprobs=reply.logprobs,
        entropies=reply.entropies,
        sampled=reply.sampled,
    )


def _grown(context: list[dict[str, Any]], turn: Turn, info: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the context of the next turn. With expanded actions it ends in one growing text of the assistant."""
    expanded = "action_mask" in info
    if info["context"] == "replace":
        return _joined(info["messages"]) if expanded else list(info["messages"])
    if not expanded:
        return [*context, {"role": "assistant", "content": str(turn.action)}, *info["messages"]]
    # What an expanded action says is what it appends; text that was refused is no part of the history.
    said = turn.action if isinstance(turn.action, str) and isinstance(turn.parsed, Say) else ""
    return _joined([*context, {"role": "assistant", "content": said}, *info["messages"]])


def _joined(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with those of the assistant that follow one another made one, and without empty ones of it."""
    joined: list[dict[str, Any]] = []
    for row in rows:
        if joined and row["role"] == joined[-1]["role"] == "assistant":
            joined[-1] = {**joined[-1], "content": joined[-1]["content"] + row["content"]}
        else:
            joined.append(row)
    return [row for row in joined if row["content"] or row["role"] != "assistant"]


def replay(env: gym.Env[Any, Any], trajectory: Trajectory) -> Trajectory:
    """Step a recorded trajectory's actions again and return the new record.

    Raises:
        ReplayMismatch: something differs; the message names the turn and the field.
    """
    head = trajectory.header
    core = core_of(env)
    options = {"task": head.task_id, "split": head.split, "episode_key": head.episode_key}
    _, info = env.reset(seed=None if head.seed < 0 else head.seed, options=options)
    fresh = core.trajectory
    _compare("reset", "spec_digest", head.spec_digest, fresh.header.spec_digest)
    _compare("reset", "task_digest", head.task_digest, fresh.header.task_digest)
    prompt = shown_messages(env, info)
    _compare("reset", "prompt", trajectory.prompt, prompt)
    turns: list[Turn] = []
    for old in trajectory.turns:
        if turns and (turns[-1].terminated or turns[-1].truncated):
            raise ReplayMismatch(f"turn {old.index}: the episode ended before it, in turn {turns[-1].index}")
        step = env.step(old.action)
        new, info = record_turn(env, step), step[4]
        new = replace(new, events=border_notes(old.events) + new.events)
        for name in _REPLAYED:
            _compare(f"turn {old.index}", name, getattr(old, name), getattr(new, name))
        turns.append(new)
    _compare("end", "success", trajectory.success, bool(info.get("success", False)))
    return replace(fresh, prompt=prompt, turns=tuple(turns), success=trajectory.success)


def _compare(where: str, name: str, old: Any, new: Any) -> None:
    if old != new:
        raise ReplayMismatch(f"{where}: {name} was {str(old)[:300]!r}, and is {str(new)[:300]!r}")


def _over(env: gym.Env[Any, Any]) -> bool:
    return core_of(env).episode.over or any(wrapper.over for wrapper in turn_wrappers(env))


def solve(env: gym.Env[Any, Any]) -> list[str | int]:
    """Return actions that solve the episode as it stands, or the best still reachable. The environment is not stepped.

    Raises:
        Unsolvable: the episode is over, or the solver gains nothing any more.
        UsageError: the class has no solver.
    """
    if _over(env):
        raise Unsolvable(f"{core_of(env).env_id}: the episode is over")
    twin = fork(env)
    for wrapper in turn_wrappers(twin):
        wrapper.ahead = True
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
