"""A board decides in the open: every acceptance, rejection, withdrawal, dispute and reproduction is a row, never rewritten.

`decisions.jsonl` is a journal (see `agent_envs.base.jsonl_log`): a line that was damaged by a kill is dropped, and one that was
edited is refused, naming it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.strict_model import Strict
from agent_envs.base.terminal import one_line
from agent_envs.evaluation.submission.models import Label
from agent_envs.evaluation.suites.suite import Hex, first_fault

NAME = "decisions.jsonl"
Verb = Literal["accepted", "rejected", "withdrawn", "disputed", "reproduced"]
_PLACES = ("accepted", "rejected", "withdrawn")  # what decides whether a row is shown
Reason = Annotated[str, Field(max_length=500), AfterValidator(one_line)]


class Decision(Strict):
    """One decision: about which submission, by whom, when, and why.

    `rejected` is of a submission that was not shown; `withdrawn` takes a row off its board, and `accepted` puts it back;
    `disputed` leaves it there and says so; `reproduced`: the board played the suite again itself, and gives that badge.
    """

    format: Annotated[Literal["agent-envs/decision@1"], Field(alias="schema")] = "agent-envs/decision@1"
    submission: Hex
    verb: Verb
    reason: Reason
    who: Label
    time: Annotated[str, Field(pattern=r"^[0-9T:+-]{20,40}$")]

    def text(self) -> str:
        """Return it as one line."""
        return f"{self.time[:10]} {self.verb} by {self.who}" + (f": {self.reason}" if self.reason else "")


def decide(board: Path, submission: str, verb: Verb, reason: str, who: str) -> Decision:
    """Append a decision, dated now, to a board's file and return it; UsageError where it cannot be shown or written.

    Raises:
        UsageError: the reason or the name cannot be shown, or the file cannot be written.
    """
    time = datetime.now(tz=UTC).isoformat(timespec="seconds")
    try:
        row = Decision(submission=submission, verb=verb, reason=reason, who=who, time=time)
    except ValidationError as error:
        raise UsageError(f"{verb}: {first_fault(error)}") from None
    with Journal(board / NAME) as journal:
        journal.append(row.model_dump(mode="json"))
    return row


def decisions_of(board: Path) -> tuple[Decision, ...]:
    """Return a board's decisions in the file's order; UsageError for a row that is malformed or was edited.

    Raises:
        UsageError: a row is none, or was edited.
    """
    try:
        return tuple(Decision.model_validate(row) for row in read_journal(board / NAME))
    except ValidationError as error:
        raise UsageError(f"{board / NAME}: {first_fault(error)}; restore the file from a copy") from None


def accepted_submissions(decisions: Iterable[Decision]) -> dict[str, tuple[Decision, ...]]:
    """Return the submissions that a board shows, each with all that was decided about it: accepted, and not withdrawn."""
    about: dict[str, list[Decision]] = {}
    for row in decisions:
        about.setdefault(row.submission, []).append(row)
    on_show = {
        name for name, rows in about.items() if [row.verb for row in rows if row.verb in _PLACES][-1:] == ["accepted"]
    }
    return {name: tuple(rows) for name, rows in about.items() if name in on_show}
