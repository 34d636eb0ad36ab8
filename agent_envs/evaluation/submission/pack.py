"""`pack_run` makes of a run's folder a submission: a directory that anyone can replay, written in one piece or not at all."""

import itertools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.base.serialization import sha256_file
from agent_envs.base.terminal import progress_bar
from agent_envs.core.registry import companion_of
from agent_envs.core.trajectory import Header, Trajectory
from agent_envs.evaluation.runs.measures import class_of
from agent_envs.evaluation.runs.run_folder import Run, RunEpisode, Spool, open_run
from agent_envs.evaluation.submission import models
from agent_envs.evaluation.submission.episode_rows import AttemptRow, ExternalRow, ShardWriter, row_of, row_text
from agent_envs.evaluation.submission.provenance import read_about, submission_of
from agent_envs.evaluation.submission.replay_pool import Replaying, check_all
from agent_envs.evaluation.submission.replaying import Checked, places_of
from agent_envs.evaluation.submission.secrets_scan import SecretScan
from agent_envs.evaluation.suites.plan import NOT_HERE, entry_env, gold_note
from agent_envs.evaluation.suites.suite import first_fault, suite_text
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.services.recording import read_answers

MOST_BYTES = 2_000_000_000
MOST_CAUSE = 2_000
FEW = 64  # episodes that this process replays by itself: another would take longer to start


def pack_run(
    folder: Path,
    target: Path,
    about: Path | None = None,
    *,
    incomplete: bool = False,
    allow: Sequence[str] = (),
    replay: bool = True,
) -> str:
    """Write a run's submission and return its id, the manifest's sha256; UsageError, nothing left, if it cannot be packed.

    Args:
        folder: of the run.
        target: the directory to make; it may be there if it is empty.
        about: a file with what only a person can tell, see `provenance.about_template`.
        incomplete: pack although planned episodes were not played to their end; they count 0.
        allow: kinds of seeming secrets that are meant to be public, see `secrets_scan.KINDS`.
        replay: step every episode again before it is packed; the manifest says if it was not.

    Raises:
        UsageError: the run is a smoke run, is not complete, does not fit the format, seems to hold a secret, was shown
            the gold or is not what its actions give, or the target is taken. Nothing is left behind then.
    """
    run = open_run(folder)
    if run.config.identity.smoke:
        raise UsageError(f"{folder} is a smoke run (-n): it holds a part of its tasks, and cannot be packed")
    if leak := _gold_leak(run):
        raise UsageError(f"{folder} cannot be packed: {leak}")
    scan = SecretScan(allow)
    answers, report = read_about(about)
    submission = submission_of(run, answers, reference=_is_privileged(run))
    target = _check_target(target)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with ExitStack() as stack:
            packing = _Packing(run, draft, scan, stack)
            packing.take_episodes()
            if not incomplete:
                packing.refuse_incomplete()
            if replay:
                packing.replay_episodes()  # and only what it asked for is packed of the recorded answers
            packing.write_texts(submission, report)
            packing.write_episodes()
            packing.write_attempts()
            packing.write_externals()
        scan.refuse()
        name = _write_manifest(draft, replay)
        _publish(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return name


def lost_episodes(run: Run) -> list[str]:
    """Return the keys of a run's episodes that their actions and the answers of its recording do not give again."""
    with ExitStack() as stack:
        packing = _Packing(run, Path(stack.enter_context(tempfile.TemporaryDirectory())), SecretScan(()), stack)
        packing.take_episodes()
        return [key for key, check in packing.checks() if check.findings]


class _Packing:
    """One packing: the run that is read, and the files that are written."""

    def __init__(self, run: Run, draft: Path, scan: SecretScan, stack: ExitStack) -> None:
        """Set up the packing with a spool file for episodes; outcomes and characters are counted on the way."""
        self._run, self._draft, self._scan = run, draft, scan
        self._stack = stack
        self._episodes = self._spool()
        self._outcomes: Counter[str] = Counter()
        self._bytes = 0
        self._answer_keys: set[str] | None = None  # keys of recorded answers; None where nothing was replayed

    def take_episodes(self) -> None:
        """Read the journal once and spool a row an episode; UsageError for one twice, not as planned or beyond the format."""
        plan = dict(places_of(self._run.suite))
        for episode in self._run.sound_rows():
            if episode.key in self._episodes.places:
                raise UsageError(f"{self._run.folder}: episode {episode.key} is there twice")
            self._episodes.put(episode.key, _row(_check_header(episode, plan[episode.key].header)))
            self._outcomes[episode.result.status] += 1
        self._outcomes["missing"] = len(plan) - self._outcomes.total()

    def refuse_incomplete(self) -> None:
        """Raise UsageError, with their counts, where planned episodes were not played to their end."""
        counts = {name: self._outcomes[name] for name in ("fault", "budget", "missing") if self._outcomes[name]}
        if not counts:
            return
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise UsageError(
            f"{self._run.folder}: {sum(counts.values())} of {self._outcomes.total()} planned episodes were not played to "
            f"their end ({words}): agent-envs eval --resume {self._run.folder} plays them; with --incomplete they are "
            "packed as they are and count 0"
        )

    def checks(self) -> Iterator[tuple[str, Checked]]:
        """Yield (key, check) of every spooled episode, stepped again as a verifier does; a killed packing goes on."""
        labels = {key: place.entry.label for key, place in places_of(self._run.suite)}
        keys = list(self._episodes.places)
        jobs = (os.cpu_count() or 1) if len(keys) > FEW else 0
        path = self._run.externals if self._run.externals.is_file() else None
        how = Replaying(self._run.suite, path, jobs)
        lines = ((labels[key], self._episodes.get(key).encode()) for key in keys)
        with progress_bar(f"replaying {self._run.folder}", quiet=not jobs) as tell:
            progress = (lambda checked, wins: tell(checked, len(keys), wins)) if tell is not None else None
            checks = check_all(lines, how, sha256_file(path) if path is not None else "", progress=progress)
        self._answer_keys = {key for check in checks for key in check.answer_keys}
        yield from zip(keys, checks, strict=True)

    def replay_episodes(self) -> None:
        """Step every spooled episode again; UsageError where one differs."""
        checks = dict(self.checks())
        wrong = [f"episode {key}: {check.findings[0]}" for key, check in checks.items() if check.findings]
        if unknown := wrong or [check.unknown for check in checks.values() if check.unknown]:
            what = "not what their actions give" if wrong else "not to be replayed here (--no-replay packs them)"
            count = f"{len(unknown)} of {len(checks)}"
            raise UsageError(f"{self._run.folder}: {count} episodes are {what}: {'; '.join(unknown[:3])}")

    def write_texts(self, submission: models.Submission, report: str) -> None:
        """Write the small files, once they are searched for secrets; UsageError for a description that is too long."""
        text = models.file_text(submission)
        if len(text.encode()) > models.MOST_META_BYTES:
            raise UsageError(f"submission.json would be larger than {models.MOST_META_BYTES:,} bytes: shorten --about")
        # A contact is given in order to be published; all else in it is searched.
        contact = submission.submitter.contact.replace("@", " ")
        without_contact = submission.model_copy(
            update={"submitter": submission.submitter.model_copy(update={"contact": contact})}
        )
        self._write_text("submission.json", text, models.file_text(without_contact))
        self._write_text("suite.json", suite_text(self._run.suite))
        if report:
            self._write_text("report.md", report)

    def write_episodes(self) -> None:
        """Write one row for every planned episode in the suite's order; those that the journal lacks as `missing`."""
        folders = models.entry_folders(self._run.suite)
        for label, places in itertools.groupby(places_of(self._run.suite), lambda item: item[1].entry.label):
            with closing(ShardWriter(self._draft / folders[label])) as writer:
                for key, place in places:
                    if key not in self._episodes.places:
                        nothing = EpisodeResult(Trajectory(place.header, (), ()), "missing")
                        self._episodes.put(key, _row(RunEpisode(key, place.entry, place.cluster, place.trial, nothing)))
                    self._write_line(writer, self._episodes.get(key))

    def write_attempts(self) -> None:
        """Write every attempt at every episode in the suite's order, causes cut to 2,000 characters, scanned for secrets."""
        attempts: dict[str, list[tuple[str, str]]] = {}
        journal = read_journal(self._run.log().path)
        next(journal, None)
        for row in journal:
            failed = [("fault", cause) for cause in row["attempts"]]
            attempts.setdefault(row["key"], []).extend([*failed, (row["status"], row["fault"])])
        with (self._draft / "attempts.jsonl").open("wb") as file:
            number = 0
            for key, _, _, _, _ in self._run.suite.episodes():
                for attempt, (status, cause) in enumerate(attempts.get(key, ()), start=1):
                    number += 1
                    cause = cause[:MOST_CAUSE].encode("utf-8", "replace").decode()  # no halves of characters
                    line = row_text(AttemptRow(key=key, attempt=attempt, status=status, cause=cause))  # type: ignore[arg-type]
                    self._scan.scan_line("attempts.jsonl", number, line)
                    file.write(line.encode() + b"\n")

    def write_externals(self) -> None:
        """Write the answers of outside services that a replay asks for, sorted by their keys; UsageError for another form."""
        spool = self._spool()
        for row in read_answers(self._run.externals):
            if self._answer_keys is not None and row["key"] not in self._answer_keys:
                continue  # of an attempt that failed, say
            try:
                spool.put(row["key"], row_text(ExternalRow(**row)))
            except (ValidationError, TypeError, ValueError) as error:
                raise UsageError(f"{self._run.externals}: an answer does not fit the format: {error}") from None
        with closing(ShardWriter(self._draft / "externals")) as writer:
            for key in sorted(spool.places):
                self._write_line(writer, spool.get(key))

    def _spool(self) -> Spool:
        """Return a new spool in a temporary file, which goes when the packing ends."""
        return Spool(self._stack.enter_context(tempfile.TemporaryFile(dir=self._draft.parent)))

    def _write_text(self, name: str, text: str, searched: str = "") -> None:
        """Write a text file, and scan it (or `searched` in its place) for secrets line by line."""
        for number, line in enumerate((searched or text).splitlines(), start=1):
            self._scan.scan_line(name, number, line)
        (self._draft / name).write_bytes(text.encode())

    def _write_line(self, writer: ShardWriter, line: str) -> None:
        """Write a row to a shard and scan it for secrets; UsageError once all rows are longer than the format allows."""
        self._bytes += len(line)
        if self._bytes > MOST_BYTES:
            raise UsageError(
                f"{self._run.folder}: more than {MOST_BYTES:,} characters of rows; the format takes no more"
            )
        path, number = writer.write(line)
        self._scan.scan_line(path.relative_to(self._draft).as_posix(), number, line)


def _is_privileged(run: Run) -> bool:
    """Return whether the agent reads the gold: the built-in solver by its name, and whatever the journal marks as such."""
    head = next(read_journal(run.log().path), None)
    return run.agent == "solver" or (isinstance(head, dict) and head.get("privileged") is not False)


def _gold_leak(run: Run) -> str:
    """Return a note on an environment of a run that shows the gold, by its config or as it is now; "" where none does."""
    notes = list(run.config.notes.shows_gold)
    for entry in run.suite.entries:
        try:
            note = gold_note(entry_env(entry)) if companion_of(class_of(entry), "shows_gold") else ""
        except NOT_HERE:
            continue  # not known here: what was noted stands
        notes += [f"{entry.label}: {note}"] if note else []
    return next(iter(notes), "")


def _check_header(episode: RunEpisode, planned: Header) -> RunEpisode:
    """Return an episode if its header is the planned one, which one without turns is given; UsageError if it differs."""
    trajectory = episode.result.trajectory
    if not trajectory.turns:
        return replace(episode, result=replace(episode.result, trajectory=replace(trajectory, header=planned)))
    if trajectory.header != planned:
        names = [name for name in Header.__match_args__ if getattr(trajectory.header, name) != getattr(planned, name)]
        raise UsageError(f"episode {episode.key} was played with another {', '.join(names)} than planned")
    return episode


def _row(episode: RunEpisode) -> str:
    """Return an episode as a row of the submission; UsageError where its form does not allow that."""
    try:
        return row_text(row_of(episode))
    except ValidationError as error:
        raise UsageError(f"episode {episode.key} cannot be packed: {first_fault(error)}") from None


def _check_target(target: Path) -> Path:
    """Return a directory's absolute path and make its parent; UsageError unless it is new or empty, and no link."""
    target = Path(os.path.abspath(target))
    try:
        if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
            raise UsageError(f"{target} exists and is no empty directory: choose another")
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{target} cannot be made: {error}") from None
    return target


def _write_manifest(draft: Path, replayed: bool) -> str:
    """Write the manifest of all files with sizes and digests, and return its own sha256."""
    paths = sorted(path.relative_to(draft).as_posix() for path in draft.rglob("*") if path.is_file())
    rows = tuple(
        models.FileRow(path=path, bytes=(draft / path).stat().st_size, sha256=sha256_file(draft / path))
        for path in paths
    )
    (draft / "manifest.json").write_bytes(models.file_text(models.Manifest(files=rows, replayed=replayed)).encode())
    return sha256_file(draft / "manifest.json")


def _publish(draft: Path, target: Path) -> None:
    """Rename a finished draft, which is its maker's alone until then, into place."""
    mask = os.umask(0)
    os.umask(mask)
    draft.chmod(0o777 & ~mask)
    if target.exists():
        target.rmdir()
    draft.rename(target)
