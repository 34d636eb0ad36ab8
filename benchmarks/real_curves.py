"""The papers' claims are put to a small pretrained model in runs of minutes, each begun and ended within one call.

    python -m benchmarks.real_curves --minutes 9 --out DIR
    python -m benchmarks.real_curves --minutes 60 --out DIR --only grpo --cpu

The plan is real_curves.toml, and does not change between calls: starts, which imitate an erring solver, then the arms of each
claim, seed by seed, all from the start of their seed. Arms are refused until their start, on dev tasks of two other seeds, has
20 to 60 % success and 90 % valid turns. A call plays the next runs that fit into its minutes; the same command goes on. A run
that was cut off is played anew, in a call that has more minutes than it had; one that failed waits until its folder is deleted.
Figures lie in figures-CARD.json, apart for every card: seconds and rounding differ. They keep a digest of the plan, and a call
with another plan is refused. Of a run its settings, metrics and test
episodes stay; of a start its adapter, until all of its arms have ended. `--cpu` plays a rehearsal, one seed with four steps of
16 episodes, which claims nothing and whose starts nothing is asked of.

Seeds of a claim follow from the name of its start's preset (`benchmarks.training_runs.report_seeds`); leads are of the
claim's first arm over each other, in pairs of seeds and tasks (`benchmarks.real_leads`).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError
from benchmarks.real_leads import OUTCOMES_FILE, ClaimTable, figures, power_line, report
from benchmarks.training_runs import about, end_trainers_with_us, run_trainer, with_points_on_a_line
from trainers.arpo import ARPOSettings
from trainers.command_line import load_preset, one_line_errors
from trainers.earl import EARLSettings
from trainers.grpo import GRPOSettings
from trainers.training.packaged import model_place
from trainers.veg import VEGSettings
from trainers.verlog import VerlogSettings

MODEL = "smollm2-135m"
FILES = (
    "result.json",
    "settings.json",
    "metrics.jsonl",
    "log.txt",
    "test_episodes.jsonl",
    OUTCOMES_FILE,
)  # of a run that ended
ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "expanded_head.json", "expanded_head.safetensors")
MOST_BYTES, MOST_BYTES_A_FILE = 60 * 10**6, 16 * 10**6  # of what is kept, by the device's way back
SLACK = 0.1  # of an estimate
SUCCESS, VALID = (0.2, 0.6), 0.9  # of a start, on dev tasks
KINDS = (GRPOSettings, ARPOSettings, EARLSettings, VEGSettings, VerlogSettings)
SETTINGS = dict(zip(("grpo", "arpo", "earl", "veg", "verlog"), KINDS, strict=True))  # of starts
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

    @property
    def gate(self) -> str:
        """The name of the start that has to be in its range before this run; "" where none has to."""
        return self.arm if self.claim == "start" else self.start


class Plan(ClaimTable):
    """The fixed plan: starts, and claims with their arms, as runs with their command lines."""

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
                runs.update({gate.folder: gate for gate in self.gates(run.start)})
                runs.setdefault(run.start_folder, self._start(run.start, run.seed, "start"))
            runs[run.folder] = run
        return list(runs.values())

    def gates(self, start: str) -> list[PlannedRun]:
        """Return the runs that show whether a start is in its range; none in a rehearsal, or for the start ""."""
        return [run for run in self._of_claim("starts") if run.arm == start and not self.rehearsal]

    def price(self, minutes: float) -> tuple[float, int]:
        """Return the minutes of all runs, as they were estimated, and in how many calls of so many minutes they end."""
        left, calls = 0.0, 0
        for run in (runs := self.runs()):
            if run.minutes > left:
                left, calls = minutes, calls + 1
            left -= run.minutes
        return sum(run.minutes for run in runs), calls

    def _of_claim(self, claim: str) -> Iterator[PlannedRun]:
        """Yield a claim's runs, seed by seed; those of starts are tested on dev tasks."""
        row = self.table["claim"][claim]
        for seed in self.seeds(claim):
            for name in row.get("starts", ()):
                yield self._start(name, seed, claim, {"env.test-split": "dev"})
            for name, arm in row.get("arm", {}).items():
                start = arm.get("start", row["start"])
                origin = self.table["start"][start or row["start"]]
                preset = arm.get("preset", origin["preset"])
                kind = self.table["imitation" if arm["program"] == "sft" else "reinforcement"]
                options = {**origin.get("shared", {}), **row.get("budget", {}), **arm.get("options", {}), **kind}
                yield PlannedRun(claim, name, seed, arm["program"], preset, start, options, arm["minutes"])

    def _start(self, name: str, seed: int, claim: str, options: Options = {}) -> PlannedRun:  # noqa: B006
        """Return the run that makes a start."""
        row = self.table["start"][name]
        options = {**row.get("shared", {}), **row.get("options", {}), **self.table["imitation"], **options}
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
        words = ((f"--{name}", *(value if isinstance(value, list) else [value])) for name, value in options.items())
        return [str(word) for row in words for word in row if word != ""]


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
        "stacks": start.stacks,
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
        self.card, self._plan, self._minutes = card, plan, minutes
        self._end = time.monotonic() + 60 * minutes

    def play(self, runs: Sequence[PlannedRun]) -> list[str]:
        """Play the runs that have not ended yet, as far as the minutes reach; return lines on those refused and the next."""
        notes = dict[str, None]()  # each once, in order
        for run in runs:
            if self._has_ended(run) or (run.claim == "start" and self._is_spent(run.folder)):
                continue
            if note := self._refusal(run):
                notes[note] = None
                continue
            left, seconds = self._end - time.monotonic(), self._expected_seconds(run)
            if left < seconds:
                return [*notes, f"next: {run.folder}, about {seconds / 60:.1f} minutes; the same command goes on"]
            if not self._play(run, left):
                notes[self._refusal(run) or f"{run.folder} was cut off; the same command plays it anew"] = None
            elif run.start_folder is not None and self._is_spent(run.start_folder):
                shutil.rmtree(self.card / run.start_folder / "model")
        return list(notes) or ["these runs have all ended"]

    def _refusal(self, run: PlannedRun) -> str:
        """Return a line that says why a run is not played; "" where it may be."""
        failure = self.card / f"{run.folder}.failed"
        if failure.exists():
            return f"{run.folder} failed: {failure / 'log.txt'} says why; delete that folder to play it anew"
        if self._expected_seconds(run) > 60 * self._minutes:
            least = self._expected_seconds(run) / 60
            return (
                f"{run.claim}/{run.arm} takes {least:.1f} minutes or more: give more than --minutes {self._minutes:g}"
            )
        if run.claim != "starts" and (fault := self._start_fault(run.gate)):
            return f"arms that begin from {run.gate} are refused: {fault}"
        if run.start_folder is not None and not (self.card / run.start_folder / "model").is_dir():
            return f"{run.folder.parent} waits for {run.start_folder}"
        return ""

    def _start_fault(self, name: str) -> str:
        """Describe the fault of a start by its runs on dev tasks; "" where it is in its range, or nothing is asked of it."""
        for gate in self._plan.gates(name):
            path = self.card / gate.folder / "result.json"
            if not path.exists():
                return f"{gate.folder} has not ended"
            after = json.loads(path.read_text(encoding="utf-8"))["after"]
            success, valid = after["success"], after["valid_actions"]
            if not (SUCCESS[0] <= success <= SUCCESS[1] and valid >= VALID):
                needs = f"{SUCCESS[0]:.0%} to {SUCCESS[1]:.0%} and {VALID:.0%} are needed"
                return f"{gate.folder} has {success:.0%} success and {valid:.0%} valid turns; {needs}"
        return ""

    def _is_spent(self, start: Path) -> bool:
        """Return whether all arms of the whole plan that begin from a start have ended."""
        return all(self._has_ended(run) for run in self._plan.runs() if run.start_folder == start)

    def _has_ended(self, run: PlannedRun) -> bool:
        """Return whether a run has ended; a start, whether arms can still begin from it."""
        folder = self.card / run.folder
        return (folder / "result.json").exists() and (run.claim != "start" or (folder / "model").is_dir())

    def _expected_seconds(self, run: PlannedRun) -> float:
        """Return the longest that a run of this arm took here, ended or cut off, else the plan's estimate; 0 in a rehearsal."""
        paths = (self.card / run.claim).glob(f"{run.arm}-[0-9]*/seconds.json")
        seconds = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        estimate = 0.0 if self._plan.rehearsal else 60 * run.minutes
        return (1 + SLACK) * max(seconds) if seconds else estimate

    def _play(self, run: PlannedRun, left: float) -> bool:
        """Play one run, and keep what is kept of it; return whether it ended. Of one that was cut off its seconds stay."""
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
                keep(part, ())
                write_seconds(part, start)
                return False
            except subprocess.CalledProcessError:
                part.rename(self.card / f"{run.folder}.failed")
                return False
        keep(part, (*FILES, "model") if run.claim == "start" else FILES)
        if run.claim == "start":
            keep(part / "model", ADAPTER)
        write_seconds(part, start)
        shutil.rmtree(self.card / run.folder, ignore_errors=True)
        part.rename(self.card / run.folder)
        return True


def write_seconds(folder: Path, start: float) -> None:
    """Write into a folder how many seconds have passed since a moment of the monotonic clock."""
    (folder / "seconds.json").write_text(json.dumps(round(time.monotonic() - start, 1)), encoding="utf-8")


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
        runs, card = plan.runs(args.only), args.out / name
        minutes, calls = plan.price(args.minutes)
        print(
            f"the whole plan: {minutes:g} minutes of a GPU, estimated, {calls} calls of {args.minutes:g}; {power_line(plan)}"
        )
        if (path := args.out / f"figures-{name}.json").exists():
            plan.check(json.loads(path.read_text(encoding="utf-8")), path.name)
        command = f"python -m benchmarks.real_curves --minutes {args.minutes:g} --out DIR"
        command += f" --only {args.only}" * bool(args.only) + " --cpu" * args.cpu
        notes = list[str]()
        try:
            notes = Calls(plan, card, args.minutes).play(runs)
        finally:
            claims = figures(plan, card)
            heading = {"about": about(command) | {"card": name}, "rehearsal": args.cpu, "claims": claims}
            text = with_points_on_a_line(json.dumps(heading, indent=1))
            args.out.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            print(report(claims))
        if args.cpu:
            print("a rehearsal: it claims nothing")
        print("\n".join(notes), flush=True)
        check_size(args.out)


if __name__ == "__main__":
    end_trainers_with_us()
    main()
