r"""An answer is compared with gold answers by our own exact reading, or by math-verify, which never runs in this process.

Ours compares as mathematics, and as words as SQuAD does, except that signs which mathematics reads are kept: 3 is not -3, 12 is
not 1/2, and 15 is not 1.5, though all of them are the same to who drops punctuation.

math-verify reads LaTeX by a grammar and compares by sympy's algebra, with no bound on its work. So it runs inside the sandbox
`bwrap`, each comparison in a session of its own, so that no answer can reach the judgement of another. Every text is read as
`\boxed{TEXT}`, which the package takes whole. What it then decides is its own: 0.333333 is 1/3, 50% is 50 and is 0.5, and words
are products of letters, so that an anagram is equal.
"""

import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.grading.math import math_equal
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.sandbox import Limits, SandboxSpec, open_sandbox

EQUALITIES = ("exact", "math_verify", "either")
PACKAGE, VERSION = "math-verify", "0.9.0"  # what it takes for equal is part of an environment's version
LONGEST = 2_000  # characters of a text that math-verify reads
AT_ONCE = 16  # golds that one session compares
# Its own time limits are alarms of the clock on the wall, which a busy machine sets off: ours of processor time hold instead.
SPEC = SandboxSpec(
    "bwrap",
    Limits(cpu_seconds=5.0, wall_seconds=60.0, output_bytes=1_000, code_characters=2**20),
    packages=(PACKAGE,),
)
_CELL = r"""import logging
logging.disable(logging.CRITICAL)
from math_verify import parse, verify
def read(text):
    return parse("\\boxed{" + text + "}", parsing_timeout=None)
answer = read(%s)
any(verify(read(gold), answer, timeout_seconds=None) for gold in %s)"""
_VALUES = {"True": True, "False": False}
# Punctuation that mathematics does not read, because of what it is or because words stand around it.
_PROSE_SIGNS = re.compile(
    r"""["\#$%&;?@`~] | \.(?!\d) | ,(?=\d{3}[ ][a-z]{2}) | [,:](?![a-z0-9]) | (?<=[a-z]{2})-(?=[a-z]{2})
    | (?<=[a-z]{2})['!)] | ['(](?=[a-z]{2})""",
    re.VERBOSE,
)
_ARTICLES = re.compile(r"\b(a|an|the)\s+(?=\w\w|\d)")  # "a b" is a product, and vitamin A is no vitamin


Equality = Callable[[str, Sequence[str]], bool]  # whether an answer is one of the golds; safe to use from many threads


def make_equality(name: str, *, recording: Recording | None = None) -> Equality:
    """Return a way to compare answers: `exact`, `math_verify`, its verdicts recorded or replayed, `either`; else UsageError.

    `either` asks math-verify what is not exactly equal. It needs the package, too: a score must not depend on what is
    installed. A replay needs neither the package nor bubblewrap.

    Raises:
        UsageError: no such way, math-verify in another version, or the sandbox cannot run on this machine.
        MissingExtra: math-verify is not installed.
    """
    if name not in EQUALITIES:
        raise UsageError(f"equality {name!r}: there are {', '.join(EQUALITIES)}")
    return exactly_equal if name == "exact" else MathVerifyEquality(recording, either=name == "either")


def exactly_equal(answer: str, golds: Sequence[str]) -> bool:
    """Return whether an answer is one of the golds as mathematics, without rounding and computer algebra, or as words."""
    words = _words(answer)
    return any((words and words == _words(gold)) or math_equal(answer, gold) for gold in golds)


def _words(text: str) -> str:
    """Return the words of a text in lower case, without articles, punctuation and layout, but with mathematical signs."""
    return " ".join(_ARTICLES.sub(" ", _PROSE_SIGNS.sub("", text.lower())).split())


class MathVerifyEquality:
    """Equal as math-verify finds it (huggingface/Math-Verify), inside the sandbox `bwrap`; with `either` also as we do."""

    def __init__(self, recording: Recording | None = None, either: bool = False) -> None:
        """Find out at once whether it can run, unless it is replayed."""
        self._either = either
        if recording is None or recording.mode == "record":
            _check_package()
            open_sandbox(SPEC).close()
        self._port = ExternalPort("math_verify", _compare, recording=recording, deterministic=True, max_bytes=1_000)

    def __call__(self, answer: str, golds: Sequence[str]) -> bool:
        """Return whether the answer is one of the golds; texts beyond 2,000 characters are not compared.

        Raises EnvFault: the sandbox failed, or a recording does not hold this comparison.
        """
        if self._either and exactly_equal(answer, golds):
            return True
        short = [gold for gold in golds if len(gold) <= LONGEST] if len(answer) <= LONGEST else []
        return any(self._ask(answer, short[start : start + AT_ONCE]) for start in range(0, len(short), AT_ONCE))

    def _ask(self, answer: str, golds: list[str]) -> bool:
        """Return math-verify's verdict, recorded or replayed; EnvFault where it is malformed."""
        verdict = self._port.call({"version": VERSION, "answer": answer, "golds": golds}, CallSite(""))
        try:
            equal, flag = verdict["equal"], verdict["flag"]
        except (KeyError, TypeError):
            equal = flag = None
        if not isinstance(equal, bool) or not isinstance(flag, str) or (equal and flag):
            raise EnvFault("math_verify: the recorded verdict is malformed", retryable=False)
        return equal


def _compare(request: Any, seconds: float) -> dict[str, Any]:
    """Compare in a fresh sandbox: {"equal", "flag"}; a failed comparison is unequal, its flag the status, or "odd".

    Beside the verdict, a record has a flag where none was found: the sandbox's status, or `odd` for another value than one.
    """
    with open_sandbox(SPEC) as session:
        result = session.run(_CELL % (ascii(request["answer"]), ascii(request["golds"])))
    if result.status != "ok":
        return {"equal": False, "flag": result.status}
    return {"equal": _VALUES.get(result.value, False), "flag": "" if result.value in _VALUES else "odd"}


def _check_package() -> None:
    """Raise MissingExtra unless math-verify is installed, UsageError in another version; it is not imported."""
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError as error:
        raise MissingExtra(PACKAGE, PACKAGE, "equality='math_verify'") from error
    if installed != VERSION:
        raise UsageError(
            f"equality='math_verify' is made for {PACKAGE} {VERSION}, and {installed} is installed, which may judge otherwise: "
            f'pip install "{PACKAGE}=={VERSION}"'
        )
