"""`verify` makes of a submission's directory a verdict: nothing in it is believed that the suite and a replay do not give."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest, sha256_file
from agent_envs.base.version import code_digest
from agent_envs.evaluation.runs.evaluate import BUILT_IN
from agent_envs.evaluation.runs.measures import UNPLAYED
from agent_envs.evaluation.runs.summary import averages_of
from agent_envs.evaluation.statistics.rates import Rate, success_rate, weighted_rate
from agent_envs.evaluation.submission.episode_rows import EpisodeRow
from agent_envs.evaluation.submission.models import Submission, entry_folders
from agent_envs.evaluation.submission.pack import MOST_BYTES
from agent_envs.evaluation.submission.replay_pool import SECONDS, Checks, Line, Replaying, check_all
from agent_envs.evaluation.submission.replaying import FREE, Checked, Place, places_of
from agent_envs.evaluation.suites.suite import Suite, first_fault, suite_text
from agent_envs.evaluation.verification.badges import BADGES, lookalikes, mixed_scripts, ranked
from agent_envs.evaluation.verification.directory import Directory, Rejected, parsed
from agent_envs.evaluation.verification.small_files import attempt_findings, lines_of, unpack_answers
from agent_envs.evaluation.verification.suites_known import BoardSuite, known_suite

ACCEPTED, REJECTED, UNKNOWN = "accepted", "rejected", "cannot tell here"
CODES = {ACCEPTED: 0, REJECTED: 1, UNKNOWN: 3}
MOST_TOLD = 100
MOST_CHARACTERS = 500  # of a finding
LATE = "not registered: it came"  # begins the flag of a pack that came after its last day
SAME_SHARE = 0.5  # of episodes with another's very actions, from which on a submission is flagged
# In a row's one spelling a quote within a text is escaped, so that this is the field and nothing that an action says.
_USAGE = re.compile(rb'"usage":\{((?:"[A-Za-z0-9_.-]{1,40}":[0-9]{1,16},?){0,40})\}')
_COUNT = re.compile(rb'"([^"]+)":([0-9]+)')
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Finding:
    """A fault, or a doubt that cannot be settled here; `episode` and `entry` are "" where it is a file's."""

    what: str
    episode: str = ""
    entry: str = ""

    def __post_init__(self) -> None:
        """Keep it one bounded line: names of fields may be a stranger's, and must not write lines of their own."""
        plain = "".join(letter if letter.isprintable() else "?" for letter in self.what[:MOST_CHARACTERS])
        object.__setattr__(self, "what", plain)

    def text(self) -> str:
        """Return it as one line."""
        return f"episode {self.episode} ({self.entry}): {self.what}" if self.entry else self.what


@dataclass(frozen=True)
class Verification:
    """The result of a verification. Scores are the replay's, over all planned episodes; a rejected submission has none.

    `usage` alone is the submitter's word: tokens by kind, over all episodes. `part` is "1 of 16 entries" where a submission
    holds a part of its suite, which has no score; "" for the whole.
    """

    submission: str
    suite: str = ""
    part: str = ""
    agent: str = ""
    kind: str = ""
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Finding, ...] = ()
    badges: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    score: Rate | None = None
    averages: dict[str, Rate] = field(default_factory=dict)
    entries: tuple[dict[str, Any], ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    episodes: tuple[Checked, ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> str:
        """`accepted`, `rejected` or `cannot tell here`."""
        return REJECTED if self.findings else UNKNOWN if self.unknown else ACCEPTED

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data: findings, badges, flags, score, averages and entries."""
        rows = [
            {"name": name, "proves": BADGES[name].proves, "not_proved": BADGES[name].not_proved} for name in self.badges
        ]
        score = {"success": self.score.value, "interval": [self.score.low, self.score.high]} if self.score else None
        return {
            "submission": self.submission, "verdict": self.verdict, "suite": self.suite, "part": self.part,
            "agent": self.agent, "kind": self.kind,
            "findings": [vars(item) for item in self.findings[:MOST_TOLD]], "findings_in_all": len(self.findings),
            "unknown": [vars(item) for item in self.unknown[:MOST_TOLD]], "unknown_in_all": len(self.unknown),
            "badges": rows, "ranked": ranked(self.badges, self.suite), "flags": list(self.flags), "score": score,
            "averages": {name: [rate.value, rate.low, rate.high] for name, rate in self.averages.items()},
            "entries": list(self.entries), "usage_as_told": self.usage, "not_checked": [*FREE, "cause", "submission.json"],
        }  # fmt: skip


@dataclass(frozen=True)
class How:
    """The settings of a verification.

    Attributes:
        suite: the only one that is accepted; None for those of this installation.
        registry: folder of the board's registrations; None for none.
        jobs: processes; 0 for this one, without bounds.
        seconds: that an episode's replay may take.
        arrived: the day on which the board had it, 2026-11-29 say, for a registration's deadline; "" for today.
        beside: other submissions, whose actions are compared.
        memory: of rows that were checked before, without a journal; for many variants of one submission.
        keep: what was checked stays in the cache folder for the next verification by the same code.
        progress: called with (checked, planned, successes so far).
    """

    suite: Suite | None = None
    registry: Path | None = None
    jobs: int = 1
    seconds: float = SECONDS
    arrived: str = ""
    beside: tuple[Path, ...] = ()
    memory: Checks | None = None
    keep: bool = False
    progress: Progress | None = None


def verify(folder: Path, how: How) -> Verification:
    """Return a submission's verdict, faults as findings, `cannot tell here` for an unknown suite; UsageError without a folder.

    Raises:
        UsageError: there is no directory, or no place for the journal.
    """
    name = ""
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError(f"{folder} is no directory: name the one that agent-envs pack wrote")
    if (folder / "config.json").exists() and not (folder / "manifest.json").exists():
        raise UsageError(f"{folder} is a run: agent-envs pack {folder} DIR makes a submission of it")
    try:
        board_suite = known_suite(folder, how.suite, how.registry)
        if isinstance(board_suite, str):
            return Verification(name, unknown=(Finding(board_suite),))
        directory = Directory(folder, len(suite_text(board_suite.suite).encode()))
        name = directory.id
        submission = parsed(Submission, directory.read("submission.json"), "submission.json")
        _check_suite(directory, submission, board_suite)
        with tempfile.TemporaryDirectory(prefix="verify-") as place:
            answers = Path(place) / "externals.jsonl"
            keys = unpack_answers(directory, answers)
            code = code_digest() if how.keep else ""
            replaying = Replaying(board_suite.suite, answers, how.jobs, how.seconds, flags=True, keep=code)
            return _judge(_EpisodeReader(directory, board_suite.suite), submission, board_suite, replaying, how, keys)
    except Rejected as error:
        return Verification(name, findings=(Finding(str(error)),))


def _check_suite(directory: Directory, submission: Submission, board_suite: BoardSuite) -> None:
    """Raise Rejected if a submission's suite, suite file or agent is not the board's, or a folder belongs to no entry."""
    suite = board_suite.suite
    for field_name, value in (("id", suite.id), ("version", suite.version), ("digest", suite.digest())):
        if getattr(submission.suite, field_name) != value:
            submission_value = getattr(submission.suite, field_name)
            raise Rejected(f"submission.json: suite.{field_name} is {submission_value}, and the suite is {value}")
    if directory.read("suite.json") != suite_text(suite).encode():
        raise Rejected(f"suite.json: not the text of {suite.name}")
    if board_suite.agent and submission.agent.name != board_suite.agent:
        raise Rejected(f"submission.json: agent.name: {suite.id} was registered for {board_suite.agent}")
    folders = set(entry_folders(suite).values())
    if more := sorted(directory.episode_folders() - folders):
        raise Rejected(f"{more[0]}: the suite has no such entry")


class _EpisodeReader:
    """The reader of a submission's episode lines, once and in the suite's order, with the faults of their places."""

    def __init__(self, directory: Directory, suite: Suite) -> None:
        self.directory, self.suite = directory, suite
        self.labels: list[str] = []
        self.usage: Counter[str] = Counter()
        self.faults: list[str] = []

    def lines(self) -> Iterator[Line]:
        """Yield (label, line) in the suite's order and add up usage; a fault is noted in `faults` and ends its entry alone."""
        left = MOST_BYTES
        planned = {entry.label: self.suite.trials * len(entry.tasks) for entry in self.suite.entries}
        for label, folder in entry_folders(self.suite).items():
            try:
                for path in self.directory.shards(folder):
                    for line in lines_of(path, self.directory):
                        left, planned[label] = left - len(line), planned[label] - 1
                        if left < 0 or planned[label] < 0:
                            raise Rejected(f"{folder}: more rows than are planned, or more than the format takes")
                        self.labels.append(label)
                        for name, count in (pair for usage in _USAGE.findall(line) for pair in _COUNT.findall(usage)):
                            self.usage[name.decode()] += int(count)
                        yield label, line
            except Rejected as error:
                self.faults.append(str(error))


def _judge(
    reading: _EpisodeReader,
    submission: Submission,
    board_suite: BoardSuite,
    replaying: Replaying,
    how: How,
    answers: list[str],
) -> Verification:
    """Replay all rows and judge them; only an accepted submission gets score, badges and flags."""
    plan = dict(places_of(board_suite.suite))
    tell = how.progress
    progress = (lambda count, wins: tell(count, max(len(plan), count), wins)) if tell is not None else None
    checked = check_all(reading.lines(), replaying, reading.directory.id, how.memory, progress)
    findings = [Finding(fault) for fault in reading.faults]
    unknown: list[Finding] = []
    for label, item in zip(reading.labels, checked, strict=True):
        findings += [Finding(what, item.key, label) for what in item.findings]
        unknown += [Finding(item.unknown, item.key, label)] if item.unknown else []
    episodes = {item.key: item for item in checked}
    if "" not in {item.key for item in checked if item.unknown}:  # else nobody knows which episodes are there
        findings += _inventory([item.key for item in checked if item.key], list(plan), plan)
    if not findings and not unknown:
        statuses = {key: episodes[key].status for key in plan}
        findings += [Finding(what) for what in attempt_findings(reading.directory, statuses)][:MOST_TOLD]
        served = {key for item in checked for key in item.answer_keys}
        findings += [
            Finding(f"externals: key {key}: no episode asks for this answer") for key in answers if key not in served
        ]
    verdict = Verification(
        reading.directory.id, board_suite.suite.name, board_suite.part, submission.agent.name, submission.agent.kind,
        tuple(findings), tuple(unknown), episodes=tuple(episodes[key] for key in plan if key in episodes),
    )  # fmt: skip
    if verdict.verdict != ACCEPTED:
        return verdict
    score, averages, entries = scores(board_suite.suite, plan, episodes)
    late = _lateness(board_suite, how.arrived or datetime.now(tz=UTC).date().isoformat())
    badges = _badges(verdict.episodes, board_suite, answers, late)
    flags = (*([late] if late else []), *_flags(verdict, submission, how))
    return replace(verdict, score=score, averages=averages, entries=entries, badges=badges, flags=flags,
                   usage=dict(reading.usage))  # fmt: skip


def _inventory(keys: list[str], planned: list[str], plan: Mapping[str, Place]) -> Iterator[Finding]:
    """Yield a finding for each episode that is twice there or missing; if counts agree, for the first that is out of order."""
    present_keys: set[str] = set()
    for key in keys:
        if key in present_keys:
            yield Finding("key: the episode is there twice", key, plan[key].entry.label if key in plan else "?")
        present_keys.add(key)
    missing = [key for key in planned if key not in present_keys]
    yield from (Finding("key: the planned episode is not there", key, plan[key].entry.label) for key in missing)
    pairs = zip_longest(keys, planned)
    if not missing and len(keys) == len(planned) and (first := next((a for a, b in pairs if a != b), "")):
        yield Finding("key: the rows are not in the order of the suite", first, plan[first].entry.label)


def scores(
    suite: Suite, plan: Mapping[str, Place], episodes: Mapping[str, Checked]
) -> tuple[Rate | None, dict[str, Rate], tuple[dict[str, Any], ...]]:
    """Return the score (None if unscored), averages and entry rows; success over planned, other means over played episodes."""
    rates, rows = [], []
    for entry in suite.entries:
        items = [(place, episodes[key]) for key, place in plan.items() if place.entry.label == entry.label]
        wins = [float(item.success) for _, item in items]
        rate = success_rate(wins, [place.header.task_id for place, _ in items], [place.cluster for place, _ in items])
        with_turns = [item for _, item in items if item.turns]
        rates.append(rate)
        rows.append({
            "entry": entry.label, "success": rate.value, "interval": [rate.low, rate.high], "episodes": len(items),
            "played": len(with_turns), "mean_return": sum(item.total for item in with_turns) / max(len(with_turns), 1),
            "mean_turns": sum(item.turns for item in with_turns) / max(len(with_turns), 1),
        })  # fmt: skip
    score = weighted_rate(rates, [entry.weight for entry in suite.entries]) if suite.scored else None
    return score, averages_of(suite, rates), tuple(rows)


def _lateness(board_suite: BoardSuite, day: str) -> str:
    """Return that a registered agent's pack came after the registration's last day; "" where it came in time."""
    return f"{LATE} on {day}, and its last day was {board_suite.due}" if "" < board_suite.due < day else ""


def _badges(episodes: tuple[Checked, ...], board_suite: BoardSuite, answers: list[str], late: str) -> tuple[str, ...]:
    """Return the badges: complete (the whole suite), replayed (with recordings), and registered if complete and in time."""
    badges = [] if board_suite.part or any(item.status in UNPLAYED for item in episodes) else ["complete"]
    badges.append("replayed with recordings" if answers else "replayed")
    return (*badges, "registered") if board_suite.agent and "complete" in badges and not late else tuple(badges)


def _flags(verdict: Verification, submission: Submission, how: How) -> Iterator[str]:
    """Yield a flag for a reference agent, odd names, and half the episodes acting as the solver or a submission beside."""
    with_turns = [item for item in verdict.episodes if item.turns]
    same = sum(item.by_solver for item in with_turns)
    if submission.agent.kind == "reference" or submission.agent.name == "solver":
        yield "a reference agent: it reads the gold, as its submission says or its name tells, and is shown apart"
    names = (submission.agent.name, submission.submitter.name, *(model.name for model in submission.models))
    for name in dict.fromkeys(names):
        if scripts := mixed_scripts(name):
            yield f"the name {name!r} mixes letters of {' and '.join(scripts)}, which look alike"
    yield from (f"its name looks like {other!r}" for other in lookalikes(submission.agent.name, BUILT_IN))
    if with_turns and same >= SAME_SHARE * len(with_turns):
        yield f"{same} of {len(with_turns)} episodes have the very actions of the built-in solver"
    for other in how.beside:
        theirs = set(_actions(other, how))
        equal = sum((item.key, item.actions) in theirs for item in with_turns)
        if with_turns and equal >= SAME_SHARE * len(with_turns):
            name = sha256_file(other / "manifest.json")[:12]
            yield f"{equal} of {len(with_turns)} episodes have the very actions of submission {name}"


def _actions(folder: Path, how: How) -> Iterator[tuple[str, str]]:
    """Yield (key, digest of the actions) of another submission, read and not replayed; nothing for an unknown suite.

    Raises:
        UsageError: there is no other submission that can be read.
    """
    if not folder.is_dir():
        raise UsageError(f"--beside {folder} is no submission that can be read: there is no such folder")
    try:
        board_suite = known_suite(folder, how.suite, how.registry)
        if isinstance(board_suite, str):
            return
        directory = Directory(folder, len(suite_text(board_suite.suite).encode()))
        for _, line in _EpisodeReader(directory, board_suite.suite).lines():
            row = EpisodeRow.model_validate_json(line)
            yield row.key, digest([turn.action for turn in row.turns])
    except (Rejected, ValidationError) as error:
        what = first_fault(error) if isinstance(error, ValidationError) else error
        raise UsageError(f"--beside {folder} is no submission that can be read: {what}") from None
