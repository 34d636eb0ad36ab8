"""A table of answers that are the same, and of answers that are not.

A test goes over the whole table and names each row that fails: a test a row cost ten times what its comparison does.
"""

from agent_envs.grading.math import math_equal, read_math
from tests.grading.math.pairs import EQUAL, UNEQUAL

EQUAL_PAIRS = [(subject, one, two) for subject in EQUAL for one, two in EQUAL[subject]]
UNEQUAL_PAIRS = [(subject, one, two) for subject in UNEQUAL for one, two in UNEQUAL[subject]]


def test_equal():
    assert [row for row in EQUAL_PAIRS if not (math_equal(*row[1:]) and math_equal(*row[:0:-1]))] == []


def test_unequal():
    assert [row for row in UNEQUAL_PAIRS if math_equal(*row[1:]) or math_equal(*row[:0:-1])] == []


def test_the_table_is_large():
    assert len(EQUAL_PAIRS) >= 250
    assert len(UNEQUAL_PAIRS) >= 150


def test_every_text_of_the_table_equals_itself():
    texts = sorted({text for pairs in EQUAL.values() for pair in pairs for text in pair})
    assert [text for text in texts if not math_equal(text, text)] == []
    assert [text for text in texts if hash(read_math(text)) != hash(read_math(text))] == []
