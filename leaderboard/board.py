"""A board is a folder under version control, from which anybody can build the same pages.

submissions/ID/   what was handed in and accepted, as it was packed; ID is the sha256 of its manifest
decisions.jsonl   accepted, rejected, withdrawn, disputed, reproduced: appended, never rewritten
boards/NAME.toml  one board: its title, its suite, and figures that papers print, which nobody replayed

A suite is named, or is a file in the board's folder (`suite = "suites/mine.json"`). Pages and boards.json hold scores, digests
and no tasks, so that a board's suite may stay private with its submissions: then only what `build` writes is published.

`build` verifies every submission that it shows. What was stepped on this machine by the same code is kept in the cache folder
(`AGENT_ENVS_CACHE`) and not stepped again; nothing that lies in the board's folder is believed.
"""

import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.submission.models import MOST_META_BYTES, Label, LongLine, Notes, Submission, Url
from agent_envs.evaluation.suites.suite import Suite, first_fault, load_suite, suite_names
from agent_envs.evaluation.verification.badges import lookalikes
from agent_envs.evaluation.verification.directory import Rejected, parsed
from agent_envs.evaluation.verification.suites_known import Registration, known_suite, registrations_of, small_file
from agent_envs.evaluation.verification.verify import ACCEPTED, How, Verification, verify
from leaderboard.decisions import Decision, Verb, accepted_submissions, decide, decisions_of
from leaderboard.registering import counts_without_row, draw_counts
from leaderboard.rounds import RoundResult, rounds_of
from leaderboard.standings import Entrant, Standings, standings
from leaderboard.strata import Strata, strata_of

SUBMISSIONS, BOARDS = "submissions", "boards"
MOST_TOML = 256_000
Tell = Callable[[str], None]


class PublishedScore(Strict):
    """A figure that a paper prints. It was not replayed, and stands apart under this heading."""

    agent: Label
    score: Annotated[float, Field(ge=0, le=1)]
    source: LongLine
    url: Url = ""


class BoardSettings(Strict):
    """`boards/NAME.toml`."""

    title: Label
    suite: Annotated[str, Field(min_length=1, max_length=200)]
    about: Notes = ""
    published: Annotated[list[PublishedScore], Field(max_length=500)] = []


@dataclass(frozen=True)
class Board:
    """A board: its settings and standings, the submissions left out, and the decisions.

    Attributes:
        name: of its file.
        settings: what the file says.
        standings: of the submissions that this build verified.
        left: submissions that are accepted in decisions.jsonl and not shown, each with why.
        decisions: about all submissions but those that the build knows to be of other suites.
        without_row: registered agents that have no row, with their counts.
    """

    name: str
    settings: BoardSettings
    standings: Standings
    left: tuple[str, ...]
    decisions: tuple[Decision, ...]
    without_row: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @cached_property
    def strata(self) -> Strata:
        """The suite's episodes by the labels of their tasks, cached."""
        return strata_of(self.standings.suite)

    @cached_property
    def rounds(self) -> tuple[RoundResult, ...]:
        """The agents that played the fixed set and a round, cached."""
        return rounds_of(self.standings.suite, self.standings.rows)


def add(folder: Path, board: Path, how: How, who: str) -> Verification:
    """Verify a submission, copy it in if accepted, append the decision; no decision if it cannot be told or has no id.

    What cannot be told here is no decision, and changes nothing. One that was withdrawn can be added again.

    Raises:
        UsageError: it is there already, holds a part of a suite, or the board's files cannot be read or written.
    """
    on_show = accepted_submissions(decisions_of(board))
    own = _own_suites(_suites(board, _settings_by_board(board)))
    verdict = verify(folder, replace(how, suite=how.suite or own.get(_suite_name(folder)), keep=True))
    if verdict.unknown and not verdict.findings:
        return verdict
    if verdict.submission in on_show:
        raise UsageError(f"{verdict.submission[:16]} is on the board already")
    if verdict.verdict != ACCEPTED:
        if verdict.submission:  # whose files are not those of its manifest has no name to decide about
            why = verdict.findings[0].what.encode("ascii", "replace").decode().strip()  # it may quote a stranger
            decide(board, verdict.submission, "rejected", why, who)
        return verdict
    if verdict.part:
        raise UsageError(
            f"{verdict.submission[:16]} holds {verdict.part} of {verdict.suite}: a board shows whole suites"
        )
    place = board / SUBMISSIONS / verdict.submission
    if not (place.exists() and place.samefile(folder)):  # where a pull request added it, nothing need be copied
        part = place.with_name(f".{place.name}.part")
        shutil.rmtree(part, ignore_errors=True)  # of an addition that was killed
        shutil.rmtree(place, ignore_errors=True)
        try:
            shutil.copytree(folder, part, symlinks=True)
            part.rename(place)
        except OSError as error:
            raise UsageError(f"{place} cannot be written: {error}") from error
    decide(board, verdict.submission, "accepted", "", who)
    return verdict


def decide_about(board: Path, name: str, verb: Verb, reason: str, who: str) -> Decision:
    """Append a decision about a submission, named by its id or the beginning; UsageError for no or several, or no reason.

    Raises:
        UsageError: none or several begin so, or no reason is given.
    """
    if not reason:
        raise UsageError(f"{verb}: say why, with --why; it is published")
    return decide(board, find_submission(board, name), verb, reason, who)


def find_submission(board: Path, name: str) -> str:
    """Return the id of the one submission that begins with `name`, of all decided about; UsageError for none or several.

    Raises:
        UsageError: none or several do.
    """
    submissions = sorted({row.submission for row in decisions_of(board)})
    matches = [row for row in submissions if row.startswith(name)] if name else []
    if len(matches) != 1:
        raise UsageError(f"{name!r}: {len(matches)} submissions of {board} begin so; give more of an id")
    return matches[0]


def boards_of(folder: Path, how: How, tell: Tell) -> Iterator[Board]:
    """Yield a folder's boards, by name, its accepted submissions verified anew; one that fails is noted in its board's `left`.

    Raises:
        UsageError: a file of the board's own cannot be read.
    """
    past = decisions_of(folder)
    files = _settings_by_board(folder)
    if not files:
        raise UsageError(f"{folder}: no board is described there; write {BOARDS}/NAME.toml with a title and a suite")
    suites = _suites(folder, files)
    own = _own_suites(suites)
    draws = registrations_of(how.registry) if how.registry is not None else []
    origins = {draw.id: draw for draw in draws}
    submitted = {_suite_name(folder / SUBMISSIONS / row.submission).partition("@")[0] for row in past}
    entrants: list[tuple[Suite, Entrant]] = []
    troubles: list[tuple[str, str]] = []
    for name, history in accepted_submissions(past).items():
        tell(f"verify {name[:16]}")
        place = folder / SUBMISSIONS / name
        if not place.is_dir():
            raise UsageError(f"{place} is missing, and {name[:16]} is accepted: restore it, or withdraw it")
        its_how = replace(how, suite=how.suite or own.get(_suite_name(place)), arrived=history[0].time[:10], keep=True)
        try:
            suite, entrant = entrant_of(place, its_how)
            if entrant.verdict.submission != name:
                raise UsageError(f"{name[:16]}: its folder holds another submission")
        except UsageError as error:
            home, is_drawn = _home(_suite_name(place), origins, suites)
            lacking = "give --registry" if how.registry is None else f"{how.registry} has no registration of it"
            reason = f"{name[:16]}: played on a drawn suite: {lacking}" if is_drawn else str(error)
            troubles.append((home, reason))
            if home not in ("", *(item.name for item in suites.values())):
                tell(f"{name[:16]} is of {home}, which no board here has: {reason}")
            continue
        if (origins[suite.id].suite if suite.id in origins else suite.name) not in {
            item.name for item in suites.values()
        }:
            tell(f"{name[:16]} is of {suite.name}, which no board here has")
        entrants.append((suite, replace(entrant, history=history)))
    for name, settings in files.items():
        suite = suites[name]
        mine = [(its_suite, item) for its_suite, item in entrants if its_suite.name == suite.name]
        same = [item for its_suite, item in mine if its_suite.digest() == suite.digest()]
        same += [
            replace(item, registered_suite=its_suite, is_round=bool(origins[its_suite.id].salt))
            for its_suite, item in entrants
            if its_suite.id in origins and origins[its_suite.id].suite == suite.name
        ]
        same = [
            replace(item, draw_counts=draw_counts(draws, submitted, item.submission.agent.name, suite.name))
            for item in same
        ]
        others = [item for its_suite, item in mine if its_suite.digest() != suite.digest()]
        left = [f"{item.verdict.submission[:16]}: played another suite of this name" for item in others]
        left += [text for suite_name, text in troubles if suite_name in ("", suite.name)]
        about = tuple(r for r in past if _suite_name(folder / SUBMISSIONS / r.submission) in ("", suite.name))
        names = {item.submission.agent.name for item in same}
        without_row = counts_without_row(draws, submitted, names, suite.name)
        yield Board(name, settings, standings(suite, _flag_lookalikes(same)), tuple(left), about, without_row)


def _home(name: str, origins: Mapping[str, Registration], suites: Mapping[str, Suite]) -> tuple[str, bool]:
    """Return the board's suite that a suite was drawn for, else its own name; and whether no registration tells, but its id."""
    suite_id, _, version = name.partition("@")
    if suite_id in origins:
        return origins[suite_id].suite, False
    stem, _, tail = suite_id.rpartition("-")
    if re.fullmatch("[0-9a-f]{12}", tail) and name not in {suite.name for suite in suites.values()}:
        for suite in suites.values():
            if (suite.id[:27], suite.version) == (stem, version):
                return suite.name, True
    return name, False


def _flag_lookalikes(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Return the entrants, with a flag for each whose name looks like another's."""
    names = {item.submission.agent.name for item in entrants}
    flagged = []
    for item in entrants:
        flags = [f"its name looks like {other!r}" for other in lookalikes(item.submission.agent.name, names)]
        flagged.append(replace(item, verdict=replace(item.verdict, flags=(*item.verdict.flags, *flags))))
    return flagged


def _settings_by_board(folder: Path) -> dict[str, BoardSettings]:
    """Read the settings of each board, by name."""
    return {path.stem: _settings(path) for path in sorted((folder / BOARDS).glob("*.toml"))}


def _suites(folder: Path, files: Mapping[str, BoardSettings]) -> dict[str, Suite]:
    """Load each board's suite, from the board's folder or by name; UsageError if it has no score."""
    suites = {}
    for name, settings in files.items():
        file = folder / settings.suite
        suites[name] = load_suite(str(file) if file.is_file() else settings.suite)
        if not suites[name].scored:
            raise UsageError(
                f"{BOARDS}/{name}.toml: {settings.suite} has no score, so that nothing can be ranked on it"
            )
    return suites


def _own_suites(suites: Mapping[str, Suite]) -> dict[str, Suite]:
    """Return the suites that are the board's own, by name: a shipped one is never taken from a file."""
    return {suite.name: suite for suite in suites.values() if suite.id not in suite_names()}


def _suite_name(place: Path) -> str:
    """Return the name of the suite that a submission claims, to choose among the board's own; "" if it cannot be read."""
    try:
        suite = _read_submission(place).suite
    except Rejected:
        return ""
    return f"{suite.id}@{suite.version}"


def _read_submission(place: Path) -> Submission:
    """Read a submission's description; Rejected where its form or size is not allowed."""
    return parsed(Submission, small_file(place / "submission.json", MOST_META_BYTES), "submission.json")


def entrant_of(folder: Path, how: How) -> tuple[Suite, Entrant]:
    """Verify a submission and return its suite and the entrant; UsageError if it is not accepted or its suite has no score.

    Raises:
        UsageError: it is not accepted here; the message says why.
    """
    verdict = verify(folder, how)
    if verdict.verdict != ACCEPTED:
        why = [item.text() for item in (*verdict.findings, *verdict.unknown)]
        raise UsageError(f"{folder.name[:16]}: {verdict.verdict} by this verification: {why[0]}")
    if verdict.score is None:
        reason = f"it holds {verdict.part} of {verdict.suite}" if verdict.part else f"{verdict.suite} has no score"
        raise UsageError(f"{folder.name[:16]}: {reason}, so that nothing can be ranked")
    board_suite = known_suite(folder, how.suite, how.registry)
    assert not isinstance(board_suite, str)
    return board_suite.suite, Entrant(verdict, _read_submission(folder), folder=folder)


def _settings(path: Path) -> BoardSettings:
    """Read a board's TOML settings; UsageError if they are too large, malformed or unreadable."""
    try:
        text = path.read_bytes()
        if len(text) > MOST_TOML:
            raise UsageError(f"{path}: more than {MOST_TOML:,} bytes")
        row: dict[str, Any] = tomllib.loads(text.decode())
        return BoardSettings.model_validate(row)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_fault(error)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
