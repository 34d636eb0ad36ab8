"""Scripted feedback for ExpA's tasks advises on calculating or on sorting, by the question of the conversation.

On calculating it names the calculation that is still to be made, or the answer and its form; on sorting the comparison or the
swap that is still to be made, or nothing more.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from agent_envs.base.messages import Message
from agent_envs.envs.expa.calculator.derivations import Calculation, derivation
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import Pair, known_order, minimal_swaps, next_comparison
from agent_envs.tools.native_tags import in_tags
from agent_envs.wrappers.scripted_feedback import FeedbackWordings, Hint, scripted

WORDINGS = FeedbackWordings(__package__)
_MOST_SEQUENCE = 100  # characters
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
CALLS = (
    re.compile(r"<calculator>([^<>]{1,600})(?:</calculator>[^<]{0,10000})?<result> ([^<]{0,2000}) </result>"),
    re.compile(r" calculate ([-+*/().0-9]{1,600})=([^\n]{0,2000})"),
)
ITEMS = re.compile(r"The items ([A-H](?:, [A-H]){1,7}) ")
RELATION = re.compile(r"\b([A-H])([<>])([A-H])\b")
COMPARED = re.compile(r"(?:<result>|:) ([A-H]) ([<>]) ([A-H])\b")
ARRANGED = re.compile(r"(?:<result>|=>) ([A-H](?:, [A-H]){1,7})(?![\w,])")


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    texts = in_tags(((message.role, message.content) for message in messages), "result")
    own_messages = [replace(message, content=text) for message, text in zip(messages, texts, strict=True)]
    return scripted(WORDINGS, _advise, own_messages, mode, quality, rng)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return a hint on a conversation, on sorting where its first user message begins "The items ", else on calculating."""
    opened = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    question = messages[opened].content
    advise = _on_sorting if question.startswith("The items ") else _on_calculating
    return advise(question, messages[opened + 1 :], mode, quality)


def _on_calculating(question: str, messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return situation and slots of a calculating task: the next step for good exploit advice, else by what is pending."""
    question = question.rpartition("\nGive your final answer")[0]
    text = "".join(message.content for message in messages)
    calls = [call for pattern in CALLS for call in pattern.findall(text)]
    computed = {"".join(call[0].split()).removesuffix("=") for call in calls}
    plan, numbers = derivation(question), _NUMBER.findall(question) or ["0"]
    pending = next((step for step in plan.steps if step not in computed), "")
    if mode == "exploit" and quality == "good":
        return _next_step(plan, pending, [number for number in numbers if number not in text])
    slots = {"number": numbers[0], "guess": numbers[-1], "step": plan.steps[0] if plan.steps else numbers[0]}
    if plan.kind == "count":
        return "count", {**slots, "guess": str(len(plan.sequence) + 1)}
    return "pending" if pending or not plan.steps else "known", slots


def _next_step(plan: Calculation, pending: str, unused: Sequence[str]) -> Hint:
    """Return the next step of a derivation; without one the sequence to count, the last step, an unused number, or "enough"."""
    if pending:
        return "calculate", {"step": pending}
    if plan.kind == "count":
        sequence = " ".join(plan.sequence)
        return "count", {"item": plan.item, "sequence": sequence if len(sequence) <= _MOST_SEQUENCE else ""}
    if plan.steps:
        return plan.kind, {"step": plan.steps[-1]}
    return ("unused", {"number": unused[0]}) if unused else ("enough", {})


def _on_sorting(question: str, messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return situation and slots of a sorting task, by mode and quality; ValueError where items and results do not fit."""
    items = ITEMS.match(question)
    if items is None:
        raise ValueError("no items")
    size, results = len(items[1].split(", ")), "".join(m.content for m in messages if m.author != "policy")
    relations = (*RELATION.findall(question), *COMPARED.findall(results))
    pairs = ((one, other) if sign == "<" else (other, one) for one, sign, other in relations)
    pairs_known = frozenset((SYMBOLS.index(less), SYMBOLS.index(more)) for less, more in pairs)
    arranged = [items[1], *ARRANGED.findall(results)][-1].split(", ")
    situation, pair = _next_move(question, size, pairs_known, tuple(map(SYMBOLS.index, arranged)))
    slots = dict(zip("ab", (SYMBOLS[place] for place in pair), strict=False))
    if mode == "exploit" and quality == "good":
        return situation, slots
    slots = {"a": arranged[0], "b": arranged[-1], **slots}
    if quality == "good":
        return ("undecided" if situation == "compare" else "unsorted" if situation == "swap" else "sorted"), slots
    if "Which is larger" in question:
        return {"less": "greater", "greater": "less"}.get(situation, "sign"), slots
    return ("sorted" if situation == "finish" else "unsorted"), slots


def _next_move(question: str, size: int, pairs: frozenset[Pair], order: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Return optimal play's situation (compare, less, greater, swap, finish) and the two items it is about, () for finish."""
    pair = next_comparison(size, pairs)
    if pair is not None:
        return "compare", pair
    if "Which is larger" in question:
        return "less" if (0, 1) in pairs else "greater", (0, 1)
    swaps = minimal_swaps(order, known_order(size, pairs, "descending order" in question))
    return ("swap", swaps[0]) if swaps else ("finish", ())
