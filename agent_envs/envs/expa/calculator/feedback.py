"""What a calculator task still needs: the calculation to make, or the answer and its form."""

import re
from collections.abc import Sequence

from agent_envs.envs.expa.calculator.derivations import Derivation, derivation
from agent_envs.base.messages import Message
from agent_envs.wrappers.scripted_feedback import Hint

_MOST_SEQUENCE = 100  # characters
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CALLS = (
    re.compile(r"<calculator>([^<>]{1,600})(?:</calculator>[^<]{0,10000})?<result> ([^<]{0,2000}) </result>"),
    re.compile(r" calculate ([-+*/().0-9]{1,600})=([^\n]{0,2000})"),
)


def advise(question: str, messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return the situation of a conversation about `question`, whose last line is about the form of the answer."""
    question = question.rpartition("\nGive your final answer")[0]
    said = "".join(message.content for message in messages)
    calls = [call for pattern in _CALLS for call in pattern.findall(said)]
    computed = {"".join(call[0].split()).removesuffix("=") for call in calls}
    plan, numbers = derivation(question), _NUMBER.findall(question) or ["0"]
    pending = next((step for step in plan.steps if step not in computed), "")
    if mode == "exploit" and quality == "good":
        return _next(plan, pending, [number for number in numbers if number not in said])
    slots = {"number": numbers[0], "guess": numbers[-1], "step": plan.steps[0] if plan.steps else numbers[0]}
    if plan.kind == "count":
        return "count", {**slots, "guess": str(len(plan.sequence) + 1)}
    return "pending" if pending or not plan.steps else "known", slots


def _next(plan: Derivation, pending: str, unused: Sequence[str]) -> Hint:
    """Return the next step of a derivation; where there is none, what was not used yet."""
    if pending:
        return "calculate", {"step": pending}
    if plan.kind == "count":
        sequence = " ".join(plan.sequence)
        return "count", {"item": plan.item, "sequence": sequence if len(sequence) <= _MOST_SEQUENCE else ""}
    if plan.steps:
        return plan.kind, {"step": plan.steps[-1]}
    return ("unused", {"number": unused[0]}) if unused else ("enough", {})
