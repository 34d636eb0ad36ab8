"""The environments that a run's settings name are made here, and what they cannot be played for is refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.env import TaskSource, TurnEnv
from agent_envs.core.registry import full_id
from agent_envs.core.wrapper_stack import core_of
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.evaluation.suites.plan import ceiling_note
from trainers.measuring import tasks_measured
from trainers.mixture import Arena, Specs, members_of
from trainers.sampling import environment_spec
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    LogSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
    json_object,
)
from trainers.stacks import wrapper_rows


class Settings(Protocol):
    """What every trainer's settings hold."""

    seed: int
    steps: int
    env: EnvironmentSettings
    model: ModelSettings
    sampling: SamplingSettings
    optim: OptimSettings
    evaluation: EvalSettings
    log: LogSettings


def environment_specs(settings: Settings, *, bare: bool = False) -> tuple[Specs, Specs]:
    """Return the specs of the environments that are trained on, by name, and of those that measure before and after.

    Args:
        settings: of the run.
        bare: without the wrappers of `env.wrappers`.

    Raises:
        UsageError: arguments are no JSON object, a split does not exist, or the best would be chosen on the test split.
    """
    pairs = [(member, _specs_of(member.env, settings.evaluation, bare)) for member in members_of(settings.env)]
    trained, tested = (tuple((member.name, specs[place]) for member, specs in pairs) for place in (0, 1))
    for member, specs in pairs:
        for spec, split, _ in _played(member.env, settings.evaluation, specs):
            _check_split(member.name, spec, split)
    _check_choice(settings, trained, tested, settings.env.test_split)
    return trained, tested


def arenas_of(settings: Settings) -> dict[str, Arena]:
    """Return what is trained on, by full id; several environments only where the trainer takes groups of all of them.

    Raises:
        UsageError: as `environment_specs`, or these environments are none to mix.
    """
    members, found = members_of(settings.env), dict[str, Arena]()
    trained, bare = (environment_specs(settings, bare=bare)[0] for bare in (False, True))
    if len(members) > 1 and not getattr(settings, "MIXES", False):
        raise UsageError("env.mixture: trainers.grpo and trainers.veg alone train on several environments")
    for member, (_, spec), (_, bare_spec) in zip(members, trained, bare, strict=True):
        env = gym.make(EnvSpec.from_json(bare_spec))
        if len(members) > 1 and isinstance(core_of(env), ExpandedActionEnv):
            raise UsageError(f"env.mixture: {member.name}: expanded actions are of one environment alone")
        _, info = env.reset(seed=0, options={"split": settings.env.train_split, "task": 0})
        size, tools = core_of(env).source.size(settings.env.train_split), tuple(info["tools"])
        found[full_id(member.name)] = Arena(member.weight, spec, bare_spec, size, tools)
    return found


def _specs_of(env: EnvironmentSettings, evaluation: EvalSettings, bare: bool = True) -> tuple[str, str]:
    own, other = (json_object(getattr(env, name), f"env.{name}") for name in ("arguments", "test_arguments"))
    around = [] if bare else wrapper_rows(env.wrappers, "env.wrappers")
    specs = environment_spec(env.id, own, around), environment_spec(env.id, {**own, **other}, around)
    if evaluation.keep_best and not other and env.eval_split == env.test_split:
        raise UsageError(f"evaluation.keep_best would choose on env.test_split={env.test_split!r}: take another split")
    return specs


def _played(
    env: EnvironmentSettings, evaluation: EvalSettings, specs: tuple[str, str]
) -> Iterator[tuple[str, str, int | None]]:
    """Yield the spec and the split of all that a run plays, and how many tasks of it at most; None for all of them."""
    yield specs[0], env.train_split, None
    if evaluation.every and evaluation.tasks:
        yield specs[0], env.eval_split, evaluation.tasks
    if evaluation.test_tasks:
        yield specs[1], env.test_split, evaluation.test_tasks


def _check_choice(settings: Settings, trained: Specs, tested: Specs, test_split: str) -> None:
    """Refuse to choose the best on a task that measures it, whatever its split, its source and its id are called."""
    evaluation, split = settings.evaluation, settings.env.eval_split
    if not evaluation.keep_best:
        return
    measured = {key for _, spec in tested for key in _contents(spec, test_split, evaluation.test_tasks)}
    for _, spec in trained:
        for content, name in _contents(spec, split, evaluation.tasks).items():
            if content in measured:
                raise UsageError(
                    f"evaluation.keep_best would choose on {name!r} of the split {split!r}, which is in {test_split!r} too: "
                    "choose on tasks that measure nothing"
                )


def _contents(spec: str, split: str, count: int) -> dict[Any, str]:
    """Return the ids of the tasks that a measurement plays by what they ask.

    Of outside data that is the question and its answers, or all content where it has no answers. Generated tasks are told apart
    by their ids too: there are few different ones in a small world, and its splits are draws of their own.
    """
    source = _source(spec)
    found = dict[Any, str]()
    for place in tasks_measured(source, split, count):
        task = source.get(split, place)
        content = replace(task, split="", cluster="", id="" if source.digest else task.id)
        found[(task.question, task.gold) if source.digest and task.gold else content.digest] = task.id
    return found


def _source(spec: str) -> TaskSource:
    return core_of(gym.make(EnvSpec.from_json(spec))).source


def ceilings(settings: Settings) -> list[str]:
    """Return what cannot be earned of the tasks that are played under the settings, by environment and split.

    Nothing is returned of those that all can be earned; of `env.tests` what no other line says.
    """
    found = list[str]()
    for member in members_of(settings.env):
        specs = _specs_of(member.env, settings.evaluation)
        found += [_ceiling(member.name, *played) for played in _played(member.env, settings.evaluation, specs)]
    if most := settings.evaluation.test_tasks:
        for tested, split in further_tests(settings).values():
            found += [_ceiling(name, spec, split, most) for name, spec in tested]
    return list(dict.fromkeys(filter(None, found)))


def _ceiling(name: str, spec: str, split: str, count: int | None) -> str:
    """Return the note of a split's ceiling, over the tasks of it that a measurement plays; "" where there is none."""
    env = core_of(gym.make(EnvSpec.from_json(spec)))
    played = None
    if count is not None:
        played = [env.source.get(split, place).id for place in tasks_measured(env.source, split, count)]
    note = ceiling_note(env, split, played)
    return note and f"{name}, {split}: {note}"


def environment(name: str, arguments: str) -> tuple[str, TurnEnv]:
    """Return the spec of an environment as JSON, and one of its kind.

    Raises:
        UsageError: arguments are no JSON object, or it does not take them.
    """
    spec = environment_spec(name, json_object(arguments, f"arguments of {name}"))
    return spec, core_of(gym.make(EnvSpec.from_json(spec)))


def further_tests(settings: Settings) -> dict[str, tuple[Specs, str]]:
    """Return the specs and the split of each of `env.tests`, by name.

    Raises:
        UsageError: these are no JSON objects, a split does not exist, or the best would be chosen on it.
    """
    env, found = settings.env, dict[str, tuple[Specs, str]]()
    trained = tuple((member.name, _specs_of(member.env, settings.evaluation)[0]) for member in members_of(env))
    for name, arguments in json_object(env.tests, "env.tests").items():
        theirs = json_object(json.dumps(arguments), f"env.tests: {name}")
        split = str(theirs.pop("split", env.test_split))
        around = wrapper_rows(
            json.dumps(theirs.pop("wrappers", json.loads(env.wrappers))), f"env.tests: {name}.wrappers"
        )
        if settings.evaluation.keep_best and split == env.eval_split:
            raise UsageError(f"evaluation.keep_best chooses on {split!r}, where env.tests would measure {name}")
        specs = []
        for member in members_of(env):
            own = json_object(member.env.arguments, "env.arguments")
            specs.append((member.name, environment_spec(member.env.id, {**own, **theirs}, around)))
            _check_split(*specs[-1], split)
        _check_choice(settings, trained, tuple(specs), split)
        found[name] = tuple(specs), split
    return found


def _check_split(env_id: str, spec: str, split: str) -> None:
    source = _source(spec)
    if split not in (has := source.splits):
        raise UsageError(f"{env_id}: {source.name} has no split {split!r}, but {', '.join(has)} (env.test_arguments)")
