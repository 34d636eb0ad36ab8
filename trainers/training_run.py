"""A training run: everything that is set up before an algorithm's loop and told after each of its steps.

The loops stay in the algorithms' files. A run's folder holds settings.json, metrics.jsonl, checkpoints/, curves.png, the
trained model under model/, and result.json.
"""

import contextlib
import copy
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.errors import UsageError
from agent_envs.journal import Journal
from agent_envs.policies import core_of
from trainers.batching import Row, micro_batches
from trainers.contracts import Engine, Sampling
from trainers.engines import HFEngine
from trainers.measuring import Measurement, gain, measure
from trainers.sampling import EnginePolicy, Group, environment_spec
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    LogSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
)
from trainers.tiny import environment_tokenizer, tiny_model
from trainers.tokens import ChatTokenizer
from trainers.training.checkpoints import Checkpoints, load_weights
from trainers.training.curves import plot_curves
from trainers.training.metrics import FILE as METRICS_FILE
from trainers.training.metrics import Metrics, read_metrics
from trainers.training.models import ReferenceModel, load_model, make_accelerator, save_model
from trainers.training.optimise import Optimiser, global_sums, same_weights

TINY = "tiny:"
T = TypeVar("T")


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


class TrainingRun:
    """One run of a trainer.

    Attributes:
        out: its folder.
        step: steps that are behind it.
        fresh: whether it starts at its beginning; `begin` must be called then, after any warm start.
        accelerator: accelerate's: device, mixed precision, processes.
        device: of the model.
        model: that is trained.
        chat: tokens of conversations.
        engine: samples; it shares the model, or has a copy that `weights_changed` keeps up.
        policy: plays training episodes.
        optimiser: of the model.
        spec: of the environment, as JSON.
        tools: schemas that the policy is shown.
        train_size: how many tasks the training split has.
        temperature: at which logprobs are computed: that of sampling.
    """

    def __init__(self, settings: Settings, out: Path, updates: int) -> None:
        """Set everything up; `updates` is how many gradient steps the schedule of the learning rate spans.

        Raises:
            UsageError: a setting does not fit; the message names it.
        """
        self.out, self._settings = out, settings
        if settings.sampling.temperature <= 0:
            raise UsageError("sampling.temperature: training samples need one > 0; eval_temperature may be 0")
        self.accelerator = make_accelerator(settings.model)
        self.device = self.accelerator.device
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # two were seven times slower on busy machines
        arguments = json.loads(settings.env.arguments)
        self.spec = environment_spec(settings.env.id, arguments)
        env = self.environment()
        source = core_of(env).source
        self.train_size = source.size(settings.env.train_split)
        _, info = env.reset(seed=0, options={"split": settings.env.train_split, "task": 0})
        self.tools = tuple(info["tools"])
        self.model, tokenizer = _model(settings, arguments, self.device)
        same_weights(self.model, self.accelerator)
        default = "chatml" if settings.model.name.startswith(TINY) else "auto"
        wanted = settings.sampling.template
        self.chat = ChatTokenizer(tokenizer, default if wanted == "auto" else wanted)
        self.temperature = settings.sampling.temperature
        self.engine = self._engine()
        draw = Sampling(self.temperature, settings.sampling.top_k, settings.sampling.top_p)
        self.policy = self._policy(draw, "training")
        self._judged = self._policy(replace(draw, temperature=settings.sampling.eval_temperature), "evaluation")
        self.optimiser = Optimiser(self.model, settings.optim, updates)
        self._checkpoints = Checkpoints(
            out / "checkpoints", settings.log.keep_checkpoints, settings.evaluation.best_within_steps
        )
        self._start = Checkpoints(out / "checkpoints" / "start")
        self._reference: ReferenceModel | None = None
        self.step, self._state = 0, {"cpu_seconds": 0.0, "sampled_tokens": 0, "before": None}
        self.fresh = not self._resume()
        self._metrics = Metrics(out, settings.log, total_steps=settings.steps, enabled=self.accelerator.is_main_process)

    def environment(self) -> gym.Env[Any, Any]:
        """Return a new environment of the run's kind."""
        return gym.make(EnvSpec.from_json(self.spec))

    def begin(self) -> None:
        """Keep the weights that training starts from, measure them on the test split, and write the first checkpoint."""
        if self.accelerator.is_main_process:
            self._start.keep_best(0, 0.0, self.accelerator.unwrap_model(self.model))
        measured = self._measure(self._settings.env.test_split, self._settings.evaluation.test_tasks, "test")
        self._state["before"] = measured and measured.as_json()
        self._save()

    def share(self, items: Sequence[T], together: int = 1) -> list[T]:
        """Return this process's part of a step's rows, or of its episodes, of which so many in a row stay together."""
        mine, all_of_us = self.accelerator.process_index, self.accelerator.num_processes
        return [item for place, item in enumerate(items) if place // together % all_of_us == mine]

    def key(self, purpose: str) -> str:
        """Return a name for the draws of a step and purpose: equal names, equal draws."""
        return f"{self._settings.seed}/{purpose}/{self.step}"

    def sums(self, values: Sequence[float]) -> list[float]:
        """Return numbers summed over processes."""
        return global_sums(self.accelerator, torch.tensor(values, dtype=torch.float64)).tolist()

    def with_reference(self, rows: Sequence[Row], token_budget: int) -> list[Row]:
        """Return rows with their tokens' logprobs under the model that the run began with."""
        if self._reference is None:
            self._reference = self._started_from()
        found = list(rows)
        for micro in micro_batches(rows, token_budget, self.chat.pad_id):
            with self.accelerator.autocast():
                logprobs = self._reference.logprobs(micro.to(self.device), self.temperature)
            for place, row in zip(micro.rows, logprobs.tolist(), strict=True):
                length = len(rows[place].sequence.ids)
                found[place] = replace(rows[place], reference_logprobs=tuple(row[:length]))
        return found

    def weights_changed(self) -> None:
        """Tell the engine: caches are dropped; a copy of the weights is brought up to date, and checked."""
        if hasattr(self.engine, "sync"):
            self._gap = self.engine.sync(self.accelerator.unwrap_model(self.model))
        self.engine.forget()

    def end_step(self, stats: Mapping[str, float], groups: Sequence[Group] = ()) -> None:
        """Count the step, evaluate and save where that is due, and tell what it was like."""
        self.step += 1
        every, last = self._settings.evaluation.every, self.step >= self._settings.steps
        told = self._averaged(stats) | {"num_tokens": self._sampled_tokens()}
        if hasattr(self.engine, "sync"):
            told["engine/probe_gap"] = self._gap
        if every and (self.step % every == 0 or last):
            told |= self._evaluate()
        self._metrics.log(self.step, told)
        if groups and self._settings.log.episodes:
            self._keep_episodes(groups)
        due = self._settings.log.checkpoint_every
        if last or (due and self.step % due == 0):
            self._save()

    def finish(self) -> dict[str, Any]:
        """Measure on the test split; write the model, the curves and result.json, print it and return it."""
        settings, bare = self._settings, self.accelerator.unwrap_model(self.model)
        if settings.evaluation.keep_best and self._checkpoints.load_best(bare):
            self.weights_changed()
        after = self._measure(settings.env.test_split, settings.evaluation.test_tasks, "test")
        before = self._state["before"] and Measurement.from_json(self._state["before"])
        result = {
            "env": settings.env.id,
            "seed": settings.seed,
            "before": before and before.summary(),
            "after": after and after.summary(),
            "gain": gain(before, after) if before and after else None,
            "steps": self.step,
            "sampled_tokens": self._sampled_tokens(),
            "cpu_seconds": round(self._cpu_seconds(), 1),
        }
        if self.accelerator.is_main_process:
            save_model(bare, self.chat.tokenizer, self.out / "model", template=self.chat.template)
            part = self.out / "result.json.part"
            part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            part.replace(self.out / "result.json")
            print(json.dumps(result))
            plot_curves([read_metrics(self.out / METRICS_FILE)], self.out / "curves.png")
        self.accelerator.wait_for_everyone()
        return result

    def close(self) -> None:
        """Write what is buffered, stop the engine, and leave the other processes."""
        self._metrics.close()
        if hasattr(self.engine, "close"):
            self.engine.close()
        self.accelerator.end_training()

    def _engine(self) -> Engine:
        sampling, bare = self._settings.sampling, self.accelerator.unwrap_model(self.model)
        if sampling.engine == "hf":
            return HFEngine(bare, self.chat.tokenizer, batch=sampling.batch, eos_ids=self._ends())
        from trainers.engines import VLLMEngine

        folder = self.out / "engine"
        lora = self._settings.model.lora_rank
        if lora == 0:
            save_model(bare, self.chat.tokenizer, folder, template=self.chat.template)
        else:
            self.chat.tokenizer.save_pretrained(folder)
        engine = VLLMEngine(
            self._settings.model.name if lora else folder,
            tokenizer=folder,
            batch=sampling.batch,
            eos_ids=self._ends(),
            max_length=sampling.max_context,
            lora_rank=lora,
        )
        self._gap = engine.sync(bare)
        return engine

    def _ends(self) -> list[int]:
        """Return the tokens that end a turn: the template's, and the model's own."""
        own = getattr(self.accelerator.unwrap_model(self.model).generation_config, "eos_token_id", None)
        found = own if isinstance(own, list) else [own, self.chat.tokenizer.eos_token_id]
        return sorted({*self.chat.end_ids, *(number for number in found if number is not None)})

    def _policy(self, sampling: Sampling, name: str) -> EnginePolicy:
        wanted = self._settings.sampling
        longest = getattr(
            self.accelerator.unwrap_model(self.model).config, "max_position_embeddings", wanted.max_context
        )
        return EnginePolicy(
            self.engine,
            self.chat,
            sampling,
            name=name,
            max_new_tokens=wanted.max_new_tokens,
            max_context=min(wanted.max_context, longest),
            batch=wanted.batch,
            within=self.accelerator.autocast,
        )

    def _started_from(self) -> ReferenceModel:
        """Return the model that the run began with."""
        bare = self.accelerator.unwrap_model(self.model)
        start = self._start.best()
        if self.step == 0 or self._settings.model.lora_rank or start is None:
            return ReferenceModel(bare)
        first = copy.deepcopy(bare)
        load_weights(first, start.path)
        return ReferenceModel(first)

    def _measure(self, split: str, tasks: int, name: str) -> Measurement | None:
        """Measure on the first process alone; None on the others, and where there is nothing to measure on."""
        found = None
        if tasks and self.accelerator.is_main_process:
            found = measure(self._judged, self.spec, split, tasks, f"{self._settings.seed}/{name}")
        self.accelerator.wait_for_everyone()
        return found

    def _evaluate(self) -> dict[str, float]:
        settings = self._settings
        measured = self._measure(settings.env.eval_split, settings.evaluation.tasks, "eval")
        if measured is None:
            return {}
        if settings.evaluation.keep_best:
            self._checkpoints.keep_best(self.step, measured.rate.value, self.accelerator.unwrap_model(self.model))
        numbers = {
            "success": measured.rate.value,
            "success_low": measured.rate.low,
            "success_high": measured.rate.high,
            **measured.means,
        }
        return {f"eval/{name}": value for name, value in numbers.items()}

    def _averaged(self, stats: Mapping[str, float]) -> dict[str, float]:
        """Return means over processes, which have equal shares."""
        found = self.sums([float(value) for value in stats.values()])
        return {name: value / self.accelerator.num_processes for name, value in zip(stats, found, strict=True)}

    def _sampled_tokens(self) -> int:
        return int(self._state["sampled_tokens"] + self.sums([self.policy.sampled_tokens])[0])

    def _cpu_seconds(self) -> float:
        return float(self._state["cpu_seconds"]) + self.sums([time.process_time()])[0]

    def _save(self) -> None:
        state = {**self._state, "sampled_tokens": self._sampled_tokens(), "cpu_seconds": self._cpu_seconds()}
        if self.accelerator.is_main_process:
            self._checkpoints.save(self.step, self.accelerator.unwrap_model(self.model), self.optimiser, state)
        self.accelerator.wait_for_everyone()

    def _resume(self) -> bool:
        saved = self._checkpoints.load(self.accelerator.unwrap_model(self.model), self.optimiser)
        if saved is None:
            return False
        self.step, self._state = saved.step, dict(saved.state)
        self.weights_changed()
        return True

    def _keep_episodes(self, groups: Sequence[Group]) -> None:
        name = f"episodes-{self.accelerator.process_index}.jsonl"
        with contextlib.closing(Journal(self.out / name)) as journal:
            for group in groups:
                for result in group.results:
                    journal.append({"step": self.step, "trajectory": result.trajectory.to_json()})


def _model(settings: Settings, arguments: dict[str, Any], device: torch.device) -> tuple[Any, Any]:
    """Return the model and its tokenizer; a tiny one is made here, for the environment."""
    name = settings.model.name
    if not name.startswith(TINY):
        return load_model(settings.model, device, settings.seed)
    tokenizer = environment_tokenizer(settings.env.id, **arguments).tokenizer
    tied = settings.sampling.engine != "vllm"  # its build for CPUs cannot reload a head that is the embedding
    return tiny_model(tokenizer, name.removeprefix(TINY), seed=settings.seed, tied=tied).to(device), tokenizer


@contextlib.contextmanager
def open_run(settings: Settings, out: Path, updates: int) -> Iterator[TrainingRun]:
    """Set a run up, and close it whatever happens."""
    run = TrainingRun(settings, out, updates)
    try:
        yield run
    finally:
        run.close()
