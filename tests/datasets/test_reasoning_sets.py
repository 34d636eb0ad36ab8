"""Readers of the sets for tool reasoning, against small invented files in each published format."""

import base64
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.catalogue import PROBLEMS, SPLITS, download_path, find_problems
from agent_envs.datasets.download import get
from agent_envs.datasets.listing import data_rows
from agent_envs.datasets.readers import Question
from agent_envs.datasets.reasoning_sets import REASONING_SETS, last_boxed, read_reasoning
from tests.examples import examples
from tests.needs import needs
from tests.rows import each_row

TRAIN = "train"


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path, name: str) -> tuple[Question, ...]:
    return read_reasoning(path, name, "test").questions


@each_row(
    ("text", "box"),
    [
        (r"thus \boxed{7}", "7"),
        (r"first \boxed{1}, then $\boxed{ \frac{1}{2} }$.", r"\frac{1}{2}"),
        (r"\fbox{x}", "x"),
        (r"so $\boxed 9$.", "9"),
        (r"\boxed{a \} b}", r"a \} b"),
        (r"\boxed{\left\{1,2\right\}}", r"\left\{1,2\right\}"),
        (r"\boxed{}", ""),
        (r"\boxed{1", None),
        ("no box", None),
        (r"\boxed", None),
    ],
)
def test_last_boxed(text: str, box: str | None) -> None:
    assert last_boxed(text) == box


@examples(100)
@given(st.text(alphabet=r"\{}boxed 1$", max_size=60))
def test_last_boxed_reads_any_text(text: str) -> None:
    found = last_boxed(text)
    assert found is None or found in text


def test_last_boxed_takes_no_longer_than_its_text() -> None:
    text = r"\boxed{" * 200_000
    assert last_boxed(text) is None
    assert last_boxed(text + "}") == ""


def test_math_rows_in_both_spellings(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        {"problem": "p", "solution": r"\boxed{3}", "answer": r"\frac12", "subject": "Algebra", "level": 5,
         "unique_id": "test/algebra/1.json"},
        {"problem": "p2", "solution": r"is \boxed{\sqrt{2}}", "level": "Level 2", "type": "Geometry"},
    )  # fmt: skip
    labels = (("subject", "Algebra"), ("level", "5")), (("subject", "Geometry"), ("level", "2"))
    assert read(path, "math500") == (
        Question("test/algebra/1.json", "math500", "test", "p", (r"\frac12",), (), labels[0]),
        Question("math500_test_1", "math500", "test", "p2", (r"\sqrt{2}",), (), labels[1]),
    )


@needs("[data]")
def test_math_parquet(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    row = {"problem": "p", "level": "Level 3", "solution": r"$\boxed{4}$", "type": "Algebra"}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "a.parquet")
    assert read_reasoning(tmp_path / "a.parquet", "math", TRAIN).questions == (
        Question("math_train_0", "math", "train", "p", ("4",), (), (("subject", "Algebra"), ("level", "3"))),
    )


def test_aime_rows_in_three_spellings(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        {"id": 60, "problem": "p", "solution": "long", "answer": "025", "url": "u", "year": "2024"},
        {"ID": "2024-II-4", "Problem": "q", "Solution": "s", "Answer": 33},
        {"question": "r", "solution": r"\boxed{204}"},
    )
    rows = [(row.id, row.text, row.answers) for row in read(path, "aime24")]
    assert rows == [("60", "p", ("25",)), ("2024-II-4", "q", ("33",)), ("aime24_test_2", "r", ("204",))]


@pytest.mark.parametrize("answer", ["-3", "1000", "x", r"\frac{1}{2}"])
def test_answers_of_aime_are_whole_numbers(tmp_path: Path, answer: str) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"problem": "p", "answer": "1"}, {"problem": "q", "answer": answer})
    with pytest.raises(UsageError, match=r"a\.jsonl, line 2: field 'answer' must be a whole number from 0 to 999"):
        read(path, "aime25")


def test_gsm8k_rows(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"question": "q", "answer": "2*3=<<2*3=6>>6\n#### 1,234"})
    assert read(path, "gsm8k") == (Question("gsm8k_test_0", "gsm8k", "test", "q", ("1234",)),)
    path = jsonl(tmp_path / "a.jsonl", {"question": "q", "answer": "#### 9,5"})
    assert read(path, "gsm8k")[0].answers == ("9,5",), "a comma that separates no thousands stays"
    with pytest.raises(UsageError, match="a solution that ends in ####"):
        read(jsonl(path, {"question": "q", "answer": "6"}), "gsm8k")


def test_webwalkerqa_rows_in_both_spellings(tmp_path: Path) -> None:
    info = {
        "hop": "multi-source",
        "domain": "conference",
        "lang": "en",
        "difficulty_level": "medium",
        "golden_path": [],
    }
    other = {"Hop": "single-source", "Domain": "Game", "Language": "Chinese", "Difficulty_Level": "Easy"}
    path = jsonl(
        tmp_path / "a.jsonl",
        {"question": "q", "answer": "a", "root_url": "https://x.org/", "info": info},
        {"Question": "r", "Answer": "b", "Root_Url": "", "Info": other},
    )
    first, second = read(path, "webwalkerqa")
    assert (first.text, first.answers) == ("q", ("a",))
    assert dict(first.labels) == {
        "subject": "conference", "level": "medium", "language": "en", "type": "multi-source", "start": "https://x.org/",
    }  # fmt: skip
    assert dict(second.labels) == {"subject": "Game", "level": "Easy", "language": "Chinese", "type": "single-source"}


def test_gaia_leaves_out_questions_with_files_and_without_answers(tmp_path: Path) -> None:
    row = {"task_id": "t", "Question": "q", "Level": "2", "Final answer": "egalitarian", "file_name": ""}
    path = jsonl(
        tmp_path / "metadata.jsonl",
        row | {"Annotator Metadata": {"Steps": "1"}},
        row | {"task_id": "u", "file_name": "u.xlsx"},
        row | {"task_id": "v", "Final answer": "?"},
    )
    found = read_reasoning(path, "gaia", "test")
    assert found.skipped == 2
    assert found.questions == (Question("t", "gaia", "test", "q", ("egalitarian",), (), (("level", "2"),)),)
    with pytest.raises(UsageError, match=r"no question of gaia that text alone can ask \(1 left out\)"):
        read(jsonl(path, row | {"Final answer": "?"}), "gaia")


def test_hle_leaves_out_questions_with_images(tmp_path: Path) -> None:
    row = {
        "id": "6", "question": "q", "image": "", "answer": "B", "answer_type": "multipleChoice", "rationale": "r",
        "raw_subject": "Logic", "category": "Math", "canary": "c",
    }  # fmt: skip
    path = jsonl(tmp_path / "a.jsonl", row, row | {"id": "7", "image": "data:image/png;base64,AAAA"})
    found = read_reasoning(path, "hle", "test")
    assert found.skipped == 1
    assert found.questions[0].labels == (("subject", "Math"), ("type", "multipleChoice"), ("field", "Logic"))


def test_xbench_is_read_once_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "DeepSearch.csv"

    def write(*rows: list[str]) -> None:
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([["id", "prompt", "answer", "reference_steps", "canary"], *rows])

    write(["1", "哪一年, 在哪里?\n请回答", "1998年", "steps", "key"], ["2", "Which year was it?", "1999", "", "key"])
    assert [(row.id, row.text, row.answers) for row in read(path, "xbench")] == [
        ("1", "哪一年, 在哪里?\n请回答", ("1998年",)),
        ("2", "Which year was it?", ("1999",)),
    ]
    encoded = base64.b64encode(bytes(byte ^ 75 for byte in "哪一年在哪里举行了比赛".encode())).decode()
    write(["1", encoded, "MTk5OA==", "", "key"])
    with pytest.raises(UsageError, match="field 'prompt' is still encoded; decode the file with its authors' own code"):
        read(path, "xbench")


@pytest.mark.parametrize(
    ("name", "row", "complaint"),
    [
        ("math", {"solution": r"\boxed{1}"}, "field 'problem' is missing"),
        ("math", {"problem": "p", "solution": "none"}, "field 'answer' is missing"),
        ("webwalkerqa", {"question": "q", "info": {}}, "field 'answer' is missing"),
        ("hle", {"question": "q", "answer": "a"}, "field 'id' is missing"),
        ("aime24", {"problem": "p", "answer": "1", "id": "1"}, "the id '1' stands on an earlier row"),
    ],
)
def test_bad_rows_name_file_line_and_field(tmp_path: Path, name: str, row: dict[str, Any], complaint: str) -> None:
    good = {"id": "1", "problem": "p", "question": "q", "answer": "1"}
    with pytest.raises(UsageError, match=rf"bad\.jsonl, line 2: {complaint}"):
        read(jsonl(tmp_path / "bad.jsonl", good, row), name)


def test_unknown_sets_files_and_endings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"set 'imo' is unknown; known: {', '.join(REASONING_SETS)}"):
        read(tmp_path / "a.jsonl", "imo")
    with pytest.raises(DataMissing, match=r"no question file at .*a\.jsonl"):
        read(tmp_path / "a.jsonl", "math")
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(UsageError, match=r"a\.txt: unknown ending; known: \.jsonl"):
        read(tmp_path / "a.txt", "math")


def test_the_catalogue_knows_every_set() -> None:
    assert tuple(PROBLEMS) == REASONING_SETS
    for name, row in PROBLEMS.items():
        assert row.name == name and row.title and row.licence and row.citation and row.domain
        assert bool(row.files) != bool(row.terms)
        for file in row.files:
            assert file.split in SPLITS and file.max_bytes <= 100_000_000
            assert file.url.startswith("https://") != bool(file.repo) and (file.url or file.revision)
            assert file.sha256 is None or len(file.sha256) == 64
            assert not file.url or file.sha256, "an address that is pinned can be checked"
    paths = [download_path(name, file) for name, row in PROBLEMS.items() for file in row.files]
    assert len({path.parent for path in paths}) == len(paths)


def test_gated_sets_are_listed_and_never_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path))
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)
    rows = {row["name"]: row for row in data_rows()}
    for name in ("gaia", "hle", "xbench"):
        assert (rows[name]["published"], rows[name]["here"]) == ("from its authors only", "no")
        with pytest.raises(UsageError, match=f"{name} is not downloaded from here: "):
            get(name, "test")
        with pytest.raises(DataMissing, match=f"{name} is not downloaded from here: "):
            find_problems(name, "test")
    assert rows["math500"]["published"] == "test 500" and rows["aime24"]["domain"] == "maths"


def test_what_is_here_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "aime25"
    folder.mkdir()
    jsonl(folder / "test.jsonl", {"problem": "p", "answer": "1"}, {"problem": "q", "answer": "2"})
    assert {row["name"]: row["here"] for row in data_rows()}["aime25"] == "test 2"
