"""What sorting and ordering still need: the comparison to make, the swap to make, or nothing more."""

import re
from collections.abc import Sequence

from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import closure, minimal_swaps, next_comparison
from agent_envs.base.messages import Message
from agent_envs.wrappers.scripted_feedback import Hint

_ITEMS = re.compile(r"The items ([A-H](?:, [A-H]){1,7}) ")
_RELATION = re.compile(r"\b([A-H])([<>])([A-H])\b")
_COMPARED = re.compile(r"(?:<result>|:) ([A-H]) ([<>]) ([A-H])\b")
_ARRANGED = re.compile(r"(?:<result>|=>) ([A-H](?:, [A-H]){1,7})(?![\w,])")


def advise(question: str, messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return the situation of a conversation about `question`.

    Raises:
        ValueError: items and results contradict each other.
    """
    items = _ITEMS.match(question)
    if items is None:
        raise ValueError("no items")
    size, shown = len(items[1].split(", ")), "".join(m.content for m in messages if m.author != "policy")
    told = (*_RELATION.findall(question), *_COMPARED.findall(shown))
    pairs = ((one, other) if sign == "<" else (other, one) for one, sign, other in told)
    known = frozenset((SYMBOLS.index(less), SYMBOLS.index(more)) for less, more in pairs)
    arranged = [items[1], *_ARRANGED.findall(shown)][-1].split(", ")
    situation, pair = _step(question, size, known, tuple(map(SYMBOLS.index, arranged)))
    slots = dict(zip("ab", (SYMBOLS[place] for place in pair), strict=False))
    if mode == "exploit" and quality == "good":
        return situation, slots
    slots = {"a": arranged[0], "b": arranged[-1], **slots}
    if quality == "good":
        return ("undecided" if situation == "compare" else "unsorted" if situation == "swap" else "sorted"), slots
    if "Which is larger" in question:
        return {"less": "greater", "greater": "less"}.get(situation, "sign"), slots
    return ("sorted" if situation == "finish" else "unsorted"), slots


def _step(
    question: str, size: int, known: frozenset[tuple[int, int]], order: tuple[int, ...]
) -> tuple[str, tuple[int, ...]]:
    """Return what comes next, and the two items that it is about."""
    pair = next_comparison(size, known)
    if pair is not None:
        return "compare", pair
    if "Which is larger" in question:
        return "less" if (0, 1) in known else "greater", (0, 1)
    below = closure(known)
    rank = {place: sum(other == place for _, other in below) for place in range(size)}
    target = tuple(sorted(range(size), key=lambda place: rank[place], reverse="descending order" in question))
    swaps = minimal_swaps(order, target)
    return ("swap", swaps[0]) if swaps else ("finish", ())
