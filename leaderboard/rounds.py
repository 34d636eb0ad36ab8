"""A row's score on the fixed set stands beside its round's, and beside what its own best attempts make of the round, blind.

Who recorded what works on the fixed tasks has nothing to play on tasks that were drawn afterwards. So a gap between the scores,
and a playback that comes near the round's, say how much of them can be had without reading.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from agent_envs.base.caches import cache_dir, write_atomically
from agent_envs.base.errors import EnvFault
from agent_envs.base.serialization import digest
from agent_envs.base.version import code_digest
from agent_envs.core.env import core_of
from agent_envs.evaluation.html.page import Cell, Table
from agent_envs.evaluation.report.charts import points
from agent_envs.evaluation.statistics.rates import Rate, success_rate, weighted_rate
from agent_envs.evaluation.submission.replaying import places_of
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Entry, Suite
from agent_envs.evaluation.verification.verify import LATE, Verification
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from leaderboard.blind_replay import Playback
from leaderboard.standings import Entrant, Pair, StandingsRow, unpaired
from leaderboard.transcripts import replayed

MOST_ATTEMPTS = 4  # of an entry that are played back: solved ones first, then by return, then the shortest
NOTE = (
    "Over the entries that the round draws. Played back: the recorded actions of the row's own best attempts at an entry of "
    f"the fixed set (at most {MOST_ATTEMPTS}, the mean of them) on every task of the round's entry, whatever is shown. Where "
    "the fixed score is far above the round's, the fixed set was known; what the playback wins can be had without reading. "
    "Both submissions name one agent, submitter and contact, as they say; of several on the fixed set it is the best."
)


@dataclass(frozen=True)
class RoundResult:
    """One agent's fixed set and round, whole and by entry. Rates are (fixed, round, played back), None where not known."""

    fixed: StandingsRow
    round: StandingsRow
    score: tuple[Rate, Rate, Rate | None]
    entries: dict[str, tuple[Rate, Rate, Rate | None]]
    gap: Pair

    def to_json(self) -> dict[str, object]:
        """Return it as plain data, rates as [value, low, high]."""
        names = ("fixed", "round", "played_back")
        plain = {label: {name: rate and [rate.value, rate.low, rate.high] for name, rate in zip(names, rates, strict=True)}
                 for label, rates in (("", self.score), *self.entries.items())}  # fmt: skip
        return {
            "agent": self.fixed.entrant.submission.agent.name, "fixed": self.fixed.entrant.verdict.submission,
            "round": self.round.entrant.verdict.submission, "score": plain.pop(""), "entries": plain,
            "gap": [self.gap.difference, self.gap.low, self.gap.high],
            "marks": {"fixed": _marks(self.fixed), "round": _marks(self.round)},
        }  # fmt: skip


def rounds_of(suite: Suite, rows: Sequence[StandingsRow]) -> tuple[RoundResult, ...]:
    """Return the result of every row of a round whose agent and submitter have a row of the fixed set: the best, if several."""
    fixed_rows: dict[tuple[str, str, str], StandingsRow] = {}
    for row in sorted(rows, key=lambda row: (row.group != "incomplete", row.score.value)):  # the best comes last
        if row.entrant.registered_suite is None and row.group != "reference":
            fixed_rows[_owner(row)] = row
    pairs = ((fixed_rows.get(_owner(row)), row) for row in rows if row.entrant.is_round)
    return tuple(_result(suite, fixed, row) for fixed, row in pairs if fixed is not None)


def _owner(row: StandingsRow) -> tuple[str, str, str]:
    """Return a row's agent, submitter and contact: a name alone is anybody's to write."""
    meta = row.entrant.submission
    return meta.agent.name, meta.submitter.name, meta.submitter.contact


def _marks(row: StandingsRow) -> list[str]:
    """Return the marks of a row that does not count in full: after its last day, not complete."""
    verdict = row.entrant.verdict
    late = any(flag.startswith(LATE) for flag in verdict.flags)
    return [*(["after its last day"] if late else []), *([] if "complete" in verdict.badges else ["not complete"])]


def _label(row: StandingsRow) -> Cell:
    """Return the cell of a row's submission, by the beginning of its id and its marks."""
    marks = "; ".join(_marks(row))
    return Cell(row.entrant.verdict.submission[:16] + (f" ({marks})" if marks else ""), "", "odd" if marks else "")


def _result(suite: Suite, fixed: StandingsRow, row: StandingsRow) -> RoundResult:
    """Compare a row of the fixed set with its agent's round, entry by entry and at the suite's weights."""
    round_suite = row.entrant.registered_suite
    assert round_suite is not None
    back = _played_back(fixed.entrant, suite, round_suite)
    rates = [_rates(item.entrant.verdict) for item in (fixed, row)]
    labels = [entry.label for entry in round_suite.entries]
    entries = {label: (rates[0][label], rates[1][label], back.get(label)) for label in labels}
    weights = [entry.weight for entry in round_suite.entries]
    whole = weighted_rate([sides[0] for sides in entries.values()], weights)
    blind = [sides[2] for sides in entries.values() if sides[2] is not None]
    score = (whole, row.score, weighted_rate(blind, weights) if len(blind) == len(weights) else None)
    gap = unpaired(row.entrant.verdict, replace(fixed.entrant.verdict, score=whole))
    return RoundResult(fixed, row, score, entries, gap)


def _rates(verdict: Verification) -> dict[str, Rate]:
    """Return a verdict's rate of each entry, by its label."""
    rows = verdict.entries
    return {row["entry"]: Rate(row["success"], *row["interval"], *[row["episodes"]] * 3) for row in rows}


def _played_back(entrant: Entrant, suite: Suite, round_suite: Suite) -> dict[str, Rate]:
    """Return, by entry, the success of a row's best attempts on a round's tasks, cached; none where services are asked."""
    what = [code_digest(), entrant.verdict.submission, round_suite.digest()]
    place = cache_dir() / "rounds" / f"{digest(what)[:32]}.json"
    if not place.is_file():
        best = _best_attempts(entrant, suite)
        plays, _ = replayed(entrant, suite, {key for keys in best.values() for key in keys})
        actions: dict[str, list[tuple[str | int, ...]]] = {}
        for at, trajectory in plays:
            actions.setdefault(at.entry.label, []).append(tuple(turn.action for turn in trajectory.turns))
        entries = round_suite.entries
        rates = {entry.label: _entry_rate(round_suite, entry, actions.get(entry.label, [])) for entry in entries}
        row = {label: list(astuple(rate)) for label, rate in rates.items() if rate is not None}
        write_atomically(place, lambda file: file.write(json.dumps(row).encode()))
    return {label: Rate(*numbers) for label, numbers in json.loads(place.read_bytes()).items()}


def _best_attempts(entrant: Entrant, suite: Suite) -> dict[str, list[str]]:
    """Return the keys of a row's best attempts at each entry: solved, then by return, then short; none twice by its actions."""
    checks = {item.key: item for item in entrant.verdict.episodes if item.turns}
    best: dict[str, list[str]] = {}
    for entry in suite.entries:
        mine = [checks[key] for key, place in places_of(suite) if key in checks and place.entry.label == entry.label]
        ranked = sorted(mine, key=lambda item: (not item.success, -item.total, item.turns))
        apart = {item.actions: item.key for item in reversed(ranked)}
        best[entry.label] = [item.key for item in ranked if apart[item.actions] == item.key][:MOST_ATTEMPTS]
    return best


def _entry_rate(round_suite: Suite, entry: Entry, plays: Sequence[tuple[str | int, ...]]) -> Rate | None:
    """Return the success of playing actions back on every task of an entry; None without any, or where a service is asked."""
    wins: list[float] = []
    places = [place for _, place in places_of(round_suite.part((entry,))) for _ in plays]
    env = entry_env(entry)
    with tempfile.NamedTemporaryFile(prefix="rounds-") as empty, Recording(Path(empty.name), "replay") as nothing:
        core_of(env).services = Services(nothing)
        try:
            for number, place in enumerate(places):
                head, player = place.header, Playback("", plays[number % len(plays)])
                where: dict[str, Any] = {"seed": head.seed, "task": head.task_id, "split": head.split}
                where["episode_key"] = head.episode_key
                wins.append(float(entry.solved(run_episode(env, player, **where).trajectory)))
        except EnvFault:  # nobody answers for a service on tasks that the row has not played
            return None
    tasks, clusters = [place.header.task_id for place in places], [place.cluster for place in places]
    return success_rate(wins, tasks, clusters) if wins else None


def rounds_table(results: Sequence[RoundResult], by_entry: bool = False) -> Table:
    """Return the table of fixed scores, rounds, gaps and playbacks, a line an agent, and an entry where asked."""
    rows: list[tuple[str | Cell | Rate, ...]] = []
    for item in results:
        name = item.fixed.entrant.submission.agent.name
        lines = [("the suite", item.score), *(item.entries.items() if by_entry else ())]
        for number, (label, (fixed, later, back)) in enumerate(lines):
            gap = f"{100 * (fixed.value - later.value):+.1f}".replace("-", "−") if number else points(item.gap)
            sides = ("", "") if number else (_label(item.fixed), _label(item.round))
            blind = "not known" if back is None else back.share
            rows.append((name, label, fixed.share, later.share, gap, blind, *sides))
    heads = ("agent", "over", "fixed set", "round", "fixed minus round, points", "played back on the round",
             "submission, fixed set", "submission, round")  # fmt: skip
    return Table("Fixed set and round", heads, tuple(rows), NOTE)
