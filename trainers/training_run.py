"""A training run: everything that is set up before an algorithm's loop and told after each of its steps.

The loops stay in the algorithms' files. A run's folder holds settings.json, metrics.jsonl, checkpoints/, curves.png, the
trained model under model/, and result.json.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from agent_envs.canonical import digest
from agent_envs.errors import UsageError
from agent_envs.journal import Journal
from agent_envs.policies import core_of
from agent_envs.trajectory import Trajectory
from trainers.assembling import (
    Settings,
    environment_specs,
    made_engine,
    made_model,
    made_policies,
    with_expanded_head,
)
from trainers.command_line import write_result
from trainers.contracts import TokenSequence
from trainers.examining import Examiner, success_of
from trainers.sampling import Group
from trainers.training.arenas import use_few_arenas
from trainers.training.checkpoints import Checkpoints
from trainers.training.curves import plot_curves
from trainers.training.metrics import FILE as METRICS_FILE
from trainers.training.metrics import Metrics, read_metrics
from trainers.training.models import make_accelerator, save_model
from trainers.training.optimise import Optimiser, global_sums, same_weights
from trainers.training.pooling import means_of_processes, sums_of_processes

T = TypeVar("T")


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
        judged: plays as it is measured: greedily, say.
        memory: what an algorithm keeps over a kill, as plain JSON; it is part of every checkpoint.
        optimiser: of the model.
        spec: of the environment, as JSON.
        tools: schemas that the policy is shown.
        train_split: of the environment.
        train_size: how many tasks that split has.
        max_context: tokens of a conversation.
        temperature: at which logprobs are computed: that of sampling.
    """

    def __init__(self, settings: Settings, out: Path, updates: int) -> None:
        """Set everything up; `updates` is how many gradient steps the schedule of the learning rate spans.

        Raises:
            UsageError: a setting does not fit; the message names it.
        """
        self.out, self._settings = out, settings
        self.spec, self._bare_spec = environment_specs(settings)[0], environment_specs(settings, bare=True)[0]
        self.train_split = settings.env.train_split
        self.accelerator = make_accelerator(settings.model)
        self.device = self.accelerator.device
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # two were seven times slower on busy machines
        use_few_arenas()
        env = self.environment(bare=True)
        self.train_size = core_of(env).source.size(self.train_split)
        _, info = env.reset(seed=0, options={"split": self.train_split, "task": 0})
        self.tools = tuple(info["tools"])
        self.model, self.chat = made_model(settings, self.accelerator)
        with_expanded_head(settings, self.model, self.chat, env)
        same_weights(self.model, self.accelerator)
        self.temperature = settings.sampling.temperature
        self.max_context = settings.sampling.max_context
        self.engine = made_engine(settings, self.bare, self.chat, self.accelerator, out)
        self.policy, self.judged = made_policies(settings, self.bare, self.engine, self.chat, self.accelerator.autocast)
        self._examiner = Examiner(settings, self.judged, self.accelerator)
        self.optimiser = Optimiser(self.model, settings.optim, updates)
        self._checkpoints = Checkpoints(
            out / "checkpoints", settings.log.keep_checkpoints, settings.evaluation.best_within_steps
        )
        self._start = Checkpoints(out / "checkpoints" / "start")
        self.step, self.memory = 0, dict[str, Any]()
        self._state = {"cpu_seconds": 0.0, "sampled_tokens": 0, "num_tokens": 0, "env_steps": 0, "before": None}
        self.fresh = not self._resume()
        self._saved_step = self.step
        self.weights_changed()
        self._metrics = Metrics(out, settings.log, total_steps=settings.steps, enabled=self.accelerator.is_main_process)

    @property
    def bare(self) -> Any:
        """The model without what accelerate may have put around it."""
        return self.accelerator.unwrap_model(self.model)

    def encoded(self, episode: Trajectory) -> list[TokenSequence]:
        """Return an episode that somebody played as tokens, as the policy would have had them."""
        return self.policy.demonstrated(episode, self.spec, self.tools)

    def environment(self, *, bare: bool = False) -> gym.Env[Any, Any]:
        """Return a new environment of the run's kind; `bare`: without the wrappers of `env.wrappers`."""
        return gym.make(EnvSpec.from_json(self._bare_spec if bare else self.spec))

    def begin(self) -> None:
        """Keep the weights that training starts from, measure them on the test split, and write the first checkpoint."""
        if self.accelerator.is_main_process:
            self._start.keep_best(0, 0.0, self.bare)
        self._state["before"] = self._examiner.before()
        self._save()

    def start_of_training(self) -> Path | None:
        """Return the folder of the weights that training started from."""
        found = self._start.best()
        return found and found.path

    def check_shares(self, tasks: int, scale: str = "none") -> None:
        """Refuse, with a UsageError, what several processes would not compute as one does."""
        count = self.accelerator.num_processes
        if tasks % count:
            raise UsageError(f"{tasks} tasks or rows a step do not share evenly among {count} processes")
        if count > 1 and scale == "batch_std":
            raise UsageError("scale=batch_std is the std of all rewards of a step: it works in one process")

    def share(self, items: Sequence[T], together: int = 1) -> list[T]:
        """Return this process's part of a step's rows, or of its episodes, of which so many in a row stay together."""
        mine, all_of_us = self.accelerator.process_index, self.accelerator.num_processes
        return [item for place, item in enumerate(items) if place // together % all_of_us == mine]

    def key(self, purpose: str) -> str:
        """Return a name for the draws of a step and purpose: equal names, equal draws."""
        return f"{self._settings.seed}/{purpose}/{self.step}"

    def sums(self, values: Sequence[float]) -> list[float]:
        """Return numbers summed over processes."""
        return global_sums(self.accelerator, torch.tensor(values, dtype=torch.float64, device=self.device)).tolist()

    def sums_by_name(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return numbers summed over processes by name, of smallest and largest ones the extreme; some may be lacking."""
        return sums_of_processes(values)

    def weights_changed(self) -> None:
        """Tell the engine: caches are dropped; a copy of the weights is brought up to date, and checked."""
        if hasattr(self.engine, "sync"):
            with self.accelerator.autocast():
                self._gap = self.engine.sync(self.bare)
        self.engine.forget()

    def end_step(self, stats: Mapping[str, float], groups: Sequence[Group] = ()) -> None:
        """Count the step, evaluate and save where that is due, and tell what it was like."""
        self.step += 1
        every, last = self._settings.evaluation.every, self.step >= self._settings.steps
        tokens, turns = self.sums([stats.get("tokens", 0.0), sum(group.turns for group in groups)])
        self._state["num_tokens"] += tokens
        self._state["env_steps"] += int(turns)
        told = means_of_processes({**stats, "edited": self.policy.edited})
        self.policy.edited = 0  # a step tells its own, so that a run that went on tells the same
        told |= {"num_tokens": self._state["num_tokens"], "env_steps": self.env_steps}
        told["sampled_tokens"] = self.sampled_tokens
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

    def finish(self, more: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {}) -> dict[str, Any]:
        """Measure on the test split; write the model, the curves and result.json, print it and return it.

        `more` is called with what was measured when the weights are those that stay, and adds to the result.
        """
        if self._saved_step < self.step:
            self._save()
        self.load_best()
        measured = self._examiner.results(self._state["before"])
        result = {
            "env": self._settings.env.id,
            "seed": self._settings.seed,
            **measured,
            "steps": self.step,
            "planned_steps": self._settings.steps,
            "sampled_tokens": self.sampled_tokens,
            "env_steps": self.env_steps,
            "cpu_seconds": round(self._cpu_seconds(), 1),
            **more(measured),
        }
        if self.accelerator.is_main_process:
            save_model(self.bare, self.chat.tokenizer, self.out / "model", template=self.chat.template)
            plot_curves([read_metrics(self.out / METRICS_FILE)], self.out / "curves.png")
            write_result(result, self.out)  # the last thing of all: where it is, a run is finished
            print(json.dumps(result))
            if measured["gain"]:
                told = " -> ".join(success_of(measured[side]) for side in ("before", "after"))
                told = f"success on {self._settings.env.test_split}: {told}"
                print(f"{told}; {self.out / 'curves.png'}, {self.out / 'model'}", file=sys.stderr)
        self.accelerator.wait_for_everyone()
        return result

    def load_best(self) -> None:
        """Take the weights of the best evaluation, if they are to be kept."""
        if self._settings.evaluation.keep_best and self._checkpoints.load_best(self.bare):
            self.weights_changed()

    def close(self) -> None:
        """Write what is buffered, stop the engine, and leave the other processes."""
        self._metrics.close()
        if hasattr(self.engine, "close"):
            self.engine.close()
        self.accelerator.end_training()

    def _evaluate(self) -> dict[str, float]:
        points = self._examiner.validation()
        if points and self._settings.evaluation.keep_best:
            self._checkpoints.keep_best(self.step, points["eval/success"], self.bare)
        return points

    @property
    def env_steps(self) -> int:
        """Steps that environments took so far for training, over all processes and all resumes."""
        return int(self._state["env_steps"])

    @property
    def sampled_tokens(self) -> int:
        """Tokens sampled so far for training, over all processes and all resumes."""
        return int(self._state["sampled_tokens"] + self.sums([self.policy.sampled_tokens])[0])

    def _cpu_seconds(self) -> float:
        return float(self._state["cpu_seconds"]) + self.sums([time.process_time()])[0]

    def _save(self) -> None:
        state = {
            **self._state,
            "memory": self.memory,
            "tokenizer": self._tokenizer_digest(),
            "sampled_tokens": self.sampled_tokens,
            "cpu_seconds": self._cpu_seconds(),
        }
        if self.accelerator.is_main_process:
            self._checkpoints.save(self.step, self.bare, self.optimiser, state)
        self._saved_step = self.step
        self.accelerator.wait_for_everyone()

    def _tokenizer_digest(self) -> str:
        return digest([sorted(self.chat.tokenizer.get_vocab().items()), self.chat.template])

    def _resume(self) -> bool:
        saved = self._checkpoints.load(self.bare, self.optimiser)
        if saved is None:
            return False
        if saved.state["tokenizer"] != self._tokenizer_digest():
            raise UsageError(
                f"{saved.path} was trained with another tokenizer or chat template: its weights do not fit"
            )
        self.step, self._state = saved.step, dict(saved.state)
        self.memory = dict(saved.state.get("memory", {}))
        return True

    def _keep_episodes(self, groups: Sequence[Group]) -> None:
        with contextlib.closing(Journal(self.out / f"episodes-{self.accelerator.process_index}.jsonl")) as journal:
            for group in groups:
                for result in group.results:
                    journal.append({"step": self.step, "trajectory": result.trajectory.to_json()})


@contextlib.contextmanager
def open_run(settings: Settings, out: Path, updates: int) -> Iterator[TrainingRun]:
    """Set a run up, and close it whatever happens."""
    run = TrainingRun(settings, out, updates)
    try:
        yield run
    finally:
        run.close()
