"""Readers turn published question-answering files of many shapes into one `Question` in memory.

A bad row is an error that names the file, the line and the field. A further format is one converter and one row of
`FORMATS`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent_envs.base.errors import DataMissing, MissingExtra, UsageError
from agent_envs.datasets.safe_rows import DataRow, Labels, json_lines, json_list, table


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its accepted answers.

    Attributes:
        id: unique in its file.
        dataset: name of the data set as the catalogue spells it.
        split: train, dev or test.
        text: the question, stripped.
        answers: every accepted answer, stripped, without repeats; never empty.
        support: ids of the gold passages, else of the candidate passages; empty where the file names none.
        labels: what else the file says, as (key, value) pairs: coverage, type, level, prop, source, domain.
    """

    id: str
    dataset: str
    split: str
    text: str
    answers: tuple[str, ...]
    support: tuple[str, ...] = ()
    labels: Labels = ()


class Reading(NamedTuple):
    """The content of a file: its questions, its format, and how many rows are unanswerable and were left out."""

    questions: tuple[Question, ...]
    format: str
    skipped: int


class Draft(NamedTuple):
    """A converted row. An empty id asks for one made of data set, split and row number."""

    id: str
    text: str
    answers: list[str]
    support: list[str] = []
    labels: Labels = ()


def _flashrag(row: DataRow) -> Draft:
    """Convert a row of FlashRAG's form; its labels come from the metadata, where that is a mapping."""
    metadata = row.fields.get("metadata")
    labels = DataRow(row.where, metadata).labels("type", "level", "prop") if isinstance(metadata, Mapping) else ()
    return Draft(row.text("id"), row.text("question"), row.texts("golden_answers"), labels=labels)


def _sample(row: DataRow) -> Draft:
    """Convert a row of the sample; support is the gold passages or, without them, the candidates."""
    support = row.texts("gold_ids") or row.texts("candidate_ids", needed=False)
    labels = row.labels("coverage", "type", "prop")
    return Draft(row.text("id"), row.text("question"), row.texts("golden_answers"), support, labels)


def _nq_open(row: DataRow) -> Draft:
    """Convert a row of NQ-Open, which has no id."""
    return Draft("", row.text("question"), row.texts("answer"))


def _hotpotqa(row: DataRow) -> Draft:
    """Convert a row of HotpotQA."""
    return Draft(row.text("_id"), row.text("question"), [row.text("answer")], labels=row.labels("type", "level"))


def _musique(row: DataRow) -> Draft | None:
    """Read a row of MuSiQue; None if it is unanswerable. An id that names hops gives the label "type"."""
    if row.fields.get("answerable") is False:
        return None
    identity = row.text("id")
    hops = identity.partition("__")[0]
    answers = [row.text("answer"), *row.texts("answer_aliases", needed=False)]
    labels = (("type", hops),) if "hop" in hops else ()
    return Draft(identity, row.text("question"), answers, labels=labels)


def _triviaqa(row: DataRow) -> Draft:
    """Convert a row of TriviaQA, with the answer's aliases, plain and normalised."""
    answer = row.inner("Answer")
    aliases = answer.texts("Aliases", needed=False) + answer.texts("NormalizedAliases", needed=False)
    return Draft(row.text("QuestionId"), row.text("Question"), [answer.text("Value"), *aliases])


def _popqa(row: DataRow) -> Draft:
    """Read a row of PopQA, whose answers are a JSON list in a text; UsageError for any other."""
    try:
        answers = json.loads(row.text("possible_answers"))
    except (ValueError, RecursionError):
        raise row.fail("possible_answers", "a JSON list of texts") from None
    texts = DataRow(row.where, {"possible_answers": answers}).texts("possible_answers")
    return Draft(row.text("id"), row.text("question"), texts, labels=row.labels("prop"))


def _bamboogle(row: DataRow) -> Draft:
    """Convert a row of Bamboogle, which has no id."""
    return Draft("", row.text("Question"), [row.text("Answer")])


def _verl(row: DataRow) -> Draft:
    """Read a row in verl's format; without a `question` it is what follows the last "Question:" in the last message."""
    source = row.text("data_source")
    target = row.inner("reward_model").inner("ground_truth").texts("target")
    extra = row.inner("extra_info")
    question = row.optional("question")
    if not question:
        messages = row.fields.get("prompt")
        last = messages[-1] if isinstance(messages, list) and messages else {}
        question = DataRow(row.where, last).text("content").rpartition("Question:")[2]
    identity = f"{source}_{extra.text('split')}_{extra.text('index')}"
    return Draft(identity, question, target, labels=(("source", source),))


def _parquet(path: Path) -> Iterator[DataRow]:
    """Yield the rows of a parquet file in batches; MissingExtra without pyarrow, UsageError if it cannot be read."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "data", f"reading {path.name}") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(batch_size=1024) for row in batch.to_pylist())
            for number, fields in enumerate(rows, 1):
                yield DataRow(f"{path}, row {number}", fields)
    except pyarrow.ArrowException as error:
        raise UsageError(f"{path}: not a parquet file that pyarrow reads ({error})") from None


class _Format(NamedTuple):
    rows: Callable[[Path], Iterator[DataRow]]
    keys: tuple[str, ...]
    convert: Callable[[DataRow], Draft | None]


# In the order in which they are tried on a file of unnamed format: the more telling keys first.
FORMATS: dict[str, _Format] = {
    "sample": _Format(json_lines, ("golden_answers", "gold_ids"), _sample),
    "flashrag": _Format(json_lines, ("golden_answers",), _flashrag),
    "musique": _Format(json_lines, ("answer", "paragraphs"), _musique),
    "nq_open": _Format(json_lines, ("question", "answer"), _nq_open),
    "hotpotqa": _Format(json_list, ("_id", "question"), _hotpotqa),
    "2wiki": _Format(json_list, ("_id", "question"), _hotpotqa),
    "triviaqa": _Format(json_list, ("QuestionId", "Answer"), _triviaqa),
    "popqa": _Format(table, ("question", "possible_answers"), _popqa),
    "bamboogle": _Format(table, ("Question", "Answer"), _bamboogle),
    "verl": _Format(_parquet, ("reward_model",), _verl),
}
_BY_ENDING = {".jsonl": json_lines, ".json": json_list, ".tsv": table, ".csv": table, ".parquet": _parquet}
ENDINGS = tuple(_BY_ENDING)


def file_rows(path: Path) -> Iterator[DataRow]:
    """Yield the rows of a file by its ending; DataMissing if absent, UsageError for another ending, MissingExtra for pyarrow.

    Raises:
        DataMissing: there is no such file.
        UsageError: another ending, or a row that does not decode.
        MissingExtra: a parquet file without pyarrow.
    """
    if not path.is_file():
        raise DataMissing(f"no question file at {path}")
    rows = _BY_ENDING.get(path.suffix.lower())
    if rows is None:
        raise UsageError(f"{path}: unknown ending; known: {', '.join(ENDINGS)}")
    return rows(path)


def _sniff(path: Path) -> str:
    """Return the first format that fits a file's ending and its first row's keys; UsageError lists the known ones."""
    rows = _BY_ENDING.get(path.suffix.lower())
    first = next(rows(path), None) if rows else None
    keys = sorted(str(key) for key in first.fields) if first else []
    for name, form in FORMATS.items():
        if form.rows is rows and set(form.keys) <= set(keys):
            return name
    problem = f"its first row has the keys {', '.join(keys)}" if keys else "it has no row that could be looked at"
    raise UsageError(f"{path}: unknown format; {problem}. Known formats: {', '.join(FORMATS)}")


def _unwrap(text: str) -> str:
    """Remove the outer CSV quotes of a text whose inner quotes are all doubled, and undouble them; any other text stays."""
    # Some published TriviaQA rows are still raw CSV fields: quoted, with their inner quotes doubled.
    inner = text[1:-1]
    wrapped = len(text) > 2 and text[0] == text[-1] == '"'
    if wrapped and '""' in inner and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"').strip()
    return text


def read_file(
    path: Path | str, format: str | None = None, *, dataset: str, split: str, only: str = "", labels: Labels = ()
) -> Reading:
    """Read a question file as questions, format and number of unanswerable rows; DataMissing, or UsageError for a bad one.

    Args:
        path: the file.
        format: a key of `FORMATS`; None looks at the file's ending and first row.
        dataset: name given to the questions.
        split: train, dev or test, given to the questions.
        only: keep the rows whose field `dataset` is this; empty keeps all.
        labels: labels to add to every question.

    Raises:
        DataMissing: there is no such file.
        UsageError: unknown format, or a bad row.
        MissingExtra: a parquet file without pyarrow.
    """
    path = Path(path)
    if not path.is_file():
        raise DataMissing(f"no question file at {path}")
    name = format or _sniff(path)
    if name not in FORMATS:
        raise UsageError(f"format {name!r} is unknown; known formats: {', '.join(FORMATS)}")
    rows = (row for row in FORMATS[name].rows(path) if not only or row.fields.get("dataset") == only)
    return read_rows(rows, lambda row: _clean_draft(row, FORMATS[name].convert(row)), name, dataset, split, labels)


def _clean_draft(row: DataRow, draft: Draft | None) -> Draft | None:
    """Strip a draft's question and answers, drop equal and empty answers; None stays; UsageError if either ends up empty."""
    if draft is None:
        return None
    answers = list(dict.fromkeys(answer.strip() for answer in draft.answers if answer.strip()))
    text = _unwrap(draft.text.strip())
    if not answers or not text:
        raise UsageError(f"{row.where}: the row has no {'answer' if text else 'question'}")
    return draft._replace(text=text, answers=answers)


def read_rows(
    rows: Iterable[DataRow], convert: Callable[[DataRow], Draft | None], format: str, dataset: str, split: str,
    labels: Labels = (),
) -> Reading:  # fmt: skip
    """Return rows' questions, ids made up where empty (UsageError if one recurs); rows that convert to None are counted."""
    questions: dict[str, Question] = {}
    skipped = 0
    for number, row in enumerate(rows):
        draft = convert(row)
        if draft is None:
            skipped += 1
            continue
        identity = draft.id or f"{dataset}_{split}_{number}"
        if identity in questions:
            raise UsageError(f"{row.where}: the id {identity!r} stands on an earlier row, too")
        answers, support = tuple(draft.answers), tuple(draft.support)
        questions[identity] = Question(identity, dataset, split, draft.text, answers, support, draft.labels + labels)
    return Reading(tuple(questions.values()), format, skipped)


def read_questions(path: Path | str, format: str | None = None, *, dataset: str, split: str) -> tuple[Question, ...]:
    """Return the questions of a file; see `read_file`."""
    return read_file(path, format, dataset=dataset, split=split).questions
