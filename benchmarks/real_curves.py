"""The papers' claims are put to a small pretrained model in runs of minutes, each begun and ended within one call.

    python -m benchmarks.real_curves --minutes 9 --out DIR
    python -m benchmarks.real_curves --minutes 60 --out DIR --only grpo --cpu

The plan is real_curves.toml, and does not change between calls: starts, which imitate an erring solver, then the arms of each
claim, seed by seed, all from the start of their seed. A call plays the next runs that fit into its minutes; the same command
goes on. A run that was cut off is played anew. Figures lie in figures-CARD.json, apart for every card: seconds and rounding
differ. Of a run its settings, metrics and test episodes stay; of a start its adapter, until all of its arms have ended.
`--cpu` plays a rehearsal, one seed with four steps of 16 episodes, which claims nothing.

Seeds of a claim follow from the name of its start's preset (`benchmarks.training_runs.report_seeds`); leads are of the
claim's first arm over each other, in pairs of seeds.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError
from benchmarks.training_runs import (
    about,
    end_trainers_with_us,
    lead_over_seeds,
    mean_line,
    points,
    report_seeds,
    run_trainer,
    summarise_shares,
    with_points_on_a_line,
)
from trainers.arpo import ARPOSettings
from trainers.command_line import load_preset, one_line_errors
from trainers.earl import EARLSettings
from trainers.grpo import GRPOSettings
from trainers.training.packaged import model_place
from trainers.verlog import VerlogSettings

PLAN = Path(__file__).with_suffix(".toml")
MODEL = "smollm2-135m"
FILES = ("result.json", "settings.json", "metrics.jsonl", "test_episodes.jsonl", "log.txt")  # of a run that ended
ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "expanded_head.json", "expanded_head.safetensors")
MOST_BYTES, MOST_BYTES_A_FILE = 60 * 10**6, 16 * 10**6  # of what is kept, by the device's way back
SLACK = 0.1  # of an estimate
SETTINGS = {"grpo": GRPOSettings, "arpo": ARPOSettings, "earl": EARLSettings, "verlog": VerlogSettings}  # of starts
Options = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedRun:
    """One run of the plan: a start, or an arm of a claim, with a seed.

    Attributes:
        claim: its name in the plan; "start" for what arms begin from.
        arm: its name in the claim, or in the plan's starts.
        seed: of everything.
        program: the trainer.
        preset: of the environment and the other settings, TRAINER/NAME.
        start: the name of the start; "" where the model begins as it is.
        options: of the command line, without their dashes.
        minutes: it may take, on one GPU, estimated.
    """

    claim: str
    arm: str
    seed: int
    program: str
    preset: str
    start: str
    options: Options
    minutes: float

    @property
    def folder(self) -> Path:
        """The folder of the run, below that of the card."""
        return Path(self.claim, f"{self.arm}-{self.seed}")

    @property
    def start_folder(self) -> Path | None:
        """The folder of the start that it begins from; None for starts, and for models that begin as they are."""
        return Path("start", f"{self.start}-{self.seed}") if self.start else None


class Plan:
    """The fixed plan: starts, and claims with their arms.

    Attributes:
        table: as the file has it.
        rehearsal: whether runs are cut down, with one seed.
    """

    def __init__(self, rehearsal: bool) -> None:
        """Read the plan's file."""
        self.table = tomllib.loads(PLAN.read_text(encoding="utf-8"))
        self.rehearsal = rehearsal

    def runs(self, only: str = "") -> list[PlannedRun]:
        """Return the runs in order, or those of one claim or arm with the starts they need; UsageError for an unknown name.

        Raises:
            UsageError: no claim and no arm has that name.
        """
        arms = [run for name in self.table["claim"] for run in self._of_claim(name)]
        if only in self.table["claim"]:
            selection = [run for run in arms if run.claim == only]
        else:
            selection = [run for run in arms if only in ("", run.arm, f"{run.claim}/{run.arm}")]
        if not selection:
            names = dict.fromkeys(f"{run.claim}/{run.arm}" for run in arms)
            raise UsageError(f"--only {only}: no such claim or arm; there are {', '.join(names)}")
        runs = dict[Path, PlannedRun]()
        for run in selection:
            if run.start_folder is not None:
                runs.setdefault(run.start_folder, self._start(run.start, run.seed, "start"))
            runs[run.folder] = run
        return list(runs.values())

    def seeds(self, claim: str) -> tuple[int, ...]:
        """Return a claim's seeds: its own, or so many by the rule of its start's preset; 0 alone in a rehearsal."""
        row = self.table["claim"][claim]
        if self.rehearsal or not isinstance(row["seeds"], int):
            return (0,) if self.rehearsal else tuple(row["seeds"])
        return report_seeds(self.table["start"][row["start"]]["preset"].partition("/")[2], row["seeds"])

    def _of_claim(self, claim: str) -> Iterator[PlannedRun]:
        """Yield a claim's runs, seed by seed; those of starts are tested on dev tasks."""
        row = self.table["claim"][claim]
        for seed in self.seeds(claim):
            for name in row.get("starts", ()):
                yield self._start(name, seed, claim, {"env.test-split": "dev"})
            for name, arm in row.get("arm", {}).items():
                start = arm.get("start", row["start"])
                preset = arm.get("preset", self.table["start"][start or row["start"]]["preset"])
                kind = self.table["imitation" if arm["program"] == "sft" else "reinforcement"]
                options = {**row.get("budget", {}), **arm.get("options", {}), **kind}
                yield PlannedRun(claim, name, seed, arm["program"], preset, start, options, arm["minutes"])

    def _start(self, name: str, seed: int, claim: str, options: Options = {}) -> PlannedRun:  # noqa: B006
        """Return the run that makes a start."""
        row = self.table["start"][name]
        options = {**row.get("options", {}), **self.table["imitation"], **options}
        return PlannedRun(claim, name, seed, "sft", row["preset"], "", options, row["minutes"])

    def words(self, run: PlannedRun, card: Path) -> list[str]:
        """Return a run's words of a command line, but for its folder."""
        trainer, _, name = run.preset.partition("/")
        start = card / run.start_folder / "model" if run.start_folder else MODEL
        options = {"preset": name} if run.program == trainer else imitation_options(run.preset)
        options |= {"model.name": start, **self.table["common"], **run.options, "seed": run.seed}
        if self.rehearsal:
            cut = self.table["rehearsal"]
            options |= {key: value for key, value in cut.items() if not isinstance(value, dict)} | cut[run.program]
            if run.options.get("data") == "rejection":
                options["episodes"] = 16 // options["samples-per-task"]
        return [word for name, value in options.items() for word in (f"--{name}", str(value)) if word]


def imitation_options(preset: str) -> dict[str, Any]:
    """Return SFT's options that imitate what the warm start of another trainer's preset shows, in the preset's environment."""
    trainer, _, name = preset.partition("/")
    settings = load_preset(SETTINGS[trainer], trainer, name)
    start, env, sampling = settings.warm_start, settings.env, settings.sampling
    return {
        "env.id": env.id,
        "env.arguments": env.arguments,
        "env.wrappers": env.wrappers,
        "flaws": start.flaws,
        "episodes": start.demonstrations,
        "steps": start.steps,
        "rows-per-step": start.rows_per_step,
        "token-budget": start.token_budget,
        "sampling.max-new-tokens": sampling.max_new_tokens,
        "sampling.max-context": sampling.max_context,
        "sampling.batch": sampling.batch,
        "sampling.eval-temperature": sampling.eval_temperature,
    }


def card_name(on_cpu: bool) -> str:
    """Return the name of the GPU as that of a folder, "rehearsal" for a CPU; UsageError where there is no GPU.

    Raises:
        UsageError: there is none, and no rehearsal was asked for.
    """
    if on_cpu:
        return "rehearsal"
    import torch

    if not torch.cuda.is_available():
        raise UsageError("there is no GPU here: --cpu plays a rehearsal, which claims nothing")
    return "-".join(re.findall(r"[a-z0-9]+", torch.cuda.get_device_name().lower()))


class Calls:
    """Plays the next runs of a plan within one call's minutes, in the folder of a card.

    Attributes:
        card: the folder.
    """

    def __init__(self, plan: Plan, card: Path, minutes: float) -> None:
        """Take the plan, the folder of the card, and the minutes of this call."""
        self.card, self._plan, self._end = card, plan, time.monotonic() + 60 * minutes

    def play(self, runs: Sequence[PlannedRun]) -> str:
        """Play the runs that have not ended yet, as far as the minutes reach; return a line on what comes next, or ""."""
        for run in runs:
            if self._has_ended(run) or (run.claim == "start" and self._is_spent(run.folder)):
                continue
            left, seconds = self._end - time.monotonic(), self._expected_seconds(run)
            if left < seconds or not self._play(run, left):
                return f"next: {run.folder}, about {seconds / 60:.1f} minutes; the same command goes on"
            if run.start_folder is not None and self._is_spent(run.start_folder):
                shutil.rmtree(self.card / run.start_folder / "model")
        return ""

    def _is_spent(self, start: Path) -> bool:
        """Return whether all arms of the whole plan that begin from a start have ended."""
        return all(self._has_ended(run) for run in self._plan.runs() if run.start_folder == start)

    def _has_ended(self, run: PlannedRun) -> bool:
        """Return whether a run has ended; a start, whether arms can still begin from it."""
        folder = self.card / run.folder
        return (folder / "result.json").exists() and (run.claim != "start" or (folder / "model").is_dir())

    def _expected_seconds(self, run: PlannedRun) -> float:
        """Return the longest that a run of this arm took on this card, else the plan's estimate; of a rehearsal nothing."""
        paths = (self.card / run.claim).glob(f"{run.arm}-[0-9]*/seconds.json")
        seconds = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        estimate = 0.0 if self._plan.rehearsal else 60 * run.minutes
        return (1 + SLACK) * max(seconds) if seconds else estimate

    def _play(self, run: PlannedRun, left: float) -> bool:
        """Play one run, and keep what is kept of it; return whether it ended in time. What an earlier call began is deleted."""
        part, start = self.card / f"{run.folder}.part", time.monotonic()
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        if run.start_folder is not None:
            complete(self.card / run.start_folder / "model")
        command = [sys.executable, "-m", f"trainers.{run.program}", *self._plan.words(run, self.card)]
        variables = {"OMP_NUM_THREADS": "1"} | ({"CUDA_VISIBLE_DEVICES": ""} if self._plan.rehearsal else {})
        print(f"{run.folder}: {left / 60:.1f} minutes are left", flush=True)
        with (part / "log.txt").open("w", encoding="utf-8") as log:
            try:
                run_trainer([*command, "--out", str(part)], os.environ | variables, log, timeout=left)
            except subprocess.TimeoutExpired:
                shutil.rmtree(part)
                return False
            except subprocess.CalledProcessError as error:
                raise UsageError(
                    f"{run.folder} ended with code {error.returncode}: {part / 'log.txt'} says why"
                ) from None
        keep(part, (*FILES, "model") if run.claim == "start" else FILES)
        if run.claim == "start":
            keep(part / "model", ADAPTER)
        (part / "seconds.json").write_text(json.dumps(round(time.monotonic() - start, 1)), encoding="utf-8")
        shutil.rmtree(self.card / run.folder, ignore_errors=True)
        part.rename(self.card / run.folder)
        return True


def keep(folder: Path, names: Sequence[str]) -> None:
    """Delete everything in a folder but what has these names."""
    for path in (path for path in folder.iterdir() if path.name not in names):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def complete(model: Path) -> None:
    """Let an adapter name its model as it lies on this machine, whose cache may be another, and copy its tokenizer there."""
    path, base = model / ADAPTER[0], Path(model_place(MODEL))
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"base_model_name_or_path": str(base)}), encoding="utf-8")
    for file in (file for file in base.iterdir() if file.name.startswith(("tokenizer", "chat_template"))):
        shutil.copy(file, model)


def check_size(folder: Path) -> None:
    """Raise UsageError where what is kept would not come back from a device: a file, or all of them, is too large.

    Raises:
        UsageError: the message names the largest file.
    """
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    largest = max(sizes, key=lambda path: sizes[path])
    if sizes[largest] > MOST_BYTES_A_FILE or sum(sizes.values()) > MOST_BYTES:
        size = f"{folder} has {sum(sizes.values()):,} bytes, {largest.name} {sizes[largest]:,}"
        raise UsageError(f"{size}: too many to keep; starts go when all their arms have ended, so play a claim whole")


def figures(plan: Plan, card: Path) -> dict[str, Any]:
    """Return the results of a card's runs: of each claim its arms' successes by seed, and the first arm's leads."""
    claims = {}
    for name, row in plan.table["claim"].items():
        arms: dict[str, dict[int, dict[str, Any]]] = {}
        for run in plan.runs(name):
            if run.claim == name and (path := card / run.folder / "result.json").exists():
                arms.setdefault(run.arm, {})[run.seed] = json.loads(path.read_text(encoding="utf-8"))
        success = {
            arm: {seed: result["after"]["success"] for seed, result in runs.items()} for arm, runs in arms.items()
        }
        if not arms:
            continue
        first, *others = row.get("arm", arms)
        claims[name] = {
            "says": row["says"],
            "axis": row.get("axis", ""),
            "arms": {arm: {"success": summarise_shares(success[arm]), "seeds": runs} for arm, runs in arms.items()},
            "leads": {
                f"{first} over {arm}": lead_over_seeds(success[arm], success[first])
                for arm in others
                if "arm" in row and first in success and arm in success
            },
        }
    return claims


def report(claims: Mapping[str, Any]) -> str:
    """Format figures as lines of text."""
    lines = []
    for name, claim in claims.items():
        lines.append(f"{name}: {claim['says']}" + (f" (at {claim['axis']})" if claim["axis"] else ""))
        for arm, row in claim["arms"].items():
            valid = [result["after"].get("valid_actions") for result in row["seeds"].values()]
            turns = ", ".join(f"{100 * share:.0f}" for share in valid if share is not None)
            lines.append(f"  {arm:16} {mean_line(row['success'])}; valid turns {turns or '-'} %")
        lines += [f"  {which}: {points(lead)}" for which, lead in claim["leads"].items() if lead]
    return "\n".join(lines)


def main() -> None:
    """Play the next runs, write the figures of this card, print them and what comes next."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--minutes", type=float, required=True, help="of this call; runs that do not fit wait for the next"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of all calls")
    parser.add_argument(
        "--only", default="", metavar="ARM", help="a claim, an arm, or CLAIM/ARM, with the starts it needs"
    )
    parser.add_argument("--cpu", action="store_true", help="a rehearsal, which claims nothing")
    args = parser.parse_args()
    with one_line_errors("real_curves"):
        plan, name = Plan(args.cpu), card_name(args.cpu)
        runs = plan.runs(args.only)
        upcoming = Calls(plan, args.out / name, args.minutes).play(runs)
        claims = figures(plan, args.out / name)
        command = f"python -m benchmarks.real_curves --minutes {args.minutes:g} --out DIR{' --cpu' * args.cpu}"
        heading = {"about": about(command) | {"card": name}, "rehearsal": args.cpu, "claims": claims}
        text = with_points_on_a_line(json.dumps(heading, indent=1))
        (args.out / f"figures-{name}.json").write_text(text + "\n", encoding="utf-8")
        print(report(claims))
        if args.cpu:
            print("a rehearsal: it claims nothing")
        print(upcoming or "these runs have all ended", flush=True)
        check_size(args.out)


if __name__ == "__main__":
    end_trainers_with_us()
    main()
