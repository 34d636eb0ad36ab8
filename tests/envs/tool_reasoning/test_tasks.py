"""The sources by name: math_world, the catalogue's sets, a user's own files, and what they refuse."""

import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.catalogue import DATASETS
from agent_envs.datasets.world import closed_vocabulary
from agent_envs.envs.tool_reasoning.content import ToolReasoningData, ToolReasoningScenario, labels_of
from agent_envs.envs.tool_reasoning.math_world import MathWorldSource
from agent_envs.envs.tool_reasoning.tasks import OUTSIDE, TASKS, make_source

PASSAGES = [{"id": f"p{row}", "title": f"T{row}", "text": f"Fact {row} is told here."} for row in range(4)]
MATH = [
    {"problem": "What is $1+1$?", "solution": r"So it is $\boxed{2}$.", "level": "Level 1", "type": "Algebra"},
    {"problem": "Half of a third?", "solution": r"\boxed{\frac{1}{6}}", "level": "Level 4", "type": "Prealgebra"},
]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache, both named in the environment."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("AGENT_ENVS_DATA", str(folder))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    return folder


def put(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_names_are_those_of_the_page() -> None:
    assert TASKS == (
        "math_world", "gsm8k", "math500", "math", "aime24", "aime25", "webwalkerqa", "gaia", "hle", "xbench",
        "nq", "triviaqa", "popqa", "hotpotqa", "2wiki", "musique", "bamboogle", "nq+hotpotqa",
    )  # fmt: skip


def test_the_default_is_math_world() -> None:
    source = make_source()
    assert isinstance(source, MathWorldSource) and source.splits == ("train", "dev", "test")
    chosen = make_source(needs=["search"], levels=["2"])
    assert chosen.size("train") == 160
    assert {chosen.get("test", index).data.level for index in range(5)} == {"2"}


SMALL = {"passages": 40, "distractors": 0.0, "paraphrase": False, "vocabulary": "closed", "short": True}


def test_worlds_can_be_small_and_named_from_one_list() -> None:
    source, usual = make_source(world=SMALL), make_source()
    known = set(closed_vocabulary())
    for task in (source.get(split, index) for split in ("train", "test") for index in range(0, 40, 2)):
        passages = source.corpus(task).passages
        told = [passage for passage in passages if not passage.id.startswith("f-")]
        assert len(told) == 40 and all(set(re.findall(r"\w+", passage.title.lower())) <= known for passage in told)
        assert task.data.searched == source.corpus(task).digest
        same = usual.get(task.split, task.id)
        assert (same.data.needs, same.data.level, same.data.world) == (
            task.data.needs,
            task.data.level,
            task.data.world,
        )
        assert len(usual.corpus(same).passages) > len(passages), "one world for both"
    env = gym.make("agent_envs/ToolReasoning-v0", needs=["search"], tools=["search"], world=SMALL)
    env.reset(seed=0, options={"task": 3, "split": "test"})
    again = pickle.loads(pickle.dumps(env))
    assert again.unwrapped.trajectory == env.unwrapped.trajectory
    for action in agent_envs.solve(again):
        *_, info = again.step(action)
    assert info["success"]


@pytest.mark.parametrize(
    ("tasks", "world", "said"),
    [
        ("math_world", {"hops": [1]}, "hops.*give a mapping of some of passages"),
        ("math_world", ["passages"], "give a mapping"),
        ("math_world", {1: 2}, "give a mapping"),
        ("math_world", {"passages": 1}, "passages"),
        ("math_world", {"vocabulary": "latin"}, "latin"),
        ("gsm8k", SMALL, "has no meaning with tasks='gsm8k'"),
    ],
)
def test_worlds_that_cannot_be_are_refused(tasks: str, world: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        gym.make("agent_envs/ToolReasoning-v0", tasks=tasks, world=world)


def test_a_problem_set_of_the_data_folder_has_no_corpus(tmp_path: Path) -> None:
    source = make_source("math", path=str(put(tmp_path / "mine.jsonl", MATH)))
    assert (source.splits, source.size("test"), source.answerable) == (("test",), 2, True)
    task = source.get("test", "math_test_1")
    assert task is not None and source.get("test", 1) == task
    assert (task.question, task.gold) == ("Half of a third?", (r"\frac{1}{6}",))
    assert task.data == ToolReasoningData("math", subject="Prealgebra", level="4", searched=OUTSIDE)
    assert task.hidden == ToolReasoningScenario(answer=r"\frac{1}{6}")
    assert source.corpus(task) is None
    assert labels_of(task) == {"tasks": "math", "subject": "Prealgebra", "level": "4"}
    with pytest.raises(KeyError):
        source.links(task, "p0")


def test_gsm8k_is_read_through_the_catalogue_and_held_against_its_hash(data: Path) -> None:
    put(data / "gsm8k" / "test.jsonl", [{"question": "q", "answer": "1 #### 1"}])
    with pytest.raises(UsageError, match="is not the published file"):
        make_source("gsm8k")


def test_splits_of_a_set_are_the_files_that_are_here(data: Path) -> None:
    row = {"id": "1", "problem": "p", "answer": "070"}
    put(data / "aime25" / "test.jsonl", [row, row | {"id": "2"}])
    source = make_source("aime25")
    assert source.splits == ("test",) and [source.get("test", index).gold for index in (0, 1)] == [("70",)] * 2


def test_levels_keep_what_they_name_and_the_ids(tmp_path: Path) -> None:
    path = str(put(tmp_path / "mine.jsonl", MATH))
    source = make_source("math", path=path, levels=[4])
    assert source.size("test") == 1 and source.get("test", 0).id == "math_test_1"
    assert source.digest != make_source("math", path=path).digest
    with pytest.raises(UsageError, match="no task of math has a level of 2, 3"):
        make_source("math", path=path, levels=[2, "3"])


def test_gaia_by_level_from_the_users_own_file(tmp_path: Path) -> None:
    rows = [
        {"task_id": f"t{row}", "Question": f"Q{row}", "Level": row % 3 + 1, "Final answer": "A", "file_name": ""}
        for row in range(6)
    ]
    path = str(put(tmp_path / "metadata.jsonl", rows))
    source = make_source("gaia", path=path, levels=[1, 3])
    assert [source.get("test", index).id for index in range(4)] == ["t0", "t2", "t3", "t5"]
    assert labels_of(source.get("test", 0)) == {"tasks": "gaia", "level": "1"}


@pytest.mark.parametrize(
    ("name", "where"), [("gaia", "gaia-benchmark/GAIA"), ("hle", "cais/hle"), ("xbench", "xbench_evals.py")]
)
def test_gated_sets_say_where_a_user_gets_them(name: str, where: str) -> None:
    with pytest.raises(DataMissing, match=f"{name} is not downloaded from here: .*{where}.*give that file's path"):
        make_source(name)


@pytest.mark.parametrize("name", ["math500", "math", "aime24", "aime25", "webwalkerqa"])
def test_public_sets_that_are_not_here_name_the_command(name: str) -> None:
    with pytest.raises(DataMissing, match=f"Get it: agent-envs data get {name} --split test"):
        make_source(name)


def test_question_sets_are_searched_in_a_corpus(data: Path, tmp_path: Path) -> None:
    put(data / "searchqa" / "corpus.jsonl", PASSAGES)
    rows = [{"id": "n1", "question": "who told it", "golden_answers": ["Ada", "A."], "gold_ids": ["p2"]}]
    put(data / "searchqa" / "dev" / "nq.jsonl", rows)
    source = make_source("nq")
    task = source.get("dev", "n1")
    corpus = source.corpus(task)
    assert corpus is not None and len(corpus) == 4
    assert task.question == "who told it?" and task.gold == ("Ada", "A.")
    assert task.hidden == ToolReasoningScenario(("who told it?",), ("p2",), answer="Ada")
    assert task.data.searched == corpus.digest
    assert source.links(task, "p2") == ()
    with pytest.raises(KeyError):
        source.links(task, "p9")
    assert make_source("nq") is source and copy.deepcopy(source) is source
    outside = make_source("nq", corpus=None)
    assert outside.corpus(outside.get("dev", 0)) is None and outside.digest != source.digest
    mine = make_source(
        "math", path=str(put(tmp_path / "m.jsonl", MATH)), corpus=str(data / "searchqa" / "corpus.jsonl")
    )
    assert mine.corpus(mine.get("test", 0)) is corpus
    assert mine.get("test", 0).hidden.queries == ("What is $1+1$?",)


def test_a_mixture_and_a_users_file_of_a_question_set(data: Path, tmp_path: Path) -> None:
    row = {"question": "q?", "golden_answers": ["a"]}
    for name in ("nq", "hotpotqa"):
        put(data / "searchqa" / "dev" / f"{name}.jsonl", [row | {"id": name}])
    source = make_source("nq+hotpotqa", corpus=None)
    assert [source.get("dev", index).id for index in (0, 1)] == ["nq:nq", "hotpotqa:hotpotqa"]
    assert [source.get("dev", index).data.source for index in (0, 1)] == ["nq", "hotpotqa"]
    mine = make_source("popqa", corpus=None, path=str(put(tmp_path / "p.jsonl", [row | {"id": "z"}])))
    assert (mine.splits, mine.get("test", 0).id, mine.get("test", 0).data.source) == (("test",), "z", "popqa")


@pytest.mark.parametrize("key", ["n2", "", -1, 1, True])
def test_other_keys_are_key_errors(tmp_path: Path, key: int | str) -> None:
    source = make_source("math", path=str(put(tmp_path / "mine.jsonl", MATH[:1])))
    with pytest.raises(KeyError):
        source.get("test", key)
    with pytest.raises(KeyError):
        source.get("train", 0)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = put(tmp_path / "mine.jsonl", MATH[:1])
    first = make_source("math", path=str(path))
    assert make_source("math", path=str(path)) is first
    put(path, MATH)
    assert make_source("math", path=str(path)).size("test") == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tasks": "mathworld"}, "tasks='mathworld'; give one of math_world, gsm8k,"),
        ({"corpus": "sample"}, "math_world has its own documents"),
        ({"path": "x.jsonl"}, "math_world has its own documents"),
        ({"levels": 3}, "levels=3; give a list"),
        ({"tasks": "gsm8k", "needs": ["python"]}, "has no meaning with tasks='gsm8k'"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        make_source(**arguments)


def test_a_path_without_a_file_says_so() -> None:
    with pytest.raises(DataMissing, match=r"no question file at .*nothing\.jsonl"):
        make_source("gaia", path="nothing.jsonl")


def test_all_sets_of_search_qa_are_here() -> None:
    assert set(DATASETS) < set(TASKS)
