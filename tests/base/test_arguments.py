"""Checks of arguments: what passes is given back, what does not is one line with owner, argument, value and fix."""

from enum import IntEnum

import numpy as np
import pytest

from agent_envs import UsageError
from agent_envs.base.arguments import choice, flag, number, portion, whole_number, whole_numbers
from tests.rows import each_row


class Few(IntEnum):
    TWO = 2


def test_what_fits_is_given_back():
    assert (whole_number("Env", "size", 3), whole_number("Env", "size", 0, 0, 0)) == (3, 0)
    assert (portion("Env", "share", 1), number("Env", "seconds", 2, 0, 2)) == (1.0, 2.0)
    assert portion("Env", "share", np.float64(0.5)) == number("Env", "seconds", np.float64(0.5), 0, 1) == 0.5
    assert whole_number("Env", "size", Few.TWO) == 2
    assert choice("Env", "kind", "b", ("a", "b")) == "b" and flag("Env", "on", False) is False


@each_row(
    ("call", "why"),
    [
        (lambda: whole_number("Env", "size", 0), "Env: size=0; give a whole number >= 1"),
        (lambda: whole_number("Env", "size", 9, 1, 8), "Env: size=9; give a whole number from 1 to 8"),
        (lambda: whole_number("Env", "size", True), "Env: size=True; give a whole number >= 1"),
        (lambda: whole_number("Env", "size", 1.0), "Env: size=1.0; give a whole number >= 1"),
        (
            lambda: whole_numbers("Env", size=(1, 1, 2), depth=(3, 1, 2)),
            "Env: depth=3; give a whole number from 1 to 2",
        ),
        (
            lambda: whole_number("Env", "size", 10**50, 1, 2),
            "Env: size=an integer of 167 bits; give a whole number from 1 to 2",
        ),
        (
            lambda: whole_number("Env", "size", 9, 1, 8, otherwise="None"),
            "Env: size=9; give a whole number from 1 to 8, or None",
        ),
        (lambda: portion("Env", "share", float("nan")), "Env: share=nan; give a number from 0 to 1"),
        (lambda: portion("Env", "share", True), "Env: share=True; give a number from 0 to 1"),
        (lambda: number("Env", "seconds", 0, 0, 600, above=True), "Env: seconds=0; give a number above 0, at most 600"),
        (lambda: number("Env", "seconds", 0.5, 1), "Env: seconds=0.5; give a number >= 1"),
        (lambda: number("Env", "seconds", float("inf"), 0), "Env: seconds=inf; give a number >= 0"),
        (lambda: number("Env", "seconds", 601, 0, 600), "Env: seconds=601; give a number from 0 to 600"),
        (lambda: choice("Env", "kind", "c", ("a", "b")), "Env: kind='c'; give one of a, b"),
        (lambda: choice("Env", "kind", ["a"], ("a", "b")), r"Env: kind=['a']; give one of a, b"),
        (lambda: flag("Env", "on", 1), "Env: on=1; give True or False"),
    ],
)
def test_what_does_not_fit_is_one_line(call, why):
    with pytest.raises(UsageError) as error:
        call()
    assert str(error.value) == why


def test_a_long_value_is_cut():
    with pytest.raises(UsageError) as error:
        choice("Env", "kind", "x" * 10_000, ("a",))
    assert len(str(error.value)) < 150
