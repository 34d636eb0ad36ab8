"""File corpora: both row shapes, the cached index, concurrent builders, and refusals."""

import copy
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import Passage
from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.corpora import FileCorpus

ROWS = [
    {"id": "a", "title": "Ghent", "text": "A city.\nWith a canal."},
    {"id": "b", "contents": '"Canal"\nDug in 1827.\nLong.'},
    {"id": 7, "contents": '""Weird" Al"\nA singer — “truly”.'},
]
PASSAGES = [
    Passage("a", "Ghent", "A city.\nWith a canal."),
    Passage("b", "Canal", "Dug in 1827.\nLong."),
    Passage("7", '"Weird" Al', "A singer — “truly”."),
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(folder))
    return folder


def write(path: Path, rows: list[dict[str, object]], end: str = "\n") -> Path:
    path.write_bytes(end.join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\r\n\r\n"])
def test_rows_ids_and_digest(tmp_path: Path, end: str) -> None:
    path = write(tmp_path / "c.jsonl", ROWS, end)
    corpus = FileCorpus(path)
    assert list(corpus) == PASSAGES
    assert corpus[-1] == PASSAGES[2]
    assert [corpus.row(passage.id) for passage in PASSAGES] == [0, 1, 2]
    assert corpus.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    for row in (3, -4):
        with pytest.raises(IndexError):
            corpus[row]
    for missing in ("c", "0", "9" * 400, "²", ""):
        with pytest.raises(KeyError):
            corpus.row(missing)


def test_ids_that_are_row_numbers_need_no_map(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"id": str(number), "title": "t", "text": f"{number}"} for number in range(20)]
    corpus = FileCorpus(write(tmp_path / "c.jsonl", rows))
    assert [corpus.row(str(number)) for number in range(20)] == list(range(20))
    assert corpus._rows is None
    with pytest.raises(KeyError):
        corpus.row("07")


def test_repeated_ids_are_refused_by_name(tmp_path: Path) -> None:
    corpus = FileCorpus(write(tmp_path / "c.jsonl", [ROWS[0], ROWS[1], ROWS[0]]))
    with pytest.raises(UsageError, match="row 2: the id 'a' stands on row 0, too"):
        corpus.row("a")


def test_second_opening_reads_the_index(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "c.jsonl", ROWS)
    seen: list[tuple[int, int]] = []
    first = FileCorpus(path, lambda count, total: seen.append((count, total)))
    size = path.stat().st_size
    assert seen[-1] == (size, size)
    files = sorted(file.suffix for file in (cache / "corpora").iterdir())
    assert files == [".json", ".npy"]
    seen.clear()
    second = FileCorpus(path, lambda count, total: seen.append((count, total)))
    assert seen == []
    assert second.digest == first.digest
    assert list(second) == PASSAGES


def test_a_changed_file_and_a_damaged_index_are_scanned_again(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "c.jsonl", ROWS)
    first = FileCorpus(path)
    for file in (cache / "corpora").iterdir():
        file.write_bytes(b"torn")
    assert list(FileCorpus(path)) == PASSAGES
    write(path, ROWS[:2])
    second = FileCorpus(path)
    assert list(second) == PASSAGES[:2]
    assert second.digest != first.digest


def test_unwritable_cache_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(blocked))
    assert list(FileCorpus(write(tmp_path / "c.jsonl", ROWS))) == PASSAGES


def test_copies_share(tmp_path: Path) -> None:
    corpus = FileCorpus(write(tmp_path / "c.jsonl", ROWS))
    assert copy.deepcopy({"corpus": corpus})["corpus"] is corpus


def test_concurrent_builders_agree(tmp_path: Path, cache: Path) -> None:
    rows: list[dict[str, object]] = [{"id": f"p{number}", "title": "t", "text": "x" * 50} for number in range(20_000)]
    path = write(tmp_path / "c.jsonl", rows)
    program = (
        "import sys; from agent_envs.datasets.corpora import FileCorpus\n"
        "c = FileCorpus(sys.argv[1]); print(c.digest, len(c), c[19999].id, c.row('p777'))"
    )
    command = [sys.executable, "-c", program, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = {process.communicate(timeout=120)[0] for process in running}
    assert outputs == {f"{hashlib.sha256(path.read_bytes()).hexdigest()} 20000 p19999 777\n"}
    assert len(list((cache / "corpora").iterdir())) == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"id": "1", "question": "q", "golden_answers": []}', "is a question file, not a corpus"),
        ('{"id": "1", "title": "t"}', "found the keys id, title"),
        ('{"id": "1", "title": 3, "text": "x"}', "all texts"),
        ("[1]", "found list"),
        ("{", "line 1: not JSON"),
        ("", "empty"),
        ("\n\n", "empty"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match=complaint):
        FileCorpus(path)


def test_missing_and_compressed_files(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"none\.jsonl"):
        FileCorpus(tmp_path / "none.jsonl")
    (tmp_path / "c.jsonl.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(UsageError, match="unpack it first"):
        FileCorpus(tmp_path / "c.jsonl.gz")


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), min_size=1, max_size=12), st.booleans())
def test_any_texts_come_back(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]], last_break: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    rows = [{"id": f"{number}", "title": title, "text": text} for number, (title, text) in enumerate(texts)]
    content = "\n".join(json.dumps(row) for row in rows) + ("\n" if last_break else "")
    (folder / "c.jsonl").write_text(content)
    corpus = FileCorpus(folder / "c.jsonl")
    assert [(passage.title, passage.text) for passage in corpus] == texts


@pytest.mark.data
def test_real_corpus() -> None:
    path = Path(os.environ["AGENT_ENVS_DATA"]) / "searchqa" / "corpus.jsonl"
    corpus = FileCorpus(path)
    lines = path.read_bytes().splitlines()
    assert len(corpus) == len(lines) == 52_082
    for row in (0, 1, 777, 52_081):
        fields = json.loads(lines[row])
        assert corpus[row] == Passage(fields["id"], fields["title"], fields["text"])
        assert corpus.row(fields["id"]) == row
