"""Tables of proposals are put to the scripted user; the first count of a table, made before anybody saw its answers, measures.

`python -m tests.envs.tau2.users.proposals [seen|unseen|...|twentyfourth|official] [--show]` counts; FIRST lists the tables.

A table holds, of each scene (`proposal_scenes.json`, or a generated task by its domain and id), what an agent says after the
customer's first words, and which kind of words it is: wanted, unwanted, ambiguous, or closing (then with the answer that it
should get). The rules were mended by classes of failure after each first count but the last, so that later counts are of
tables that were read. `seventh` and `sealed` are two halves, by scenes, of one table that was written before its author read
the reader; `sealed` was counted before the work began (64 of 73 and 15 of 76) and once behind it, and was read only then.
`fourteenth` and `fifteenth` are such halves, too, in the styles of five language models (the sealed one: 36 of 43 and 10 of 62
before, 38 and 10 behind the work); their rows on official tasks, counted with them, stand in `official`: they need the data.
`sixteenth` and `seventeenth` are the odd and the even scenes of a table that its author wrote from scenarios alone, before
opening the reader or any table; customers keep their own manners there, and " >> " stands between turns of the agent. The
seventeenth stayed sealed: it was counted before the work (30 of 34 and 7 of 50) and once behind it; its answers are unread.
`eighteenth` was written by the same author after reading the reader, to practise on.
`nineteenth` and `twentieth` are halves, by scenes, of a table that another author wrote from scenarios and databases alone; the
twentieth stayed sealed: 20 of 24 and 3 of 33 before the work on the others, and the same behind it. `twentyfirst` to
`twentyfourth` were written one after the other, each counted before its author saw an answer, then read to mend the rules.
`nineteenth_official` has the nineteenth's rows on official tasks.
No row was changed after its first count, but six closing rows of the fourth, whose answers its author had noted wrongly.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain, world_of
from agent_envs.envs.tau2.tasks import OfficialSource
from tests.envs.tau2.users.scenes import CALLER, SHOPPER, Talk, row

HALVES = ("seen", "unseen")
# First counts: wanted ones that were accepted, of how many, and unwanted ones.
FIRST = {
    "unseen": (40, 50, 4, 50), "blind": (23, 26, 1, 31), "fourth": (35, 44, 5, 51), "fifth": (26, 32, 7, 37),
    "sixth": (21, 24, 1, 34), "seventh": (51, 59, 12, 69), "eighth": (32, 39, 8, 54), "ninth": (29, 32, 10, 50),
    "tenth": (22, 27, 2, 41), "eleventh": (25, 30, 2, 31), "sealed": (61, 73, 4, 76), "twelfth": (25, 30, 2, 35),
    "thirteenth": (24, 27, 1, 27), "fourteenth": (24, 26, 6, 37), "fifteenth": (38, 43, 10, 62),
    "sixteenth": (38, 42, 4, 52), "seventeenth": (28, 34, 4, 50), "eighteenth": (37, 39, 31, 90),
    "nineteenth": (19, 20, 5, 28), "twentieth": (20, 24, 3, 33), "twentyfirst": (39, 47, 2, 52),
    "twentysecond": (33, 39, 4, 40), "twentythird": (27, 31, 6, 34), "twentyfourth": (25, 28, 4, 18),
}  # fmt: skip
# Tables whose answers were read after the first count.
READ = (*(name for name in FIRST if name not in ("unseen", "seventeenth", "twentieth")), "practice")
FLIER = [
    {"topic": "name", "say": "My name is Kai Winter.", "value": "Kai Winter"},
    {"topic": "user_id", "say": "My user id is kai_winter_1234.", "value": "kai_winter_1234"},
]
_WHO = {"retail": SHOPPER, "airline": FLIER, "telecom": CALLER}
_HERE = Path(__file__).parent
OWN_MANNERS = (  # customers talk as their tasks have it
    *("sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", "twentyfirst", "twentysecond", "twentythird"),
)
_YES = re.compile(r"(?:^|[.!?] )(?:Yes|Sure|OK|Okay|All right)\b")
_NO = re.compile(r"(?:^|[.!?] )No\b")
_SCENES = json.loads((_HERE / "proposal_scenes.json").read_text(encoding="utf-8"))


def scene(name: str, persona: str = "plain") -> Talk:
    """Return a conversation in which the customer of a scene, or of a generated task, has said what it wants."""
    if name.startswith("official "):
        _, domain, task_id = name.split(" ", 2)
        task = thawed(OfficialSource(domain).get("base", task_id).data)
        return Talk(task, persona, domain=load_domain(domain))
    if name not in _SCENES:
        domain, task_id = name.split()
        kind, split = task_id.split("-")[:2]
        task = thawed(GeneratedSource(domain, world_of(task_id), kind).get(split, task_id).data)
        return Talk(task, persona, domain=generated_domain(domain, world=world_of(task_id)))
    told = _SCENES[name]
    task = row(*told.get("wants", ({"say": "x"},)), domain=told["domain"])
    if "instructions" in told:
        task["user_scenario"]["instructions"] = told["instructions"]
        del task["user_script"]
    else:
        task["user_script"]["facts"] = _WHO[told["domain"]]
    return Talk(task, persona, domain=generated_domain("retail") if told["domain"] == "retail" else None)


def rows(half: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield scene, kind, words, and the answer that is due."""
    due = {"wanted": "yes", "unwanted": "no", "ambiguous": "back"}
    for name, kinds in json.loads((_HERE / f"proposals_{half}.json").read_text(encoding="utf-8")).items():
        for kind, texts in kinds.items():
            for text in texts:
                yield (name, kind, text, due[kind]) if isinstance(text, str) else (name, kind, *text)


def answered(name: str, text: str, persona: str = "plain") -> tuple[str, str]:
    """Return how the customer of a scene answers: "yes", "no", "back", "more", "look" or "wish", and its words."""
    talk = scene(name, persona)
    wish = said = talk.answer
    for turn in text.split(" >> "):
        said = said if talk.dialogue.ended else talk.say(turn)
    return kind_of(said, wish, talk), said


def kind_of(said: str, wish: str, talk: Talk) -> str:
    if _YES.search(said):
        return "yes"
    if talk.calls:
        return "look"
    if "###STOP###" in said and not _YES.search(said):
        return "stop"
    if re.search(r"that is all for this|nothing else", said, re.IGNORECASE):
        return "more"
    if _NO.search(said):
        return "no"
    if "?" in said:
        return "back"
    return "wish" if said.rstrip(".") in wish else "other"


def is_due(due: str, got: str, said: str) -> bool:
    """Whether the answer is of the kind that is due: "open" neither ends nor agrees, and "holds X" says X."""
    if due.startswith("holds "):
        return re.search(due.removeprefix("holds "), said) is not None
    return got not in ("yes", "stop") if due == "open" else got == due


def counts(half: str, show: bool = False) -> dict[str, Counter[str]]:
    """Return, of each kind of words, how often each answer came; of closing ones, whether it was the one that is due."""
    found: dict[str, Counter[str]] = {}
    for name, kind, text, due in rows(half):
        got, said = answered(name, text, "task" if half in OWN_MANNERS else "plain")
        right = is_due(due, got, said)
        found.setdefault(kind, Counter())[got if kind != "closing" else ("right" if right else "wrong")] += 1
        if show and not right:
            print(f"[{name}] {kind} -> {got}: {text!r}\n      {said!r}")
    return found


if __name__ == "__main__":
    for one in sys.argv[1:] or HALVES:
        for kind, answers in counts(one, show="--show" in sys.argv or len(sys.argv) > 1).items():
            print(one, kind, dict(answers))
