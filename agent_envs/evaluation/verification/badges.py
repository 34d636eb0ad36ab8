"""Badges say what a verdict proves, and beside it what it does not; names that look like others are told here.

A name's skeleton is what is left when marks, case, forms, spaces and punctuation are dropped and the Cyrillic and Greek letters
that look like Latin ones are replaced. The table is short on purpose: a flag is a hint to a person, and what it does not know
is no proof.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from agent_envs.evaluation.suites.suite import DEMO

_EAST = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"}  # written together, and with Latin
_CYRILLIC = "авԁеһіӏјкмнорԛѕтсуѵԝхɡ", "abdehiijkmhopqstcyvwxg"
_GREEK = "αβγεηικνορτυχω", "abyeniknoptuxw"
_LATIN = str.maketrans(f"{_CYRILLIC[0]}{_GREEK[0]}ı01|l", f"{_CYRILLIC[1]}{_GREEK[1]}ioiii")


@dataclass(frozen=True)
class Badge:
    """One badge, in two sentences, and whether a row that has it is ranked on generated tasks."""

    proves: str
    not_proved: str
    ranked: bool = False


BADGES = {
    "complete": Badge(
        "Every planned episode is there once, in the suite's order, and was played to its end.",
        "It does not prove that this was the only run: many can be played, and the best one packed.",
    ),
    "replayed": Badge(
        "Every action was stepped again here and gave every observation, reward, flag and score.",
        "It does not prove who acted: a person, another model or the built-in solver may have chosen the actions.",
    ),
    "replayed with recordings": Badge(
        "Every action was stepped again, with the recorded answers of outside services; exactly these were asked for.",
        "It proves neither who acted nor that the service gave these answers: they are the submitter's.",
    ),
    "registered": Badge(
        "Its tasks were drawn from a nonce or a salt that was issued after the agent was registered: nobody had seen them.",
        "It does not prove which model acted, nor that the run was the only one after these were known.",
        ranked=True,
    ),
    "reproduced": Badge(
        "The board played the suite again with the named open weights; only the people who run the board give this badge.",
        "It does not prove that the training data held none of the tasks, nor that closed parts of the agent are the same.",
        ranked=True,
    ),
}


def ranked(badges: tuple[str, ...], suite_id: str) -> bool:
    """Return whether a row with these badges is ranked; runs of `demo` never are."""
    return not suite_id.startswith(DEMO) and any(BADGES[name].ranked for name in badges)


def mixed_scripts(name: str) -> tuple[str, ...]:
    """Return the scripts of a name's letters, sorted, where they are seldom written together; else ()."""
    letters = (
        letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) in ("Lu", "Ll", "Lo")
    )
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in letters}
    usual = {*_EAST, "LATIN"} if scripts & _EAST else {"LATIN"}
    return tuple(sorted(scripts)) if len(scripts) > 1 and scripts - usual else ()


def skeleton(name: str) -> str:
    """Return a name's skeleton: two names with one skeleton look alike."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    kinds = ((letter, unicodedata.category(letter)) for letter in plain)
    letters = "".join(" " if kind == "Sk" or kind[0] in "ZPC" else letter for letter, kind in kinds if kind[0] != "M")
    words = re.sub(r"(?<=\d) +(?=\d)", ".", letters).replace(" ", "")  # 1.7 is not 17
    return (words or plain).translate(_LATIN).replace("rn", "m")


def lookalikes(name: str, others: Iterable[str]) -> list[str]:
    """Return the other names that look like this one, sorted, each once; not the name itself."""
    mine = skeleton(name)
    return sorted({other for other in others if other != name and skeleton(other) == mine})
