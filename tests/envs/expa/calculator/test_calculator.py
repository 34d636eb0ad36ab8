"""The calculator: which buttons may follow, the way out, and both of its faces."""

import random
from fractions import Fraction

import pytest

from agent_envs.envs.expa.actions import ExternalEnvironment, Latent, Refusal
from agent_envs.envs.expa.calculator.calculator import MAX_BUTTONS, Calculator, finish, keyable
from agent_envs.grading.arithmetic import MAX_DEPTH, MAX_DIGITS, evaluate, number_text
from tests.rows import each_row

DIGITS, FIRST, OPERATORS = set("0123456789"), set("123456789"), set("+-*/")


def keyed(text):
    return Latent("world", tuple(text))


def test_the_buttons_and_their_order():
    assert list(Calculator().actions) == list("0123456789+-*/().=")
    assert list(Calculator(decimal_point=False).actions) == list("0123456789+-*/()=")
    assert Calculator().actions["="] == "="
    assert (Calculator().name, Calculator().desc) == ("calculator", " calculate ")


@each_row(
    ("text", "legal"),
    [
        ("", FIRST | {"("}),
        ("1", DIGITS | OPERATORS | {".", "="}),
        ("10", DIGITS | OPERATORS | {".", "="}),
        ("1+", FIRST | {"("}),
        ("1/", FIRST | {"("}),
        ("(", FIRST | {"("}),
        ("((", FIRST | {"("}),
        ("(1", DIGITS | OPERATORS | {".", ")"}),
        ("(1+2", DIGITS | OPERATORS | {".", ")"}),
        ("(1)", OPERATORS | {"="}),
        ("((1)", OPERATORS | {")"}),
        ("1.", DIGITS),
        ("1.5", DIGITS | OPERATORS | {"="}),
        ("1.50", DIGITS | OPERATORS | {"="}),
        ("1.5+2", DIGITS | OPERATORS | {".", "="}),
        ("(1.5", DIGITS | OPERATORS | {")"}),
        ("(1.5)", OPERATORS | {"="}),
        ("9" * 40, OPERATORS | {".", "="}),
        ("9" * 40 + ".", DIGITS),
        ("9" * 40 + "." + "0" * 40, OPERATORS | {"="}),
        ("1+" + "9" * 39, DIGITS | OPERATORS | {".", "="}),
        ("(" * 63, FIRST | {"("}),
        ("(" * 64, FIRST),
        ("1+" * 255 + "1", DIGITS | {"="}),
        ("1+" * 255 + "12", {"="}),
        ("1+" * 254 + "12", DIGITS | OPERATORS | {".", "="}),
        ("1+" * 255, FIRST),
        ("1+" * 254 + "(1", {")"} | DIGITS),
        ("1+" * 254 + "(12", {")"}),
        ("1+" * 254 + "(1)", {"="}),
        ("1+" * 254, FIRST | {"("}),
        ("11+" + "1+" * 253, FIRST | {"("}),
        ("11+11+" + "1+" * 252, FIRST),
        ("9" * 40 + "." + "0" * 39, DIGITS | OPERATORS | {"="}),
    ],
)
def test_the_grammar(text, legal):
    for decimal_point in (True, False):
        if not decimal_point and "." in text:
            continue
        buttons = Calculator(decimal_point).legal(keyed(text))
        assert set(buttons) == legal - ({"."} if not decimal_point else set())
        assert list(buttons) == [button for button in Calculator().actions if button in set(buttons)]


def walk(rng, taste):
    """Press legal buttons at random until `=` or the end of patience; yield the keys of each state on the way."""
    calculator, state = Calculator(rng.random() < 0.7), Latent()
    for _ in range(rng.choice([10, 60, 600])):
        yield calculator, state
        legal = calculator.legal(state)
        wanted = (
            [button for button in legal if button in taste] or [button for button in legal if button != "="] or ["="]
        )
        _, state, left = calculator.step(state, rng.choice(wanted))
        if left:
            return


def test_nobody_is_locked_in():
    rng = random.Random("locked in")
    lengths = set()
    for taste in ["0123456789+-*/().", "(123+", "0123456789", "(", ")1+", ".0123456789*", "((-*1)"] * 3:
        for calculator, state in walk(rng, taste):
            lengths.add(len(state.keyed))
            assert len(state.keyed) <= MAX_BUTTONS
            assert calculator.legal(state)
            if rng.random() < 0.2:
                leave(calculator, state)
    assert MAX_BUTTONS in lengths


def leave(calculator, state):
    for _ in range(MAX_DEPTH + 2):
        button = finish(state.keyed)
        assert button in calculator.legal(state), "".join(state.keyed)
        before = state.keyed
        observation, state, left = calculator.step(state, button)
        if left:
            expression = calculator.trace((*before, button))[0]
            if isinstance(observation, Refusal):
                assert observation == "Error: division by zero\n"
            else:
                assert observation == number_text(evaluate(expression)) + "\n"
            return
    pytest.fail(f"still inside after {MAX_DEPTH + 2} buttons")


def test_all_that_random_buttons_can_get_wrong_is_a_division_by_zero():
    rng = random.Random("random buttons")
    seen = {"Error": 0, "value": 0}
    for _ in range(1_500):
        calculator, state, left = Calculator(), Latent(), False
        while not left:
            button = rng.choice(list(calculator.legal(state)))
            observation, state, left = calculator.step(state, button)
        if isinstance(observation, Refusal):
            assert observation == "Error: division by zero\n"
            seen["Error"] += 1
        else:
            assert isinstance(evaluate(observation), Fraction)
            seen["value"] += 1
    assert seen["value"] > 1_000


def test_pressing_and_computing():
    calculator, state = Calculator(), Latent("world")
    for place, button in enumerate("(12+6)/4"):
        observation, state, left = calculator.step(state, button)
        assert (observation, left) == ("", False)
        assert state == Latent("world", tuple("(12+6)/4"[: place + 1]))
    observation, after, left = calculator.step(state, "=")
    assert (observation, after, left) == ("4.500\n", Latent("world"), True)
    assert not isinstance(observation, Refusal)
    assert calculator.trace((*state.keyed, "=")) == ("(12+6)/4",)


def test_dividing_by_zero_is_a_refusal():
    observation, _, left = Calculator().step(keyed("7/(3-3)"), "=")
    assert isinstance(observation, Refusal)
    assert (observation, left) == ("Error: division by zero\n", True)


@each_row(
    ("text", "result", "expression"),
    [
        ("12+6", "18", "12+6"),
        (" ( 12 + 6 ) / 4 \n", "4.500", "( 12 + 6 ) / 4"),
        ("-3 * -2.5", "7.500", "-3 * -2.5"),
        ("12+6=", "18", "12+6"),
        ("12 + 6 =\n", "18", "12 + 6"),
        ("0.5*4", "2", "0.5*4"),
        ("1/3", "0.333", "1/3"),
        ("-1/9999", "0.000", "-1/9999"),
    ],
)
def test_the_text_face_is_lenient(text, result, expression):
    state = Latent("world")
    observation, after, ids = Calculator(decimal_point=False).call(state, text)
    assert (observation, after, ids) == (result, state, (expression,))
    assert not isinstance(observation, Refusal)


@each_row(
    ("text", "error", "expression"),
    [
        ("1/0", "Error: division by zero", "1/0"),
        ("", "Error: there is no expression", ""),
        ("=", "Error: there is no expression", ""),
        ("12+6==", "Error: '=' is not understood: write the expression alone", "12+6="),
        ("12+6=18", "Error: '=' is not understood: write the expression alone", "12+6=18"),
        ("1+" * 300 + "1", "Error: the expression is longer than 512 characters", "1+" * 256 + "..."),
        ("9" * 41, "Error: a number has more than 40 digits", "9" * 41),
        ("5 apples", None, "5 apples"),
    ],
)
def test_the_text_face_explains(text, error, expression):
    state = Latent("world")
    observation, after, ids = Calculator().call(state, text)
    assert isinstance(observation, Refusal)
    assert (after, ids) == (state, (expression,))
    assert observation == error if error else "'apples' is not understood" in observation
    assert len(observation) < 120


def test_both_faces_agree():
    rng = random.Random("both faces")
    calculator = Calculator()
    for _ in range(500):
        operands = [str(rng.randint(1, 999)) for _ in range(4)]
        expression = "({}{}{}){}({}{}{})".format(
            operands[0],
            rng.choice("+-*/"),
            operands[1],
            rng.choice("+-*/"),
            operands[2],
            rng.choice("+-*/"),
            operands[3],
        )
        assert keyable(expression, decimal_point=False)
        pressed, _, _ = calculator.step(keyed(expression), "=")
        called, _, _ = calculator.call(Latent(), expression)
        assert pressed == f"{called}\n"
        assert isinstance(pressed, Refusal) == isinstance(called, Refusal)


def test_it_is_an_external_environment():
    assert isinstance(Calculator(), ExternalEnvironment)
    assert Calculator().available(Latent())


@pytest.mark.parametrize(
    "expression", ["7", "(12+6)/3", "1.5*2", "((1))", "10-(2-8)", "9" * MAX_DIGITS, "1+" * 255 + "12"]
)
def test_keyable(expression):
    assert keyable(expression)
    assert keyable(expression, decimal_point=False) == ("." not in expression)


@each_row(
    "expression",
    ["", "0", "0.5", "-3", "5*-3", "1 + 2", "1.", ".5", "1.2.3", "(1", "1)", "()", "2(3)", "1+", "007", "1=", "1=+2", "=",
     "9" * 41, "(" * 65 + "1" + ")" * 65, "1+" * 256 + "1", "x", "１"],
)  # fmt: skip
def test_not_keyable(expression):
    assert not keyable(expression)
