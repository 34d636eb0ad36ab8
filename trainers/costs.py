"""A run may pay for outside services, and asks one object what that came to; the one here pays for nothing."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent_envs.services.run_services import Services

Paid = dict[str, dict[str, float | None]]  # calls, tokens and `usd` by the name of a model


class Costs:
    """The costs of a run that pays for nothing; one that does overrides all of it."""

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """All that this process spent so far."""
        return {}

    def begin(self, folder: Path, step: int, before: Sequence[Mapping[str, Mapping[str, int]]]) -> None:
        """Go on from what a checkpoint says was spent before its step, and from the answers in a folder since."""

    def services(self, step: int) -> Services:
        """Return what stands before outside services from a step on."""
        return Services()

    def before(self, step: int) -> dict[str, dict[str, int]]:
        """Return what was spent before a step: what its checkpoint says."""
        return {}

    def forget(self, step: int) -> None:
        """Let go of what is kept of the steps before a checkpoint's."""

    def close(self) -> None:
        """Put on disk what is kept."""

    def paid(self, parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Paid:
        """Return what several processes counted together, with US dollars."""
        return {}

    def in_words(self, paid: Paid) -> str:
        """Return what `paid` gave as the end of a sentence; "" for nothing."""
        return ""

    def points(self, paid: Paid) -> dict[str, float]:
        """Return what the curves of training show of it."""
        return {}
