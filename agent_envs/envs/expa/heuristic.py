"""An honest baseline without a model keys in a question as it stands, and sorts by exchanging neighbours.

It reads the conversation alone, and errs where a question is put otherwise: of a word problem it takes the numbers as they
come, each with the sign that words beside it suggest; for Countdown it tries signs between the numbers as they come, without
brackets; it counts what is written in the question. Of sorting it gives up after as many comparisons as there are items.
"""

import re
from fractions import Fraction
from itertools import pairwise, product

from agent_envs.envs.expa.actions import END, expanded_actions
from agent_envs.envs.expa.calculator.calculator import Calculator, finish, keyable
from agent_envs.envs.expa.calculator.scoring import MARK
from agent_envs.envs.expa.feedback import ARRANGED, CALLS, COMPARED, ITEMS, RELATION
from agent_envs.envs.expa.sorting.environments import SYMBOLS, Compare, Swap
from agent_envs.grading.arithmetic import evaluate
from agent_envs.rollout.policy import Request
from agent_envs.tools.native_tags import ANSWER, in_tags, native_call

_SIGNS = {" plus ": "+", " minus ": "-", " times ": "*", " divided by ": "/"}
_CUES = {
    "/": re.compile(r"packed|on each shelf|per litre"),
    "*": re.compile(r"each|per |times|an hour|a minute"),
    "-": re.compile(r"less|fewer|shorter|lower|leak|out of|away|sent off|cancel|already|reads|paid|orders|buys"),
}
_OPENED = re.compile(r" (calculate|compare|swap)\b([^\n]*)\Z")
_TARGET = re.compile(r"has the value (-?\d{1,40}(?:\.\d{1,9})?) and is made of the numbers (\d[\d, and]*),", re.A)
_REFUSED = re.compile(r"\n\[[^\]\n]*\]\n")
_IDS = {
    action.name: action.id
    for tools in ((Calculator(),), (Compare(len(SYMBOLS)), Swap(len(SYMBOLS))))
    for action in expanded_actions(tools)
}
Move = tuple[str, str]  # a tool and what is said to it, or "" and the answer


def text_action(request: Request) -> str:
    """Return the next call in tags, or natively where its tool is offered so, or the answer; with a prefill, the answer."""
    question, transcript = _conversation(request)
    tool, text = _next_move(question, transcript)
    if tool and request.prefill:
        tool, text = "", "finished" if ITEMS.search(question) else "0"
    offered = [schema["function"]["name"] for schema in request.tools]
    if not request.prefill and (tool or ANSWER[0]) in offered:
        return native_call(request.tools, tool or ANSWER[0], text)
    return f"<{tool}>{text}</{tool}>" if tool else _in_form(question, text)


def expanded_action(request: Request) -> str | int:
    """Return the next expanded action: a key of an open call, a route, the answer, or END once that is written."""
    question, transcript = _conversation(request)
    transcript, refused = _REFUSED.subn("", transcript)
    opened = _OPENED.search(transcript)
    if opened and "=" not in opened[2] and ":" not in opened[2]:
        start = [*opened[2].removeprefix(" ").removesuffix(" and")]
        tool, text = _next_move(question, transcript[: opened.start()])
        keys = [*text, "="] if tool == "calculator" else text.split(", ")
        if not tool or keys[: len(start)] != start or len(keys) == len(start):  # somebody else began this call
            keys = [*start, finish(tuple(start)) if opened[1] == "calculate" else "B" if "A" in start else "A"]
        key = keys[len(start)]
        return _IDS[key] - (key == "=" and refused > 0)  # without a decimal point it has the number before
    tool, text = _next_move(question, transcript)
    if tool:
        return _IDS[tool]
    final = _in_form(question, text)
    return END if final == "<answer>finished</answer>" or transcript.endswith(final) else f"\n{final}"


def _in_form(question: str, text: str) -> str:
    """Return an answer in tags for a sorting question, behind the mark for any other."""
    return f"<answer>{text}</answer>" if ITEMS.search(question) else f"{MARK} {text}"


def _conversation(request: Request) -> tuple[str, str]:
    """Return the first user message and all that was said after it, joined; "" for what is missing."""
    rows = [(str(row["role"]), str(row["content"])) for row in request.messages]
    texts = in_tags(rows, "result")
    question_row = next((place for place, (role, _) in enumerate(rows) if role == "user"), len(rows))
    return "".join(texts[question_row : question_row + 1]), "".join(texts[question_row + 1 :])


def _next_move(question: str, transcript: str) -> Move:
    """Return the next step of the heuristic for the kind of question: sorting or calculation."""
    return _sort_step(question, transcript) if ITEMS.search(question) else _calculation_step(question, transcript)


def _sort_step(question: str, transcript: str) -> Move:
    """Return the first neighbours to compare or swap; the relation where asked for; ("", "finished") when nothing is left."""
    relations = (*RELATION.findall(question), *COMPARED.findall(transcript))
    less = {(one, other) if sign == "<" else (other, one) for one, sign, other in relations}
    items = ITEMS.findall(question)[-1]
    order = [items, *(row for row in ARRANGED.findall(transcript) if sorted(row) == sorted(items))][-1].split(", ")
    for one, other in pairwise(order):
        if (one, other) not in less and (other, one) not in less:
            if "is known about their numbers" not in question and len(relations) < len(order):
                return "compare", f"{one}, {other}"
        elif "Which is larger" in question:
            return "", f"{one} {'<' if (one, other) in less else '>'} {other}"
        elif ((one, other) in less) == ("descending order" in question):
            return "swap", f"{one}, {other}"
    return "", "finished"


def _calculation_step(question: str, transcript: str) -> Move:
    """Return the calculation for the calculator, ("", answer) once it was made, for counting and Countdown, or ("", "0")."""
    question = question.partition("\nGive your final")[0][:10_000]
    if question.startswith("How many times"):
        item, _, rest = re.split(r" (?:digit|symbol|word) ", question, maxsplit=1)[-1].partition(" occur")
        return "", str(rest.count(item))
    target = _TARGET.search(question)
    if target:
        return "", _expression_of(Fraction(target[1]), re.findall(r"[0-9]{1,9}", target[2])[:7])
    results = [result for pattern in CALLS for _, result in pattern.findall(transcript)]
    if results:
        return "", results[-1].strip()
    expression = _calculation_in(question)
    return ("calculator", expression) if keyable(expression) else ("", "0")


def _calculation_in(question: str) -> str:
    """Return the expression after "What is" in symbols; else the question's numbers, joined by its cue words' signs."""
    if question.startswith("What is "):
        for words, sign in _SIGNS.items():
            question = question.replace(words, sign)
        return re.sub(r"[^-+*/().0-9]", "", question)
    expression = ""
    for sentence in re.split(r"[.,] |\?", question):
        sign = next((sign for sign, cue in _CUES.items() if cue.search(sentence)), "+")
        for number in re.findall(r"\d+", sentence):
            expression = f"({expression}){sign}{number}" if expression else number
    return expression


def _expression_of(target: Fraction, numbers: list[str]) -> str:
    """Return an expression of the numbers, in two orders with + - *, that has the value; their sum where none is found."""
    for order in (numbers, sorted(numbers, key=int, reverse=True)):
        for signs in product(("+ ", "- ", "* "), repeat=len(order) - 1):
            expression = " ".join((order[0], *(sign + number for sign, number in zip(signs, order[1:], strict=True))))
            if evaluate(expression) == target:
                return expression
    return " + ".join(numbers)
