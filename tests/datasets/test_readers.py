"""Readers against small invented files in each published format, and against the real sample."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import DataMissing, MissingExtra, UsageError
from agent_envs.datasets import safe_rows as rows_module
from agent_envs.datasets.catalogue import DATASETS, load_corpus, load_questions
from agent_envs.datasets.readers import FORMATS, Question, read_file, read_questions
from tests.needs import needs


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path, format: str | None = None) -> tuple[Question, ...]:
    return read_questions(path, format, dataset="toy", split="dev")


def test_flashrag_rows(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        {"id": "t_0", "question": " who dug the canal ", "golden_answers": ["Ada ", "Ada", "", "A. Moor"]},
        {"id": "t_1", "question": "where", "golden_answers": "Ghent", "metadata": {"type": "bridge", "context": {}}},
    )
    assert read(path) == (
        Question("t_0", "toy", "dev", "who dug the canal", ("Ada", "A. Moor")),
        Question("t_1", "toy", "dev", "where", ("Ghent",), (), (("type", "bridge"),)),
    )


def test_sample_rows_prefer_gold_over_candidates(tmp_path: Path) -> None:
    row = {"id": "s", "question": "q", "golden_answers": ["a"], "coverage": "gold", "prop": "capital"}
    path = jsonl(
        tmp_path / "a.jsonl",
        row | {"gold_ids": ["7"], "candidate_ids": ["8"]},
        row | {"id": "t", "gold_ids": [], "candidate_ids": ["8", "9"]},
    )
    found = read_file(path, dataset="toy", split="dev")
    assert found.format == "sample"
    assert [question.support for question in found.questions] == [("7",), ("8", "9")]
    assert found.questions[0].labels == (("coverage", "gold"), ("prop", "capital"))


def test_only_picks_one_data_set_and_labels_are_added(tmp_path: Path) -> None:
    row = {"question": "q", "golden_answers": ["a"], "gold_ids": []}
    path = jsonl(tmp_path / "a.jsonl", row | {"id": "1", "dataset": "x"}, row | {"id": "2", "dataset": "y"})
    found = read_file(path, dataset="toy", split="train", only="y", labels=(("domain", "in"),)).questions
    assert [(question.id, question.labels) for question in found] == [("2", (("domain", "in"),))]


def test_nq_open_rows_get_numbered_ids(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"question": "q", "answer": ["1"]}, {"question": "r", "answer": ["2", "two"]})
    assert [(q.id, q.answers) for q in read(path)] == [("toy_dev_0", ("1",)), ("toy_dev_1", ("2", "two"))]


@pytest.mark.parametrize("format", [None, "hotpotqa", "2wiki"])
def test_multi_hop_json_lists(tmp_path: Path, format: str | None) -> None:
    row = {
        "_id": "5a",
        "question": "q?",
        "answer": "yes",
        "type": "comparison",
        "level": "hard",
        "context": [["T", []]],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps([row]))
    expected = Question("5a", "toy", "dev", "q?", ("yes",), (), (("type", "comparison"), ("level", "hard")))
    assert read(path, format) == (expected,)


def test_musique_skips_and_counts_unanswerable_rows(tmp_path: Path) -> None:
    row = {"id": "2hop__1_2", "paragraphs": [], "question": "q", "answer": "a", "answer_aliases": ["b", "a"]}
    path = jsonl(tmp_path / "a.jsonl", row | {"answerable": True}, row | {"id": "3hop__4", "answerable": False})
    found = read_file(path, dataset="toy", split="dev")
    assert (found.format, found.skipped) == ("musique", 1)
    assert found.questions == (Question("2hop__1_2", "toy", "dev", "q", ("a", "b"), (), (("type", "2hop"),)),)


def test_triviaqa_document(tmp_path: Path) -> None:
    answer = {"Value": "Sunset", "Aliases": ["Sun set", "Sunset"], "NormalizedAliases": ["sun set", "sunset"]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"Data": [{"Question": "When?", "QuestionId": "tc_2", "Answer": answer}]}))
    assert read(path) == (Question("tc_2", "toy", "dev", "When?", ("Sunset", "Sun set", "sun set", "sunset")),)


def test_popqa_table(tmp_path: Path) -> None:
    path = tmp_path / "popQA.tsv"
    path.write_text(
        "id\tsubj\tprop\tquestion\tpossible_answers\n"
        '4222\tX\toccupation\tWhat is X\'s job?\t"[""clerk"", ""caf\\u00e9 owner""]"\n'
    )
    expected = Question(
        "4222", "toy", "dev", "What is X's job?", ("clerk", "café owner"), (), (("prop", "occupation"),)
    )
    assert read(path) == (expected,)


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("tsv", "\t"), ("csv", "\t")])
def test_bamboogle_table(tmp_path: Path, ending: str, mark: str) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text(f'\ufeffQuestion{mark}Answer\n"Who, then?"{mark}Ada\n', encoding="utf-8")
    assert read(path) == (Question("toy_dev_0", "toy", "dev", "Who, then?", ("Ada",)),)


@needs("[data]")
def test_verl_parquet(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    row = {
        "data_source": "nq",
        "prompt": [{"role": "user", "content": "Answer it.\nQuestion: who sang it?\n"}],
        "reward_model": {"style": "rule", "ground_truth": {"target": ["Ada", "ada "]}},
        "extra_info": {"split": "train", "index": 3},
    }
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "a.parquet")
    expected = Question("nq_train_3", "toy", "dev", "who sang it?", ("Ada", "ada"), (), (("source", "nq"),))
    assert read(tmp_path / "a.parquet") == (expected,)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(UsageError, match=r"bad\.parquet: not a parquet file"):
        read(tmp_path / "bad.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtra, match=r'pip install "agent-envs\[data\]"'):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("published", "clean"),
    [
        ('"Who said ""no""?"', 'Who said "no"?'),
        ('"""No"" was said by whom?"', '"No" was said by whom?'),
        ('"Fix You" is by whom', '"Fix You" is by whom'),
        ('"Fix You"', '"Fix You"'),
        ('"A" or "B"', '"A" or "B"'),
    ],
)
def test_raw_csv_fields_are_unwrapped_and_quoted_titles_are_not(tmp_path: Path, published: str, clean: str) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"id": "1", "question": published, "golden_answers": ["x"]})
    assert read(path)[0].text == clean


GOOD = {"id": "1", "question": "q", "golden_answers": ["a"]}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "2", "golden_answers": ["a"]}, "field 'question' is missing"),
        ({"id": "2", "question": "q"}, "field 'golden_answers' is missing"),
        ({"id": "2", "question": 7.5, "golden_answers": ["a"]}, "field 'question' must be a text"),
        ({"id": "2", "question": "q", "golden_answers": [None]}, "must be a list of texts"),
        ({"id": "2", "question": "q", "golden_answers": [" "]}, "no answer"),
        ({"id": "1", "question": "q", "golden_answers": ["a"]}, "the id '1' stands on an earlier row"),
        (["a"], "a row must be an object, found list"),
    ],
)
def test_bad_rows_name_file_line_and_field(tmp_path: Path, row: object, complaint: str) -> None:
    path = jsonl(tmp_path / "bad.jsonl", GOOD, row)
    with pytest.raises(UsageError, match=rf"bad\.jsonl, line 2: .*{complaint}"):
        read(path)


@pytest.mark.parametrize("line", [b"{oops", b"\xff\xfe", b"[" * 100_000])
def test_lines_that_do_not_decode_are_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    with pytest.raises(UsageError, match=r"bad\.jsonl, line 2: "):
        read(path)


def test_overlong_lines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b" " * (rows_module.LINE_LIMIT_BYTES + 1) + json.dumps(GOOD).encode())
    with pytest.raises(UsageError, match=r"line 1: longer than 4,000,000 bytes"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.jsonl", '{"q": 1, "a": 2}', "keys a, q"),
        ("a.json", '[{"topic": 1}]', "keys topic"),
        ("a.csv", "left,right\n1,2\n", "keys left, right"),
        ("a.jsonl", "", "no row"),
        ("a.txt", "hello", "no row"),
    ],
)
def test_unknown_shapes_name_keys_and_formats(tmp_path: Path, name: str, text: str, found: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        read(tmp_path / name)
    assert found in str(caught.value)
    assert name in str(caught.value)
    assert all(known in str(caught.value) for known in FORMATS)


def test_unknown_format_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format 'sqad' is unknown"):
        read(jsonl(tmp_path / "a.jsonl", GOOD), "sqad")
    with pytest.raises(DataMissing, match="none.jsonl"):
        read(tmp_path / "none.jsonl")


@given(st.binary(max_size=300), st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.tsv"]))
def test_any_bytes_give_questions_or_a_usage_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(data)
    try:
        found = read(path)
    except UsageError as error:
        assert str(path) in str(error)
    else:
        assert all(question.answers and question.text for question in found)


@pytest.mark.data
def test_real_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path))
    counts = {name: len(load_questions(name, "dev")) for name in DATASETS}
    assert counts == {name: 75 if name == "bamboogle" else 300 for name in DATASETS}
    everything = [question for name in DATASETS for question in load_questions(name, "dev")]
    everything += [*load_questions("hotpotqa", "train"), *load_questions("musique", "train")]
    assert len(everything) == 1_875 + 200
    assert all(answer == answer.strip() != "" for question in everything for answer in question.answers)
    assert all(question.answers for question in everything)
    corpus = load_corpus("sample")
    assert len(corpus) == 52_082
    for passage_id in sorted({passage for question in everything for passage in question.support}):
        assert corpus[corpus.row(passage_id)].id == passage_id
    by_id = {question.id: question for question in everything}
    assert (
        by_id["tq_sfq_273"].text == 'Which actress/singer starred as Doralee Rhodes in the 1980 film, "Nine to Five"?'
    )
    assert by_id["Bamboogle_74"].answers == ("George VI",)
