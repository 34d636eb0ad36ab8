"""An honest baseline without a model runs the one program that a question's wording suggests, or searches and guesses.

It reads the conversation alone, and errs often: it looks up each name in the question and answers with a number from the
sentence that shares most words with it; of most problems that need a program it knows nothing.
"""

import re

from agent_envs.base.messages import Message
from agent_envs.envs.tool_reasoning.actions import PYTHON, SEARCH, Actions
from agent_envs.envs.tool_reasoning.feedback import FeedbackContext
from agent_envs.envs.tool_reasoning.solver import UNKNOWN
from agent_envs.rollout.policy import Request

_POLYNOMIAL = re.compile(r"(\d+x\^[-+ x^\d]+\d).*?(?:x = |p\()(\d+)")
_POWER = r"(\d+)(?:\^| to the power of )(\d+)"
_PROGRAMS = {
    re.compile(_POWER + ".* (?:modulo|by) (\\d+)"): "print(pow({0}, {1}, {2}))",
    re.compile("digit.* " + _POWER): "print(sum(int(digit) for digit in str({0} ** {1})))",
    re.compile(r"(?:\^2 <= |radius equal to |squares add up to at most )(\d+)"): (
        "print(sum(x * x + y * y <= {0} for x in range(-99, 100) for y in range(-99, 100)))"
    ),
    re.compile(r"(\d+) (?:by|and) (\d+)\b.*(?:square|tile)"): (
        "a, b, n = {0}, {1}, 0\nwhile b:\n    n += a // b\n    a, b = b, a % b\nprint(n)"
    ),
    re.compile(r"(?:Take |does |from )(\d+)(?:\. Halve| first arrive| down to 1)"): (
        "n, steps = {0}, 0\nwhile n > 1:\n    n = 3 * n + 1 if n % 2 else n // 2\n    steps += 1\nprint(steps)"
    ),
}
_AMOUNT, _YEAR = re.compile(r"\b\d{2,9}\b"), re.compile(r"\b(?:1\d|20)\d\d\b")
_WORD = re.compile(r"[a-z]{4}")  # how words begin, so that "found" and "founded" are alike


def search_and_guess(request: Request) -> str:
    """Return a program, a search for the next name, or (and with a prefill) the answer: the output or a guess."""
    talk = FeedbackContext([
        Message(row["role"], str(row["content"]), "policy" if row["role"] == "assistant" else "tool")
        for row in request.messages
    ])  # fmt: skip
    calls = Actions("json" if "<tool_call>" in str(request.messages[0]["content"]) else "tags", (SEARCH, PYTHON))
    program, names = _program(talk.question), talk.names()
    if program and talk.may_run and not talk.ran and not request.prefill:
        return calls.rendered(PYTHON, program)
    if names and not talk.calculates and talk.may_search and not request.prefill:
        return calls.rendered(SEARCH, names[0])
    return f"<answer>\\boxed{{{talk.output or _guess(talk)}}}</answer>"


def _program(question: str) -> str:
    """Return a program for a polynomial or another known form of question; "" for any other."""
    if match := _POLYNOMIAL.search(question):
        return f"x = {match[2]}\nprint({re.sub(r'(?<=[0-9])x', '*x', match[1]).replace('^', '**')})"
    return next((code.format(*hit.groups()) for form, code in _PROGRAMS.items() if (hit := form.search(question))), "")


def _guess(talk: FeedbackContext) -> str:
    """Return the first number (year, if one is asked for) of the page sentence nearest to the question; UNKNOWN for none."""
    pattern = _YEAR if re.search(r"\byear\b|^When\b", talk.question) else _AMOUNT
    question_words, best, guess = set(_WORD.findall(talk.question.lower())), 0, UNKNOWN
    for sentence in (sentence for _, text in talk.pages for sentence in text.split(". ")):
        shared, numbers = len(question_words & set(_WORD.findall(sentence.lower()))), pattern.findall(sentence)
        if numbers and shared > best:
            best, guess = shared, numbers[0]
    return guess
