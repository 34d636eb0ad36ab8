"""Libraries and questions from files: nodes, texts, CUAD, LegalBench-RAG, and the real D.C. Code."""

import json
import os
import re
from collections import Counter
from functools import partial

import pytest

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.base.serialization import canonical_json, encode_state
from agent_envs.envs.legal_search.library import as_terms
from agent_envs.envs.legal_search.node_files import pieces
from agent_envs.envs.legal_search.published import legal_source, load_library, without
from agent_envs.tools.retrieval.build import make_retriever
from tests.envs.legal_search.quizmaster import node_rows, write_nodes


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def lines(path, rows):
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def nodes(*rows):
    keys = ("id", "parent", "level", "num", "heading", "text", "children")
    return [dict(zip(keys, row, strict=True)) for row in rows]


TREE = nodes(
    ("T28", None, "title", "28", "Sales", "", ["T28:28:2-616"]),
    ("T28:28:2-616", "T28", "section", "28:2-616", "Notice", "At first.", ["T28:28:2-616:1", "T28:28:2-616:2"]),
    ("T28:28:2-616:1", "T28:28:2-616", "para1", "(1)", "", "One.", ["T28:28:2-616:1:a"]),
    ("T28:28:2-616:1:a", "T28:28:2-616:1", "para2", "(a)", "Inner.", "Deep.", []),
    ("T28:28:2-616:2", "T28:28:2-616", "para1", "(2)", "", "Two.", []),
)


def test_paragraphs_become_lines_of_their_section_and_ids_stay_whole(tmp_path):
    library = load_library(str(lines(tmp_path / "law.jsonl", TREE)))
    assert list(library.sections) == ["T28", "T28:28:2-616"]
    section = library.read("T28:28:2-616")
    assert section.text == "At first.\n(1) One.\n(a) Inner. Deep.\n(2) Two." and section.children == ()
    assert section.number == "28:2-616" and library.ancestor(section.id, 1).id == "T28"


def test_children_may_be_left_out_of_a_file(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "children"} for row in TREE]
    with_children = load_library(str(lines(tmp_path / "law.jsonl", TREE)))
    (tmp_path / "bare").mkdir()
    assert load_library(str(lines(tmp_path / "bare" / "law.jsonl", rows))).digest == with_children.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": "T99"}, "T99"),
        ({"id": "T28"}, "T28"),
        ({"id": ""}, "line 2: field 'id'"),
        ({"id": "T; 2"}, "line 2: field 'id' must be a text of one line without ;"),
        ({"id": "T\n2"}, "line 2: field 'id' must be a text of one line without ;"),
        ({"id": "T 2 [page 3]"}, "line 2: field 'id' must be a text of one line without ;"),
        ({"id": "T</read>2"}, "line 2: field 'id' must be a text of one line without ;"),
        ({"id": "T [sources: 2"}, "line 2: field 'id' must be a text of one line without ;"),
        ({"text": 7}, "line 2: field 'text' must be a text"),
        ({"children": "x"}, "disagree"),
        ({"children": [1]}, "line 2: field 'children'"),
    ],
)
def test_bad_nodes_are_named(tmp_path, change, message):
    rows = [TREE[0], {**TREE[1], "children": [], **change}]
    with pytest.raises(UsageError, match=message):
        load_library(str(lines(tmp_path / "law.jsonl", rows)))


@pytest.mark.parametrize("below", [["T28:28:2-616:1:a"], ["T28:28:2-616:1"], ["T28:28:2-616"], ["T28:28:2-616:2"]])
def test_paragraphs_that_stand_in_a_circle_or_twice_are_refused(tmp_path, below):
    rows = [*TREE[:3], {**TREE[3], "children": below}, *TREE[4:]]
    with pytest.raises(UsageError, match=r"law\.jsonl: the paragraph 'T28.*' is a child twice, or stands below itself"):
        load_library(str(lines(tmp_path / "law.jsonl", rows)))


def test_ids_may_hold_brackets(tmp_path):
    for name in ("T 2 [old]", "T]2", "[T", "T [up 1] 2", "T < 2"):
        rows = [{**TREE[0], "children": [name]}, {**TREE[1], "id": name, "children": []}]
        assert load_library(str(lines(tmp_path / "law.jsonl", rows))).read(name).id == name


def test_a_library_without_a_section_and_what_is_below_it(tmp_path):
    library = load_library(str(write_nodes(tmp_path / "nodes.jsonl")))
    left = without(library, frozenset({"T 1"}))
    assert set(left.sections) == {name for name in library.sections if not name.startswith("T 1")}
    less = without(library, frozenset({"T:2:28:3-6"}))
    assert len(less) == len(library) - 1 and "T:2:28:3-6" not in less.read("T:2:C3").children
    assert less.digest != library.digest and without(library, frozenset()) is library
    with pytest.raises(UsageError, match="no section 'nowhere'"):
        without(library, frozenset({"nowhere"}))


def test_a_folder_of_texts(tmp_path):
    (tmp_path / "texts" / "deep").mkdir(parents=True)
    write(tmp_path / "texts" / "b; [1].txt", "Second one. " * 100)
    write(tmp_path / "texts" / "deep" / "a.md", "Only one.")
    write(tmp_path / "texts" / "picture.png", "no text")
    library = load_library(str(tmp_path / "texts"))
    assert [name for name, section in library.sections.items() if not section.parent] == ["b_ [1_.txt", "deep/a.md"]
    assert library.read("deep/a.md#1").text == "Only one."
    assert 1 < len(library.read("b_ [1_.txt").children) < 5
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataMissing, match="no .txt or .md"):
        load_library(str(tmp_path / "empty"))


def test_pieces_cover_every_word_in_order():
    text = "\n\n".join("A clause of some words; and more of them. " * count for count in (1, 30, 3, 0, 60))
    spans = pieces(text)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:], strict=False))
    assert all(len(text[start:end].split()) <= 160 for start, end in spans) and len(spans) > 4
    assert pieces("") == pieces(" \n ") == [] and len(pieces("word " * 1000)) == 1


CONTRACT = (
    "SUPPLY AGREEMENT\n\n" + "This recital says nothing of note. " * 40 + "\n\nThe term is five years from 1 May 2012. "
    + "Nothing follows from this sentence. " * 40 + "Either party may renew for two years.\n"
)  # fmt: skip


def cuad(tmp_path, **changes):
    def spans(*texts):
        return [{"text": text, "answer_start": CONTRACT.index(text)} for text in texts]

    qas = [
        {"id": "ACME__Term", "question": "Highlight the parts related to the term.", "is_impossible": False,
         "answers": spans("five years from 1 May 2012", "Either party may renew for two years.")},
        {"id": "ACME__Cap", "question": "Highlight the parts related to a cap.", "is_impossible": True, "answers": []},
    ]  # fmt: skip
    qas[0].update(changes)
    other = {"title": "OTHER", "paragraphs": [{"context": "Another contract.", "qas": []}]}
    rows = [{"title": "ACME", "paragraphs": [{"context": CONTRACT, "qas": qas}]}, other]
    return write(tmp_path / "CUAD.json", {"version": "1", "data": rows})


def test_cuad(tmp_path):
    source = legal_source(str(cuad(tmp_path)))
    assert source.splits == ("test",) and source.size("test") == 2
    task, blank = source.get("test", "ACME__Term"), source.get("test", 1)
    assert task.question == 'Agreement "ACME": Highlight the parts related to the term.'
    library = source.library(task)
    texts = [library.read(name).text for name in task.hidden.gold_sections]
    assert (
        len(texts) == 2 and "five years" in texts[0] and "renew" in texts[1] and len(library.read("ACME").children) > 2
    )
    assert task.gold[0] == "five years from 1 May 2012 Either party may renew for two years."
    assert task.gold[1:] == ("five years from 1 May 2012", "Either party may renew for two years.")
    assert (task.hidden.metric, task.data[0], task.cluster) == ("f1", "Term", "ACME")
    assert blank.gold == ("I don't know",) and not blank.hidden.answerable and blank.cluster == "ACME"
    assert library.read("OTHER#1").text == "Another contract."
    assert load_library(str(tmp_path / "CUAD.json")).digest == library.digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": [{"text": "five years", "answer_start": 0}]}, "qas 1, answers 1: field 'answer_start'"),
        ({"answers": [{"text": "five years"}]}, "'answer_start' is missing"),
        ({"answers": "five years"}, "field 'answers' must be a list"),
        ({"question": " "}, "field 'question'"),
        ({"id": "ACME__Cap"}, "'ACME__Cap' stands on two rows"),
    ],
)
def test_damaged_cuad_is_named(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        legal_source(str(cuad(tmp_path, **changes)))


def legalbench(tmp_path, **changes):
    corpus = tmp_path / "data" / "corpus" / "nda"
    corpus.mkdir(parents=True)
    (tmp_path / "data" / "benchmarks").mkdir()
    write(corpus / "one.txt", CONTRACT)
    write(corpus / "hay.txt", "An agreement about hay.")
    write(tmp_path / "data" / "corpus" / "outside.txt", "Not of this benchmark.")
    start = CONTRACT.index("five years")
    snippet = {"file_path": "nda/one.txt", "span": [start, start + 10], "answer": "five years", **changes}
    tests = [{"query": "Consider the deal; how long does it last?", "snippets": [snippet], "tags": ["nda"]}]
    return write(tmp_path / "data" / "benchmarks" / "nda.json", {"tests": tests})


def test_legalbench_rag(tmp_path):
    source = legal_source(str(legalbench(tmp_path)))
    task = source.get("test", 0)
    library = source.library(task)
    assert task.id == "nda-1" and task.gold == ("five years",) and task.hidden.metric == "f1"
    assert [name for name, section in library.sections.items() if not section.parent] == ["nda/hay.txt", "nda/one.txt"]
    assert all("five years" in library.read(name).text for name in task.hidden.gold_sections)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"file_path": "../../secret.txt"}, UsageError, "inside the folder"),
        ({"file_path": "nda/none.txt"}, DataMissing, "no text at"),
        ({"span": [5]}, UsageError, "two character offsets"),
        ({"span": [9, 9]}, UsageError, "two character offsets"),
        ({"span": [0, 10**9]}, UsageError, "inside its text"),
        ({"span": [True, 4]}, UsageError, "two character offsets"),
    ],
)
def test_damaged_legalbench_rag_is_named(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        legal_source(str(legalbench(tmp_path, **changes)))


def test_names_that_lead_nowhere(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="neither CUAD"):
        legal_source(str(write(tmp_path / "odd.json", {"rows": []})))
    with pytest.raises(UsageError, match="not JSON"):
        legal_source(str(write(tmp_path / "torn.json", '{"data": [')))
    with pytest.raises(UsageError, match="corpus without questions"):
        legal_source("contracts")
    with pytest.raises(UsageError, match="unknown. Give statutes"):
        legal_source("dc_cod")
    with pytest.raises(UsageError, match="agent-envs/legal-questions@1"):
        legal_source(str(lines(tmp_path / "rows.jsonl", node_rows())))
    with pytest.raises(DataMissing, match="no question file"):
        legal_source(str(tmp_path / "none.jsonl"))
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    with pytest.raises(DataMissing, match="dc_code_qa.jsonl"):
        legal_source("dc_code")
    monkeypatch.delenv("AGENT_ENVS_DATA")
    with pytest.raises(DataMissing, match="set AGENT_ENVS_DATA"):
        legal_source("dc_code")


def test_a_small_folder_of_the_real_shape_and_its_hidden_answers(tmp_path, monkeypatch):
    folder = tmp_path / "legal"
    (folder / "dev").mkdir(parents=True)
    lines(folder / "dc_code_nodes.jsonl", TREE)
    row = {"id": "q1", "type": "definition", "question": "What?", "answers": ["One"], "metric": "token_f1",
           "answerable": True, "support": ["T28:28:2-616"], "hidden_answers": None}  # fmt: skip
    gone = {**row, "id": "q2", "answers": ["I don't know"], "metric": "abstain", "answerable": False, "support": [],
            "hidden_answers": ["the secret"]}  # fmt: skip
    lines(folder / "dev" / "dc_code_qa.jsonl", [row, gone])
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    source = legal_source("dc_code")
    assert legal_source("dc_code") is source
    assert sum(map(source.size, source.splits)) == 2
    rows = {
        task.id: task for split in source.splits for task in map(partial(source.get, split), range(source.size(split)))
    }
    task, blank = rows["q1"], rows["q2"]
    assert task.hidden.gold_sections == ("T28:28:2-616",) and task.hidden.metric == "f1" and task.gold == ("One",)
    assert blank.gold == ("I don't know",) and blank.hidden.steps == ()
    assert "secret" not in canonical_json(encode_state(blank))
    for key in (2, -1, "q3"):
        with pytest.raises(KeyError):
            source.get(source.splits[0], key)
    (folder / "test").mkdir()
    lines(folder / "test" / "dc_code_qa.jsonl", [{**row, "id": "q9"}])
    source = legal_source("dc_code")
    assert {split: source.size(split) for split in source.splits} == {"dev": 2, "test": 1}  # as the folders have them
    (folder / "test" / "dc_code_qa.jsonl").unlink()
    lines(folder / "dev" / "dc_code_qa.jsonl", [{**row, "support": ["T28:28:9"]}])
    with pytest.raises(UsageError, match="'q1': section 'T28:28:9' is not in the library"):
        legal_source("dc_code")


def real_tasks():
    source = legal_source("dc_code")
    return source, [source.get(split, index) for split in source.splits for index in range(source.size(split))]


@pytest.mark.data
def test_the_real_dc_code():
    source, tasks = real_tasks()
    library = source.library(tasks[0])
    assert len(library) == 4583 and len(library.corpus) == 3867
    section = library.read("T28:STI:A2:PVI:28:2-616")
    assert section.number == "28:2-616" and [up.level for up in library.path(section.id)[:2]] == ["title", "subtitle"]
    assert Counter(task.data[0] for task in tasks) == {
        "numeric_cloze": 240,
        "definition": 97,
        "cross_reference": 80,
        "unanswerable_numeric_cloze": 35,
        "unanswerable_definition": 13,
    }
    assert {split: source.size(split) for split in source.splits} == {"train": 282, "dev": 99, "test": 84}
    assert all(name in library.sections for task in tasks for name in task.hidden.gold_sections)
    two = [task for task in tasks if task.data[0] == "cross_reference"]
    assert all(len(task.hidden.gold_sections) == 2 for task in two)
    split_of = {}
    assert all(split_of.setdefault(task.cluster, task.split) == task.split for task in tasks)


@pytest.mark.data
def test_questions_of_the_real_code_hold_what_they_say():
    """The section asked about cites one other, and a heading that is told stands in one place alone."""
    source, tasks = real_tasks()
    library = source.library(tasks[0])
    headings = Counter(section.heading.strip(" .").lower() for section in library.sections.values())
    for task in tasks:
        quoted = re.search(r'(?:headed|provisions on) "(.*?)"', task.question)
        assert quoted is None or headings[quoted[1].lower().strip(" .")] == 1, task.question
        if task.data[0] == "cross_reference":
            own = library.read(task.hidden.gold_sections[0])
            cited = set(re.findall(r"(?<![\w:-])\d+[A-Z]?(?::\d+[A-Z]?)?-\d+(?:\.\d+)?[a-z]*\b", own.text)) - {
                own.number
            }
            assert len(cited) == 1, (task.question, cited)


@pytest.mark.data
def test_a_citation_of_the_real_code_can_be_followed_by_its_number():
    library = load_library("dc_code")
    assert library.find("34-604") == "T34:C6:34-604" == library.find("§ 34-604")
    keyword = make_retriever("bm25", library.numbered_corpus)
    _, tasks = real_tasks()
    targets = [task.hidden.gold_sections[1] for task in tasks if task.data[0] == "cross_reference"]
    found = [
        name in {hit.passage.id for hit in keyword.search(as_terms(library.read(name).number), 5)} for name in targets
    ]
    assert all(library.find(library.read(name).number) == name for name in targets)
    assert sum(found) / len(found) >= 0.95


@pytest.mark.data
def test_the_real_texts_equal_those_of_the_sections_file():
    library = load_library("dc_code")
    with open(os.path.join(os.environ["AGENT_ENVS_DATA"], "legal", "dc_code_sections.jsonl"), encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            assert "".join(library.read(row["id"]).text.split()) == "".join(row["text"].split()), row["id"]


@pytest.mark.data
def test_hidden_answers_of_the_real_questions_are_in_no_task():
    _, tasks = real_tasks()
    with open(
        os.path.join(os.environ["AGENT_ENVS_DATA"], "legal", "dev", "dc_code_qa.jsonl"), encoding="utf-8"
    ) as file:
        rows = {row["id"]: row for row in map(json.loads, file)}
    long = {name: answer for name, row in rows.items() for answer in row["hidden_answers"] or () if len(answer) > 20}
    assert len(long) > 10
    for task in tasks:
        assert task.id not in long or long[task.id] not in canonical_json(encode_state(task))


@pytest.mark.data
def test_the_solvers_queries_find_the_real_sections():
    source, tasks = real_tasks()
    retriever = make_retriever("bm25", source.library(tasks[0]).numbered_corpus)
    steps = [step for task in tasks for step in task.hidden.steps][::4]
    found = [step.section in [hit.passage.id for hit in retriever.search(as_terms(step.query), 5)] for step in steps]
    assert sum(found) / len(found) > 0.9


@pytest.mark.data
def test_the_real_contracts_are_a_corpus():
    library = load_library("contracts")
    assert len(library) == 3733 and sum(not section.parent for section in library.sections.values()) == 164
