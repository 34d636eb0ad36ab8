"""A table of answers that are the same, and of answers that are not."""

import pytest

from agent_envs.grading.math import math_equal, read_math
from tests.grading.math.pairs import EQUAL, UNEQUAL

EQUAL_PAIRS = [pytest.param(one, two, id=f"{subject}:{one}:{two}") for subject in EQUAL for one, two in EQUAL[subject]]
UNEQUAL_PAIRS = [
    pytest.param(one, two, id=f"{subject}:{one}:{two}") for subject in UNEQUAL for one, two in UNEQUAL[subject]
]


@pytest.mark.parametrize(("one", "two"), EQUAL_PAIRS)
def test_equal(one, two):
    assert math_equal(one, two)
    assert math_equal(two, one)


@pytest.mark.parametrize(("one", "two"), UNEQUAL_PAIRS)
def test_unequal(one, two):
    assert not math_equal(one, two)
    assert not math_equal(two, one)


def test_the_table_is_large():
    assert len(EQUAL_PAIRS) >= 250
    assert len(UNEQUAL_PAIRS) >= 150


@pytest.mark.parametrize("text", sorted({text for pairs in EQUAL.values() for pair in pairs for text in pair}))
def test_every_text_of_the_table_equals_itself(text):
    assert math_equal(text, text)
    assert hash(read_math(text)) == hash(read_math(text))
