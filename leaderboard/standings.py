"""Standings are what verified submissions of one suite came to beside each other: ties are told as ties.

Every pair of a class is compared on the same tasks. The difference of two scores is the entries' paired differences at the
suite's weights. Its p value is that of a paired t test over clusters of tasks or, where fewer than 30 clusters differ, flips
their signs (Fisher's randomisation test); its interval joins the entries' clustered intervals (MOVER, entries taken as
independent); p values are corrected for all pairs of the class (Holm).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from agent_envs.evaluation.runs.summary import POWERS
from agent_envs.evaluation.statistics.paired import FEW_CLUSTERS, Paired, compare_paired, holm, sign_flips
from agent_envs.evaluation.statistics.rates import Rate, pass_hat_rate
from agent_envs.evaluation.statistics.student import t_tail
from agent_envs.evaluation.submission.models import Submission
from agent_envs.evaluation.submission.replaying import places_of
from agent_envs.evaluation.suites.suite import Suite
from leaderboard.badges import ranked
from leaderboard.decisions import Decision
from leaderboard.verify import Verdict

LEVEL = 0.05
# Classes in the order of a page: name -> what its rows have in common.
CLASSES = {
    "ranked": "Tasks that nobody had seen, or a run that the board repeated itself.",
    "replayed": "Replayed, on tasks that anybody may have seen: compared with each other, and not ranked.",
    "multi-attempt": "Agents that may try a task again and keep the best.",
    "trained on the suite": "Their makers say that the suite's test tasks were trained on.",
    "reference": "They read the gold answers: no agents, but marks to measure by.",
    "incomplete": "Not every planned episode was played; what was not counts 0.",
}


@dataclass(frozen=True)
class Entrant:
    """A submission that was verified, what it says of itself, what was decided about it, and the folder that holds it."""

    verdict: Verdict
    submission: Submission
    history: tuple[Decision, ...] = ()
    folder: Path | None = None

    @property
    def badges(self) -> tuple[str, ...]:
        """The badges of the verdict, and `reproduced` where the board gave it after it last took the submission in."""
        verbs = [row.verb for row in self.history]
        since = verbs[len(verbs) - verbs[::-1].index("accepted") :] if "accepted" in verbs else []
        return (*self.verdict.badges, "reproduced") if "reproduced" in since else self.verdict.badges


@dataclass(frozen=True)
class Row:
    """One submission on a board.

    Attributes:
        entrant: the verified submission.
        group: its class, a key of `CLASSES`.
        score: the suite's score, as replayed.
        best: the best place in its class that the comparisons leave open.
        worst: the worst.
        turns: mean of the episodes that were played.
        pass_hat: all of k trials succeed, k -> mean over the entries; without k = 1.
    """

    entrant: Entrant
    group: str
    score: Rate
    best: int
    worst: int
    turns: float
    pass_hat: dict[int, float]

    @property
    def place(self) -> str:
        """The place among its class: `1`, or `2 to 4` where the comparisons do not tell rows apart."""
        return str(self.best) if self.best == self.worst else f"{self.best} to {self.worst}"


@dataclass(frozen=True)
class Pair:
    """Two rows of a class: the second's score minus the first's, and the same entry by entry."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float
    entries: dict[str, Paired]

    @property
    def told_apart(self) -> bool:
        """Whether the corrected p value is below 5 %, and the interval, which is the more cautious of the two, leaves out 0."""
        return self.adjusted < LEVEL and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Standings:
    """A board's rows, by class and score, and its pairs."""

    suite: Suite
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]


def group_of(entrant: Entrant) -> str:
    """Return the class of a submission; the first reason to stand apart counts."""
    verdict, told = entrant.verdict, entrant.submission
    if told.agent.kind == "reference" or told.agent.name == "solver":
        return "reference"
    if "complete" not in verdict.badges:
        return "incomplete"
    if told.training.on_suite_test:
        return "trained on the suite"
    if told.agent.multi_attempt:
        return "multi-attempt"
    return "ranked" if ranked(entrant.badges, verdict.suite) else "replayed"


def standings(suite: Suite, entrants: Sequence[Entrant]) -> Standings:
    """Return the standings of verified submissions of one suite; each carries the replay's episodes.

    Raises:
        ValueError: one of them was not accepted.
    """
    if odd := [item.verdict.submission for item in entrants if item.verdict.score is None or item.verdict.code]:
        raise ValueError(f"standings: {odd[0]} was not accepted, or its suite has no score")
    rows: list[Row] = []
    pairs: list[Pair] = []
    for group in CLASSES:
        mine = [item for item in entrants if group_of(item) == group]
        compared = _all_pairs(suite, mine)
        pairs += compared
        rows += sorted((_row(suite, item, group, compared, len(mine)) for item in mine), key=_order)
    return Standings(suite, tuple(rows), tuple(pairs))


def _order(row: Row) -> tuple[float, str]:
    return -row.score.value, row.entrant.verdict.submission


def _row(suite: Suite, item: Entrant, group: str, pairs: Sequence[Pair], size: int) -> Row:
    verdict = item.verdict
    name = verdict.submission
    apart = [pair for pair in pairs if pair.told_apart and name in (pair.first, pair.second)]
    above = sum((pair.difference > 0) == (pair.first == name) for pair in apart)  # rows that are better than this one
    played = [episode for episode in verdict.episodes if episode.turns]
    turns = sum(episode.turns for episode in played) / max(len(played), 1)
    assert verdict.score is not None
    best, worst = 1 + above, size - (len(apart) - above)
    return Row(item, group, verdict.score, best, worst, turns, _pass_hat(suite, verdict))


def _pass_hat(suite: Suite, verdict: Verdict) -> dict[int, float]:
    outcomes = _outcomes(suite, verdict)
    rates = {}
    for k in (power for power in POWERS if 1 < power <= suite.trials):
        values = []
        for tasks in outcomes.values():
            names = [task for task, wins in tasks.items() for _ in wins]
            values.append(pass_hat_rate([win for wins in tasks.values() for win in wins], names, k).value)
        rates[k] = fmean(values)
    return rates


def _outcomes(suite: Suite, verdict: Verdict) -> dict[str, dict[str, list[float]]]:
    """Return 1 or 0 for each trial, by entry and task; a planned episode that is not there counts 0."""
    won = {episode.key: float(episode.success) for episode in verdict.episodes}
    table: dict[str, dict[str, list[float]]] = {entry.label: {} for entry in suite.entries}
    for key, place in places_of(suite):
        table[place.entry.label].setdefault(place.header.task_id, []).append(won.get(key, 0.0))
    return table


def _all_pairs(suite: Suite, entrants: Sequence[Entrant]) -> list[Pair]:
    drafts = [compare(suite, one.verdict, other.verdict) for one, other in combinations(entrants, 2)]
    adjusted = holm([draft.p_value for draft in drafts])
    return [
        Pair(d.first, d.second, d.difference, d.low, d.high, d.p_value, p, d.entries)
        for d, p in zip(drafts, adjusted, strict=True)
    ]


def compare(suite: Suite, first: Verdict, second: Verdict) -> Pair:
    """Return the paired comparison of two verified submissions of a suite; the p value is not yet corrected."""
    ours, theirs = _outcomes(suite, first), _outcomes(suite, second)
    total = sum(entry.weight for entry in suite.entries)
    sums: dict[str, float] = defaultdict(float)  # a cluster that several entries draw from is one cluster
    found: dict[str, Paired] = {}
    difference = below = above = 0.0
    for entry in suite.entries:
        share = entry.weight / total
        clusters = {task: cluster for task, _, cluster in entry.tasks}
        paired = compare_paired(ours[entry.label], theirs[entry.label], clusters)
        found[entry.label] = paired
        difference += share * paired.difference
        below += (share * (paired.difference - paired.low)) ** 2
        above += (share * (paired.high - paired.difference)) ** 2
        for task, trials in ours[entry.label].items():
            moved = fmean(theirs[entry.label][task]) - fmean(trials)
            sums[clusters[task]] += share * moved / len(ours[entry.label])
    p_value = _p_value(np.array(list(sums.values())))
    low, high = max(-1.0, difference - math.sqrt(below)), min(1.0, difference + math.sqrt(above))
    return Pair(first.submission, second.submission, difference, low, high, p_value, p_value, found)


def _p_value(sums: NDArray[np.float64]) -> float:
    """Return the two-sided p value of the clusters' sum, for "no difference"; `sums` are shares of the difference."""
    largest = float(np.abs(sums).max()) or 1.0
    sums = sums / largest  # the flips take what is below a billionth for nothing
    if np.count_nonzero(sums) < FEW_CLUSTERS:
        return sign_flips(sums, LEVEL)[0]
    error = math.sqrt(len(sums) / (len(sums) - 1) * float(((sums - sums.mean()) ** 2).sum()))
    return min(max(2 * t_tail(abs(float(sums.sum())) / error, len(sums) - 1), math.ulp(0.0)), 1.0) if error else 1.0
