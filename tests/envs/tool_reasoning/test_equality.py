r"""Comparing answers by name: exactly, and by math-verify in the sandbox bwrap."""

import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from threading import Thread

import pytest

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.envs.tool_reasoning import equality as module
from agent_envs.envs.tool_reasoning.equality import EQUALITIES, SPEC, VERSION, make_equality
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.sandbox import Limits
from tests.grading.math.pairs import EQUAL, UNEQUAL
from tests.needs import needs
from tests.rows import each_row

HOSTILE = (
    "\"'\\\n7", '"""\n__import__("os").abort()\n"""', "']); True #", "%s %(answer)s {answer}", "__import__", "\\", "}", "{",
    "8\x00", "\ud800", "\U0001f600", "\u202e8", "\\def\\x{\\x\\x}\\x", "\\frac" * 300, "$" * 2_000, "9**9**9**9", "True", "",
)  # fmt: skip


@pytest.fixture(
    scope="module", params=[pytest.param("math_verify", marks=needs("bwrap", "[sandbox]", "[math-verify]"))]
)
def verifier(request):
    return make_equality(request.param)


def recorded(path, rows):
    """Record verdicts, answer and golds -> response, as a run that had the package would have."""
    with Recording(path, "record") as recording:
        for (answer, *golds), response in rows.items():
            port = ExternalPort("math_verify", lambda request, seconds, given=response: given, recording=recording,
                                deterministic=True)  # fmt: skip
            port.call({"version": VERSION, "answer": answer, "golds": golds}, CallSite("any"))
    return Recording(path, "replay")


@each_row(
    ("answer", "golds", "equal"),
    [
        ("0.5", ("\\frac{1}{2}",), True),
        ("The Eiffel Tower", ("eiffel tower.",), True),
        ("3", ("2", "3"), True),
        ("0.333333", ("1/3",), False),
        ("silent", ("listen",), False),
        ("", ("",), False),
        ("7", (), False),
        *[(text, ("7",), False) for text in HOSTILE],
        ("9" * 100_000, ("7",), False),
    ],
)
def test_exact(answer, golds, equal):
    exact = make_equality("exact")
    assert exact(answer, golds) is equal


def test_comparing_words_forgives_no_mathematics():
    """SQuAD's normalisation alone would take 34 of these unequal pairs for equal: it drops signs, points and brackets."""
    exact = make_equality("exact")
    for one, two in (pair for pairs in UNEQUAL.values() for pair in pairs):
        same_letters = (one, two) in (("x", "X"), ("A", "a"))  # words are compared in lower case
        assert exact(one, (two,)) is exact(two, (one,)) is same_letters, (one, two)
    for one, two in (pair for pairs in EQUAL.values() for pair in pairs):
        assert exact(one, (two,)) and exact(two, (one,)), (one, two)
    for one, two in (("3", "-3"), ("12", "1/2"), ("15", "1.5"), ("34", "(3,4)"), ("(12345)", "(12,345)"), ("10", "10!"),
                     ("x1", "x+1"), ("[1,2)", "(1,2]"), ("-1 or 2", "1 or -2"), ("-pi", "pi"), ("-3 people", "3 people"),
                     ("x \\equiv 1 \\pmod 3", "x \\equiv -1 \\pmod 3"), ("b", "a+b")):  # fmt: skip
        assert not exact(one, (two,)) and not exact(two, (one,)), (one, two)


@each_row(
    ("answer", "gold"),
    [
        ("the U.S.A", "USA"),
        ("Jean Luc Picard.", "Jean Luc Picard"),
        ("spiderman", "Spider-Man"),
        ("June 5 1994", "June 5, 1994"),
        ("1994 World Cup", "The 1994 World Cup"),
        ("1000 people", "1,000 people"),
        ("O\u2019Brien", "O\u2019Brien"),
        ("OBrien", "O'Brien"),
        ("The Wire TV series", "The Wire (TV series)"),
        ('"Hey Jude"', "Hey Jude"),
        ("yahoo", "Yahoo!"),
        ("vitamin a", "Vitamin A"),
        ("The", "the"),
    ],
)
def test_words_are_compared_without_layout(answer, gold):
    exact = make_equality("exact")
    assert exact(answer, (gold,)) and exact(gold, (answer,))
    assert not exact(answer, ("something else",)) and not exact("", (gold,))


@pytest.mark.parametrize(
    ("answer", "golds", "equal"),
    [
        ("7", ("7",), True),
        ("x^2+2x+1", ("(x+1)^2",), True),
        ("\\boxed{7}", ("7",), True),
        ("$\\frac{\\sqrt 3}{2}$", ("8", "\\sqrt{3/4}"), True),
        ("0.333333", ("1/3",), True),
        ("silent", ("listen",), True),
        ("8", ("7", "9"), False),
        ("", ("",), False),
        ("8", tuple(map(str, range(20, 40))), False),
        ("39", tuple(map(str, range(20, 40))), True),
        ("8", (), False),
    ],
)
def test_math_verify(verifier, answer, golds, equal):
    assert verifier(answer, golds) is equal


def test_no_text_is_run_and_none_is_right(verifier):
    for text in HOSTILE[1:]:
        assert verifier(text, ("7",)) is False, text
    assert verifier("8", HOSTILE[1:]) is False
    assert verifier(HOSTILE[0], ("7",)) is True, "quotes and layout around a number"
    assert "math_verify" not in sys.modules


@pytest.mark.parametrize("answer", ["9^{9^{9^9}}", "(" * 900])
def test_what_takes_too_long_is_not_equal_and_flagged(verifier, answer, monkeypatch):
    monkeypatch.setattr(module, "SPEC", replace(SPEC, limits=Limits(cpu_seconds=0.5, wall_seconds=30.0)))
    assert verifier(answer, ("7",)) is False
    assert module._compare({"answer": answer, "golds": ["7"]}, 0.0) == {"equal": False, "flag": "timeout"}
    monkeypatch.undo()
    assert verifier("7", ("7",))


def test_long_texts_are_not_compared(verifier):
    assert verifier("7" * 2_000, ("7",)) is False
    for length in (2_001, 100_000):
        assert verifier("7" * length, ("7" * length,)) is False
        assert verifier("7", ("7" * length,)) is False
        assert verifier("7", ("7" * length, "7")) is True


def test_an_odd_value_is_no_verdict(verifier, monkeypatch):
    monkeypatch.setattr(module, "_CELL", "%s, %s")
    request = {"answer": "7", "golds": ["7"]}
    assert verifier("7", ("7",)) is False and module._compare(request, 0.0)["flag"] == "odd"
    monkeypatch.setattr(module, "_CELL", "1 / 0, %s, %s")
    assert verifier("7", ("7",)) is False and module._compare(request, 0.0)["flag"] == "error"


def test_a_sandbox_that_fails_is_a_fault(verifier, monkeypatch):
    def lost(spec):
        raise EnvFault("the sandbox is lost", retryable=False)

    monkeypatch.setattr(module, "open_sandbox", lost)
    with pytest.raises(EnvFault, match="math_verify: the sandbox is lost"):
        verifier("7", ("7",))


def test_threads_may_share_it(verifier):
    found = {}
    threads = [Thread(target=lambda n=n: found.update({n: verifier(str(n), ("2",))})) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: False, 1: False, 2: True, 3: False}


def test_what_was_recorded_live_replays(verifier, tmp_path):
    path = tmp_path / "external.jsonl"
    with Recording(path, "record") as recording:
        live = make_equality("math_verify", recording=recording)
        verdicts = [live(answer, ("7", "2^3")) for answer in ("7", "8", "9", "7" * 3_000)]
    assert verdicts == [True, True, False, False]
    with Recording(path, "replay") as recording:
        replayed = make_equality("math_verify", recording=recording)
        assert [replayed(answer, ("7", "2^3")) for answer in ("7", "8", "9", "7" * 3_000)] == verdicts


def test_a_replay_needs_neither_the_package_nor_bubblewrap(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    rows = {("1/2", "0.5"): {"equal": True, "flag": ""}, ("\ud800\x00", "7"): {"equal": False, "flag": "timeout"}}
    with recorded(tmp_path / "external.jsonl", rows) as recording:
        replayed = make_equality("math_verify", recording=recording)
        assert replayed("1/2", ("0.5",)) is True
        assert replayed("\ud800\x00", ("7",)) is False
        with pytest.raises(EnvFault, match="math_verify: no recording for request"):
            replayed("1/3", ("0.5",))


@pytest.mark.parametrize(
    "response", [None, [], {}, {"equal": 1, "flag": ""}, {"equal": True}, {"equal": True, "flag": "odd"}]
)
def test_a_malformed_recording_is_a_fault(tmp_path, response):
    with recorded(tmp_path / "external.jsonl", {("1", "1"): response}) as recording:
        with pytest.raises(EnvFault, match="the recorded verdict is malformed"):
            make_equality("math_verify", recording=recording)("1", ("1",))


def test_either_asks_the_package_what_is_not_exactly_equal(tmp_path):
    verdicts = {("0.333333", "1/3"): {"equal": True, "flag": ""}, ("8", "7"): {"equal": False, "flag": ""}}
    with recorded(tmp_path / "external.jsonl", verdicts) as recording:
        equal = make_equality("either", recording=recording)
        assert equal("0.333333", ("1/3",)) and equal("1/2", ("0.5",)) and not equal("8", ("7",))
        with pytest.raises(EnvFault, match="no recording for request"):  # and math_verify alone is asked at once
            make_equality("math_verify", recording=recording)("1/2", ("0.5",))


def test_what_is_missing_is_told(monkeypatch, tmp_path):
    with pytest.raises(UsageError, match="equality 'sympy': there are exact, math_verify, either"):
        make_equality("sympy")
    assert EQUALITIES == ("exact", "math_verify", "either")

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    with pytest.raises(MissingExtra, match=r'needs math-verify: pip install "agent-envs\[math-verify\]"'):
        make_equality("math_verify")
    monkeypatch.setattr(module, "version", lambda name: "0.8.0")
    with Recording(tmp_path / "external.jsonl", "record") as recording:
        with pytest.raises(UsageError, match="made for math-verify 0.9.0, and 0.8.0 is installed"):
            make_equality("math_verify", recording=recording)


def test_a_machine_without_bubblewrap_is_told(verifier, monkeypatch):
    from agent_envs.tools.sandbox.mounts import bwrap_version

    bwrap_version.cache_clear()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="apt-get install bubblewrap"):
        make_equality("math_verify")
    bwrap_version.cache_clear()
