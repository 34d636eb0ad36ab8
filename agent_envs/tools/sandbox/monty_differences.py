"""Monty runs a subset of Python: its description for prompts is here, and its known differences from CPython, with code.

Tests run every snippet in both and pin both outcomes, so a new version of Monty cannot change one unseen.
"""

from dataclasses import dataclass

SUBSET = """\
The interpreter runs a subset of Python 3. Names stay defined from call to call, and the value of a last expression is shown.
- Modules: math, decimal, itertools, functools, collections, re, json, random, datetime, time, bisect, copy, typing,
  dataclasses, hashlib, base64, csv, unicodedata. There is no numpy, sympy, fractions, statistics, heapq, string or operator.
- No `yield`, no `del`, no class inheritance (so no exception classes of your own), no `@property`, `@staticmethod` or
  `@classmethod`, no `from module import *`.
- Generator expressions, `map` and `zip` are lists at once: never let one run over something endless.
- Methods cannot be passed as values (write `lambda s: s.lower()`, not `str.lower`).
- There are no files, no network, no processes and no input(). Clocks stand still and sleep() returns at once."""
FULL = """\
The interpreter is Python 3 with its standard library, numpy and sympy. Names stay defined from call to call, and the value of a
last expression is shown. Nothing can be written to disk; there is no network, no input(), and there are no other processes or
threads. Clocks stand still and sleep() returns at once."""
LANGUAGE = {"monty": SUBSET, "bwrap": FULL}  # what a prompt says of each backend


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference. Outcomes are the text of the value, or of what was printed, or type and message of the error.

    Attributes:
        about: what differs, in a few words.
        code: a cell that shows it.
        cpython: its outcome in CPython 3.11 and later.
        monty: its outcome in Monty.
        exact: False where CPython's own outcome depends on the system's mathematical library in its last digits.
    """

    about: str
    code: str
    cpython: str
    monty: str
    exact: bool = True


_NOT_YET = "NotImplementedError: The monty syntax parser does not yet support "


def _missing(about: str, code: str, cpython: str, monty: str) -> Divergence:
    return Divergence(f"missing: {about}", code, cpython, monty)


def _module(name: str, code: str, cpython: str) -> Divergence:
    return _missing(f"module {name}", code, cpython, f"ModuleNotFoundError: No module named '{name}'")


KNOWN_DIVERGENCES: tuple[Divergence, ...] = (
    # values that differ without an error: what matters for rewards
    Divergence("round to digits goes by the decimal text, not by the float", "round(2.675, 2)", "2.67", "2.68"),
    Divergence("the same, half to even", "round(828.965, 2)", "828.97", "828.96"),
    Divergence("math.gamma, last digits", "import math\nmath.gamma(0.1)", "9.513507698668732", "9.51350769866873", exact=False),
    Divergence(
        "math.lgamma, last digits",
        "import math\nmath.lgamma(-7.043453486509601)", "-5.473701370665879", "-5.473701370665877", exact=False,
    ),
    Divergence("math.cbrt, last digits", "import math\nmath.cbrt(27)", "3.0000000000000004", "3.0", exact=False),
    Divergence(
        "math.atanh, last digits",
        "import math\nmath.atanh(0.0039476655353433325)", "0.003947686042424787", "0.0039476860424247865", exact=False,
    ),
    Divergence(
        "math.erf, last digits",
        "import math\nmath.erf(0.0008395771468972449)", "0.0009473611391332713", "0.0009473611391332714", exact=False,
    ),
    Divergence(
        "powers of floats, last digit",
        "369.99238767180276 ** 5.776571767695274", "684462971120992.2", "684462971120992.3", exact=False,
    ),
    Divergence("generator expressions are lists", "(x for x in [1, 2])", "<generator object <genexpr> at 0x...>", "[1, 2]"),
    Divergence("so are map, zip, enumerate, reversed", "zip([1], [2])", "<zip object at 0x...>", "[(1, 2)]"),
    Divergence(
        "an endless generator expression never ends",
        "import itertools\nnext(x for x in itertools.count() if x > 5)", "6", "MemoryError: more than 64 MB of memory",
    ),
    Divergence("sets keep the order of insertion", "{3, 1, 2}", "{1, 2, 3}", "{3, 1, 2}"),
    Divergence("KeyError tells its key without quotes", "{}['k']", "KeyError: 'k'", "KeyError: k"),
    Divergence(
        "exceptions take one text", "raise ValueError(3)", "ValueError: 3",
        "RuntimeError: Internal error in monty: exceptions can only be called with zero or one string argument",
    ),
    Divergence("hash of text", "hash('a')", "4644417185603328019", "8186225505942432243"),
    Divergence(
        "a class's __bool__ is not asked", "class A:\n    def __bool__(self): return False\nbool(A())", "False", "True"
    ),
    Divergence("repr of functions", "def f(): pass\nf", "<function f at 0x...>", "<function 'f' at 0x...>"),
    Divergence("repr of classes", "class A: pass\nA", "<class '__main__.A'>", "<class 'A'>"),
    Divergence(
        "digits are ASCII only",
        "int('\N{ARABIC-INDIC DIGIT ONE}')", "1",
        "ValueError: invalid literal for int() with base 10: '\N{ARABIC-INDIC DIGIT ONE}'",
    ),
    Divergence(
        "await at the top", "async def f(): return 1\nawait f()", "SyntaxError: 'await' outside function (line 2)", "1"
    ),
    # what is missing
    _missing("yield", "def g():\n    yield 1\nlist(g())", "[1]", f"{_NOT_YET}yield expressions"),
    _missing("del", "x = [1, 2]\ndel x[0]\nx", "[2]", f"{_NOT_YET}the 'del' statement"),
    _missing(
        "inheritance", "class E(Exception): pass\nE.__name__", "'E'", f"{_NOT_YET}class inheritance and metaclasses"
    ),
    _missing("except*", "try:\n    1\nexcept* ValueError:\n    2", "", f"{_NOT_YET}exception groups (try*/except*)"),
    _missing(
        "wildcard imports", "from math import *\nsqrt(4)", "2.0",
        "NotImplementedError: Wildcard imports (`from ... import *`) are not supported",
    ),
    _missing(
        "__len__ of a class", "class A:\n    def __len__(self): return 3\nlen(A())", "3",
        "TypeError: object of type 'A' has no len()",
    ),
    _missing(
        "order of a class's objects", "class A:\n    def __lt__(self, other): return True\nA() < A()", "True",
        "TypeError: '<' not supported between instances of 'A' and 'A'",
    ),
    _missing(
        "methods as values", "sorted('bca', key=str.lower)", "['a', 'b', 'c']",
        "AttributeError: type object 'str' has no attribute 'lower'",
    ),
    _missing("pow with a negative exponent and a modulus", "pow(3, -1, 7)", "5",
             "ValueError: pow() 2nd argument cannot be negative when 3rd argument specified"),
    _missing("float.is_integer", "(2.0).is_integer()", "True", "AttributeError: 'float' object has no attribute 'is_integer'"),
    _missing("int.bit_length", "(5).bit_length()", "3", "AttributeError: 'int' object has no attribute 'bit_length'"),
    _missing("str.translate", "'abc'.translate({97: 'x'})", "'xbc'",
             "AttributeError: 'str' object has no attribute 'translate'"),
    _missing("a function's name", "def f(): pass\nf.__name__", "'f'",
             "AttributeError: 'function' object has no attribute '__name__'"),
    _missing("functions in re.sub", "import re\nre.sub('a', lambda m: 'x', 'aa')", "'xx'",
             "TypeError: callable replacement is not yet supported in re.sub()"),
    _missing("functools.cmp_to_key", "import functools\nsorted([3, 1], key=functools.cmp_to_key(lambda a, b: a - b))", "[1, 3]",
             "AttributeError: module 'functools' has no attribute 'cmp_to_key'"),
    _missing("collections.OrderedDict", "from collections import OrderedDict\nOrderedDict(a=1)['a']", "1",
             "ImportError: cannot import name 'OrderedDict' from 'collections' (unknown location)"),
    _missing("bytearray", "len(bytearray(3))", "3", "NameError: name 'bytearray' is not defined"),
    _missing("callable", "callable(print)", "True", "NameError: name 'callable' is not defined"),
    _missing("issubclass", "issubclass(bool, int)", "True", "NameError: name 'issubclass' is not defined"),
    _missing("sys.setrecursionlimit", "import sys\nsys.setrecursionlimit(2000)", "",
             "AttributeError: module 'sys' has no attribute 'setrecursionlimit'"),
    _module("fractions", "from fractions import Fraction\nFraction(1, 3) + Fraction(1, 6)", "Fraction(1, 2)"),
    _module("statistics", "import statistics\nstatistics.mean([1, 2])", "1.5"),
    _module("heapq", "import heapq\nheapq.nsmallest(1, [2, 1])", "[1]"),
    _module("string", "import string\nstring.digits", "'0123456789'"),
    _module("operator", "import operator\noperator.add(1, 2)", "3"),
    _module("cmath", "import cmath\ncmath.sqrt(-1)", "1j"),
    _module("calendar", "import calendar\ncalendar.isleap(2024)", "True"),
    _module("enum", "import enum\nenum.Enum.__name__", "'Enum'"),
)  # fmt: skip


def divergence_table() -> str:
    """Return the known divergences as a table in Markdown."""
    rows = [
        f"| {known.about} | {_cell(known.code)} | {_cell(known.cpython)} | {_cell(known.monty)} |"
        for known in KNOWN_DIVERGENCES
    ]
    return "\n".join(["| what | code | CPython | Monty |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    """Return a text as code in a table: one line, and no bar that would end the cell."""
    line = text.replace("\n", " ⏎ ").replace("|", "\\|")
    return "" if not line else f"`` {line} ``" if "`" in line else f"`{line}`"
