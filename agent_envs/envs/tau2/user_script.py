"""`UserScript` holds what a scripted user knows and wants as structured facts, read from a task's `user_script`.

A user asks for its wants one after the other. It answers a question by the topic that is asked for: with a fact of the
current want, else with one of its own, else with what it does not know.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.record_schema import Anything, Default, Each, Maybe, SchemaError, shaped

# What an agent may ask for, in every domain; `understanding` knows the words for each.
TOPICS = (
    "name", "email", "zip", "user_id", "phone", "date_of_birth", "customer_id",  # who it is
    "order", "items", "options", "payment", "address", "reason",  # retail
    "reservation", "route", "date", "flight", "cabin", "passengers", "bags", "insurance", "trip",  # airline
    "line", "plan", "device", "location", "amount", "problem",  # telecom
)  # fmt: skip
MOST = 200  # wants, facts of one kind, or signs of one want
_FACT = {"topic": TOPICS, "say": str, "value": Default(str, "")}
_CHECK = {"tool": str, "arguments": Default(Each(Anything()), {}), "passes": str}
_WANT = {
    "say": str,
    "facts": Default([_FACT], ()),
    "signs": Default([str], ()),
    "question": Default(bool, False),
    "only_if_refused": Default(bool, False),
    "insists": Default(int, 0),
    "declines": Default([str], ()),
    "objection": Default(str, ""),
    "check": Maybe(_CHECK),
}
_SCRIPT = {
    "facts": Default([_FACT], ()), "wants": [_WANT], "unknown": Default([TOPICS], ()), "persona": Default(str, "plain")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that the user can tell.

    Attributes:
        topic: what it is about; one of `TOPICS`.
        say: how it is told, a whole sentence in the first person.
        value: the value alone ("10115"), where there is one; "" otherwise.
    """

    topic: str
    say: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The user's own check that a problem is gone: a tool, and a text that a good result contains (any case)."""

    tool: str
    arguments: str  # canonical JSON
    passes: str


@dataclass(frozen=True, slots=True)
class Want:
    """One thing that the user wants.

    Attributes:
        say: how it is asked for, in the first person.
        facts: details, told when they are asked for.
        signs: words by which the user recognises that this is what was brought about ("cancelled").
        question: the user wants to know something, so that any answer without a question settles it.
        only_if_refused: asked for only where the want before it was refused; passed over otherwise.
        insists: how often it protests against a refusal before it gives in.
        declines: texts that, standing in a proposal, make the user decline it.
        objection: what it says then.
        check: how it sees that the problem is gone; None where it takes the agent's word.
    """

    say: str
    facts: tuple[Fact, ...] = ()
    signs: tuple[str, ...] = ()
    question: bool = False
    only_if_refused: bool = False
    insists: int = 0
    declines: tuple[str, ...] = ()
    objection: str = ""
    check: Check | None = None

    def __hash__(self) -> int:
        """Hash the text: many memories are keyed by wants and scripts, and a text caches its own hash."""
        return hash(self.say)


@dataclass(frozen=True, slots=True)
class UserScript:
    """The facts, the wants and the manners of a scripted user.

    Attributes:
        facts: what it knows about itself.
        wants: what it wants, in order; at least one.
        unknown: topics about which it knows nothing, and says so.
        persona: the name of its manners (see `persona`).
    """

    facts: tuple[Fact, ...]
    wants: tuple[Want, ...]
    unknown: tuple[str, ...] = ()
    persona: str = "plain"

    def __hash__(self) -> int:
        """Hash the text, as `Want` does."""
        return hash(self.wants)


def read_script(row: Mapping[str, Any], where: str = "user_script") -> UserScript:
    """Read a task's `user_script`; UsageError, naming `where`, for another form, too many entries or no want."""
    try:
        spec = shaped(thawed(row), _SCRIPT, where)
    except SchemaError as error:
        raise UsageError(f"tau2: {error}") from None
    lists = [
        spec["facts"],
        spec["wants"],
        *(want[name] for want in spec["wants"] for name in ("facts", "signs", "declines")),
    ]
    if max(map(len, lists)) > MOST:
        raise UsageError(f"tau2: {where}: more than {MOST} wants, facts or signs stand together")
    if not spec["wants"]:
        raise UsageError(f"tau2: {where}.wants: a user wants at least one thing")
    return UserScript(_facts(spec["facts"]), tuple(map(_want, spec["wants"])), tuple(spec["unknown"]), spec["persona"])


def script_row(script: UserScript) -> dict[str, Any]:
    """Return a script as JSON data, which `read_script` reads back; checks' arguments as objects."""
    row = asdict(script)
    for want in row["wants"]:
        if want["check"] is not None:
            want["check"]["arguments"] = json.loads(want["check"]["arguments"])
    return row


def _facts(rows: Any) -> tuple[Fact, ...]:
    """Parse rows as facts."""
    return tuple(Fact(row["topic"], row["say"], row["value"]) for row in rows)


def _want(row: Mapping[str, Any]) -> Want:
    """Return a row as a `Want`, its facts typed, its check typed or None."""
    check = row["check"]
    if check is not None:
        check = Check(check["tool"], canonical_json(thawed(check["arguments"])), check["passes"])
    texts = {name: tuple(row[name]) for name in ("signs", "declines")}
    return Want(**{**row, **texts, "facts": _facts(row["facts"]), "check": check})
