"""Comparing answers, with the pitfalls of published scorers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.grading.text_answers import (
    contains_answer_characters,
    exact_match,
    normalise_answer,
    parse_number,
    says_unknown,
    token_f1,
)
from benchmarks.qa_candidates import contains_answer
from tests.rows import each_row

TEXTS = st.text(st.characters(), max_size=30)


@each_row(
    ("text", "normal"),
    [
        ("The  Quick,\tBrown-Fox!", "quick brownfox"),
        ("a an the", ""),
        ("theatre another", "theatre another"),
        ("“Curly” ‘quotes’ — dash", "“curly” ‘quotes’ — dash"),
        ("it's U.S.A.", "its usa"),
        ("an\u00a0Apple", "apple"),
        ("", ""),
        ("!!!", ""),
    ],
)
def test_the_normal_form(text, normal):
    assert normalise_answer(text) == normal


@given(TEXTS)
def test_normalising_twice_is_normalising_once_unless_an_article_appears(text):
    normal = normalise_answer(text)
    assert normalise_answer(normal) == normal


def test_no_in_norway():
    assert not exact_match("Norway", ["no"])
    assert contains_answer_characters("Norway", ["no"])
    assert not contains_answer("Norway", ["no"])
    assert contains_answer("No, Norway", ["no"])
    assert contains_answer("it is: Monaco-Ville, the capital", ["monacoville capital", "x"])


def test_a_gold_of_articles_alone():
    assert not exact_match("", ["The"])
    assert exact_match("the", ["The"]) and exact_match(" THE ", ["The"])
    assert not exact_match("a", ["The"]) and not exact_match("The who", ["The"])
    assert not contains_answer("anything", ["The"])
    assert contains_answer_characters("anything", ["The"])  # the released check has it so
    assert token_f1("", ["The"]) == 0.0


@pytest.mark.parametrize("golds", [["Paris"], ["The"], [""], [" "], ["!"], [], ["", "Paris"]])
def test_an_empty_answer_matches_nothing(golds):
    for empty in ("", "  ", "\n"):
        assert not exact_match(empty, golds)
        assert not contains_answer(empty, golds)
        assert token_f1(empty, golds) == 0.0


def test_exact_match_takes_any_gold_and_nothing_near():
    assert exact_match("the Beatles!", ["Rolling Stones", "Beatles"])
    assert not exact_match("12", ["12th"]) and not exact_match("12th", ["12"])
    assert not contains_answer("on the 12th day", ["12"])
    assert not exact_match("“Paris”", ["Paris"]) and exact_match('"Paris"', ["Paris"])
    assert not exact_match("Paris France", ["Paris"])


def test_golds_may_be_any_iterable():
    assert exact_match("b", iter(["x", "b"])) and contains_answer("x b", (gold for gold in ("b",)))


def test_token_f1():
    assert token_f1("the red house", ["a red house"]) == 1.0
    assert token_f1("red house", ["red car"]) == 0.5
    assert token_f1("red red red", ["red"]) == 0.5
    assert token_f1("red", ["blue", "red green"]) == pytest.approx(2 / 3)
    assert token_f1("yes", ["no"]) == 0.0


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_scores_agree_with_each_other(prediction, golds):
    score = token_f1(prediction, golds)
    assert 0.0 <= score <= 1.0
    if exact_match(prediction, golds) and normalise_answer(prediction):
        assert score == 1.0 and contains_answer(prediction, golds)
    if contains_answer(prediction, golds):
        assert contains_answer_characters(prediction, golds)


@pytest.mark.parametrize(
    ("answer", "abstains"),
    [
        ("unknown", True), ("Unknown.", True), ("I don't know", True), ("I don’t know!", True), ("i do not know it", True),
        ("unanswerable", True), ("", False), ("the unknown soldier", False), ("unknown, or Paris", False), ("I know", False),
        ("Paris, I don't know", False), ("I don't know" + " at all" * 10_000, True), (" " * 9_993 + "unknowns", True),
    ],
)  # fmt: skip
def test_abstaining(answer, abstains):
    assert says_unknown(answer) is abstains


@each_row(
    ("text", "value"),
    [
        ("1,234", 1234), ("1,234.50", Fraction("1234.5")), ("3/4", Fraction(3, 4)), ("-3/4", Fraction(-3, 4)),
        ("$20", 20), ("12%", 12), ("1e-3", Fraction(1, 1000)), (".5", Fraction(1, 2)), ("5.", 5), ("+7", 7),
        ("  8 ", 8), ("3 / 4", Fraction(3, 4)), ("-0", 0), ("0.1", Fraction(1, 10)), ("6/2", 3), ("1E3", 1000), ("$-20", -20),
        ("-$20", -20), ("- $ 20", -20),
        ("1,234,567.5", Fraction("1234567.5")), ("-1,000", -1000), ("+12,345", 12345), ("$1,000.00", 1000), ("1,000.", 1000),
        ("1,000/3", Fraction(1000, 3)), ("3 / 1,000", Fraction(3, 1000)), ("1,000e3", 1_000_000), (" 999,999 ", 999_999),
    ],
)  # fmt: skip
def test_numbers(text, value):
    assert parse_number(text) == value


@each_row(
    "text",
    ["", " ", "abc", "1/0", "1/2/3", "1e999999", "1e1000", "nan", "inf", "-inf", "1_000", "٣", "1 000", "12th", "--1",
     "1.2.3", "0x10", "$", "%", "/", "1/", "/2", "e5", "9" * 401, "1e-99999999", "½", "1+1", "\ud800",
     "1,2", "0,5", "9,5", "12,34", "1,23,456", "1234,567", "1,2345", "1,234,56", "1,,234", "0,125", "00,125", "01,234",
     "000,000", "1,234,", ",234", ",5", "5,", "1, 234", "1 ,234", "1,234 567", "1,234.567,890", "1.234,5", "1.5,000", "-,5",
     "1e1,000", "1,2/3", "3/1,2", "1,23e3", "$1,2", "9,5%", "5-$", "3-$4", "--$2", "-$", "$$-$2"],
)  # fmt: skip
def test_no_numbers(text):
    assert parse_number(text) is None


def test_a_long_number_is_still_exact():
    assert parse_number("9" * 400) == int("9" * 400)
    assert parse_number("9" * 300 + "e999") == int("9" * 300) * 10**999


@given(TEXTS | st.text("0123456789,./eE+-$% ", max_size=12))
def test_parsing_never_raises(text):
    assert isinstance(parse_number(text), Fraction | None)
    assert contains_answer_characters(text, [text]) in (True, False)
