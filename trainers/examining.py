"""An examiner measures a run: validation on the way, the test before and after, and further tests at its end."""

import json
from pathlib import Path
from typing import Any

from trainers.environments import Settings, environment_specs, further_tests
from trainers.measuring import Measurement, gain, measure_all
from trainers.mixture import Specs
from trainers.sampling import Player
from trainers.stacks import wrapper_rows
from trainers.training.processes import one_budget

WITHIN, BARE = "within", "bare"
EPISODES_FILE = "test_episodes.jsonl"


class Examiner:
    """Measures a player on what a run's settings name; the first process alone does, and the others wait.

    Where wrappers stand around the environment (`env.wrappers`), all is measured within them, as it is trained, and in the bare
    environment as well, unless `evaluation.bare` is off or `Memory` is one of them.

    Attributes:
        player: that is measured.
        episodes: of the last test, as `Measurement.episodes`.
    """

    def __init__(self, settings: Settings, player: Player, accelerator: Any) -> None:
        """Take the settings, who is measured, and accelerate's processes.

        Raises:
            UsageError: arguments are no JSON object, a split does not exist, or the best would be chosen on the test split.
        """
        self.player = player
        self._specs = {WITHIN: environment_specs(settings), BARE: environment_specs(settings, bare=True)}
        remembers = any(name == "Memory" for name, _ in wrapper_rows(settings.env.wrappers, "env.wrappers"))
        if remembers or not settings.evaluation.bare or self._specs[BARE] == self._specs[WITHIN]:
            del self._specs[BARE]
        self._tests = further_tests(settings)
        self._settings, self._accelerator = settings, accelerator
        self.episodes: dict[str, dict[str, float]] = {}

    def before(self) -> dict[str, Any] | None:
        """Measure on the test split and return what `results` compares with, as JSON; None where nothing is measured here."""
        found = self._test()
        return {name: measured.as_json() for name, measured in found.items()} or None

    def results(self, before: dict[str, Any] | None) -> dict[str, Any]:
        """Measure on the test split and return what a result file tells: before, after, the paired gain, and `env.tests`.

        What was measured in the bare environment stands under "bare" in the same form, where it is another one.
        """
        after = self._test()
        sides = {name: Measurement.from_json(row) for name, row in (before or {}).items()}
        told = _compared(sides.get(WITHIN), after.get(WITHIN)) | {"tests": self._further(after)}
        return told | ({BARE: _compared(sides.get(BARE), after.get(BARE))} if BARE in self._specs else {})

    def write_episodes(self, folder: Path) -> None:
        """Write what was counted of the last test's episodes, a line a task; nothing where there was no test."""
        if self.episodes:
            lines = (json.dumps({"task": task, **counts}) for task, counts in self.episodes.items())
            (folder / EPISODES_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def validation(self) -> dict[str, float]:
        """Measure on the split that chooses and return points of curves; of the bare environment under eval_bare/."""
        settings, points = self._settings, dict[str, float]()
        for name, (spec, _) in self._specs.items():
            found = self._measure(spec, settings.env.eval_split, settings.evaluation.tasks, "eval")
            if found is not None:
                points |= curve_points(found, "eval" if name == WITHIN else f"eval_{name}")
        return points

    def held_out(self, tasks: int) -> float:
        """Return success on tasks of the split that chooses; 0 on the other processes, and where faults left no rate."""
        spec, _ = self._specs[WITHIN]
        found = self._measure(spec, self._settings.env.eval_split, tasks, "warm start")
        return found.rate.value if found is not None and found.rate else 0.0

    def _test(self) -> dict[str, Measurement]:
        """Measure on the test split; nothing on other processes, and where no test is wanted."""
        settings = self._settings
        asked = {
            name: self._measure(spec, settings.env.test_split, settings.evaluation.test_tasks, "test")
            for name, (_, spec) in self._specs.items()
        }
        found = {name: measured for name, measured in asked.items() if measured is not None}
        self.episodes = found[WITHIN].episodes if WITHIN in found else {}
        return found

    def _further(self, after: dict[str, Measurement]) -> dict[str, dict[str, object] | None]:
        """Return what `env.tests` give, by name; one that was measured already is not played again."""
        settings, told = self._settings, dict[str, dict[str, object] | None]()
        # In every process the same are played, though only the first knows what was found.
        known = {(specs[1], settings.env.test_split): after.get(name) for name, specs in self._specs.items()}
        for name, (spec, split) in self._tests.items():
            if (spec, split) in known:
                found = known[spec, split]
            else:
                found = self._measure(spec, split, settings.evaluation.test_tasks, f"test/{name}")
            told[name] = None if found is None else {"split": split, **found.summary()}
        return told

    def _measure(self, specs: Specs, split: str, tasks: int, name: str) -> Measurement | None:
        found = None
        with one_budget():
            if tasks and self._accelerator.is_main_process:
                found = measure_all(self.player, specs, split, tasks, f"{self._settings.seed}/{name}")
        self._accelerator.wait_for_everyone()
        return found


def _compared(before: Measurement | None, after: Measurement | None) -> dict[str, Any]:
    """Return both summaries and the gain; None for it where one side has no rate of all its environments."""
    both = before and after and before.rate and after.rate
    return {
        "before": before and before.summary(),
        "after": after and after.summary(),
        "gain": gain(before, after) if before and after and both else None,
    }


def change_in_words(measured: dict[str, Any], split: str) -> str:
    """Return success before and after on a split as a line for the screen; "" where one of them was not measured."""
    if not measured["gain"]:
        return ""
    return f"success on {split}: " + " -> ".join(success_of(measured[side]) for side in ("before", "after"))


def success_of(summary: dict[str, Any]) -> str:
    """Return the success of a summary in words, with its interval."""
    low, high = summary["interval"]
    return f"{100 * summary['success']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def curve_points(measured: Measurement, prefix: str = "eval") -> dict[str, float]:
    """Return what curves show of a validation; its faults alone where an environment has no result: it is never the best."""
    rate = measured.rate
    if rate is None:
        return {f"{prefix}/faults": measured.faults}
    numbers = {"success": rate.value, "success_low": rate.low, "success_high": rate.high, **measured.means}
    return {f"{prefix}/{name}": value for name, value in numbers.items()}
