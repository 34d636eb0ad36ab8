"""Rows of tasks travel: they are equal in another process, and a reset by one shows its prompt there."""

import json
import os
import subprocess
import sys

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import UsageError, task_rows
from agent_envs.services.chat import ScriptedChat
from tests import ROOT
from tests.needs import needs
from tests.toy import ID

HERE = [(env_id, {}) for env_id in agent_envs.env_ids()]
HERE += [("SearchQA", {"max_generations": 3}), (f"tests.toy:{ID}", {}), ("Tau2Telecom", {"side": "solo"})]
ELSEWHERE = "from tests.integrations.test_tasks import answer; answer()"


def all_rows():
    return [row for name, arguments in HERE for row in task_rows(name, 2, repeats=2, **arguments)]


def prompt_of(row):
    """Return the start of a row's rollout; the module in its id is imported by Gymnasium."""
    env = gym.make(row["env_id"], **row["env_kwargs"])
    return env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})[1]["messages"]


def answer():
    """Read rows, and write those of this process, and the prompts that resets by the rows show."""
    given = json.load(sys.stdin)
    print(json.dumps([all_rows(), [prompt_of(row) for row in given]]))


@needs("[envs]")
def test_rows_are_the_same_in_another_process_and_resets_show_their_prompts():
    rows = all_rows()
    ran = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=json.dumps(rows).encode(), capture_output=True, cwd=ROOT, check=False,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()
    there, prompts = json.loads(ran.stdout)
    assert there == rows and prompts == [row["prompt"] for row in rows]


def test_rows_of_a_task_are_a_group_and_tasks_differ():
    rows = task_rows("SearchQA", 5, repeats=3, split="dev", seed=1)
    assert len(rows) == 15 and len({row["seed"] for row in rows}) == 15
    for start in range(0, 15, 3):
        assert len({json.dumps([row["prompt"], row["task_id"], row["task"]]) for row in rows[start : start + 3]}) == 1
    assert len({row["task_id"] for row in rows}) == 5 and {row["split"] for row in rows} == {"dev"}
    assert list(rows[0]) == ["prompt", "task_id", "task", "split", "seed", "env_id", "env_kwargs"]
    assert rows[0]["env_id"] == "agent_envs:agent_envs/SearchQA-v0"
    assert task_rows("SearchQA", 5, split="dev", seed=2) != rows[::3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "task_rows: n=0; give a whole number >= 1"),
        ({"n": 11}, "task_rows: n=11; split 'train' of toy/Guess-v0 has 10 tasks"),
        ({"n": 2, "split": "validation"}, "no split 'validation'; the splits are train, dev, test"),
        ({"n": 2, "repeats": 1.5}, "repeats=1.5"),
    ],
)
def test_refusals_name_the_fix(arguments, message):
    with pytest.raises(UsageError, match=message):
        task_rows(ID, **arguments)


def test_what_cannot_travel_is_refused():
    with pytest.raises(UsageError, match="reader cannot travel as JSON; name the collaborator by a string"):
        task_rows("ToolReasoning", 1, reader=ScriptedChat([]))
