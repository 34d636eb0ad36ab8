"""A published scenario's prose is read sentence by sentence: what each is for, and how its customer would say it."""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from agent_envs.envs.tau2.users.agent_words import Words, words

LONGEST = 20_000
Kind = Literal["want", "detail", "alternative", "hidden", "unknown"]


SCENARIO: dict[str, Any] = json.loads(files(__package__).joinpath("scenario.json").read_text(encoding="utf-8"))
_ENDS = re.compile(r"(?<=[.!?])(?<!\bSt\.)(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=[\"'(]?[A-Z])|\n\s*\n|\n(?=[A-Z])")
# What is said to a customer is put into its own mouth: other persons, and openings such as "ask the agent to".
_PERSONS, _OPENINGS = (
    [(re.compile(pattern, re.IGNORECASE), form) for pattern, form in SCENARIO[name]] for name in ("persons", "openings")
)


def _prose(section: str) -> Words:
    """Return the patterns of a section of the words for prose, in any case."""
    return words(section, "prose_words.txt", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a scenario.

    Attributes:
        kind: "want": it asks for something; "detail": it tells more of it; "alternative": what is asked for where something
            was refused; "unknown": what the customer does not know; "hidden": direction, which the customer never says.
        text: as the customer says it.
    """

    kind: Kind
    text: str


def statements_in(text: str) -> list[Statement]:
    """Return the statements in a part of a scenario, moods and parentheses left out; [] of an empty text."""
    text = re.sub(r":\s*\n\s*-", ":", text[:LONGEST].replace("’", "'"))
    text = re.sub(r"\n\s*-\s*", ", ", _prose("moods").sub("", _prose("parentheses").sub("", text)))
    parts = (re.sub(r"\s+", " ", part).strip(" .\n\t") + "." for part in _ENDS.split(text))
    return [_classify(part) for part in parts if re.search(r"\w", part)]


def first_person(text: str) -> str:
    """Return a sentence about "you" and "the agent" as the customer says it to the agent, with a capital first."""
    text = _prose("agent").sub("AGENT", _prose("colleague").sub("one of AGENT's colleagues", text))
    for pattern, form in _OPENINGS:
        text = pattern.sub(form, text)
    for pattern, form in _PERSONS:
        text = pattern.sub(form, text)
    text = _prose("agent_says").sub(r"AGENT \1", text).replace("AGENT is", "you are").replace("AGENT has", "you have")
    text = text.replace("AGENT's", "your").replace("AGENT", "you").strip()
    return text[:1].upper() + text[1:]


def _classify(text: str) -> Statement:
    """Return a sentence as a Statement: hidden (unchanged), or, in the first person, want, unknown, detail or alternative."""
    if _prose("secret").search(text) and not _prose("condition").search(text) or _prose("manners").search(text):
        return Statement("hidden", text)
    if (turn := _prose("turns").search(text)) is not None:
        return Statement("want", first_person(turn[1]))
    if _prose("condition").search(text):
        return _read_conditional(text)
    if _prose("staged").search(text):
        return Statement("hidden", text)
    if _prose("unknown").search(text) and not _prose("wish").search(text):
        return Statement("unknown", first_person(text))
    asks = _asks(text) and not _prose("negated").search(text) and not text.startswith("(")
    return Statement("want" if asks else "detail", first_person(text))


def _asks(text: str) -> bool:
    """Return whether a text expresses both a wish and a deed."""
    return bool(_prose("wish").search(text) and _prose("deed").search(text))


def _read_conditional(text: str) -> Statement:
    """Return a sentence with a condition as want, alternative (after a refusal), detail, or hidden where in doubt.

    What rests on a refusal is an alternative; so is what the customer comes up with when the agent is about to act. What it
    says to a question of the agent is a detail. All else that rests on the agent is direction.
    """
    start = _consequence(text)
    condition, consequence = text[:start], _prose("anger").sub("", text[start:])
    asks, staged = _asks(consequence), bool(_prose("staged").search(text))
    speech = _prose("said").search(consequence)
    if staged and speech:
        return Statement("detail", first_person(speech[1]))
    if staged and (more := _prose("more").search(consequence)):
        return Statement("want", first_person(more[0]))
    if len(consequence.split()) < 3 or _prose("staged").search(consequence) or _prose("secret").search(consequence):
        return Statement("hidden", text)
    if _prose("refused").search(condition) and (
        asks or _prose("deed").search(consequence) or _prose("preference").search(consequence)
    ):
        return Statement("alternative", first_person(consequence))
    if staged:
        return Statement(
            "alternative" if asks or _prose("deed").search(consequence) else "hidden", first_person(consequence)
        )
    if not (_prose("deed").search(consequence) or _prose("preference").search(consequence)):
        return Statement("hidden", text)
    return Statement("want" if asks else "detail", first_person(text))


def _consequence(text: str) -> int:
    """Return the position of the consequence in a sentence: behind a comma, or at "you want" or "ask"; 0 if unclear."""
    comma = re.search(r",\s*(?:then )?|\b(?=(?:you|ask|say) )(?<=[a-z] )(?=you want|you would|ask )", text)
    return comma.end() if comma else 0
