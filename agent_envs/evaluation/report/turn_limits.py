"""Turn-restricted evaluation sets what agents reach, and how they end, against the free turns before a forced answer."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_envs.base.serialization import canonical_json
from agent_envs.evaluation.report.charts import Curve, Point
from agent_envs.evaluation.runs.measures import EpisodeNumbers
from agent_envs.evaluation.runs.summary import metric_interval, metric_names, rate_of
from agent_envs.evaluation.statistics.rates import Rate
from agent_envs.evaluation.suites.suite import Entry, Suite

AXIS = "free turns before the forced answer"


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One agent under one turn limit. Rates are over the planned episodes, turns a mean over those that ended.

    Attributes:
        subject: the environment and split; rows of one subject have the same tasks.
        series: whose line it is: the agent, and what is varied beside the limit.
        free_turns: before the forced answer; turns, where none can be forced.
        success: solved tasks.
        abstained: answers that say they do not know; None where the family does not tell.
        wrong: wrong answers that do not abstain.
        turns: of an episode, the answer included; None where none ended.
        turns_interval: of the mean; bounds that are not known are None.
    """

    subject: str
    series: str
    free_turns: int
    success: Rate
    abstained: Rate | None
    wrong: Rate
    turns: float | None
    turns_interval: tuple[float | None, float | None]

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a rate is its value and its interval."""
        row = asdict(self)
        for name in ("success", "abstained", "wrong"):
            rate = row[name]
            row[name] = rate and {"value": rate["value"], "interval": [rate["low"], rate["high"]], "n": rate["trials"]}
        return row


def limit_rows(runs: Iterable[tuple[str, Suite, Sequence[EpisodeNumbers]]]) -> list[LimitRow]:
    """Return a row for every entry with a turn limit, by subject, series and limit; [] where limits are not varied.

    A run is who played, what, and the numbers of every planned episode.
    """
    runs_by_entry = [(*run, entry) for run in runs for entry in run[1].entries if entry.turn_limit is not None]
    entries = [entry for *_, entry in runs_by_entry]
    if len({entry.turn_limit for entry in entries}) < 2:
        return []
    rows = []
    for (agent, _, numbers, entry), subject, setting in zip(
        runs_by_entry, _subjects(entries), _settings(entries), strict=True
    ):
        items = [item for item in numbers if item.entry == entry.label]
        rows.append(_row(subject, ", ".join(filter(None, (agent, setting))), entry, items))
    order = {name: place for place, name in enumerate(dict.fromkeys((row.subject, row.series) for row in rows))}
    places = list(dict.fromkeys(row.subject for row in rows))
    return sorted(rows, key=lambda row: (places.index(row.subject), order[row.subject, row.series], row.free_turns))


def limit_curves(rows: Iterable[LimitRow]) -> tuple[Curve, ...]:
    """Return, for each subject, accuracy, abstention, wrong answers and mean turns against the limit; a line an agent."""
    groups: dict[str, list[LimitRow]] = {}
    for row in rows:
        groups.setdefault(row.subject, []).append(row)
    return tuple(curve for subject, group in groups.items() for curve in _curves(subject, group))


def _curves(subject: str, rows: Sequence[LimitRow]) -> list[Curve]:
    """Build the curves of accuracy, abstention, wrong answers and turns against the turn limit, where there are points."""
    panels: tuple[tuple[str, str, Callable[[LimitRow], Any]], ...] = (
        ("Accuracy", "solved", lambda row: row.success.percent),
        ("Abstention", 'answers that say "I don\'t know"', lambda row: row.abstained and row.abstained.percent),
        ("Wrong answers", "wrong without abstaining", lambda row: row.wrong.percent),
        ("Turns", "turns an episode, the answer included", lambda row: row.turns and (row.turns, *row.turns_interval)),
    )
    lines: dict[str, list[Point]]
    curves = []
    for title, label, value in panels:
        lines = {row.series: [] for row in rows}
        for row, point in zip(rows, map(value, rows), strict=True):
            lines[row.series] += [(float(row.free_turns), *point)] if point else []
        # A series without points stays in the legend, so that an agent has one colour in all figures.
        if any(lines.values()):
            series = tuple((name, tuple(line)) for name, line in lines.items())
            unit = "" if title == "Turns" else ", % of the planned episodes"
            curves.append(Curve(f"{title} against turn limits, {subject}", AXIS, f"{label}{unit}", series))
    return curves


def _row(subject: str, series: str, entry: Entry, numbers: Sequence[EpisodeNumbers]) -> LimitRow:
    """Compute an entry's row at its turn limit; abstention is None where the episodes have no such metric."""
    names = metric_names(numbers)
    abstained = [row.metrics.get("abstained") or 0.0 for row in numbers]
    wrong = [
        row.metrics.get("wrong") or 0.0 if "wrong" in names else float(row.outcome == "wrong answer") for row in numbers
    ]
    complete = [row for row in numbers if row.complete]
    turns = [float(row.turns) for row in complete]
    return LimitRow(
        subject, series, entry.turn_limit or 0,
        rate_of(numbers), rate_of(numbers, abstained) if "abstained" in names else None, rate_of(numbers, wrong),
        sum(turns) / len(turns) if turns else None, metric_interval(turns, complete) if turns else (None, None),
    )  # fmt: skip


def _subjects(entries: Sequence[Entry]) -> list[str]:
    """Return the subject of each entry; the same text exactly where the tasks are the same."""
    heads = [f"{entry.env_id.rpartition('/')[2]} {entry.split}" for entry in entries]
    tasks = [tuple(sorted(name for name, _, _ in entry.tasks)) for entry in entries]
    different: dict[str, list[Any]] = {}
    for head, names in zip(heads, tasks, strict=True):
        if names not in different.setdefault(head, []):
            different[head].append(names)
    numbered = Counter({head: len(task_sets) for head, task_sets in different.items()})
    return [
        head if numbered[head] == 1 else f"{head}, {len(names):,} tasks (set {different[head].index(names) + 1})"
        for head, names in zip(heads, tasks, strict=True)
    ]


def _settings(entries: Sequence[Entry]) -> list[str]:
    """Describe each entry by the arguments and feedback in which entries of its environment differ; "" where they do not."""
    texts = []
    for entry in entries:
        peers = [other.arguments for other in entries if other.env_id == entry.env_id]
        names = sorted({name for arguments in peers for name in arguments})
        varied = [name for name in names if len({_argument_text(arguments, name) for arguments in peers}) > 1]
        values = [f"{name}={_argument_text(entry.arguments, name)}" for name in varied]
        advised = {_feedback_label(other) for other in entries if other.env_id == entry.env_id}
        texts.append(" ".join([*values, *([_feedback_label(entry)] if len(advised) > 1 else [])]))
    return texts


def _feedback_label(entry: Entry) -> str:
    """Return the feedback of an entry as a label, `none` included."""
    return "feedback=none" if entry.feedback is None else entry.feedback.label


def _argument_text(arguments: Mapping[str, Any], name: str) -> str:
    """Return an argument of an entry as text; "default" where it is not given."""
    value = arguments.get(name, "default")
    return value if isinstance(value, str) else canonical_json(value)
