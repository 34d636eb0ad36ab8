"""Readers load the sets that tool reasoning is measured on: GSM8K, MATH, AIME, WebWalkerQA, GAIA, HLE, xBench-DeepSearch.

Each keeps what can be asked in text and has an answer: questions that come with an image or a file are left out and counted.
Answers of MATH and AIME are what stands in the box: LaTeX.
"""

import re
from collections.abc import Callable
from pathlib import Path

from agent_envs.base.errors import UsageError
from agent_envs.datasets.readers import Draft, Reading, file_rows, read_rows
from agent_envs.datasets.safe_rows import DataRow
from agent_envs.grading.text_answers import without_thousands

_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*")


def last_boxed(text: str) -> str | None:
    r"""Return the content of a LaTeX text's last `\boxed{...}`, `\fbox{...}` or `\boxed 7`; None if that is not closed."""
    last = None
    for match in _BOX.finditer(text):
        last = match
    if last is None:
        return None
    rest = text[last.end() :]
    if not rest.startswith("{"):
        return re.split(r"[\s$.,]", rest, maxsplit=1)[0] or None
    depth, escaped = 0, False
    for place, character in enumerate(rest):
        if escaped or character == "\\":
            escaped = not escaped
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if not depth:
                return rest[1:place].strip()
    return None


def _draft(text: str, answer: str, identity: str = "", labels: dict[str, str] | None = None) -> Draft:
    """Return a draft of a problem with one answer; labels without a value are left out."""
    return Draft(
        identity, text, [answer], labels=tuple((name, value) for name, value in (labels or {}).items() if value)
    )


def _gsm8k(row: DataRow) -> Draft | None:
    """Read a row of GSM8K, never None: the answer stands behind #### in its solution; UsageError without it."""
    solution = row.text("answer")
    answer = without_thousands(solution.rpartition("####")[2].strip())
    if "####" not in solution:
        raise row.fail("answer", "a solution that ends in #### and the answer")
    return _draft(row.text("question"), answer)


def _boxed_answer(row: DataRow) -> str:
    """Return the answer, or the last box of the solution, without its box and dollar signs; UsageError without either."""
    answer = row.optional("answer") or last_boxed(row.optional("solution"))
    if not answer:
        raise row.fail("answer", "a text, or solution must end in a box")
    return last_boxed(answer) or answer.strip().strip("$").strip()


def _math(row: DataRow) -> Draft | None:
    """Read a row of MATH, never None: its answer, else its solution's last box; UsageError without either."""
    labels = {
        "subject": row.optional("subject") or row.optional("type"),
        "level": row.optional("level").removeprefix("Level").strip(),
    }
    return _draft(row.text("problem"), _boxed_answer(row), row.optional("unique_id"), labels)


def _aime(row: DataRow) -> Draft | None:
    """Read a row of AIME, never None; UsageError where the answer is no whole number from 0 to 999."""
    answer = _boxed_answer(row)
    if not (answer.isascii() and answer.isdigit() and len(answer) <= 3):
        raise row.fail("answer", f"a whole number from 0 to 999, not {answer[:40]!r}")
    return _draft(row.optional("problem") or row.text("question"), str(int(answer)), row.optional("id"))


def _webwalkerqa(row: DataRow) -> Draft | None:
    """Read a row of WebWalkerQA, never None, with labels by either name that its publications use, and its start page."""
    info = _lower(row.inner("info")) if "info" in row.fields else DataRow(row.where, {})
    names = {"subject": "domain", "level": "difficulty_level", "language": "lang", "type": "type"}
    labels = {label: info.optional(name) for label, name in names.items()}
    labels["language"] = labels["language"] or info.optional("language")
    labels["type"] = labels["type"] or info.optional("hop")
    labels["start"] = row.optional("root_url")
    return _draft(row.text("question"), row.text("answer"), labels=labels)


def _gaia(row: DataRow) -> Draft | None:
    """Read a row of GAIA; None for one with a file or without a public answer."""
    answer = row.optional("final answer")
    if row.optional("file_name") or answer in ("", "?"):
        return None
    return _draft(row.text("question"), answer, row.text("task_id"), {"level": row.text("level")})


def _hle(row: DataRow) -> Draft | None:
    """Read a row of HLE; None if it has an image."""
    if row.fields.get("image"):
        return None
    labels = {
        "subject": row.optional("category"),
        "type": row.optional("answer_type"),
        "field": row.optional("raw_subject"),
    }
    return _draft(row.text("question"), row.text("answer"), row.text("id"), labels)


def _xbench(row: DataRow) -> Draft | None:
    """Read a row of xBench, never None; UsageError if the file is still encoded."""
    question = row.text("prompt")
    if _ENCODED.fullmatch(question):
        raise UsageError(
            f"{row.where}: field 'prompt' is still encoded; decode the file with its authors' own code first"
        )
    return _draft(question, row.text("answer"), row.text("id"))


_CONVERT: dict[str, Callable[[DataRow], Draft | None]] = {
    "gsm8k": _gsm8k,
    "math500": _math,
    "math": _math,
    "aime24": _aime,
    "aime25": _aime,
    "webwalkerqa": _webwalkerqa,
    "gaia": _gaia,
    "hle": _hle,
    "xbench": _xbench,
}
REASONING_SETS = tuple(_CONVERT)


def _lower(row: DataRow) -> DataRow:
    """Return a row with its fields in lower case: copies of one set differ in that."""
    return DataRow(row.where, {str(name).strip().lower(): value for name, value in row.fields.items()})


def read_reasoning(path: Path, name: str, split: str) -> Reading:
    """Read a file of a reasoning set; UsageError for an unknown set, a bad row or no question; DataMissing, MissingExtra.

    Args:
        path: the file.
        name: the set that it is of.
        split: given to the questions.

    Raises:
        DataMissing: there is no such file.
        UsageError: an unknown set, a bad row, or a file without any question that can be asked.
        MissingExtra: a parquet file without pyarrow.
    """
    if name not in _CONVERT:
        raise UsageError(f"set {name!r} is unknown; known: {', '.join(REASONING_SETS)}")
    reading = read_rows(map(_lower, file_rows(path)), _CONVERT[name], name, name, split)
    if not reading.questions:
        raise UsageError(f"{path}: no question of {name} that text alone can ask ({reading.skipped} left out)")
    return reading
