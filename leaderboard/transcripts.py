"""Some episodes of a row are stepped again to be read on its page: of each entry one that failed and one that succeeded.

A submission holds actions and digests, no texts: what stands in a transcript is what this installation's environment shows for
these actions, and nothing that a submitter wrote but the actions. A suite of the board's own stays private, and shows none.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from markupsafe import Markup

from agent_envs.base.caches import cache_dir, write_atomically
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.base.version import code_digest
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.html.page import Cell, RenderedTranscript, Transcript, draw
from agent_envs.evaluation.html.replayed_view import ReplayReader
from agent_envs.evaluation.submission.episode_rows import EpisodeRow, row_text
from agent_envs.evaluation.submission.models import entry_folders
from agent_envs.evaluation.submission.replaying import Checked, Place, RowReplayer, places_of
from agent_envs.evaluation.suites.suite import Suite, suite_names, suite_text
from agent_envs.evaluation.verification.directory import Directory, Rejected, parsed
from agent_envs.evaluation.verification.small_files import lines_of, unpack_answers
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from leaderboard.standings import Entrant

MOST = 16  # of a row
BYTES_A_TRANSCRIPT = 150_000
TEXT = "could not be stepped again for this page"


def anchor_of(key: str) -> str:
    """Return the anchor of an episode on its row's page: the same in every build, so that links to it stay."""
    return f"e-{key}"


def episodes_to_show(suite: Suite, episodes: Mapping[str, Checked], most: int = MOST) -> list[str]:
    """Return keys of up to `most` episodes in the suite's order: by turns an entry's failure or success, then the other.

    By turns a failure and a success of the entries, then the other of each, as far as there is room and there is one.
    """
    first: dict[tuple[str, bool], str] = {}
    plan = {key: place.entry.label for key, place in places_of(suite)}
    for key, label in plan.items():
        if key in episodes and episodes[key].turns:
            first.setdefault((label, episodes[key].success), key)
    sides = [[(entry.label, bool(number % 2) == other) for number, entry in enumerate(suite.entries)]
             for other in (True, False)]  # fmt: skip
    keys = [first[side] for side in (*sides[0], *sides[1]) if side in first][:most]
    return [key for key in plan if key in set(keys)]


def transcripts_of(entrant: Entrant, suite: Suite) -> tuple[tuple[RenderedTranscript, ...], tuple[str, ...]]:
    """Return some episodes' transcripts (cached) and failures' lines; none of private suites; UsageError for a changed folder.

    None of a suite that is the board's own, and none of one that was not read from a folder. What was drawn is kept in the
    cache folder, for the same code and submission.

    Raises:
        UsageError: the folder is no longer the one that was verified.
    """
    if entrant.folder is None or suite.id not in suite_names():
        return (), ()
    episodes = {item.key: item for item in entrant.verdict.episodes}
    what = [code_digest(), entrant.verdict.submission, suite.digest()]
    place = cache_dir() / "transcripts" / f"{digest(what)[:32]}.json"
    with tempfile.TemporaryDirectory(prefix="transcripts-") as folder:
        answers = Path(folder) / "externals.jsonl"
        directory = _open_submission(entrant, suite, None if place.is_file() else answers)
        if place.is_file():
            return _cached_transcripts(place), ()
        plays, missing = _plays(directory, suite, set(episodes_to_show(suite, episodes)), answers)
        with ReplayReader(answers) as reader:
            transcripts = tuple(_render(reader, at, play, episodes[at.header.episode_key]) for at, play in plays)
    if not missing:
        rows = [asdict(item) for item in transcripts]
        write_atomically(place, lambda file: file.write(json.dumps(rows).encode()))
    return transcripts, tuple(missing)


def replayed(entrant: Entrant, suite: Suite, keys: set[str]) -> tuple[list[tuple[Place, Trajectory]], list[str]]:
    """Step episodes again; return them, and a line for each that fails; UsageError if the folder has changed since.

    Raises:
        UsageError: the folder is no longer the one that was verified.
    """
    with tempfile.TemporaryDirectory(prefix="replayed-") as folder:
        answers = Path(folder) / "externals.jsonl"
        return _plays(_open_submission(entrant, suite, answers), suite, keys, answers)


def _open_submission(entrant: Entrant, suite: Suite, answers: Path | None) -> Directory:
    """Open a submission's folder, and write its recorded answers if asked; UsageError if it changed since its verification."""
    assert entrant.folder is not None
    try:
        directory = Directory(entrant.folder, len(suite_text(suite).encode()))
        if directory.id != entrant.verdict.submission:
            raise Rejected("it is another submission now")
        if answers is not None:
            unpack_answers(directory, answers)
            answers.touch()
    except Rejected as error:
        why = f"{entrant.verdict.submission[:16]} was changed since it was verified"
        raise UsageError(f"{why}: {error}; do it again") from None
    return directory


def _cached_transcripts(place: Path) -> tuple[RenderedTranscript, ...]:
    """Read rendered transcripts from a cache file, which must exist."""
    rows = json.loads(place.read_bytes())
    return tuple(
        RenderedTranscript(**row | {"outcome": Cell(**row["outcome"]), "html": Markup(row["html"])}) for row in rows
    )


def _plays(
    directory: Directory, suite: Suite, keys: set[str], answers: Path
) -> tuple[list[tuple[Place, Trajectory]], list[str]]:
    """Replay the rows with these keys; return places and trajectories, and a line for each row that raised anything."""
    plan, plays, missing = dict(places_of(suite)), list[tuple[Place, Trajectory]](), list[str]()
    with Recording(answers, "replay") as recording:
        replayer = RowReplayer(suite, Services(recording))
        for row in _rows(directory, suite, keys):
            place = plan[row.key]
            # It was stepped before, or it would stand nowhere; one that now fails costs a transcript, and no row.
            try:
                plays.append((place, replayer.play(row, place)[0].trajectory))
            except Exception as error:  # noqa: BLE001
                missing.append(f"{place.entry.label}: an episode {TEXT} ({type(error).__name__.strip('_')}).")
    return plays, missing


def _rows(directory: Directory, suite: Suite, keys: set[str]) -> Iterator[EpisodeRow]:
    """Yield the episode rows with these keys; other lines are not parsed."""
    encoded_keys = [key.encode() for key in keys]
    for folder in entry_folders(suite).values():
        for path in directory.shards(folder):
            for line in lines_of(path, directory):
                if any(key in line for key in encoded_keys):  # most lines need not be parsed
                    row = parsed(EpisodeRow, line, folder, row_text)
                    if row.key in keys:
                        yield row


def _render(reader: ReplayReader, place: Place, play: Trajectory, checked: Checked) -> RenderedTranscript:
    """Draw the transcript of a replayed episode."""
    head, view = place.header, reader.of(place.entry, play)
    outcome = Cell("success", tone="good") if checked.success else Cell("failure", tone="bad")
    meta = (("entry", place.entry.label), ("trial", str(place.trial + 1)), ("episode key", head.episode_key))
    item = Transcript(
        anchor_of(head.episode_key), f"{place.entry.label}, {head.task_id}", meta, play, view.note, outcome,
        view.conversation, view.pictures, view.names, view.terms,
    )  # fmt: skip
    return draw(item, BYTES_A_TRANSCRIPT)
