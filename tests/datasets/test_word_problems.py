"""Generated word problems: every calculation holds, no number is hidden, and there are many kinds of them."""

import random
import re
import string
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.datasets.number_words import parse_number_words
from agent_envs.datasets.word_problems import RESULT_LIMIT, SETTINGS, STEPS_OF, Form, Setting, WordProblem, word_problem
from tests.examples import examples
from tests.fresh_process import printed
from tests.rows import each_row

FORMS = [(setting, form) for setting in SETTINGS for form in (*setting.openings, *setting.forms)]
HIDING = set("half halves twice double triple dozen pair couple both quarter third percent week-long once".split())


def calculate(step: str) -> Fraction:
    left, operator, right = re.fullmatch(r"(\d+)([-+*/])(\d+)", step).groups()  # type: ignore[union-attr]
    a, b = Fraction(left), Fraction(right)
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator]


def check(problem: WordProblem, digits: int) -> None:
    """Recalculate, and hold every number to its origin."""
    assert re.findall(r"\d+", problem.question) == list(problem.numbers)
    assert all(2 <= int(number) < 10**digits for number in problem.numbers)
    assert "{" not in problem.question and problem.question.endswith("?")
    free = Counter(problem.numbers)
    results: list[str] = []
    used_results: set[str] = set()
    for step in problem.steps:
        for operand in re.findall(r"\d+", step):
            if operand in results:
                used_results.add(operand)
            else:
                assert operand in problem.numbers, (step, problem)
            free.pop(operand, None)
        result = calculate(step)
        assert result.denominator == 1 and 0 < result < RESULT_LIMIT
        results.append(str(result))
    assert not free
    assert set(results[:-1]) <= used_results
    assert results[-1] == problem.answer


@examples(150)
@given(st.integers(), st.integers(2, 12), st.integers(1, 8), st.integers(0, 7))
def test_every_problem_holds(seed: int, digits: int, fewest: int, more: int) -> None:
    most = min(8, fewest + more)
    problem = word_problem(random.Random(f"hold-{seed}"), digits, (fewest, most))
    check(problem, digits)
    assert fewest <= len(problem.steps) <= most


def test_the_default_problems() -> None:
    problems = [word_problem(random.Random(f"default-{index}")) for index in range(2000)]
    for problem in problems:
        check(problem, 6)
    assert Counter(problem.kind for problem in problems).keys() == {setting.name for setting in SETTINGS}
    assert Counter(len(problem.steps) for problem in problems).keys() == {2, 3, 4, 5, 6}
    assert {operator for problem in problems for step in problem.steps for operator in re.sub(r"\d", "", step)} == set(
        "+-*/"
    )
    names = re.compile(r"\b[A-Z][a-z]+\b")
    structures = {re.sub(r"\d+", "#", names.sub("", problem.question)) for problem in problems}
    assert len(structures) > 1500
    assert max(len(number) for problem in problems for number in problem.numbers) == 6


def test_sentences_are_many_and_distinct() -> None:
    texts = [form.text for setting, form in FORMS if (form.source, form.target) != ("cash", "cash")]
    assert len(SETTINGS) >= 8
    assert len(set(texts)) >= 100
    for setting, form in FORMS:
        assert form.op in STEPS_OF
        assert form.target in setting.questions, (setting.name, form)


@each_row(("setting", "form"), FORMS)
def test_a_sentence_states_its_numbers_and_hides_none(setting: Setting, form: Form) -> None:
    fields = [field for _, field, _, _ in string.Formatter().parse(form.text) if field]
    numbers = [field for field in fields if field in ("n", "m")]
    needed = 2 if form.op in ("+*", "-*") or (not form.source and form.op != "=") else 1
    assert numbers == ["n", "m"][:needed]
    words = re.findall(r"[a-z]+", form.text.lower())
    assert not HIDING & set(words)
    for word in words:
        with pytest.raises(ValueError):
            parse_number_words(word)


def test_every_quantity_can_be_asked_for() -> None:
    seen = set()
    for index in range(4000):
        problem = word_problem(random.Random(f"asked-{index}"))
        seen.add((problem.kind, re.sub(r"\b[A-Z][a-z]+\b", "", problem.question.rpartition(". ")[2])))
    assert len(seen) == sum(len(setting.questions) for setting in SETTINGS)


@pytest.mark.parametrize(("digits", "steps"), [(1, (2, 6)), (13, (2, 6)), (6, (0, 2)), (6, (3, 2)), (6, (2, 9))])
def test_arguments_out_of_range(digits: int, steps: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="digits must be 2 to 12"):
        word_problem(random.Random(0), digits, steps)


def test_the_same_in_another_process() -> None:
    code = (
        "import random; from agent_envs.datasets.word_problems import word_problem; "
        "print([word_problem(random.Random(f's{i}')) for i in range(50)])"
    )
    here = str([word_problem(random.Random(f"s{index}")) for index in range(50)])
    assert printed(code) == here + "\n"
