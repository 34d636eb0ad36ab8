"""The environments that a run's settings name are made here, one or a mixture, in their wrappers, and their tasks are picked.

What they cannot be played for is refused. Tasks are taken from all over a source where few are taken: neighbours share a world,
and its words.
"""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs import wrappers as known
from agent_envs.base.errors import UsageError
from agent_envs.core.env import TaskSource, TurnEnv, core_of, spec_json
from agent_envs.core.registry import full_id
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.evaluation.suites.plan import ceiling_note
from trainers.settings import EnvironmentSettings, EvalSettings, RunSettings, json_object

WrapperRow = tuple[str, dict[str, Any]]
STRETCH = 256
Specs = tuple[tuple[str, str], ...]  # of environments with their names


def wrapper_rows(text: str, name: str) -> list[WrapperRow]:
    """Return the wrappers of a JSON list, innermost first, as [{"TurnLimit": {"turns": 4}}]; UsageError for anything else.

    Args:
        text: the setting.
        name: of the setting, for the error.

    Raises:
        UsageError: this is no such list.
    """
    try:
        rows = [(key, value) for row in json.loads(text) for key, value in row.items()]
        sound = all(isinstance(value, dict) for _, value in rows)
    except (ValueError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UsageError(f'{name}={text!r}: a JSON list of wrappers is needed, as [{{"TurnLimit": {{"turns": 4}}}}]')
    return rows


@dataclass(frozen=True)
class EnvStack:
    """A stack of wrappers in which a share of a warm start's demonstrations is played.

    Attributes:
        rows: of wrappers, innermost first; none for the bare environment.
        flaws: of the demonstrations; "" for those of the others.
    """

    rows: Sequence[WrapperRow] = ()
    flaws: str = ""


def stacks_of(text: str, name: str) -> list[EnvStack]:
    """Return a JSON setting's stacks of wrappers, with own flaws; [] is the bare environment; UsageError for any other list.

    One with flaws of its own is an object: {"wrappers": [...], "flaws": {"early": 0.1}}.

    Raises:
        UsageError: this is no such list, or an empty one.
    """
    try:
        parts = [{"flaws": "", **(part if isinstance(part, dict) else {"wrappers": part})} for part in json.loads(text)]
        sound = bool(parts) and all(set(part) == {"wrappers", "flaws"} for part in parts)
    except (ValueError, TypeError):
        sound = False
    if not sound:
        raise UsageError(f'{name}={text!r}: a JSON list of lists is needed, as [[], [{{"TurnLimit": {{"turns": 4}}}}]]')
    flaws = [part["flaws"] if isinstance(part["flaws"], str) else json.dumps(part["flaws"]) for part in parts]
    return [
        EnvStack(wrapper_rows(json.dumps(part["wrappers"]), name), own) for part, own in zip(parts, flaws, strict=True)
    ]


def wrap(env: gym.Env[Any, Any], rows: Sequence[WrapperRow]) -> gym.Env[Any, Any]:
    """Put wrappers around an environment, by name or module:Class, innermost first; UsageError for unknown ones or arguments.

    Args:
        env: what is wrapped.
        rows: names and arguments, innermost first: of `agent_envs.wrappers`, or as module:Class.

    Raises:
        UsageError: there is no such wrapper, or it does not take these arguments.
    """
    for name, arguments in rows:
        module, colon, attribute = name.partition(":")
        try:
            kind = getattr(import_module(module), attribute) if colon else getattr(known, name)
            env = kind(env, **arguments)
        except (ImportError, AttributeError, TypeError) as error:
            names = ", ".join(known.__all__)
            raise UsageError(f"no wrapper {name}({arguments}): {error}; there are {names}, or module:Class") from error
    return env


def spread_task(source: TaskSource, split: str, number: int) -> int:
    """Return the index of the `number`-th task: 256 from each stretch as long as the split; over again where it ends.

    A source without end is asked beyond its size, where its next tasks lie; one that ends starts again.
    """
    size = source.size(split)
    stretch = min(STRETCH, size)
    index = number // stretch * size + number % stretch
    return index if has_task(source, split, index) else number % size


def has_task(source: TaskSource, split: str, index: int) -> bool:
    """Return whether a split has a task at an index: sources without end have, beyond their size too."""
    try:
        source.get(split, index)
    except (KeyError, IndexError):
        return False
    return True


def environment_spec(name: str, arguments: Mapping[str, Any], wrappers: Sequence[WrapperRow] = ()) -> str:
    """Return the spec of an environment with its wrappers, as JSON; UsageError for an unfit argument or unknown wrapper.

    Raises:
        UsageError: an argument cannot travel, or there is no such wrapper.
    """
    return spec_json(wrap(gym.make(full_id(name), **arguments), wrappers))


def tasks_of_step(step: int, count: int, size: int, seed: int) -> list[int]:
    """Return the task indices of a step (from 0): every task once before any comes again, in an order that the seed sets."""
    return tasks_at(range(step * count, (step + 1) * count), size, seed)


def tasks_at(places: range, size: int, seed: int) -> list[int]:
    """Return the task indices at places of a seeded order, which begins anew, as another one, where all have come."""
    return [_epoch_order(size, seed, place // size)[place % size] for place in places]


@lru_cache(maxsize=2)
def _epoch_order(size: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the tasks in an epoch, shuffled by the seed; cached."""
    return random.Random(f"tasks:{seed}:{epoch}").sample(range(size), size)


def measured_tasks(source: TaskSource, split: str, count: int) -> list[int]:
    """Return `count` tasks of a split that a measurement plays, always the same ones; all where the split has fewer.

    A source without end has as many as are asked for: beyond its size lie its next tasks.
    """
    size = source.size(split)
    tasks = tasks_of_step(0, min(count, size), size, seed=0)
    return tasks + [*range(size, count)] if count > size and has_task(source, split, size) else tasks


@dataclass(frozen=True)
class Member:
    """One of the environments: its name as the settings have it, its weight, and its settings as if it were alone."""

    name: str
    weight: float
    env: EnvironmentSettings


@dataclass(frozen=True)
class TrainEnvironment:
    """An environment with its share of training.

    Attributes:
        weight: of its share.
        spec: of the environment, as JSON.
        bare: of the environment without the wrappers of `env.wrappers`.
        size: how many training tasks it has.
        tools: schemas that the policy is shown.
    """

    weight: float
    spec: str
    bare: str
    size: int
    tools: tuple[Any, ...]


def members_of(env: EnvironmentSettings) -> list[Member]:
    """Return the environments of settings: `env.id` alone, or `env.mixture`; UsageError if that lacks `env.id` or repeats.

    Raises:
        UsageError: `env.mixture` is no mixture that holds `env.id`.
    """
    rows = json_object(env.mixture, "env.mixture")
    if not rows:
        return [Member(env.id, 1.0, env)]
    members = [_member(env, name, row) for name, row in rows.items()]
    names = [full_id(member.name) for member in members]
    if len(set(names)) < len(names) or full_id(env.id) not in names:
        raise UsageError(f"env.mixture names {', '.join(rows)}: each once, and env.id={env.id!r} among them")
    return members


def _member(env: EnvironmentSettings, name: str, row: Any) -> Member:
    """Build a member of the mixture from its weight or its table of weight and arguments; UsageError if malformed."""
    options = row if isinstance(row, dict) else {"weight": row}
    weight = options.get("weight")
    if set(options) - {"weight", "arguments"} or isinstance(weight, bool) or not isinstance(weight, int | float):
        raise UsageError(f'env.mixture: {name}: give a weight, or {{"weight": 2, "arguments": {{...}}}}')
    if not 0 < weight < math.inf:
        raise UsageError(f"env.mixture: {name}: a weight is > 0, not {weight}")
    own = json_object(json.dumps(options.get("arguments", {})), f"env.mixture: {name}")
    arguments = json_object(env.arguments, "env.arguments") | own
    return Member(name, float(weight), replace(env, id=name, arguments=json.dumps(arguments), mixture="{}"))


def environment_specs(settings: RunSettings, *, bare: bool = False) -> tuple[Specs, Specs]:
    """Return training and test specs, each by name; UsageError for bad arguments or splits, or a best chosen on test tasks.

    Args:
        settings: of the run.
        bare: without the wrappers of `env.wrappers`.

    Raises:
        UsageError: arguments are no JSON object, a split does not exist, or the best would be chosen on the test split.
    """
    pairs = [(member, _specs_of(member.env, settings.evaluation, bare)) for member in members_of(settings.env)]
    train_specs, test_specs = (tuple((member.name, specs[place]) for member, specs in pairs) for place in (0, 1))
    for member, specs in pairs:
        for spec, split, _ in _task_sets(member.env, settings.evaluation, specs):
            _check_split(member.name, spec, split)
    _check_choice(settings, train_specs, test_specs, settings.env.test_split)
    return train_specs, test_specs


def train_environments(settings: RunSettings) -> dict[str, TrainEnvironment]:
    """Return training environments by full id; UsageError for several where the trainer takes one, or with expanded actions.

    Raises:
        UsageError: as `environment_specs`, or these environments are none to mix.
    """
    members, environments = members_of(settings.env), dict[str, TrainEnvironment]()
    trained, bare = (environment_specs(settings, bare=bare)[0] for bare in (False, True))
    if len(members) > 1 and not getattr(settings, "MIXES", False):
        raise UsageError("env.mixture: trainers.grpo and trainers.veg alone train on several environments")
    for member, (_, spec), (_, bare_spec) in zip(members, trained, bare, strict=True):
        env = gym.make(EnvSpec.from_json(bare_spec))
        if len(members) > 1 and isinstance(core_of(env), ExpandedActionEnv):
            raise UsageError(f"env.mixture: {member.name}: expanded actions are of one environment alone")
        _, info = env.reset(seed=0, options={"split": settings.env.train_split, "task": 0})
        size, tools = core_of(env).source.size(settings.env.train_split), tuple(info["tools"])
        environments[full_id(member.name)] = TrainEnvironment(member.weight, spec, bare_spec, size, tools)
    return environments


def _specs_of(env: EnvironmentSettings, evaluation: EvalSettings, bare: bool = True) -> tuple[str, str]:
    """Return the training and the evaluation spec of a run; UsageError if `keep_best` would choose on the test tasks."""
    own, other = (json_object(getattr(env, name), f"env.{name}") for name in ("arguments", "test_arguments"))
    around = [] if bare else wrapper_rows(env.wrappers, "env.wrappers")
    specs = environment_spec(env.id, own, around), environment_spec(env.id, {**own, **other}, around)
    if evaluation.keep_best and not other and env.eval_split == env.test_split:
        raise UsageError(f"evaluation.keep_best would choose on env.test_split={env.test_split!r}: take another split")
    return specs


def _task_sets(
    env: EnvironmentSettings, evaluation: EvalSettings, specs: tuple[str, str]
) -> Iterator[tuple[str, str, int | None]]:
    """Yield the spec and the split of all that a run plays, and how many tasks of it at most; None for all of them."""
    yield specs[0], env.train_split, None
    if evaluation.every and evaluation.tasks:
        yield specs[0], env.eval_split, evaluation.tasks
    if evaluation.test_tasks:
        yield specs[1], env.test_split, evaluation.test_tasks


def _check_choice(settings: RunSettings, trained: Specs, tested: Specs, test_split: str) -> None:
    """Raise UsageError if the best would be chosen on a task whose content the test measures; nothing without `keep_best`."""
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
    """Return the ids of a measurement's tasks by content: question and gold of outside data, else a digest.

    Of outside data that is the question and its answers, or all content where it has no answers. Generated tasks are told apart
    by their ids too: there are few different ones in a small world, and its splits are draws of their own.
    """
    source = _source(spec)
    task_ids = dict[Any, str]()
    for place in measured_tasks(source, split, count):
        task = source.get(split, place)
        content = replace(task, split="", cluster="", id="" if source.digest else task.id)
        task_ids[(task.question, task.gold) if source.digest and task.gold else content.digest] = task.id
    return task_ids


def _source(spec: str) -> TaskSource:
    """Make the environment of a spec, as JSON, and return its source of tasks."""
    return core_of(gym.make(EnvSpec.from_json(spec))).source


def ceilings(settings: RunSettings) -> list[str]:
    """Return notes on tasks that cannot succeed under the settings, by environment and split, each once; [] if all can.

    Nothing is returned of those that all can be earned; of `env.tests` what no other line says.
    """
    notes = list[str]()
    for member in members_of(settings.env):
        specs = _specs_of(member.env, settings.evaluation)
        notes += [_ceiling(member.name, *task_set) for task_set in _task_sets(member.env, settings.evaluation, specs)]
    if most := settings.evaluation.test_tasks:
        for tested, split in extra_tests(settings).values():
            notes += [_ceiling(name, spec, split, most) for name, spec in tested]
    return list(dict.fromkeys(filter(None, notes)))


def _ceiling(name: str, spec: str, split: str, count: int | None) -> str:
    """Return the note of a split's ceiling, over the tasks of it that a measurement plays; "" where there is none."""
    env = core_of(gym.make(EnvSpec.from_json(spec)))
    task_ids = None
    if count is not None:
        task_ids = [env.source.get(split, place).id for place in measured_tasks(env.source, split, count)]
    note = ceiling_note(env, split, task_ids)
    return note and f"{name}, {split}: {note}"


def environment(name: str, arguments: str) -> tuple[str, TurnEnv]:
    """Return the spec of an environment, as JSON, and a core of its kind; UsageError for arguments that it does not take.

    Raises:
        UsageError: arguments are no JSON object, or it does not take them.
    """
    spec = environment_spec(name, json_object(arguments, f"arguments of {name}"))
    return spec, core_of(gym.make(EnvSpec.from_json(spec)))


def extra_tests(settings: RunSettings) -> dict[str, tuple[Specs, str]]:
    """Return specs and split of each of `env.tests`, by name; UsageError for bad JSON or splits, or a best chosen there.

    Raises:
        UsageError: these are no JSON objects, a split does not exist, or the best would be chosen on it.
    """
    env, tests = settings.env, dict[str, tuple[Specs, str]]()
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
        tests[name] = tuple(specs), split
    return tests


def _check_split(env_id: str, spec: str, split: str) -> None:
    """Raise UsageError where the environment's source has no such split."""
    source = _source(spec)
    if split not in (has := source.splits):
        raise UsageError(f"{env_id}: {source.name} has no split {split!r}, but {', '.join(has)} (env.test_arguments)")
