"""Every generator: brute force and its own code agree, questions name every number, levels grow."""

import json
import random
import re
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files
from itertools import pairwise
from statistics import mean
from typing import Any

import pytest

from agent_envs.envs.tool_reasoning.math_world import KINDS
from agent_envs.envs.tool_reasoning.math_world.problem import (
    LEVELS,
    LONGEST_ANSWER,
    Number,
    Numbers,
    ProblemKind,
    assignments,
    draw,
    fitted,
    listed,
    worded,
)
from tests.envs.tool_reasoning.brute_force import BRUTE_FORCE
from tests.rows import each_row

EVERY = [kind for kinds in KINDS.values() for kind in kinds]
by_name = pytest.mark.parametrize("kind", EVERY, ids=[kind.name for kind in EVERY])


def test_every_row_of_the_table_has_its_generator() -> None:
    table = json.loads(files("agent_envs.envs.tool_reasoning.math_world").joinpath("kinds.json").read_text("utf-8"))
    assert list(table) == [kind.name for kind in EVERY]


def drawn(kind: ProblemKind, level: int, count: int) -> list[tuple[Numbers, Number]]:
    rng = random.Random(f"{kind.name}/{level}")
    found: list[tuple[Numbers, Number]] = []
    while len(found) < count:
        problem = draw(kind, rng, level, {})
        found += [problem] if problem else []
    return found


def test_there_are_several_kinds_of_each_subject_and_all_are_tried_out() -> None:
    assert {subject: len(kinds) for subject, kinds in KINDS.items()} == {
        "algebra": 4,
        "number theory": 5,
        "counting": 5,
        "sequences": 4,
        "geometry": 5,
    }
    assert [kind.name for kind in EVERY] == list(BRUTE_FORCE)


@by_name
def test_brute_force_finds_the_same_answer(kind: ProblemKind) -> None:
    least = 3 if kind.name == "distributions" else 8  # 5 ** 11 choices take their time
    for numbers, answer in drawn(kind, 1, least):
        if kind.name == "distributions" and numbers["k"] ** numbers["n"] > 300_000:
            continue
        if kind.name == "words without runs" and numbers["k"] ** numbers["n"] > 300_000:
            continue
        assert BRUTE_FORCE[kind.name](**numbers) == answer, numbers


@each_row(
    "name",
    ["polynomial value", "powers of roots", "continued fraction", "power modulo", "powers of divisors", "coprime numbers",
     "sum of digits", "linear recurrence", "sum of whole parts", "points in a circle", "points in a triangle",
     "area under a line", "right triangles"],
)  # fmt: skip
def test_brute_force_also_at_the_middle_level(name: str) -> None:
    kind = next(kind for kind in EVERY if kind.name == name)
    for numbers, answer in drawn(kind, 3, 4):
        assert BRUTE_FORCE[name](**numbers) == answer, numbers


@by_name
def test_answers_are_neither_guessed_nor_copied(kind: ProblemKind) -> None:
    for level in LEVELS:
        answers = [answer for _, answer in drawn(kind, level, 12)]
        assert all(answer.denominator > 1 or abs(answer) >= 10 for answer in answers)
        assert all(len(str(answer)) <= LONGEST_ANSWER for answer in answers)
        assert len(set(answers)) >= 6


@by_name
def test_by_hand_each_level_is_longer_than_the_one_before(kind: ProblemKind) -> None:
    means = [mean(kind.steps(**numbers) for numbers, _ in drawn(kind, level, 40)) for level in LEVELS]
    assert all(later > 1.1 * earlier for earlier, later in pairwise(means)), means


@by_name
def test_every_wording_names_every_number(kind: ProblemKind) -> None:
    assert len(set(kind.wordings)) >= 3
    numbers, _ = drawn(kind, 4, 1)[0]
    digits = set(re.findall(r"\d+", assignments(numbers, {})))
    for wording in kind.wordings:
        text = worded(replace(kind, wordings=(wording,)), random.Random(0), numbers, {})
        shown = set(re.findall(r"\d+", text))
        if kind.name == "polynomial value":
            digits -= {"0", "1"}  # neither is written before a power of x
        if kind.name == "powers of divisors":
            digits -= {str(numbers["k"])}
            assert {2: "squares", 3: "cubes"}[numbers["k"]] in text
        assert digits <= shown, (text, digits - shown)
        assert "{" not in text


@by_name
def test_a_letter_stands_for_a_number_in_question_and_code(kind: ProblemKind) -> None:
    numbers, _ = drawn(kind, 3, 1)[0]
    for name in kind.open_names(3):
        assert f"{name} = P\n" in assignments(numbers, {name: "P"})
        for wording in kind.wordings:
            text = worded(replace(kind, wordings=(wording,)), random.Random(0), numbers, {name: "P"})
            assert re.search(r"\bP\b", text.replace("_", " ")), text
    assert kind.open_names(3), "no fact could ever stand in this problem"


@by_name
def test_the_code_prints_the_answer_at_every_level(kind: ProblemKind, capsys: pytest.CaptureFixture[str]) -> None:
    for level in LEVELS:
        for numbers, answer in drawn(kind, level, 4):
            exec(assignments(numbers, {}) + kind.code, {})
            assert Fraction(capsys.readouterr().out) == answer, numbers


@pytest.mark.parametrize(
    ("value", "span", "expected"),
    [
        (50, (10, 60), (50, "{}")),
        (4, (10, 60), (14, "10 + {}")),
        (1873, (10, 60), (10 + 1873 % 51, "10 + {} % 51")),
        (48_210, (10**6, 10**7), (10**6 + 48_210, "1000000 + {}")),
        (48_210, (10, 2_000), (10 + 48_210 % 997, "10 + {} % 997")),
    ],
)
def test_facts_are_made_to_fit(value: int, span: tuple[int, int], expected: tuple[int, str]) -> None:
    assert fitted(value, span) == expected
    assert span[0] <= expected[0] <= span[1]


@pytest.mark.parametrize(("items", "text"), [([7], "7"), ([1, 2], "1 and 2"), (["a", "b", "c"], "a, b and c")])
def test_lists_read_as_english(items: list[Any], text: str) -> None:
    assert listed(items) == text


def test_known_problems() -> None:
    def solved(name: str, **numbers: Any) -> Number:
        kind = next(kind for kind in EVERY if kind.name == name)
        return kind.solve(**numbers)

    assert solved("power modulo", a=2, e=10, m=1000) == 24
    assert solved("payments", n=100, coins=(1, 5, 10, 25, 50)) == 292
    assert solved("lattice paths", w=20, h=20, blocked=()) == 137_846_528_820
    assert solved("3n + 1", n=27) == 111
    assert solved("powers of divisors", n=28, k=1) == 56
    assert solved("congruences", r=2, s=3, rest=(2,), moduli=(3, 5, 7)) == 23
    assert solved("continued fraction", a=3, b=7, c=15, rest=(1,)) == Fraction(355, 113)
    assert solved("points in a circle", n=100) == 317
    assert solved("right triangles", c=100) == 52
    assert solved("distributions", n=5, k=3) == 150
    assert solved("sum of digits", a=2, e=15) == 26
    assert solved("linear recurrence", a=0, b=1, p=1, q=1, n=50, m=10**12) == 12_586_269_025
