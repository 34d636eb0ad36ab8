"""The contract checks cover what any caller may rely on: spaces, determinism, info, rewards, refusals and isolation."""

import pickle
import random
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from agent_envs.base.errors import UsageError
from agent_envs.checker.env_under_test import CheckFailed, EnvUnderTest, play, step_digest
from agent_envs.checker.processes import agents_play, run_child
from agent_envs.core.env import INFO_KEYS, core_of
from agent_envs.core.registry import companion
from agent_envs.core.snapshot import Snapshot, fork, restore, snapshot
from agent_envs.rollout.episode_runner import replay, run_episode
from agent_envs.rollout.policy import CompanionPolicy

MOST_TURNS = 32


def check_spaces(subject: EnvUnderTest) -> str:
    """Return a note if gymnasium's own checker gives no warning; CheckFailed for one, what it raises is raised."""
    env = subject.make().unwrapped
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=env.render_mode is None)
    if caught:
        raise CheckFailed(f"check_env warns: {caught[0].message}")
    return "gymnasium's check_env, no warning"


def check_determinism(subject: EnvUnderTest) -> str:
    """Return a note if equal starts and actions give equal results, in one environment and in two; else CheckFailed."""
    one, two = subject.make(), subject.make()
    for script in subject.scripts():
        first = play(one, script)
        _check_same(first, play(one, script), f"task {script.task}, the same environment again")
        _check_same(first, play(two, script), f"task {script.task}, a second environment")
    return f"{subject.tasks} episodes, twice in one environment and once in another"


def check_processes(subject: EnvUnderTest) -> str:
    """Return a note if scripts, snapshots, pickles and agents go as here under two PYTHONHASHSEEDs; else CheckFailed."""
    scripts, moments = subject.scripts(), subject.moments()
    env = subject.make()
    kinds = [kind for kind in ("solver", "heuristic") if companion(env, kind) is not None]
    agents = [(kind, subject.split, task) for kind in kinds for task in range(subject.tasks)]
    here, acted = [play(env, script) for script in scripts], agents_play(env, agents)
    job = {"play": scripts, "agents": agents, "restore": [moment.to_json() for moment in moments]}
    for hash_seed in ("0", "4242"):
        there = run_child(subject, job, hash_seed)
        for script, mine, other in zip(scripts, here, there["play"], strict=True):
            _check_same(mine, other, f"task {script.task}, a process with PYTHONHASHSEED={hash_seed}")
        for (kind, _, task), one, two in zip(agents, acted, there["agents"], strict=True):
            if one != two:
                raise CheckFailed(f"task {task}: the {kind} agent acts otherwise with PYTHONHASHSEED={hash_seed}")
        if there["restore"] != [moment.future for moment in moments for _ in range(2)]:
            raise CheckFailed("restored from bytes or a pickle in another process, the future is another")
    return f"{len(scripts)} episodes and snapshots, and {' and '.join(kinds) or 'no agent'}, in two fresh processes"


def check_tasks(subject: EnvUnderTest) -> str:
    """Return a note if tasks come by index and id alike, with unique ids, and replay; else CheckFailed or ReplayMismatch."""
    env = subject.make()
    source = core_of(env).source
    tasks = [source.get(subject.split, place) for place in range(subject.tasks)]
    for place, task in enumerate(tasks):
        if source.get(subject.split, task.id) != task or task.split != subject.split:
            raise CheckFailed(f"get({subject.split!r}, {task.id!r}) is not get({subject.split!r}, {place})")
    if len({task.id for task in tasks}) != len(tasks):
        raise CheckFailed("two tasks of a split have one id")
    for place in range(subject.tasks):
        record = run_episode(env, CompanionPolicy("random"), seed=place, task=place, split=subject.split).trajectory
        replay(subject.make(), type(record).from_json(record.to_json()))
    return f"{len(tasks)} tasks by index and by id; their episodes replay from JSON"


def check_info(subject: EnvUnderTest) -> str:
    """Return a note if info has its documented keys and types, `success` at the end only, fresh messages; else CheckFailed."""
    env, count = subject.make(), 0
    for script in subject.scripts():
        observation, info = subject.reset(env, script.task, script.seed)
        _check_info(observation, info, "reset")
        info["messages"].clear()
        for number, action in enumerate(script.actions, start=1):
            observation, _, terminated, truncated, info = env.step(action)
            _check_info(observation, info, "end" if terminated or truncated else "step")
            if info["turn"] != number:
                raise CheckFailed(f"info['turn'] is {info['turn']} after {number} turns")
            count += 1
            for message in info["messages"]:
                message["content"] = "overwritten by the caller"
    return f"{count} steps; keys, types and moments as agent_envs.core.env.INFO_KEYS says"


def _check_info(observation: Any, info: dict[str, Any], moment: str) -> None:
    """Raise CheckFailed unless observation, info and messages have the documented keys and types of this moment."""
    if not isinstance(observation, str):
        raise CheckFailed(f"the observation at {moment} is a {type(observation).__name__}, not a str")
    moments = {"reset": ("always", "reset"), "step": ("always", "step"), "end": ("always", "step", "end")}[moment]
    for name, key in INFO_KEYS.items():
        if key.when in moments and name not in info:
            raise CheckFailed(f"info lacks {name!r} at {moment}")
    for name, value in info.items():
        info_key = INFO_KEYS.get(name)
        if info_key is None or info_key.when not in (*moments, "some"):
            raise CheckFailed(f"info has {name!r} at {moment}, which agent_envs.core.env.INFO_KEYS does not document")
        if not (isinstance(value, np.ndarray) if info_key.type is object else type(value) is info_key.type):
            raise CheckFailed(f"info[{name!r}] is a {type(value).__name__}, documented as {info_key.type.__name__}")
    for message in info["messages"]:
        if not (isinstance(message.get("role"), str) and isinstance(message.get("content"), str)):
            raise CheckFailed(f"a message without role and content: {message}")


def check_rewards(subject: EnvUnderTest) -> str:
    """Return a note if rewards and returns lie in their bounds, and rewards sum the declared terms; else CheckFailed."""
    env = subject.make()
    spec = core_of(env).reward_spec
    for script in subject.scripts():
        subject.reset(env, script.task, script.seed)
        total = 0.0
        for action in script.actions:
            _, step_reward, _, _, info = env.step(action)
            reward, terms = float(step_reward), info["reward_terms"]
            if list(terms) != [term.name for term in spec.terms]:
                raise CheckFailed(f"terms {list(terms)}, declared {[term.name for term in spec.terms]}")
            if abs(sum(terms.values()) - reward) > 1e-9 or not spec.low - 1e-9 <= reward <= spec.high + 1e-9:
                raise CheckFailed(f"reward {reward} with terms {terms}, declared in [{spec.low}, {spec.high}]")
            if any(terms[term.name] and not term.applies(core_of(env).trajectory) for term in spec.terms):
                raise CheckFailed(f"a term that does not apply is not 0: {terms}")
            total += reward
        if not spec.episode[0] - 1e-9 <= total <= spec.episode[1] + 1e-9:
            raise CheckFailed(f"return {total}, declared in {spec.episode}")
    return f"spec {spec.name}: step in [{spec.low:g}, {spec.high:g}], return in {list(spec.episode)}"


def check_refusals(subject: EnvUnderTest) -> str:
    """Return a note if steps before reset and after the end, and wrong options, raise UsageError; else CheckFailed."""
    env = subject.make()
    core = core_of(env)
    script = subject.scripts()[0]
    _check_refusal(lambda: core.step(""), subject.env_id, "step before reset")
    play(env, script)
    _check_refusal(lambda: env.step(script.actions[-1]), subject.env_id, "step after the end")
    for option, value in (("tusk", 1), ("split", "no such split"), ("task", "no such task")):
        _check_refusal(
            partial(env.reset, options={option: value}), subject.env_id, f"the reset option {option}={value!r}"
        )
    subject.reset(env, 0)
    _check_refusal(lambda: core.step(None), subject.env_id, "an action of type None")
    return "before reset, after the end, unknown option, split, task, action type"


def _check_refusal(call: Callable[[], Any], env_id: str, what: str) -> None:
    """Raise CheckFailed unless a call raises a UsageError that names the environment."""
    try:
        call()
    except UsageError as error:
        if env_id not in str(error):
            raise CheckFailed(f"{what}: the error does not name the environment: {error}") from error
        return
    raise CheckFailed(f"{what} was not refused")


def check_global_state(subject: EnvUnderTest) -> str:
    """Return a note if playing leaves the global generators of `random` and numpy untouched; else CheckFailed."""
    scripts = subject.scripts()
    python_state, numpy_state = random.getstate(), np.random.get_state(legacy=False)
    env = subject.make()
    for script in scripts:
        play(env, script)
    if random.getstate() != python_state or str(np.random.get_state(legacy=False)) != str(numpy_state):
        raise CheckFailed("playing changed the global random state")
    return "random and numpy.random as they were"


def check_interleaving(subject: EnvUnderTest) -> str:
    """Return a note if up to four environments, woven and in threads, give what each gives alone; else CheckFailed."""
    scripts = subject.scripts()[:4]
    serial = [play(subject.make(), script) for script in scripts]
    envs = [subject.make() for _ in scripts]
    mixed: list[list[str]] = [play(e, _first_turns(s, 1)) for e, s in zip(envs, scripts, strict=True)]
    for turn in range(1, max(len(script.actions) for script in scripts)):
        for env, script, digests in zip(envs, scripts, mixed, strict=True):
            if turn < len(script.actions):
                digests += play(env, _first_turns(script, turn + 1), start=turn)
    with ThreadPoolExecutor(len(scripts)) as pool:
        threaded = list(pool.map(play, [subject.make() for _ in scripts], scripts))
    for script, alone, woven, beside in zip(scripts, serial, mixed, threaded, strict=True):
        _check_same(alone, woven, f"task {script.task}, interleaved")
        _check_same(alone, beside, f"task {script.task}, in a thread")
    return f"{len(scripts)} environments, step by step and in threads"


def _first_turns(script: Any, turns: int) -> Any:
    """Return a script cut to its first turns."""
    return type(script)(script.seed, script.task, script.split, script.actions[:turns])


def _check_same(one: list[str], two: list[str], where: str) -> None:
    """Raise CheckFailed, naming the first step at which two lists of digests differ, if they do."""
    if one != two:
        turn = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
        raise CheckFailed(f"{where}: differs at turn {turn}")


CONTRACT_CHECKS: dict[str, Callable[[EnvUnderTest], str]] = {
    "spaces": check_spaces, "determinism": check_determinism, "fresh processes": check_processes,
    "tasks and replay": check_tasks, "info": check_info, "rewards": check_rewards, "refusals": check_refusals,
    "global state": check_global_state, "interleaving and threads": check_interleaving,
}  # fmt: skip


def check_forks(subject: EnvUnderTest) -> str:
    """Return a note if forks at up to 32 turns a task repeat the original's future and leave it alone; else CheckFailed."""
    env, count = subject.make(), 0
    for script in subject.scripts():
        digests = play(env, script)
        subject.reset(env, script.task, script.seed)
        length = len(script.actions)
        fork_turns = set(random.Random(f"turns:{length}").sample(range(length), min(length, MOST_TURNS)))
        for turn, action in enumerate(script.actions):
            if turn in fork_turns:
                before = snapshot(env).to_bytes()
                twin = fork(env)
                if play(twin, script, start=turn or -len(script.actions)) != digests[turn + 1 :]:
                    raise CheckFailed(f"task {script.task}: a fork at turn {turn} has another future")
                if snapshot(env).to_bytes() != before:
                    raise CheckFailed(f"task {script.task}: the run of a fork at turn {turn} changed the original")
                count += 1
            if step_digest(env.step(action)) != digests[turn + 1]:
                raise CheckFailed(f"task {script.task}: the original goes another way after a fork at turn {turn}")
    return f"{count} forks"


def check_restore(subject: EnvUnderTest) -> str:
    """Return a note if snapshots restore in their own and another environment, and read back the same; else CheckFailed."""
    env, other = subject.make(), subject.make()
    for moment in subject.moments():
        data = moment.snapshot.to_bytes()
        if Snapshot.from_bytes(data).to_bytes() != data:
            raise CheckFailed(f"task {moment.script.task}: a snapshot changes when it is read back")
        for target in (env, other):
            restore(target, moment.snapshot)
            if play(target, moment.script, start=moment.start) != moment.future:
                raise CheckFailed(f"task {moment.script.task}: restored at turn {moment.turn}, the future is another")
    return f"{len(subject.moments())} snapshots"


def check_pickle(subject: EnvUnderTest) -> str:
    """Return a note if environments pickled before reset, at a random turn and the end go on alike; else CheckFailed."""
    for moment in subject.moments():
        env = _pickle_copy(subject.make())
        play(env, _first_turns(moment.script, moment.turn))
        env = _pickle_copy(env)
        if play(env, moment.script, start=moment.start) != moment.future:
            raise CheckFailed(f"task {moment.script.task}: unpickled at turn {moment.turn}, the future is another")
        _pickle_copy(env)
    return f"{3 * len(subject.moments())} pickles"


def _pickle_copy(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return an environment's copy through pickle; CheckFailed if its snapshot is not the original's."""
    copy: gym.Env[Any, Any] = pickle.loads(pickle.dumps(env))
    if snapshot(copy).to_bytes() != snapshot(env).to_bytes():
        raise CheckFailed("a pickled copy is not where the environment was")
    return copy


FORK_CHECKS = {"forks": check_forks, "restore": check_restore, "pickle": check_pickle}
