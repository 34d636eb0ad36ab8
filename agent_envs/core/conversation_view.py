"""A conversation view shows a reader of a finished run what each participant said and did, and how the end was scored.

An environment whose policy sees one side only has the companion `conversation_view(env) -> ConversationView`, which tells all
sides of the episode as it stands. It may show what no policy is ever shown; nothing but pages is made of it.
"""

from dataclasses import dataclass
from typing import Literal

from agent_envs.base.errors import UsageError

Kind = Literal["words", "call", "result", "change", "note"]
MOST_PARTICIPANTS = 2  # stand beside each other on a page


@dataclass(frozen=True, slots=True)
class Participant:
    """One side; `note` says in a few words who plays it."""

    name: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """One entry of a conversation: words, a call, its result, a change of the state, or a note.

    Attributes:
        participant: the side's name; "" for what belongs to none.
        kind: `words`; a `call` and its `result`, which follows it at once and is folded away with it; a `change` of the
            state, which stands behind the call that made it; a `note`, folded where it has both title and text.
        title: of words, what is odd about them; of a call, the tool; of a change, the record; of a note, its heading.
        text: of words and results, as they were said; of a call, its arguments; of a change, a line a member.
        turn: the policy's turn that brought it about, from 1; 0 for what came before the first.
        mark: a verdict in a few words, which is known at the end alone.
    """

    participant: str
    kind: Kind
    title: str = ""
    text: str = ""
    error: bool = False
    turn: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class ViewCheck:
    """One criterion of the final check, with its verdict.

    Attributes:
        group: what kind of thing it is; checks of one group follow each other.
        text: what should be so.
        verdict: a word or two: "reached", "not made".
        holds: whether it is good; None where it counts for nothing, or is not known.
    """

    group: str
    text: str
    verdict: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class ConversationView:
    """A conversation.

    Attributes:
        participants: its sides from left to right.
        entries: in the order in which they came about.
        facts: names and values of the score; none before the end.
        checks: what the score is made of; none before the end.

    Raises:
        UsageError: there are more sides than a page has room for, or an entry is of none of them.
    """

    participants: tuple[Participant, ...]
    entries: tuple[ViewEntry, ...]
    facts: tuple[tuple[str, str], ...] = ()
    checks: tuple[ViewCheck, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no page can show."""
        names = {participant.name for participant in self.participants}
        if not 1 <= len(names) == len(self.participants) <= MOST_PARTICIPANTS or "" in names:
            raise UsageError(
                f"ConversationView: give 1 to {MOST_PARTICIPANTS} participants with names of their own, "
                f"not {sorted(names)}"
            )
        for entry in self.entries:
            if entry.participant and entry.participant not in names:
                raise UsageError(
                    f"ConversationView: an entry is of {entry.participant[:80]!r}; "
                    f"the participants are {', '.join(sorted(names))}"
                )
