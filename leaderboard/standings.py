"""Standings are what verified submissions of one suite came to beside each other: ties are told as ties.

Every pair of a class is compared on the same tasks. The difference of two scores is the entries' paired differences at the
suite's weights. Its p value is that of a paired t test over clusters of tasks or, where fewer than 30 clusters differ, flips
their signs (Fisher's randomisation test); its interval joins the entries' clustered intervals (MOVER, entries taken as
independent); p values are corrected for all pairs of the class (Holm).

Registered submissions play tasks of their own, and are compared as independent samples: the interval joins those of the two
scores (MOVER), the p value is a normal one with each score's standard error from the wider side of its interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from agent_envs.evaluation.runs.summary import POWERS
from agent_envs.evaluation.statistics.paired import (
    FEW_CLUSTERS,
    Paired,
    compare_paired,
    holm,
    paired_interval,
    sign_flips,
)
from agent_envs.evaluation.statistics.rates import Rate, number_names, pass_hat_k
from agent_envs.evaluation.statistics.student import t_tail
from agent_envs.evaluation.submission.models import Submission
from agent_envs.evaluation.submission.replaying import places_of
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.evaluation.verification.badges import ranked
from agent_envs.evaluation.verification.verify import Verification
from agent_envs.services.chat.model import known_counts
from leaderboard.decisions import Decision

LEVEL = 0.05
WIDTH = 1.959963984540054  # standard errors to each side of a normal interval of 95 %
# Classes in the order of a page: name -> what its rows have in common.
CLASSES = {
    "registered": "Each played tasks of its own, drawn after it was registered, of the entries that can be drawn.",
    "ranked": "Tasks that nobody had seen, or a run that the board repeated itself.",
    "replayed": "Replayed, on tasks that anybody may have seen: compared with each other, and not ranked.",
    "multi-attempt": "Agents that may try a task again and keep the best.",
    "trained on the suite": "Their makers say that the suite's test tasks were trained on.",
    "reference": "They read the gold answers, or are handed the environment that holds them: marks to measure by.",
    "incomplete": "Not every planned episode was played; what was not counts 0.",
}


@dataclass(frozen=True)
class Entrant:
    """A submission that was verified, what it says of itself, what was decided about it, and the folder that holds it.

    `registered_suite` is the suite that a registration or a round drew for it; None where it played the board's. `draw_counts`
    are those of the registry for its agent's name (`registering.draw_counts`), {} where that is not registered.
    """

    verdict: Verification
    submission: Submission
    history: tuple[Decision, ...] = ()
    folder: Path | None = None
    registered_suite: Suite | None = None
    is_round: bool = False
    draw_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def badges(self) -> tuple[str, ...]:
        """The badges of the verdict, and `reproduced` where the board gave it after it last took the submission in."""
        verbs = [row.verb for row in self.history]
        since = verbs[len(verbs) - verbs[::-1].index("accepted") :] if "accepted" in verbs else []
        return (*self.verdict.badges, "reproduced") if "reproduced" in since else self.verdict.badges

    @property
    def draws_text(self) -> str:
        """How often tasks were drawn for the agent, and how many of these came back: "registered 2 times, submitted 1"."""
        counts, parts = self.draw_counts, []
        units = (("registered", "submitted", "registered {} time"), ("rounds", "rounds_submitted", "in {} round"))
        for name, back, unit in units:
            if count := counts.get(name, 0):
                parts.append(f"{unit.format(count)}{'s' if count > 1 else ''}, submitted {counts[back]}")
        return "; ".join(parts)


@dataclass(frozen=True)
class StandingsRow:
    """One submission on a board.

    Attributes:
        entrant: the verified submission.
        group: its class, a key of `CLASSES`.
        score: the suite's score, as replayed.
        best: the best place in its class that the comparisons leave open.
        worst: the worst.
        turns: mean of the episodes that were played.
        tokens: that an episode read and wrote, as the submission says; None where it says nothing.
        pass_hat: all of k trials succeed, k -> mean over the entries; without k = 1.
    """

    entrant: Entrant
    group: str
    score: Rate
    best: int
    worst: int
    turns: float
    tokens: float | None
    pass_hat: dict[int, float]

    @property
    def place(self) -> str:
        """The place among its class: `1`, or `2 to 4` where the comparisons do not tell rows apart."""
        return str(self.best) if self.best == self.worst else f"{self.best} to {self.worst}"


@dataclass(frozen=True)
class Pair:
    """Two rows of a class: the second's score minus the first's; `paired` where both played the same tasks."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float
    paired: bool = True

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p value is below 5 %, and the interval, which is the more cautious of the two, leaves out 0."""
        return self.adjusted < LEVEL and not self.low <= 0 <= self.high


class Outcomes:
    """The successes of each verified submission, by trial; any two submissions are compared task by task."""

    def __init__(self, suite: Suite) -> None:
        """Lay out the suite's episodes once, however many submissions there are."""
        self.suite = suite
        self._keys = [key for key, _ in places_of(suite)]
        total = sum(entry.weight for entry in suite.entries)
        self._shares = [entry.weight / total for entry in suite.entries]
        self._homes = [number_names([cluster for _, _, cluster in entry.tasks]) for entry in suite.entries]
        tasks = [(cluster, share / len(entry.tasks)) for entry, share in zip(suite.entries, self._shares, strict=True)
                 for _, _, cluster in entry.tasks]  # fmt: skip
        order = {cluster: place for place, cluster in enumerate(dict.fromkeys(cluster for cluster, _ in tasks))}
        self._home = np.array(
            [order[cluster] for cluster, _ in tasks]
        )  # a cluster that several entries draw from is one
        self._weights = np.array([weight for _, weight in tasks])
        self._tables: dict[str, list[NDArray[np.float64]]] = {}

    def of(self, verdict: Verification) -> list[NDArray[np.float64]]:
        """Return the successes, tasks x trials by entry, as 1 or 0; a planned episode that is not there counts 0."""
        if verdict.submission not in self._tables:
            won = {episode.key: float(episode.success) for episode in verdict.episodes}
            whole = np.array([won.get(key, 0.0) for key in self._keys]).reshape(-1, self.suite.trials)
            sizes = np.cumsum([len(entry.tasks) for entry in self.suite.entries])
            self._tables[verdict.submission] = np.split(whole, sizes[:-1])
        return self._tables[verdict.submission]

    def pass_hat(self, verdict: Verification) -> dict[int, float]:
        """Return, by k from 2 on, the plain mean over entries of the estimated share of tasks in which k trials all succeed."""
        rates = {}
        for k in (power for power in POWERS if 1 < power <= self.suite.trials):
            wins = [table.sum(1).astype(int).tolist() for table in self.of(verdict)]
            rates[k] = fmean(fmean(pass_hat_k(won, self.suite.trials, k) for won in entry) for entry in wins)
        return rates

    def compare(self, first: Verification, second: Verification) -> Pair:
        """Return second minus first over the same tasks at the suite's weights, with interval and p, which is not corrected."""
        ours, theirs = ([table.mean(1) for table in self.of(verdict)] for verdict in (first, second))
        difference = below = above = 0.0
        for share, homes, before, after in zip(self._shares, self._homes, ours, theirs, strict=True):
            middle, low, high = paired_interval(after - before, homes)
            difference += share * middle
            below += (share * (middle - low)) ** 2
            above += (share * (high - middle)) ** 2
        moved = (np.concatenate(theirs) - np.concatenate(ours)) * self._weights
        sums = np.bincount(self._home, weights=moved).astype(np.float64)
        p_value = _p_value(sums)
        low, high = max(-1.0, difference - math.sqrt(below)), min(1.0, difference + math.sqrt(above))
        return Pair(first.submission, second.submission, difference, low, high, p_value, p_value)

    def entries(self, first: Verification, second: Verification) -> dict[str, Paired]:
        """Return the paired comparison of each entry, by its label; these p values are not corrected."""
        comparisons = {}
        for entry, before, after in zip(self.suite.entries, self.of(first), self.of(second), strict=True):
            names = [task for task, _, _ in entry.tasks]
            one, other = (dict(zip(names, table.tolist(), strict=True)) for table in (before, after))
            comparisons[entry.label] = compare_paired(one, other, {task: cluster for task, _, cluster in entry.tasks})
        return comparisons


@dataclass(frozen=True)
class Standings:
    """A board's rows by class and score, its pairs, and the outcomes with which any two rows are compared."""

    suite: Suite
    rows: tuple[StandingsRow, ...]
    pairs: tuple[Pair, ...]
    outcomes: Outcomes = field(repr=False, compare=False)


def group_of(entrant: Entrant) -> str:
    """Return the first class that fits: reference, incomplete, trained, multi-attempt, registered, ranked, else replayed."""
    verdict, meta = entrant.verdict, entrant.submission
    if meta.agent.kind == "reference" or meta.agent.name == "solver":
        return "reference"
    if "complete" not in verdict.badges:
        return "incomplete"
    if meta.training.on_suite_test:
        return "trained on the suite"
    if meta.agent.multi_attempt:
        return "multi-attempt"
    if entrant.registered_suite is not None and ranked(entrant.badges, verdict.suite):
        return "registered"
    return "ranked" if ranked(entrant.badges, verdict.suite) else "replayed"


def standings(suite: Suite, entrants: Sequence[Entrant]) -> Standings:
    """Return the rows by class and falling score, and the pairs within classes; ValueError if one was not accepted.

    Raises:
        ValueError: one of them was not accepted.
    """
    if odd := [item.verdict.submission for item in entrants if item.verdict.score is None or item.verdict.code]:
        raise ValueError(f"standings: {odd[0]} was not accepted, or its suite has no score")
    rows: list[StandingsRow] = []
    pairs: list[Pair] = []
    outcomes = Outcomes(suite)
    for group in CLASSES:
        mine = [item for item in entrants if group_of(item) == group]
        compared = _all_pairs(outcomes, mine)
        pairs += compared
        rows += sorted((_row(outcomes, item, group, compared, len(mine)) for item in mine), key=_standings_key)
    return Standings(suite, tuple(rows), tuple(pairs), outcomes)


def _standings_key(row: StandingsRow) -> tuple[float, str]:
    """Return the key of the board's order: falling score, then the submission's name."""
    return -row.score.value, row.entrant.verdict.submission


def _row(outcomes: Outcomes, item: Entrant, group: str, pairs: Sequence[Pair], size: int) -> StandingsRow:
    """Return a row: its range of places by pairs told apart, mean turns and tokens of episodes with turns, and pass^k."""
    verdict = item.verdict
    name = verdict.submission
    apart = [pair for pair in pairs if pair.is_significant and name in (pair.first, pair.second)]
    above = sum((pair.difference > 0) == (pair.first == name) for pair in apart)  # rows that are better than this one
    with_turns = [episode for episode in verdict.episodes if episode.turns]
    turns = sum(episode.turns for episode in with_turns) / max(len(with_turns), 1)
    tokens = sum(known_counts(verdict.usage).get(kind, 0) for kind in ("input", "output")) / max(len(with_turns), 1)
    assert verdict.score is not None
    best, worst = 1 + above, size - (len(apart) - above)
    outcomes = outcomes if item.registered_suite is None else Outcomes(item.registered_suite)
    return StandingsRow(item, group, verdict.score, best, worst, turns, tokens or None, outcomes.pass_hat(verdict))


def _all_pairs(outcomes: Outcomes, entrants: Sequence[Entrant]) -> list[Pair]:
    """Compare all rows pairwise, by task or, for registered suites, unpaired, with p values corrected for all pairs."""
    pairs = combinations(entrants, 2)
    drafts = [
        outcomes.compare(one.verdict, other.verdict) if one.registered_suite is other.registered_suite is None
        else unpaired(one.verdict, other.verdict) for one, other in pairs
    ]  # fmt: skip
    adjusted = holm([draft.p_value for draft in drafts])
    return [replace(draft, adjusted=p) for draft, p in zip(drafts, adjusted, strict=True)]


def unpaired(first: Verification, second: Verification) -> Pair:
    """Return second minus first of two that played other tasks, with a normal interval and a p that is not corrected."""
    assert first.score is not None and second.score is not None
    one, two = first.score, second.score
    difference = two.value - one.value
    low = max(-1.0, difference - math.hypot(two.value - two.low, one.high - one.value))
    high = min(1.0, difference + math.hypot(two.high - two.value, one.value - one.low))
    error = math.hypot(*(max(rate.high - rate.value, rate.value - rate.low) for rate in (one, two))) / WIDTH
    p_value = min(max(math.erfc(abs(difference) / error / math.sqrt(2)), math.ulp(0.0)), 1.0)
    return Pair(first.submission, second.submission, difference, low, high, p_value, p_value, paired=False)


def _p_value(sums: NDArray[np.float64]) -> float:
    """Return the p value of the clusters' sum for "no difference": by sign flips if few clusters differ, else by t."""
    largest = float(np.abs(sums).max()) or 1.0
    sums = sums / largest  # the flips take what is below a billionth for nothing
    if np.count_nonzero(sums) < FEW_CLUSTERS:
        return sign_flips(sums, LEVEL)[0]
    error = math.sqrt(len(sums) / (len(sums) - 1) * float(((sums - sums.mean()) ** 2).sum()))
    return min(max(2 * t_tail(abs(float(sums.sum())) / error, len(sums) - 1), math.ulp(0.0)), 1.0) if error else 1.0
