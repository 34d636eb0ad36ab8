"""Rows and small files of a submission: one text for one value, nothing unbounded, no change unseen."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_envs.base.messages import Message
from agent_envs.evaluation.submission.episode_rows import (
    EnvRef,
    EpisodeRow,
    ResultRow,
    TurnRow,
    chain_of,
    messages_digest,
    return_of,
    row_of,
    row_text,
)
from agent_envs.evaluation.submission.models import AgentInfo, FileRow, Manifest, Prices, Submitter, entry_folders
from agent_envs.evaluation.submission.provenance import About, about_template
from agent_envs.evaluation.suites.suite import Entry, Suite
from docs.schemas import MODELS, schemas
from tests.evaluation.submission.packing import synthetic
from tests.examples import examples
from tests.rows import each_row

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
NAME = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
NUMBER = st.floats(-1e12, 1e12, allow_nan=False).map(lambda value: value + 0.0)
SAFE = st.integers(-(2**53), 2**53)


@st.composite
def rows(draw):
    status = draw(st.sampled_from(["terminated", "truncated", "fault", "budget", "missing"]))
    ended = status in ("terminated", "truncated")
    count = draw(st.integers(1, 4)) if ended else 0
    turns = tuple(
        TurnRow(
            t=number,
            agent="agent_0",
            action=draw(TEXT | SAFE),
            observation_sha256=draw(HEX),
            reward=draw(st.floats(-1e6, 1e6).map(lambda value: value + 0.0)),
            terms=draw(st.dictionaries(NAME, NUMBER, max_size=3)),
            terminated=number == count and status == "terminated",
            truncated=number == count and status == "truncated",
            events=tuple(draw(st.lists(TEXT, max_size=2))),
            context=draw(st.sampled_from(["append", "replace"])),
        )  # fmt: skip
        for number in range(1, count + 1)
    )
    row = EpisodeRow(
        key="0123456789abcdef", entry=draw(NAME), task=draw(NAME), task_digest=draw(HEX), cluster=draw(NAME),
        env=EnvRef(id=draw(NAME), spec_digest=draw(HEX), turn_limit=draw(st.none() | st.integers(1, 10_000))),
        trial=draw(st.integers(0, 999)), seed=draw(st.integers(0, 2**31 - 1)), status=status,
        prompt_sha256=draw(HEX) if ended else "", turns=turns,
        result=ResultRow(total=return_of(turns), success=ended and draw(st.booleans())),
        usage=draw(st.dictionaries(st.sampled_from(["input", "output", "cached"]), st.integers(0, 2**53))),
        seconds=draw(st.floats(0, 1e9)) + 0.0, agent_seconds=0.0, chain="0" * 64,
    )  # fmt: skip
    return row.model_copy(update={"chain": chain_of(row)})


@examples(200)
@given(rows())
def test_a_row_reads_back_as_it_was(row):
    again = EpisodeRow.model_validate_json(row_text(row))
    assert again == row and row_text(again) == row_text(row) and chain_of(again) == row.chain


def test_golden_row():
    """A change here makes every submission so far unreadable: it needs a new schema."""
    row = row_of(synthetic())
    assert row.chain == "714b4ffa85b01a8622226a1e42b59ab3316eb56d147c11825584570ebbcd1393"
    assert row.prompt_sha256 == "58c05194d5b383f8642f780b831d70bc436eb5cbe85faf2ad98dd20387a67650"
    assert row_text(row).startswith('{"agent_seconds":0.0,"chain":"')
    assert json.loads(row_text(row))["result"] == {"return": math.fsum([0.1, 0.2]), "success": True}


@each_row(
    "name",
    ["key", "entry", "env", "task", "task_digest", "cluster", "trial", "seed", "status", "prompt_sha256", "format"],
)
def test_a_changed_header_changes_the_chain(name):
    row = row_of(synthetic())
    other = {"env": row.env.model_copy(update={"turn_limit": 3}), "trial": 1, "seed": 1}.get(name, "other")
    assert chain_of(row.model_copy(update={name: other})) != row.chain


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("name", list(TurnRow.model_fields))
def test_a_changed_turn_changes_the_chain(name, at):
    row = row_of(synthetic(turns=3))
    turn = row.turns[at]
    value = getattr(turn, name)
    other = {bool: lambda: not value, float: lambda: value + 1.0, int: lambda: value + 1, str: lambda: value + " ",
             tuple: lambda: (*value, "x"), dict: lambda: {**value, "x": 0.0}}[type(value)]()  # fmt: skip
    turns = (*row.turns[:at], turn.model_copy(update={name: other}), *row.turns[at + 1 :])
    assert chain_of(row.model_copy(update={"turns": turns})) != row.chain


def test_turns_cannot_be_cut_doubled_or_swapped():
    row = row_of(synthetic(turns=3))
    one, two, three = row.turns
    for turns in ((one, two), (one, one, two, three), (two, one, three), ()):
        assert chain_of(row.model_copy(update={"turns": turns})) != row.chain


def test_an_integer_action_is_not_its_text():
    row = row_of(synthetic())
    as_int, as_text = (
        row.model_copy(update={"turns": (row.turns[0].model_copy(update={"action": action}),)}) for action in (1, "1")
    )
    assert chain_of(as_int) != chain_of(as_text)


def test_digests_of_messages_tell_roles_calls_and_texts_apart_and_no_authors():
    plain = Message("user", "hello", "environment")
    assert messages_digest((plain,)) == messages_digest((replace(plain, author="tool"),))
    others = [replace(plain, role="tool"), replace(plain, content="hello "), replace(plain, tool_call_id="a")]
    found = {messages_digest((message,)) for message in (plain, *others)}
    assert len(found) == 4 and messages_digest((plain, plain)) not in found


def _changed(path, value):
    data = json.loads(row_text(row_of(synthetic())))
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(data)


@each_row(
    "path, value",
    [
        (["key"], "0123456789ABCDEF"),
        (["schema"], "agent-envs/episode@2"),
        (["extra"], 1),
        (["seed"], 2**31),
        (["seed"], 1.0),
        (["seed"], True),
        (["seed"], "1"),
        (["turns", 0, "t"], 2),
        (["turns", 0, "action"], "x" * 1_000_001),
        (["turns", 0, "action"], 2**53 + 1),
        (["turns", 0, "action"], True),
        (["turns", 0, "action"], None),
        (["turns", 0, "reward"], -0.0),
        (["turns", 0, "reward"], math.nan),
        (["turns", 0, "reward"], math.inf),
        (["turns", 0, "reward"], 5.0),
        (["turns", 0, "terms"], {"em": -0.0}),
        (["turns", 0, "terminated"], True),
        (["turns", 0, "events"], ["x"] * 1001),
        (["turns", 0, "context"], "forget"),
        (["turns", 1, "terminated"], False),
        (["turns"], []),
        (["status"], "truncated"),
        (["status"], "fault"),
        (["result", "return"], 0.0),
        (["usage"], {"input": -1}),
        (["usage"], {"in put": 1}),
        (["usage"], {"input": 2**53 + 1}),
        (["seconds"], -1.0),
        (["chain"], ""),
    ],
)
def test_rows_that_are_refused(path, value):
    assert EpisodeRow.model_validate_json(_changed(["cluster"], "other")).cluster == "other"
    with pytest.raises(ValidationError):
        EpisodeRow.model_validate_json(_changed(path, value))


@pytest.mark.parametrize("old, new", [('"reward":0.1', '"reward":1e999'), ('"task":"one"', '"task":"\\ud800"')])
def test_json_that_python_reads_and_a_row_does_not(old, new):
    text = row_text(row_of(synthetic()))
    json.loads(text.replace(old, new))
    assert old in text
    for bad in (text.replace(old, new), "[" * 5000, ""):
        with pytest.raises(ValidationError):
            EpisodeRow.model_validate_json(bad)


def test_minus_zero_is_written_as_zero():
    played = synthetic()
    trajectory = played.result.trajectory
    turns = tuple(replace(turn, reward=-0.0, terms=(("em", -0.0),)) for turn in trajectory.turns)
    row = row_of(replace(played, result=replace(played.result, trajectory=replace(trajectory, turns=turns))))
    assert "-0.0" not in row_text(row) and row == EpisodeRow.model_validate_json(row_text(row))


@each_row("name", ["", " a", "a\nb", "a\u202eb", "a\u200bb", "a\x1b[31m", "e\u0301", "x" * 81, "a\u2066b", "\ud800",
                  "\u3164", "\u2800", "a\ufe0f", "a" + "\u0336" * 60])  # fmt: skip
def test_names_that_could_mislead(name):
    AgentInfo(name="Große Suche 検索", kind="agent")
    with pytest.raises(ValidationError):
        AgentInfo(name=name, kind="agent")
    if name:
        with pytest.raises(ValidationError):
            Submitter(name=name)


@each_row("days", [-2000, 2, 365_000])
def test_days_beyond_reason_are_refused(days):
    today = datetime.now(tz=UTC).date()
    assert [Prices(date=day, models={}).date for day in ("", str(today), str(today + timedelta(days=1)), "2020-01-01")]
    with pytest.raises(ValidationError, match="before 2020, or later than tomorrow"):
        Prices(date=str(today + timedelta(days=days)) if days > 0 else "2019-12-31", models={})
    with pytest.raises(ValidationError):
        Prices(date="0001-01-01", models={})


@each_row(
    "url",
    ["http://a.org", "javascript:alert(1)", "https://u:p@a.org", 'https://a.org/"x', "https://a.org/ x", "https://a.org/\\x",
     "https://a.org/<b>", "https://a.org/'", "https://", "https://a.org\n"],
)  # fmt: skip
def test_urls_that_are_refused(url):
    assert AgentInfo(name="a", kind="agent", url="https://a.org:8000/b/c?d=e&f=[1]#g_h").url.endswith("g_h")
    with pytest.raises(ValidationError):
        AgentInfo(name="a", kind="agent", url=url)


@each_row(
    "path", ["../a", "a/../b", "/a", "a//b", "a/", "A", ".a", "a\\b", "a b", "", "a" * 121, "a\n", "manifest.json"]
)
def test_paths_that_are_refused(path):
    fine = FileRow(path="episodes/a-1/0000.jsonl.gz", bytes=1, sha256="0" * 64)
    assert Manifest(files=(fine,)).files == (fine,)
    with pytest.raises(ValidationError):
        Manifest(files=(FileRow(path=path, bytes=1, sha256="0" * 64),))


def test_a_manifest_is_sorted_and_names_each_file_once():
    one, two = (FileRow(path=path, bytes=1, sha256="0" * 64) for path in ("a", "b"))
    Manifest(files=(one, two))
    for files in ((two, one), (one, one), ()):
        with pytest.raises(ValidationError):
            Manifest(files=files)


def test_folders_of_entries_are_apart_whatever_their_labels():
    labels = ["SearchQA", "searchqa", "SearchQA-2", "../..", "", "x" * 200, "y=1,  z", "ö"]
    entries = [
        Entry(
            label=label or "…",
            env_id="a",
            arguments={},
            spec_digest="0" * 64,
            split="test",
            tasks=(("t", "0" * 64, "t"),),
        )
        for label in labels
    ]
    found = entry_folders(Suite(id="a", version="0.0", trials=1, entries=tuple(entries)))
    assert len(set(found.values())) == len(labels)
    assert list(found.values())[:4] == [
        "episodes/searchqa",
        "episodes/searchqa-2",
        "episodes/searchqa-2-2",
        "episodes/entry",
    ]
    for folder in found.values():
        FileRow(path=f"{folder}/0000.jsonl.gz", bytes=0, sha256="0" * 64)


def test_the_template_is_a_file_of_about_and_cannot_say_what_kind_of_agent_it_is():
    about = json.loads(about_template())
    assert About.model_validate_json(about_template()) == About(format="agent-envs/about@1")
    about["agent"]["kind"] = "agent"
    with pytest.raises(ValidationError, match="kind"):
        About.model_validate_json(json.dumps(about))


def test_schemas_are_current():
    for path, text in schemas().items():
        assert json.loads(path.read_text(encoding="utf-8")) == json.loads(text), (
            f"{path.name}: run python -m docs.schemas"
        )


def test_schemas_name_every_field_and_forbid_others():
    """A schema that let unknown fields pass would promise what no reader keeps."""

    def objects(node):
        if isinstance(node, dict):
            if node.get("type") == "object" and "properties" in node:
                yield node
            for item in node.values():
                yield from objects(item)
        elif isinstance(node, list):
            for item in node:
                yield from objects(item)

    for text in schemas().values():
        found = list(objects(json.loads(text)))
        assert found and all(item["additionalProperties"] is False for item in found)
    row = json.loads(row_text(row_of(synthetic())))
    schema = MODELS["episode"].model_json_schema(by_alias=True)
    assert set(schema["properties"]) == set(row)
