"""The task sources of Search QA, generated worlds and data files, keep to their splits, ids, sizes and digests."""

import json
import re

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.datasets.catalogue import load_questions
from agent_envs.datasets.world import WorldConfig, closed_vocabulary
from agent_envs.envs.search_qa.tasks import WORLDS, WorldSource
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from tests.envs.search_qa.conftest import PASSAGES, write_rows
from tests.examples import examples
from tests.rows import each_row

NAMES = ("nq", "triviaqa", "popqa", "hotpotqa", "2wiki", "musique", "bamboogle")
SMALL_WORLD = {"passages": 60, "questions_per_world": 16}


def make(**arguments):
    return gym.make("agent_envs/SearchQA-v0", **arguments)


def source(**arguments):
    return make(**arguments).unwrapped.source


def test_index_and_id_name_the_same_task():
    worlds = WorldSource(WorldConfig())
    assert worlds.splits == ("train", "dev", "test") and worlds.size("test") == 32 * 128

    @examples(40)
    @given(st.sampled_from(worlds.splits), st.integers(0, 80))
    def holds(split, index):
        task = worlds.get(split, index)
        assert worlds.get(split, task.id) == task
        assert worlds.get(split, task.id).digest == task.digest
        assert task.split == split and task.id.startswith(f"world-{split}-")

    holds()


def test_the_first_tasks_span_32_worlds_and_later_indices_are_new_ones():
    worlds = source()
    first = [worlds.get("test", index) for index in range(WORLDS)]
    assert len({task.cluster for task in first}) == WORLDS
    assert {task.id for task in first} == {f"world-test-{world}-0" for world in range(WORLDS)}
    assert worlds.get("test", WORLDS).id == "world-test-0-1"
    beyond = worlds.get("test", worlds.size("test") + 3)
    assert beyond.id == f"world-test-{WORLDS + 3}-0"
    env = make()
    env.reset(options={"task": "world-test-99-7", "split": "test"})
    assert env.unwrapped.episode.task == worlds.get("test", "world-test-99-7")
    assert env.unwrapped.source.corpus(env.unwrapped.episode.task).digest != worlds.corpus(first[0]).digest


@each_row(
    "key",
    ["", "world", "world-test-0", "world-test-0-128", "world-test-0-99999999", "world-test-0-0-0", "world-test-00-0",
     "world-test-0--1", "world-test--1-0", "world-dev-0-0", "world-test-٣-0", "world-test-1e3-0", "0", -1, -4096],
)  # fmt: skip
def test_unknown_tasks_are_refused(key):
    with pytest.raises(UsageError, match=re.escape(f"no task {key!r} in split 'test'")):
        make().reset(options={"task": key, "split": "test"})


@pytest.mark.parametrize("vocabulary", ["open", "closed"])
def test_splits_share_no_question(vocabulary):
    worlds = source(world={**SMALL_WORLD, "vocabulary": vocabulary, "short": vocabulary == "closed"})
    texts = {split: {worlds.get(split, i).question for i in range(WORLDS * 16)} for split in worlds.splits}
    assert all(len(found) > 400 for found in texts.values())
    if vocabulary == "open":
        assert not texts["train"] & texts["dev"]
        assert not texts["train"] & texts["test"]
        assert not texts["dev"] & texts["test"]
    else:
        # Names of the closed vocabulary may meet again; the worlds behind the questions are still others.
        assert len(texts["train"] & texts["test"]) < len(texts["test"]) / 10
    corpora = {worlds.corpus(worlds.get(split, i)).digest for split in worlds.splits for i in range(WORLDS)}
    assert len(corpora) == 3 * WORLDS


def test_knobs_reach_the_worlds():
    env = make(world={"hops": [2], "kinds": ["bridge"], "passages": 50, "questions_per_world": 8})
    worlds = env.unwrapped.source
    tasks = [worlds.get("dev", index) for index in range(64)]
    assert {task.data[0] for task in tasks} == {"bridge-2"}
    assert all(len(task.hidden.support) == len(task.hidden.queries) == 2 for task in tasks)
    assert len(worlds.corpus(tasks[0])) == 50
    assert worlds.size("dev") == 32 * 8


def test_unanswerable_questions_have_their_line_and_their_gold():
    env = make(world={**SMALL_WORLD, "unanswerable": 1.0})
    env.reset(options={"task": 0, "split": "test"})
    episode = env.unwrapped.episode
    assert "answer <answer> unknown </answer>" in episode.prompt[0].content
    assert episode.task.gold == ("unanswerable", "unknown")
    assert env.step("<answer>unknown</answer>")[1] == 1.0
    env.reset(options={"task": 0, "split": "test"})
    assert env.step("<answer>I do not know</answer>")[1] == 0.0
    assert "unknown" not in make().reset(seed=0)[0]


def test_the_closed_vocabulary_holds_every_word_that_is_shown():
    env = make(world={"vocabulary": "closed", "short": True, "passages": 60, "questions_per_world": 8})
    known = set(closed_vocabulary())
    worlds = env.unwrapped.source
    for index in range(32):
        task = worlds.get("test", index)
        texts = [task.question, *task.gold, *(f"{p.title} {p.text}" for p in worlds.corpus(task).passages)]
        assert {word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())} <= known
        shown = json.dumps(task.hidden.queries)
        assert set(re.findall(r"\w+", shown.lower())) <= known


def test_a_task_is_its_content(small):
    before = source(tasks="hotpotqa").get("dev", "h1")
    assert before.digest == source(tasks="hotpotqa").get("dev", "h1").digest
    again = [*PASSAGES[:3], {**PASSAGES[3], "text": "Another text."}]
    write_rows(small / "corpus.jsonl", again)
    other_corpus = source(tasks="hotpotqa").get("dev", "h1")
    assert other_corpus.question == before.question and other_corpus.digest != before.digest
    write_rows(small / "corpus.jsonl", PASSAGES)
    assert source(tasks="hotpotqa").get("dev", "h1").digest == before.digest
    digests = {before.digest}
    for fields in ({"golden_answers": ["blue"]}, {"question": "What colour?"}, {"gold_ids": ["p0"]}):
        row = {
            "id": "h1",
            "dataset": "hotpotqa",
            "question": before.question,
            "golden_answers": ["teal"],
            "gold_ids": ["p2"],
        }
        write_rows(small / "dev" / "hotpotqa.jsonl", [{**row, **fields}])
        digests.add(source(tasks="hotpotqa").get("dev", "h1").digest)
    assert len(digests) == 4


def test_the_spec_digest_moves_with_the_data_and_not_with_the_place(small, tmp_path, monkeypatch):
    before = make(tasks="hotpotqa").unwrapped.spec_digest
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "data").rename(elsewhere)
    monkeypatch.setenv("AGENT_ENVS_DATA", str(elsewhere))
    assert make(tasks="hotpotqa").unwrapped.spec_digest == before
    write_rows(elsewhere / "searchqa" / "corpus.jsonl", PASSAGES[:3])
    assert make(tasks="hotpotqa").unwrapped.spec_digest != before


def test_a_source_follows_its_files_within_a_process(small):
    first = source(tasks="hotpotqa")
    assert source(tasks="hotpotqa") is first
    row = {"id": "new", "dataset": "hotpotqa", "question": "New?", "golden_answers": ["x"], "gold_ids": []}
    write_rows(small / "dev" / "hotpotqa.jsonl", [row])
    assert source(tasks="hotpotqa").size("dev") == 1
    (small / "train").mkdir()
    write_rows(small / "train" / "hotpotqa.jsonl", [{**row, "id": "t"}])
    assert source(tasks="hotpotqa").splits == ("train", "dev")


def test_published_splits_sizes_and_labels(small):
    found = source(tasks="hotpotqa")
    assert (found.splits, found.size("dev")) == (("dev",), 6)
    task = found.get("dev", 0)
    assert found.get("dev", "h0") == task and task.id == "h0" and task.gold == ("Žagarė", "Zagare")
    assert task.hidden.support == ("p0", "p1") and task.hidden.queries == (task.question,)
    assert task.question.endswith("born?") and found.get("dev", "h1").question == "What is the colour of the flag?"
    domains = {name: dict(source(tasks=name).get("dev", 0).data[2])["domain"] for name in ("hotpotqa", "nq", "popqa")}
    assert domains == {"hotpotqa": "in", "nq": "in", "popqa": "out"}
    for key in (6, -1, "h9", ""):
        with pytest.raises(UsageError, match="no task"):
            make(tasks="hotpotqa").reset(options={"task": key})
    with pytest.raises(UsageError, match="no split 'test' of hotpotqa; the splits are dev"):
        make(tasks="hotpotqa").reset(options={"split": "test"})


def test_the_training_mixture(small):
    mixture = source(tasks="nq+hotpotqa")
    assert (mixture.splits, mixture.size("dev")) == (("dev",), 7)
    assert [mixture.get("dev", i).id for i in (0, 1, 6)] == ["nq:n0", "hotpotqa:h0", "hotpotqa:h5"]
    assert {mixture.get("dev", i).data[0] for i in range(7)} == {"nq", "hotpotqa"}
    assert {dict(mixture.get("dev", i).data[2])["domain"] for i in range(7)} == {"in"}
    (small / "dev" / "hotpotqa.jsonl").unlink()
    with pytest.raises(DataMissing, match="hotpotqa, split .*agent-envs data get hotpotqa --split"):
        make(tasks="nq+hotpotqa")


def test_a_file_of_ones_own(small, tmp_path, monkeypatch):
    rows = [{"id": "m0", "question": "Who drew cranes?", "golden_answers": ["Ana Vilks"]}]
    write_rows(tmp_path / "mine.jsonl", rows)
    write_rows(tmp_path / "passages.jsonl", PASSAGES[1:2])
    env = make(tasks=str(tmp_path / "mine.jsonl"), corpus=str(tmp_path / "passages.jsonl"))
    env.reset(options={"task": "m0"})
    assert "Doc 1" in env.step("<search>cranes</search>")[0]
    assert len(env.unwrapped.source.corpus(env.unwrapped.episode.task)) == 1
    monkeypatch.chdir(tmp_path)
    assert source(tasks="mine.jsonl").get("train", 0).gold == ("Ana Vilks",)
    with pytest.raises(DataMissing, match=r"nothing\.jsonl"):
        make(tasks="nothing.jsonl")
    with pytest.raises(UsageError, match="is a question file, not a corpus"):
        make(tasks="mine.jsonl", corpus="mine.jsonl")


@pytest.mark.parametrize("name", NAMES)
def test_missing_data_names_the_place_and_the_command(small, name, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataMissing) as caught:
        make(tasks=name)
    message = str(caught.value)
    assert f"{name}, split " in message
    assert str(tmp_path / "nowhere" / "searchqa") in message and str(tmp_path / "cache") in message
    assert re.search(rf"agent-envs data get {re.escape(name)} --split (test|dev|train)$", message)
    monkeypatch.delenv("AGENT_ENVS_DATA")
    with pytest.raises(DataMissing, match=r"AGENT_ENVS_DATA \(not set\)"):
        make(tasks=name)


def test_missing_corpus_names_the_place_and_what_to_do(small):
    (small / "corpus.jsonl").unlink()
    with pytest.raises(DataMissing, match=r"corpus sample is not on this machine.*corpus\.jsonl.*Set AGENT_ENVS_DATA"):
        make(tasks="hotpotqa")


@pytest.mark.data
@pytest.mark.parametrize("name", [*NAMES, "nq+hotpotqa"])
def test_the_real_sample(name):
    env = make(tasks=name)
    core = env.unwrapped
    assert "dev" in core.source.splits
    assert core.source.size("dev") == len(load_questions(name, "dev")) > 70
    for task in (0, core.source.size("dev") - 1):
        result = run_episode(env, CompanionPolicy("solver"), seed=0, task=task, split="dev")
        assert result.success and result.trajectory.total_reward == 1.0
        assert len(result.trajectory.turns) == 2
        assert result.trajectory.turns[0].results[0].ids
        assert env.unwrapped.episode.prompt[0].content.endswith("?")
