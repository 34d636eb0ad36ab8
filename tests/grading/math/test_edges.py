"""Edges of the readers that a run of mutations found untested: units, words, brackets and commas, long numbers, chains."""

import pytest

from agent_envs.grading.math import math_equal, read_math
from agent_envs.grading.math.limits import MAX_BRACKETS, MAX_CHARACTERS, MAX_DIGITS, MAX_ITEMS, MAX_SIGNS
from agent_envs.grading.math.values import Many, MathWords, Quotient

EQUAL = {
    "units": [
        ("x cm^2", "x"),
        ("15/cm", "15"),
        ("1/5 cm^2", "1/5"),
        (r"5\text{apples}", "5"),
        (r"5\text{ Bq}", "5"),
        ("5 kHz", "5"),
        ("5 Ft", "5"),
        ("5 bags", "5"),
        (r"{5\text{m}}", "5"),
        ("20 °C", "20"),
        (r"20^{\circ}F", "20"),
        ("25 feet squared", "25"),
        ("25 squared feet", "25"),
        (r"25\text{ m squared}", "25"),
        ("5 dozen eggs", "60"),
        (r"5\text{ dozen}", "60"),
        ("3 tenths", r"3\text{ tenths}"),
    ],
    "letters and words": [
        ("AB", "BA"),
        ("AB+C", "BA+C"),
        ("3am", "3ma"),
        ("abc", "cba"),
        ("2rpi", r"2 r \pi"),
        ("2piR", r"2R\pi"),
        ("yes!", "yes"),
        ("very good!", "very good"),
    ],
    "commas and brackets": [
        ("(1,2), 1,234", "(1,2); 1234"),
        ("(2+1,234)", "(3,234)"),
        ("[1,2], (3,4), 1,234", "(3,4); 1234; [1,2]"),
        (r"\{1,2\}, 1,234", "1; 2; 1234"),
        ("({5},2)", "(5,2)"),
    ],
    "lists and matrices": [
        ("x=1, 2", "1,2"),
        (r"\begin{pmatrix}{1}&2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        (r"\begin{array}1&2\end{array}", r"\begin{matrix}1&2\end{matrix}"),
        (r"\begin{array}\end{array}", r"\begin{array} \end{array}"),
    ],
    "numbers": [(r"3\ 1/2", "7/2"), (r"3\;\frac12", "7/2"), ("1e-05", "1/100000"), ("1,234,567.25", "4938269/4")],
    "chains": [
        ("x<=y<=z", "z>=y>=x"),
        ("0<x+y<5", "5>x+y>0"),
        ("0<x+y<5", "0<2x+2y<10"),
        ("x+y=<5", r"x+y\le 5"),
        ("x+y=>5", r"5\le x+y"),
        ("x+y<>5", r"x+y\ne 5"),
    ],
    "words between items and stops around": [
        ("1 OR 2", "1, 2"),
        ("1 And 2", "1, 2"),
        ("5,", "5"),
        (r"5\\", "5"),
        ("yes,", "yes"),
    ],
    "names and relations": [
        ("A_{1}=5", "5"),
        ("= z", "z"),
        (r"\alpha=20", "20"),
        (r"\pi<x<5", r"(\pi,5)"),
        (r"x>\pi", r"(\pi,\infty)"),
        (r"x>2 and x<\pi", r"(2,\pi)"),
        ("x>=2 and x<=2", "[2,2]"),
    ],
    "products": [
        ("2*-3", "-6"),
        (r"2\binom{5}{2}", "20"),
        (r"2\lfloor 5/2\rfloor", "4"),
        (r"2\lceil 5/2\rceil", "6"),
        (r"3\frac1{2}", "7/2"),
        (r"\langle 1,2\rangle", r"\langle 1.0,2\rangle"),
        (r"\mathbb R", r"(-\infty,\infty)"),
        ("5¢", "5"),
        (r"2\vec a", r"\vec a\cdot 2"),
        ("pi7", "7pi"),
        ("n0.75", "0.75n"),
        ("n 2", "2n"),
        ("2{x}", "2x"),
        ("Bf(x)", "xfB"),
        ("x'y", "yx'"),
        (r"\max(1,x)\cdot 2", r"2\max(1,x)"),
        (r"\ln^{-1}x", r"\frac{1}{\ln x}"),
        (r"\begin{matrix}(1,2)&3\end{matrix}", r"\begin{matrix}(1,2.0)&3\end{matrix}"),
    ],
}
UNEQUAL = {
    "units": [
        ("north cm", "north"),
        (r"5^\circ x", "5"),
        ("5/", "5"),
        ("5*", "5"),
        ("5 cm+2", "5"),
        ("5 cm^x", "5"),
        ("5 cm+{2}", "5"),
        ("5 cm^{4}", "5"),
        ("5 km*h", "5"),
        (r"10\text{ am}", "10"),
        (r"10\text{ am}", r"10\text{ pm}"),
        (r"5 \alpha", "5"),
        ("5 Bob", "5"),
        ("{3m}", "3"),
        ("5 dozen", "5"),
        ("5 squared", "5"),
        (r"\text{5 squared}", "5"),
        (r"5\text{ cubed}", "5"),
        ("(2) squared", "2"),
        ("2x squared", "2x"),
        (r"\pi squared", r"\pi"),
        ("5 factorial", "5"),
        ("3 tenths", "3"),
        ("2 thirds", "2"),
        ("5 lakh", "5"),
        ("5 crores", "5"),
        ("5 tenth", "5"),
        ("5 quadrupled", "5"),
        ("5 millions", "5"),
        ("5 dozens", "5"),
        ("5m", "5"),
    ],
    "letters and words": [("Tom", "Tmo"), ("Al", "lA"), ("Tom", "t o m"), ("yes A", "yes a")],
    "commas and brackets": [
        ("((1,2),1,234)", "((1,2),1234)"),
        ("(2+1,234)", "1236"),
        ("(1,234)", "1234"),
        ("(1,2}", "(1,2.0}"),
        ("[1,2", "[1,2.0"),
        ("()", r"\emptyset"),
        ("[]", r"\{\}"),
    ],
    "lists and matrices": [
        ("1,2", "1,2,3"),
        ("1,2", "0,1,2"),
        ("1,2", "1,2,2"),
        (r"\{1,2\}", r"\{1,2,3\}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\\5&6\end{pmatrix}"),
        (r"\begin{matrix}1&2\\3\end{matrix}", r"\begin{matrix}1.0&2\\3\end{matrix}"),
        (r"\begin{pmatrix}\end{pmatrix}", r"\begin{bmatrix}\end{bmatrix}"),
    ],
    "quotients": [("1/(x+1)", "1/(x+2)"), ("x/(y+1)", "x/(2y+1)"), ("x>1/(x+1)", r"(1/(x+1),\infty)")],
    "chains": [
        ("x<=y<=z", "x<=z<=y"),
        ("x<=y<=z", "x<y<z"),
        ("x<=y<=z", "x<=y"),
        ("0<x+y<5", "0<x+y<=5"),
        ("0<x+y<5", "x+y<5"),
        ("0<x+y<5", "0>x+y>5"),
        ("x<y>z", "x<y<z"),
        ("x=2 => y=3", "x=2, y=3"),
        ("x=2y=6", "2y=6"),
        ("4=x^2=y^2", "x^2=4"),
        ("8=5=x", "8"),
        ("3<5<x", "x<5"),
        ("x<3<5", "(x,5)"),
    ],
    "relations": [
        ("3=am", "3"),
        ("ax>=3", r"[3,\infty)"),
        ("x>1/(x+1)", "x^2+x>1"),
        ("(1,2)=P", "(2,1)=P"),
        ("x>=3 and x<=2", "[3,2]"),
    ],
    "sets of which one holds the other": [("x,y", "1,x,y"), ("[1,234]", "1234")],
    "no products and no mixed numbers": [
        ("a million", "1000000a"),
        ("0.3 1/2", "0.8"),
        ("2^1 3/40", "2^{43/40}"),
        ("2no", "2on"),
        (r"\text{apples}x", "applesx"),
        ("Monday x", "Modnay x"),
        (r"\frac1,234", "1/234"),
        (r"\sin_2 x", r"\log_2 x"),
        ("3!!", "720"),
        ("/b", "b"),
    ],
}


@pytest.mark.parametrize("subject", EQUAL)
def test_equal(subject):
    assert [row for row in EQUAL[subject] if not (math_equal(*row) and math_equal(*row[::-1]))] == []


@pytest.mark.parametrize("subject", UNEQUAL)
def test_unequal(subject):
    assert [row for row in UNEQUAL[subject] if math_equal(*row) or math_equal(*row[::-1])] == []


@pytest.mark.parametrize("form", ["{0}", "-{0}", "0.{0}", "1.{0}", r"0.\overline{{{0}}}", "1/{0}"])
def test_a_number_has_a_value_up_to_its_longest(form):
    assert isinstance(read_math(form.format("7" * MAX_DIGITS)), Quotient)
    assert isinstance(read_math(form.format("7" * (MAX_DIGITS + 1))), MathWords)


def test_a_power_of_ten_has_a_value_up_to_its_largest():
    for sign in ("", "-"):
        assert isinstance(read_math(f"2e{sign}{MAX_DIGITS}"), Quotient)
        assert isinstance(read_math(f"2e{sign}{MAX_DIGITS + 1}"), MathWords)


def test_brackets_have_a_value_up_to_their_deepest():
    for opened, closed in ("()", "[]", "{}"):
        assert math_equal(opened * MAX_BRACKETS + "7.0" + closed * MAX_BRACKETS, "7")
        deeper = opened * (MAX_BRACKETS + 1) + "7.0" + closed * (MAX_BRACKETS + 1)
        assert isinstance(read_math(deeper), MathWords)


def test_an_answer_has_a_value_up_to_its_longest():
    assert math_equal("7".ljust(MAX_CHARACTERS), "7") and read_math("7".ljust(MAX_CHARACTERS + 1)) is None


def test_lists_and_signs_have_values_up_to_their_most():
    items = "; ".join(map(str, range(MAX_ITEMS)))
    signs = r"\pm 1" * MAX_SIGNS
    assert isinstance(read_math(items), Many) and isinstance(read_math(f"{items}; {MAX_ITEMS}"), MathWords)
    assert isinstance(read_math(signs), Many) and isinstance(read_math(rf"{signs}\pm 1"), MathWords)
    assert isinstance(read_math(rf"{signs}\mp 1"), Many), "tied together they stand for two values"
