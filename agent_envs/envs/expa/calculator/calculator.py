"""The calculator has buttons that spell one expression, and "=", which computes it and returns to language (appendix D.1).

The order of buttons is the released grammar (a number begins with 1-9, an operator stands after an operand, there is no unary
minus, "=" needs closed brackets), with a second point in a number forbidden and three caps that keep the expression one that
`grading.arithmetic.evaluate` accepts: 40 digits on either side of a point, brackets 64 deep, and 512 buttons before "=".

Nobody is locked in. The caps hide a button where the shortest way out after it would not fit, so in every reachable state
the button that `finish` names is legal, and pressing what it names reaches "=" within 66 buttons. All that can go wrong on
the buttons is a division by zero.
"""

from collections.abc import Collection

from agent_envs.envs.expa.actions import ExternalEnvironment, Latent, Refusal
from agent_envs.grading.arithmetic import MAX_CHARACTERS, MAX_DEPTH, MAX_DIGITS, ExpressionError, evaluate, number_text

MAX_BUTTONS = MAX_CHARACTERS  # before "="
_DIGITS = tuple("0123456789")
_FIRST_DIGITS = _DIGITS[1:]
_OPERATORS = tuple("+-*/")
_BEFORE_OPERAND = frozenset("+-*/(")


class Calculator(ExternalEnvironment):
    """An exact calculator without memory; what it shows is `grading.arithmetic.number_text` of the value."""

    name = "calculator"
    desc = " calculate "
    example = "(31-4)*2"
    usage = f"Compute an expression of numbers, + - * / and brackets, such as {example}."

    def __init__(self, decimal_point: bool = True) -> None:
        """Take `decimal_point`: whether there is a button for the decimal point; the text face reads decimals either way."""
        self.actions = {button: button for button in (*_DIGITS, *_OPERATORS, "(", ")", *("." * decimal_point), "=")}
        self._decimal_point = decimal_point

    def legal(self, state: Latent) -> Collection[str]:
        """Return the buttons that may follow, in the order of their ids."""
        return legal_buttons(state.keyed, self._decimal_point)

    def step(self, state: Latent, action: str) -> tuple[str, Latent, bool]:
        """Press a button; only "=" returns control, with the value of what was pressed or a Refusal, and clears the keys."""
        if action != "=":
            return "", state.press(action), False
        observation = _compute("".join(state.keyed))
        ended = f"{observation}\n"
        return Refusal(ended) if isinstance(observation, Refusal) else ended, Latent(state.world), True

    def trace(self, keyed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the expression."""
        return ("".join(keyed).removesuffix("="),)

    def call(self, state: Latent, text: str) -> tuple[str, Latent, tuple[str, ...]]:
        """Compute a tag's text, spaces, signs and one "=" at its end allowed: (value or Refusal, state without keys, trace)."""
        expression = text.strip().removesuffix("=").rstrip()
        # The mark keeps a text that was cut from reading as a sound expression.
        trace = expression if len(expression) <= MAX_CHARACTERS else expression[:MAX_CHARACTERS] + "..."
        return _compute(expression), Latent(state.world), (trace,)


def legal_buttons(keyed: tuple[str, ...], decimal_point: bool) -> tuple[str, ...]:
    """Return the buttons that may follow those keyed, by id, at least one if reachable; "." only with `decimal_point`."""
    tail = keyed[-1] if keyed else "("
    opened = keyed.count("(") - keyed.count(")")
    # How many buttons remain after the next one, if all that is then pressed is ")" for every open bracket.
    spare = MAX_BUTTONS - len(keyed) - 1 - opened
    if tail in _BEFORE_OPERAND:
        return (*_FIRST_DIGITS, "(") if opened < MAX_DEPTH and spare >= 2 else _FIRST_DIGITS
    if tail == ".":
        return _DIGITS
    digits, point = _room(keyed, decimal_point) if tail != ")" else (False, False)
    return (
        *(_DIGITS if digits and spare >= 0 else ()),
        *(_OPERATORS if spare >= 1 else ()),
        *((")",) if opened else ()),
        *((".",) if point and spare >= 1 else ()),
        *(() if opened else ("=",)),
    )


def keyable(expression: str, decimal_point: bool = True) -> bool:
    """Return whether the buttons can spell an expression and leave it with "=" ("0.5", "-3" and "1 + 2" cannot be)."""
    keys = (*expression, "=")
    sound = all(key in legal_buttons(keys[:place], decimal_point) for place, key in enumerate(keys))
    return sound and "=" not in expression


def finish(keyed: tuple[str, ...]) -> str:
    """Return the next button on the shortest way out of a reachable state."""
    if not keyed or keyed[-1] in _BEFORE_OPERAND or keyed[-1] == ".":
        return "1"
    return ")" if keyed.count("(") > keyed.count(")") else "="


def _compute(expression: str) -> str:
    """Return the value of an expression as text; a `Refusal` where it has none."""
    try:
        return number_text(evaluate(expression))
    except ExpressionError as error:
        return Refusal(f"Error: {error}")


def _room(keyed: tuple[str, ...], decimal_point: bool) -> tuple[bool, bool]:
    """Return whether a digit, and whether a point, may follow the number at the end."""
    text = "".join(keyed[-1 - MAX_DIGITS :])
    whole, point, part = text[len(text.rstrip("0123456789.")) :].partition(".")
    return len(part if point else whole) < MAX_DIGITS, decimal_point and not point
