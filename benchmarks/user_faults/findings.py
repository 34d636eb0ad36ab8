"""`Findings` counts what was found of one file or run, and how often a failure may be the user's."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.user_faults.rules import KINDS, UserFault

EXAMPLES = 3  # of each kind
_LEVEL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Judged:
    """One simulation: whether it passed (None: it was never scored), and its user's faults."""

    task: str
    trial: int
    passed: bool | None
    faults: tuple[UserFault, ...]
    said: tuple[str, ...] = ()


@dataclass
class Findings:
    """What a result file holds, and what could not be read in it."""

    name: str
    domain: str = ""
    agent: str = ""
    user: str = ""
    judged: list[Judged] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def failed(self) -> list[Judged]:
        """The simulations that were scored and did not pass."""
        return [one for one in self.judged if one.passed is False]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        failed, faulty = self.failed, [one for one in self.failed if one.faults]
        low, high = interval(failed)
        return {
            "file": self.name,
            "domain": self.domain,
            "agent": self.agent,
            "user": self.user,
            "simulations": len(self.judged),
            "unread": len(self.unread),
            "first_unread": self.unread[0] if self.unread else "",
            "unscored": sum(one.passed is None for one in self.judged),
            "failures": len(failed),
            "failures_with_user_fault": len(faulty),
            "share": len(faulty) / len(failed) if failed else None,
            "interval": [low, high],
            "simulations_with_user_fault": sum(bool(one.faults) for one in self.judged),
            "kinds": {kind: [_with(self.judged, kind), _with(failed, kind)] for kind in KINDS},
            "examples": list(_examples(self.judged)),
        }


def interval(failed: Sequence[Judged]) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share of failures with a user's fault.

    Trials of a task are not independent: each task counts once, with the share of its failures, so that the interval is as
    wide as so many tasks allow.
    """
    by_task: dict[str, list[bool]] = {}
    for one in failed:
        by_task.setdefault(one.task, []).append(bool(one.faults))
    count = len(by_task)
    if not count:
        return 0.0, 1.0
    share = sum(bool(one.faults) for one in failed) / len(failed)
    spread = _LEVEL_95**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # At an end of the scale the bound is the share itself, but for rounding.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def _with(judged: Sequence[Judged], kind: str) -> int:
    return sum(any(fault.kind == kind for fault in one.faults) for one in judged)


def _examples(judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
    """Yield some faults of each kind, those of failures first."""
    shown = Counter[str]()
    for one in sorted(judged, key=lambda one: one.passed is not False):
        for fault, said in zip(one.faults, one.said, strict=True):
            if shown[fault.kind] < EXAMPLES:
                shown[fault.kind] += 1
                place = {"task": one.task, "trial": one.trial, "message": fault.line, "passed": one.passed}
                yield {"kind": fault.kind, **place, "what": fault.what, "said": said}
