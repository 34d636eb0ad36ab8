"""The tests' own reading of the questions: nothing of it is shared with the sources under test."""

import ast
import re
from fractions import Fraction

_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen".split()
    )
} | {
    word: 10 * (value + 2) for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split())
}
_SCALES = {
    word: 1000 ** (power + 1)
    for power, word in enumerate("thousand million billion trillion quadrillion quintillion".split())
}
_NUMBER = re.compile(r"[a-z]+(?:[ -][a-z]+)*")
_INNER = {" plus ": " + ", " minus ": " - ", " times ": " * ", " divided by ": " / "}
_OUTER = {
    "+": re.compile(r"the sum of the value of (.+) and the value of (.+)"),
    "-": re.compile(r"the value of (.+), reduced by the value of (.+)"),
    "*": re.compile(r"the product of the value of (.+) and the value of (.+)"),
    "/": re.compile(r"the value of (.+), divided by the value of (.+)"),
}


def number_in_words(text):
    total = group = 0
    for word in re.split("[ -]", text):
        if word == "hundred":
            group *= 100
        elif word in _SCALES:
            total += group * _SCALES[word]
            group = 0
        else:
            group += _SMALL[word]
    return total + group


def value(text):
    """Compute symbols with Python's own parser, in fractions."""

    def of(node):
        if isinstance(node, ast.Constant):
            assert type(node.value) is int
            return Fraction(node.value)
        assert isinstance(node, ast.BinOp)
        left, right = of(node.left), of(node.right)
        kinds = {ast.Add: left.__add__, ast.Sub: left.__sub__, ast.Mult: left.__mul__, ast.Div: left.__truediv__}
        return kinds[type(node.op)](right)

    return of(ast.parse(text.strip(), mode="eval").body)


def arithmetic(question, wording):
    """Return (what the words say, what the line of symbols says, the numbers in their order)."""
    asked = re.fullmatch(r"What is (.+)\?", question)[1]
    if wording == "number words":
        assert not re.search("[0-9]", asked)
        asked = _NUMBER.sub(lambda found: str(number_in_words(found[0])), asked)
    if wording != "operator words":
        assert set(asked) <= set("0123456789 +-*/()")
        told = value(asked)
        return told, told, re.findall("[0-9]+", asked)
    assert not set(asked) & set("+-*/")
    [(operator, found)] = [(sign, m) for sign, pattern in _OUTER.items() if (m := pattern.fullmatch(asked))]
    parts = []
    for part in found.groups():
        for word, sign in _INNER.items():
            part = part.replace(word, sign)
        parts.append(part)
    numbers = re.findall("[0-9]+", " ".join(parts))
    try:
        flat = value(operator.join(parts))
    except ZeroDivisionError:
        flat = None
    try:
        tree = value(f"({parts[0]}) {operator} ({parts[1]})")
    except ZeroDivisionError:
        tree = None
    return tree, flat, numbers


def assert_random_access(make, splits=("train", "dev", "test")):
    """Item i alone equals item i after others; ids and indices agree; bad keys raise KeyError."""
    source = make()
    for split in splits:
        several = [source.get(split, index) for index in (0, 1, 2, 41, 10**6)]
        for index, task in zip((0, 1, 2, 41, 10**6), several, strict=True):
            assert make().get(split, index) == task
            assert task.id == task.cluster == f"{source.name}-{split}-{index}" and task.split == split
            assert source.get(split, task.id) == task
    name = source.name
    bad = (-1, True, "", f"{name}-train-01", f"{name}-train--1", f"{name}-train-1 ", f"{name}-train-²", f"{name}-dev-1")
    for key in (*bad, f"{name}-train-{10**30}", "train-1", "1", f"{name}-train-"):
        try:
            source.get("train", key)
        except KeyError:
            continue
        raise AssertionError(f"{key!r} is no key, and was taken")
    for ask in (lambda: source.get("validation", 0), lambda: source.size("validation")):
        try:
            ask()
        except KeyError:
            continue
        raise AssertionError("there is no split named validation")
