"""A training run is everything that is set up before an algorithm's loop and done after each of its steps.

The loops stay in the algorithms' files. A run's folder holds settings.json, metrics.jsonl, checkpoints/, curves.png, the
trained model under model/, and result.json.
"""

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object

from agent_envs.base.errors import BudgetSpent, UsageError
from agent_envs.base.serialization import digest
from agent_envs.rollout.episode_runner import Planned
from trainers.command_line import RESULT_FILE, one_line_errors, parse, write_json
from trainers.costs import Costs, Paid, curve_points, in_words
from trainers.environments import ceilings, members_of
from trainers.evaluation import Evaluator, change_in_words, few_valid
from trainers.run_parts import build_parts
from trainers.sampling import EpisodeGroup, distinct_calls, log_episodes, play_groups
from trainers.settings import RunSettings
from trainers.training.checkpoints import Checkpoints, Part
from trainers.training.metrics import METRICS_FILE, Metrics, read_metrics
from trainers.training.models import compute_dtype, leave_out, save_model
from trainers.training.optimise import Optimiser, means_of_processes, one_budget, sums_of_processes


class TrainingRun:
    """One run of a trainer: its parts and its progress.

    Attributes:
        parts: what it is made of.
        step: steps that are behind it.
        fresh: whether it starts at its beginning; `begin` must be called then, after any warm start.
        memory: what an algorithm keeps over a kill, as plain JSON; it is part of every checkpoint.
    """

    def __init__(self, settings: RunSettings, out: Path, spending: Costs | None = None) -> None:
        """Set up model, players, checkpoints and logs, and resume the last checkpoint where there is one.

        Args:
            settings: of the run.
            out: its folder.
            spending: counts what is paid for feedback, and keeps its answers; None where nothing is.

        Raises:
            UsageError: a setting does not fit; the message names it.
        """
        self.parts, self._settings, self._gap = build_parts(settings, out), settings, 0.0
        parts, accelerator = self.parts, self.parts.accelerator
        self._evaluator = Evaluator(settings, parts.eval_policy, accelerator)
        for note in ceilings(settings) if accelerator.is_main_process else ():
            print(f"note: {note}", file=sys.stderr)
        log, dtype = settings.log, compute_dtype(settings.model)
        within = settings.evaluation.best_within_steps
        self._checkpoints = Checkpoints(out / "checkpoints", log.keep_checkpoints, within, dtype, log.optimiser)
        self._start = Checkpoints(out / "checkpoints" / "start", dtype=dtype)
        self.step, self.memory = 0, dict[str, Any]()
        self._modules: dict[str, Part] = {}
        self._state = {"cpu_seconds": 0.0, "sampled_tokens": 0, "num_tokens": 0, "env_steps": 0, "before": None,
                       "unmeasured": False, "tool_calls": {}}  # fmt: skip
        self.fresh = not self._resume()
        self._saved_step, self._sampled = self.step, 0
        self._spending = spending or Costs()
        self._spending.begin(out, accelerator.process_index, accelerator.num_processes)
        self._actors = contextlib.ExitStack()
        self._elsewhere = self._begin_actors()
        self._set_services()
        self.weights_changed()
        self._metrics = Metrics(out, settings.log, total_steps=settings.steps, enabled=accelerator.is_main_process)

    def _set_services(self) -> None:
        """Give both policies the services of this step, which pay from the run's budget."""
        services = replace(self._spending.services(self.step), elsewhere=self._elsewhere)
        self.parts.policy.services = self.parts.eval_policy.services = services

    def _begin_actors(self) -> Callable[[Any, str], Any] | None:
        """Return the call that places environments in actors, None for steps here; UsageError for what is only played here."""
        sampling = self._settings.sampling
        if sampling.backend == "threads":
            return None
        from agent_envs.rollout.ray_backend import Actors
        from trainers.engine_policy import EnginePolicy

        if not isinstance(self.parts.policy, EnginePolicy) or self._spending.prices:
            raise UsageError("sampling.backend=ray plays turns of text, without models that cost: leave it out")
        return self._actors.enter_context(Actors(sampling.actors)).environment

    @property
    def over(self) -> bool:
        """Whether a limit is reached: steps of training, of environments (`most_env_steps`), or calls (`most_tool_calls`)."""
        limits = {"most_env_steps": self.env_steps, "most_tool_calls": sum(self.tool_calls.values())}
        limit_reached = any(0 < getattr(self._settings, name, 0) <= count for name, count in limits.items())
        return self.step >= self._settings.steps or limit_reached

    def begin(self) -> None:
        """Keep the weights that training starts from, measure them on the test split, and write the first checkpoint."""
        if self.parts.accelerator.is_main_process:
            self._start.keep_best(0, 0.0, self.parts.bare)
        self._state["before"] = self._evaluator.before()
        self._save()

    def held_out_success(self, tasks: int) -> float:
        """Sync the weights; return success on so many evaluation tasks, always the same ones with the same draws."""
        self.weights_changed()
        return self.parts.processes.sums([self._evaluator.held_out(tasks)])[0]

    def play(self, plan: Sequence[Planned], together: int) -> list[EpisodeGroup]:
        """Play this process's share of a step's groups, each of so many episodes.

        Raises:
            BudgetSpent: an episode is missing because nothing may be paid any more, here or in another process.
            AgentEnvsError: every episode ended in a fault.
        """
        with one_budget():
            return play_groups(self.parts.processes.share(plan, together=together), self.parts.policy)

    def weights_changed(self) -> None:
        """Sync the engine's copy of the weights, if it has one, and drop its caches."""
        engine = self.parts.engine
        if hasattr(engine, "sync"):
            with self.parts.accelerator.autocast():
                self._gap = engine.sync(self.parts.bare)
        engine.forget()

    def start_of_training(self) -> Path | None:
        """Return the folder of the weights that training started from."""
        best = self._start.best()
        return best and best.path

    def key(self, purpose: str) -> str:
        """Return a name for the draws of a step and purpose: equal names, equal draws."""
        return f"{self._settings.seed}/{purpose}/{self.step}"

    def keep(self, name: str, module: torch.nn.Module, optimiser: Optimiser) -> None:
        """Make a module (a critic) part of every checkpoint, and restore it where the run goes on; UsageError for a taken name.

        Call it before the first step.

        Raises:
            UsageError: the checkpoint has no such module, or it is another one.
        """
        if name in self._modules:
            raise UsageError(f"a module named {name!r} is kept already")
        self._modules[name] = (module, optimiser)
        if not self.fresh:
            self._checkpoints.load_part(name, module, optimiser)

    def end_step(
        self,
        stats: Mapping[str, float],
        groups: Sequence[EpisodeGroup] = (),
        *,
        turns: int | None = None,
        calls: Mapping[str, int] | None = None,
    ) -> None:
        """Count the step, log its metrics, evaluate and save where due; BudgetSpent, after the log, if that cannot be paid.

        Args:
            stats: metrics of the step.
            groups: whole episodes that were played; they are kept where `log.episodes` says so.
            turns: that were played in this process; those of the groups by default.
            calls: by tool, that were made in this process; those of the groups by default.

        Raises:
            BudgetSpent: the evaluation could not be paid for; it is made where the run goes on.
        """
        self.step += 1
        self._set_services()
        every = self._settings.evaluation.every
        turn_count = sum(group.turns for group in groups) if turns is None else turns
        tokens, env_steps = self.parts.processes.sums([stats.get("tokens", 0.0), turn_count])
        self._state["num_tokens"] += tokens
        self._state["env_steps"] += int(env_steps)
        self._count_calls(distinct_calls(groups) if calls is None else calls)
        self._sampled, last = self.parts.policy.sampled_tokens, self.over
        metrics = means_of_processes({**stats, "edited": self.parts.policy.edited})
        if self.step == 1 and (note := few_valid(metrics.get("valid_actions", 1.0))):
            print(note, file=sys.stderr)
        self.parts.policy.edited = 0  # a step tells its own, so that a run that went on tells the same
        metrics |= {"num_tokens": self._state["num_tokens"], "env_steps": self.env_steps}
        metrics |= {"sampled_tokens": self.sampled_tokens, "tool_calls": sum(self.tool_calls.values())}
        if hasattr(self.parts.engine, "sync"):
            metrics["engine/probe_gap"] = self._gap
        self._state["unmeasured"] = bool(every) and (self.step % every == 0 or last)
        unpaid = None
        try:
            metrics |= self._evaluate()
        except BudgetSpent as end:
            unpaid = end
        self._metrics.log(self.step, metrics | curve_points(self.paid))
        if groups and self._settings.log.episodes:
            log_episodes(groups, self.step, self.parts.out / f"episodes-{self.parts.accelerator.process_index}.jsonl")
        if unpaid is not None:
            raise unpaid
        due = self._settings.log.checkpoint_every
        if last or (due and self.step % due == 0):
            self._save()

    def _count_calls(self, own: Mapping[str, int]) -> None:
        """Add this step's calls of tools, of all processes, to the run's counts."""
        sums = sums_of_processes({f"tools/{name}": count for name, count in own.items()})
        whole = {name.removeprefix("tools/"): int(count) for name, count in sums.items()}
        self._state["tool_calls"] = dict(sorted((Counter(self.tool_calls) + Counter(whole)).items()))

    def finish(self, more: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {}) -> dict[str, Any]:
        """Measure on the test split; write the model, the curves and result.json, print it and return it.

        `more` is called with what was measured when the weights are those that stay, and adds to the result.
        """
        if self._saved_step < self.step:
            self._save()
        choice = self.load_best()
        measured = self._evaluator.results(self._state["before"])
        result = {
            "env": ", ".join(member.name for member in members_of(self._settings.env)),
            **choice,
            "seed": self._settings.seed,
            **measured,
            "steps": self.step,
            "planned_steps": self._settings.steps,
            "sampled_tokens": self.sampled_tokens,
            "env_steps": self.env_steps,
            "tool_calls": self.tool_calls,
            "cpu_seconds": round(self._cpu_seconds(), 1),
            **({"paid": paid} if (paid := self.paid) else {}),
            **{name: self.memory[name] for name in ("warm_start",) if name in self.memory},
            **more(measured),
        }
        if self.parts.accelerator.is_main_process:
            from trainers.trained_agent import how_to_evaluate  # of a finished run alone

            save_model(
                self.parts.bare, self.parts.chat.tokenizer, self.parts.out / "model", template=self.parts.chat.template
            )
            outputs = [self.parts.out / "model"]
            if self._settings.log.curves:
                from trainers.figures.learning_curves import plot_curves  # of a finished run alone

                outputs.insert(0, self.parts.out / "curves.png")
                plot_curves([read_metrics(self.parts.out / METRICS_FILE)], outputs[0])
            self._evaluator.write_episodes(self.parts.out)
            write_json(result, self.parts.out / RESULT_FILE)  # the last thing of all: where it is, a run is finished
            print(json.dumps(result))
            if change := change_in_words(measured, self._settings.env.test_split):
                print(f"{change}; {', '.join(map(str, outputs))}", file=sys.stderr)
            if command := how_to_evaluate(self._settings, self.parts.out):
                print(command, file=sys.stderr)
        self.parts.accelerator.wait_for_everyone()
        return result

    def load_best(self) -> dict[str, Any]:
        """Take the weights of the best evaluation, if they are kept, and return what a result says of the choice; {} if not."""
        if not self._settings.evaluation.keep_best or (best := self._checkpoints.load_best(self.parts.bare)) is None:
            return {}
        self.weights_changed()
        return {"chosen": {"split": self._settings.env.eval_split, "step": best.step}}

    def close(self) -> None:
        """Write what is buffered, stop the engine, and leave the other processes."""
        self._metrics.close()
        self._spending.close()
        self._actors.close()
        if hasattr(self.parts.engine, "close"):
            self.parts.engine.close()
        self.parts.accelerator.end_training()

    def catch_up(self) -> None:
        """Make the evaluation that the last step could not pay for, and save; nothing where it is made already."""
        if self._state["unmeasured"]:
            self._metrics.log(self.step, self._evaluate() | curve_points(self.paid))
            self._save()

    def stop(self, end: BudgetSpent) -> BudgetSpent:
        """Save the finished steps, and return the error to raise: the cost so far and how to resume."""
        self.parts.policy.sampled_tokens = self._sampled  # the step that is not finished is played again
        if self._saved_step < self.step:
            self._save()
        where = f"stopped after step {self.step} of {self._settings.steps}: {end}{in_words(self.paid)}"
        more = f"go on with --resume {self.parts.out} and a higher --max-calls or --max-cost, 0 for none"
        return BudgetSpent(f"{where}; {more}")

    @property
    def paid(self) -> Paid:
        """The costs of feedback so far, over all processes and resumes, by model; {} where nothing is counted."""
        return self._spending.paid(gather_object([self._spending.counts]))

    def _evaluate(self) -> dict[str, float]:
        """Return curve points of evaluation tasks, if due and not yet measured, and keep the best weights; {} if not due."""
        points = self._evaluator.validation() if self._state["unmeasured"] else {}
        self._state["unmeasured"] = False
        if "eval/success" in points and self._settings.evaluation.keep_best:
            self._checkpoints.keep_best(self.step, points["eval/success"], self.parts.bare)
        return points

    @property
    def env_steps(self) -> int:
        """Steps that environments took so far for training, over all processes and all resumes."""
        return int(self._state["env_steps"])

    @property
    def tool_calls(self) -> dict[str, int]:
        """Calls that tools carried out so far for training, by tool, over all processes and all resumes."""
        return dict(self._state["tool_calls"])

    @property
    def sampled_tokens(self) -> int:
        """Tokens sampled so far for training, over all processes and all resumes."""
        return int(self._state["sampled_tokens"] + self.parts.processes.sums([self.parts.policy.sampled_tokens])[0])

    def _cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes, those before a resume included."""
        return float(self._state["cpu_seconds"]) + self.parts.processes.sums([time.process_time()])[0]

    def _save(self) -> None:
        """Save a checkpoint in the main process, while the others wait, and delete recorded answers of earlier steps."""
        state = {
            **self._state,
            "memory": self.memory,
            "tokenizer": self._tokenizer_digest(),
            "sampled_tokens": self.sampled_tokens,
            "cpu_seconds": self._cpu_seconds(),
        }
        if self.parts.accelerator.is_main_process:
            self._checkpoints.save(self.step, self.parts.bare, self.parts.optimiser, state, self._modules)
        self._saved_step = self.step
        self.parts.accelerator.wait_for_everyone()
        self._spending.forget(self.step)

    def _tokenizer_digest(self) -> str:
        """Return the digest of vocabulary and chat template."""
        return digest([sorted(self.parts.chat.tokenizer.get_vocab().items()), self.parts.chat.template])

    def _resume(self) -> bool:
        """Restore the last checkpoint and return whether there was one; UsageError if its tokenizer differs."""
        saved = self._checkpoints.load(self.parts.bare, self.parts.optimiser)
        if saved is None:
            return False
        if saved.state["tokenizer"] != self._tokenizer_digest():
            raise UsageError(f"{saved.path} was trained with another tokenizer or template: its weights do not fit")
        self.step, self._state = saved.step, {**self._state, **saved.state}
        self.memory = dict(saved.state.get("memory", {}))
        leave_out(self.parts.bare, self.memory.get("unsaid", ()))
        return True


@contextlib.contextmanager
def open_run(settings: RunSettings, out: Path, spending: Costs | None = None) -> Iterator[TrainingRun]:
    """Set a run up, make an evaluation left undone, and close it; BudgetSpent, after a checkpoint, if no more may be paid.

    Raises:
        BudgetSpent: nothing may be paid any more; what is finished is saved, and the message tells how to go on.
    """
    run = TrainingRun(settings, out, spending)
    try:
        run.catch_up()
        yield run
    except BudgetSpent as end:
        raise run.stop(end) from end
    finally:
        run.close()


def run_program(program: str, kind: type[Any], train: Callable[[Any, TrainingRun], object]) -> None:
    """Run a trainer's command line: read its settings, set the run up, and train; exit with 2 for an error, 130 for Ctrl-C."""
    with one_line_errors(program):
        settings, out = parse(kind, program=program)
        with open_run(settings, out) as run:
            train(settings, run)
