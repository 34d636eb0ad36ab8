"""The suite of a submission is taken from this installation or from the board's registry, never from the submission."""

import os
from dataclasses import dataclass
from pathlib import Path

from agent_envs.evaluation.submission.models import MOST_META_BYTES, Submission
from agent_envs.evaluation.suites.suite import DEMO, Suite, load_suite, read_suite, suite_names, suite_text
from leaderboard.directory import Rejected, parsed
from leaderboard.registering import registered_suite

MOST_DEMO_BYTES = 1_000_000


@dataclass(frozen=True)
class BoardSuite:
    """A suite as the board knows it; `agent` is the one that it was drawn for, "" for suites that anyone plays.

    A pack of it is registered up to the day `due`. `part` says how many entries of the suite it has, "" for all of them.
    """

    suite: Suite
    agent: str = ""
    due: str = ""
    part: str = ""


def known_suite(folder: Path, override: Suite | None, registry: Path | None) -> BoardSuite | str:
    """Return the suite: `override`, a registered or an installed one; else the reason as a str; Rejected for a bad file.

    Raises:
        Rejected: submission.json is none.
    """
    if override is not None:
        return BoardSuite(override)
    suite_ref = parsed(Submission, small_file(folder / "submission.json", MOST_META_BYTES), "submission.json").suite
    if registry is not None and (registration := registered_suite(registry, suite_ref.id)) is not None:
        return BoardSuite(registration[0], registration[1].agent, registration[1].due)
    if suite_ref.id not in suite_names():
        where = " nor in the registry" if registry is not None else ""
        return f"suite {suite_ref.id}@{suite_ref.version} is not in this installation{where}: --suite FILE names one of yours"
    suite = load_suite(suite_ref.id)
    part = _played_part(folder, suite) if suite.id == DEMO else suite
    count, of = len(part.entries), len(suite.entries)
    return BoardSuite(part, part=f"{count} of {of} entries" if count < of else "")


def _played_part(folder: Path, suite: Suite) -> Suite:
    """Return the demo suite's part that a submission names, the whole if its text is another; Rejected if it is no suite."""
    text = small_file(folder / "suite.json", MOST_DEMO_BYTES)
    try:
        labels = {entry.label for entry in read_suite(text, "suite.json").entries}
    except ValueError as error:
        raise Rejected(str(error)) from None
    part = suite.part(tuple(item for item in suite.entries if item.label in labels))
    return part if suite_text(part).encode() == text else suite


def small_file(path: Path, most: int) -> bytes:
    """Return the bytes of a stranger's file; Rejected where it is a link, cannot be read, or is longer than `most`.

    Raises:
        Rejected: it cannot be read, or is longer.
    """
    try:
        with open(
            os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)), "rb"
        ) as file:
            text = file.read(most + 1)
    except OSError as error:
        raise Rejected(f"{path.name}: {error.strerror or 'it cannot be read'}") from None
    if len(text) > most:
        raise Rejected(f"{path.name}: more than {most:,} bytes")
    return text
