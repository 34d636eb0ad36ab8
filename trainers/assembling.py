"""The environment, model, tokenizer, engine and policies of a run are made from its settings."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.env import TaskSource, TurnEnv
from agent_envs.core.wrapper_stack import core_of
from agent_envs.evaluation.suites.plan import ceiling_note
from trainers.contracts import Engine, Sampling
from trainers.further_actions import further_actions
from trainers.measuring import tasks_measured
from trainers.mixture import Specs, members_of
from trainers.sampling import Player, environment_spec
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    LogSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
    WarmStartSettings,
    json_object,
)
from trainers.stacks import stacks_of, wrapper_rows
from trainers.tokens import ChatTokenizer
from trainers.training.heads import head_of
from trainers.training.models import compute_dtype, load_model, save_model

TINY = "tiny:"
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.2}  # of an engine's logprobs after a sync


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


def _specs_of(env: EnvironmentSettings, evaluation: EvalSettings, bare: bool = True) -> tuple[str, str]:
    own, other = (json_object(getattr(env, name), f"env.{name}") for name in ("arguments", "test_arguments"))
    around = [] if bare else wrapper_rows(env.wrappers, "env.wrappers")
    specs = environment_spec(env.id, own, around), environment_spec(env.id, {**own, **other}, around)
    if evaluation.keep_best and not other and env.eval_split == env.test_split:
        raise UsageError(
            f"evaluation.keep_best would choose on env.test_split={env.test_split!r}: choose on another split"
        )
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
    for place in tasks_measured(source.size(split), count):
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
        played = [env.source.get(split, place).id for place in tasks_measured(env.source.size(split), count)]
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
    if split not in source.splits:
        has = ", ".join(source.splits)
        raise UsageError(f"{env_id}: {source.name} has no split {split!r}, but {has}; see env.test_arguments")


def made_model(settings: Settings, accelerator: Any) -> tuple[Any, ChatTokenizer]:
    """Return the model on its device and the tokenizer of its conversations; `tiny:SIZE` is made here, from nothing.

    Raises:
        UsageError: no such model, or a tiny one is to have an adapter.
    """
    name, wanted = settings.model.name, settings.sampling.template
    if not name.startswith(TINY):
        model, tokenizer = load_model(settings.model, accelerator.device, settings.seed)
        return model, ChatTokenizer(tokenizer, wanted)
    if settings.model.lora_rank or settings.model.gradient_checkpointing:
        raise UsageError(f"model.name={name!r}: tiny models are trained whole, without LoRA and checkpointing")
    from trainers.tiny import tiny_model

    forces = hasattr(settings, "counterfactual")  # EARL's forces tags, and its baselines share its tokenizer
    start = getattr(settings, "warm_start", WarmStartSettings())
    envs = [(member.name, member.env.arguments) for member in members_of(settings.env)]
    if (first := getattr(settings, "curriculum", None)) is not None and first.steps:
        envs.append((first.id, first.arguments))
    how = (forces, settings.model.numerals, settings.model.tokenizer_plays, start.stacks)
    tokenizer = deepcopy(_fitted(tuple(envs), *how))
    tied = settings.sampling.engine != "vllm"  # its build for CPUs cannot reload a head that is the embedding
    model = tiny_model(tokenizer, name.removeprefix(TINY), seed=settings.seed, tied=tied)
    return model.to(accelerator.device), ChatTokenizer(tokenizer, "chatml" if wanted == "auto" else wanted)


@lru_cache(maxsize=16)
def _fitted(envs: tuple[tuple[str, str], ...], tags_apart: bool, numerals: str, plays: int, stacks: str) -> Any:
    """Return the tokenizer of environments; a process that trains on them again need not play thousands of episodes again."""
    from trainers.tiny import environment_tokenizer

    (env_id, arguments), *others = [(name, json.loads(text)) for name, text in envs]
    how: dict[str, Any] = {"tags_apart": tags_apart, "numerals": numerals, "plays": plays}
    how["stacks"] = [stack.rows for stack in stacks_of(stacks, "warm_start.stacks")]
    return environment_tokenizer(env_id, **how, others=others, **arguments).tokenizer


def with_further_head(settings: Settings, model: Any, chat: ChatTokenizer, env: gym.Env[Any, Any]) -> None:
    """Give a model the output rows of an environment's actions beyond text, if it has any."""
    if (further := further_actions(env)) is not None:
        further.give_head(model, chat, env, settings.model.name, settings.model.expanded_start)


def made_engine(settings: Settings, model: Any, chat: ChatTokenizer, accelerator: Any, out: Path) -> Engine:
    """Return the engine; vLLM's is not synced yet.

    Raises:
        UsageError: vLLM in several processes, or for expanded actions.
    """
    sampling, lora = settings.sampling, settings.model.lora_rank
    own = getattr(model.generation_config, "eos_token_id", None)
    found = own if isinstance(own, list) else [own, chat.tokenizer.eos_token_id]
    ends = sorted({*chat.end_ids, *(number for number in found if number is not None)})
    if sampling.engine == "hf":
        from trainers.engines import HFEngine

        return HFEngine(model, chat.tokenizer, batch=sampling.batch, eos_ids=ends)
    if head_of(model) is not None:
        raise UsageError("sampling.engine=vllm samples text alone; expanded actions are played with hf")
    if accelerator.num_processes > 1:
        raise UsageError("sampling.engine=vllm works in one process here; with several use hf")
    from trainers.engines import VLLMEngine

    folder = out / "engine"
    if lora:
        chat.tokenizer.save_pretrained(folder)
    else:
        save_model(model, chat.tokenizer, folder, template=chat.template)
    dtype = str(compute_dtype(settings.model)).removeprefix("torch.")
    return VLLMEngine(
        settings.model.name if lora else folder,
        tokenizer=folder,
        batch=sampling.batch,
        eos_ids=ends,
        max_length=sampling.max_context,
        lora_rank=lora,
        dtype=dtype,
        tolerance=sampling.sync_tolerance or TOLERANCES[dtype],
        memory_share=sampling.memory_share,
    )


def made_policies(
    settings: Settings, model: Any, engine: Engine, chat: ChatTokenizer, env: gym.Env[Any, Any], within: Any
) -> tuple[Player, Player]:
    """Return the policy that plays training episodes of environments such as `env`, and the one that is measured."""
    wanted = settings.sampling
    training = Sampling(wanted.temperature)
    judged = replace(training, temperature=wanted.eval_temperature, top_k=wanted.eval_top_k, top_p=wanted.eval_top_p)
    longest = getattr(model.config, "max_position_embeddings", wanted.max_context)
    limits: dict[str, Any] = {
        "max_new_tokens": wanted.max_new_tokens,
        "max_context": min(wanted.max_context, longest),
        "batch": wanted.batch,
        "within": within,
    }
    named = (("training", training), ("evaluation", judged))
    if (further := further_actions(env)) is not None:
        players = [further.player(model, chat, drawn, name=name, **limits) for name, drawn in named]
        return players[0], players[1]
    from trainers.engine_policy import EnginePolicy

    limits["max_episode_tokens"] = wanted.max_episode_tokens
    policies = [EnginePolicy(engine, chat, drawn, name=name, **limits) for name, drawn in named]
    return policies[0], policies[1]
