"""The suite of a submission is taken from this installation or from the board's registry, never from the submission.

A registry is a folder: `registrations.jsonl`, a journal, beside the suites that registrations drew.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.submission.models import MOST_META_BYTES, Label, Submission
from agent_envs.evaluation.suites.suite import (
    DEMO,
    Hex,
    Suite,
    first_fault,
    load_suite,
    read_suite,
    suite_names,
    suite_text,
)
from agent_envs.evaluation.verification.directory import Rejected, parsed

MOST_DEMO_BYTES = 1_000_000
NAME = "registrations.jsonl"


class Registration(Strict):
    """One row of the registry: who will play which suite until when ("": no limit), and what drew it; a round has a `salt`."""

    format: Annotated[Literal["agent-envs/registration@1"], Field(alias="schema")] = "agent-envs/registration@1"
    agent: Label
    suite: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}@[0-9.]{1,9}$")]
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    digest: Hex
    time: Annotated[str, Field(max_length=40)]
    due: Annotated[str, Field(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")] = ""
    salt: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")] = ""


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
        UsageError: `override` has the id of a shipped suite, and is another one; there is no registry.
    """
    if registry is not None and not registry.is_dir():
        raise UsageError(f"--registry {registry}: there is no such folder")
    if override is not None:
        return _own_suite(override)
    suite_ref = parsed(Submission, small_file(folder / "submission.json", MOST_META_BYTES), "submission.json").suite
    if registry is not None and (registration := registered_suite(registry, suite_ref.id)) is not None:
        return BoardSuite(registration[0], registration[1].agent, registration[1].due)
    if suite_ref.id not in suite_names():
        where = " nor in the registry" if registry is not None else ""
        return f"suite {suite_ref.id}@{suite_ref.version} is not in this installation{where}: --suite FILE names one of yours"
    suite = load_suite(suite_ref.id)
    return _whole_or_part(_played_part(folder, suite) if suite.id == DEMO else suite, suite)


def _own_suite(suite: Suite) -> BoardSuite:
    """Return a suite of a file; UsageError for another one under the id of a shipped suite, but for a part of demo."""
    if suite.id not in suite_names() or suite.digest() == (shipped := load_suite(suite.id)).digest():
        return BoardSuite(suite)
    labels = {entry.label for entry in suite.entries}
    part = shipped.part(tuple(entry for entry in shipped.entries if entry.label in labels))
    if suite.id != DEMO or part.digest() != suite.digest():
        raise UsageError(
            f"--suite: {suite.name} is not the suite of that id in this installation; give yours an id of its own"
        )
    return _whole_or_part(part, shipped)


def _whole_or_part(suite: Suite, whole: Suite) -> BoardSuite:
    """Return a suite as the board knows it, with how many entries of the whole it has where these are fewer."""
    count, of = len(suite.entries), len(whole.entries)
    return BoardSuite(suite, part=f"{count} of {of} entries" if count < of else "")


def _played_part(folder: Path, suite: Suite) -> Suite:
    """Return the demo suite's part that a submission names, the whole if its text is another; Rejected if it is no suite."""
    text = small_file(folder / "suite.json", MOST_DEMO_BYTES)
    try:
        labels = {entry.label for entry in read_suite(text, "suite.json").entries}
    except ValueError as error:
        raise Rejected(str(error)) from None
    part = suite.part(tuple(item for item in suite.entries if item.label in labels))
    return part if suite_text(part).encode() == text else suite


def registrations_of(registry: Path) -> list[Registration]:
    """Return the rows of the registry, those of rounds too, in their order; UsageError for one that is no registration."""
    try:
        return [Registration.model_validate(row) for row in read_journal(registry / NAME)]
    except ValidationError as error:
        raise UsageError(f"{registry / NAME} holds a row that is no registration: {first_fault(error)}") from None


def registered_suite(registry: Path, name: str) -> tuple[Suite, Registration] | None:
    """Return a registration's suite and its row, by the suite's id; None without one; UsageError if the suite's file differs.

    Raises:
        UsageError: the board's own files do not belong together.
    """
    row = next((row for row in registrations_of(registry) if row.id == name), None)
    if row is None:
        return None
    path = registry / f"{row.id}.json"
    if not path.is_file():
        raise UsageError(f"{path}, the suite that was registered, is not there: restore it from a copy")
    suite = read_suite(path.read_bytes(), str(path))
    if suite.digest() != row.digest:
        raise UsageError(f"{path} is not the suite that was registered: restore it from a copy")
    return suite, row


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
