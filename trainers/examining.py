"""What a run is measured on: validation on the way, the test before and after, and further tests at its end."""

from typing import Any

from trainers.assembling import Settings, environment_specs, further_tests
from trainers.measuring import Measurement, measure
from trainers.sampling import Player


class Examiner:
    """Measures a player on what a run's settings name; the first process alone does, and the others wait.

    Attributes:
        player: that is measured.
        spec: of the environment that is trained on, as JSON.
    """

    def __init__(self, settings: Settings, player: Player, accelerator: Any) -> None:
        """Take the settings, who is measured, and accelerate's processes.

        Raises:
            UsageError: arguments are no JSON object, a split does not exist, or the best would be chosen on the test split.
        """
        self.player = player
        self.spec, self._test_spec = environment_specs(settings)
        self._tests = further_tests(settings)
        self._settings, self._accelerator = settings, accelerator

    def test(self) -> Measurement | None:
        """Measure on the test split; None on other processes, and where no test is wanted."""
        settings = self._settings
        return self._measure(self._test_spec, settings.env.test_split, settings.evaluation.test_tasks, "test")

    def validation(self) -> Measurement | None:
        """Measure on the split that chooses."""
        settings = self._settings
        return self._measure(self.spec, settings.env.eval_split, settings.evaluation.tasks, "eval")

    def further(self, after: Measurement | None) -> dict[str, dict[str, object] | None]:
        """Return what `env.tests` give, by name; one that is the test itself, whose result is `after`, is not played again."""
        settings, told = self._settings, dict[str, dict[str, object] | None]()
        for name, (spec, split) in self._tests.items():
            found = after
            if (spec, split) != (self._test_spec, settings.env.test_split):
                found = self._measure(spec, split, settings.evaluation.test_tasks, f"test/{name}")
            told[name] = None if found is None else {"split": split, **found.summary()}
        return told

    def _measure(self, spec: str, split: str, tasks: int, name: str) -> Measurement | None:
        found = None
        if tasks and self._accelerator.is_main_process:
            found = measure(self.player, spec, split, tasks, f"{self._settings.seed}/{name}")
        self._accelerator.wait_for_everyone()
        return found


def curve_points(measured: Measurement) -> dict[str, float]:
    """Return what curves show of a validation."""
    rate = measured.rate
    numbers = {"success": rate.value, "success_low": rate.low, "success_high": rate.high, **measured.means}
    return {f"eval/{name}": value for name, value in numbers.items()}
