"""Published answers with tools become episodes whose results are no word of the policy."""

from tests.needs import require

require("[sandbox]")

import json

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from trainers.imitation.imitating import MOST_CHARACTERS, holds_tool_texts, tool_episodes, tool_rows

SEARCHED = (
    "<think>I look.</think>\n<search>who wrote it</search>\n<result>\nAnna wrote <answer>it</answer>.\n</result>\n"
    "<think>I count.</think><python>print(1)</python><result>1</result><think>So.</think><answer>\\boxed{Anna}</answer>"
)
CALLS = ["<think>I look.</think>\n<search>who wrote it</search>", "<think>I count.</think><python>print(1)</python>"]
QUESTION = "Who wrote it?"


def of_arpo(answer, question=QUESTION):
    talk = [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]
    return {"conversations": talk, "system": "Use tools."}


def of_tool_star(answer, question=QUESTION):
    return {"instruction": "Use tools.", "input": question, "output": answer}


def written(path, rows):
    text = json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def env():
    return gym.make("agent_envs:agent_envs/ToolReasoning-v0", needs=["search"])


@pytest.mark.parametrize(("name", "row"), [("arpo.jsonl", of_arpo), ("star.json", of_tool_star)])
def test_both_layouts_give_turns_that_end_in_calls_and_results_that_nobody_trains(tmp_path, env, name, row):
    path = written(tmp_path / name, [row(SEARCHED), row("<answer>\\boxed{4}</answer>", "2 + 2?")])
    assert holds_tool_texts(path)
    long, short = tool_episodes(path, env, "train")
    assert [turn.action for turn in long.turns] == [*CALLS, "<think>So.</think><answer>\\boxed{Anna}</answer>"]
    assert [turn.terminated for turn in long.turns] == [False, False, True] and long.success
    shown = [message for turn in long.turns for message in turn.observation]
    assert [(one.role, one.author) for one in shown] == [("user", "tool")] * 2
    assert shown[0].content == "\n<result>\nAnna wrote <answer>it</answer>.\n</result>\n"
    assert [turn.action for turn in short.turns] == ["<answer>\\boxed{4}</answer>"]
    assert long.header.episode_key != short.header.episode_key


def test_the_environments_prompt_has_the_files_question(tmp_path, env):
    (found,) = tool_episodes(written(tmp_path / "a.jsonl", [of_arpo(SEARCHED)]), env, "train")
    env.reset(seed=0, options={"task": 0, "split": "train"})
    own = env.unwrapped.episode
    for mine, theirs in zip(found.prompt, own.prompt, strict=True):
        assert mine.content == theirs.content.replace(own.task.question, QUESTION) and mine.role == theirs.role
    assert sum(message.content.count(QUESTION) for message in found.prompt) == 1
    assert "Use tools." not in "".join(message.content for message in found.prompt)


def test_rows_whose_results_follow_no_call_are_left_out_and_counted(tmp_path, env, capsys):
    broken = [
        "<think>I quote.</think><result>made up</result><answer>\\boxed{1}</answer>",
        "<search>a</search><result>b</result>",
        "<search>a</search><result>b</result><result>c</result><answer>\\boxed{1}</answer>",
        "",
    ]
    path = written(tmp_path / "a.jsonl", [of_arpo(answer) for answer in [*broken, SEARCHED]])
    assert len(list(tool_episodes(path, env, "train"))) == 1
    assert "a.jsonl: 4 rows left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "row",
    [
        {"conversations": []}, {"conversations": [{"value": "a"}]}, {"conversations": ["a", "b"]}, [], "a", None,
        {"instruction": "", "input": 3, "output": "x"}, of_arpo("x" * (MOST_CHARACTERS + 1)),
    ],
)  # fmt: skip
def test_a_row_of_no_layout_is_refused_by_its_number(tmp_path, env, row):
    path = written(tmp_path / "a.jsonl", [of_arpo(SEARCHED), row])
    with pytest.raises(UsageError, match=r"a\.jsonl, row 2: neither"):
        list(tool_episodes(path, env, "train"))


def test_what_is_no_such_file_is_none(tmp_path, env):
    for name, text in (
        ("a.jsonl", '{"row": 1, "sha": "0"}\n'),
        ("b.jsonl", "{torn"),
        ("c.jsonl", ""),
        ("d.json", "[]"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert not holds_tool_texts(tmp_path / name)
    for name, text in (("e.json", "{}"), ("f.json", "[" * 100_000), ("g.json", "nonsense")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=name[0]):
            list(tool_rows(tmp_path / name))


@pytest.mark.parametrize("name", ["Sort", "Crafter"])
def test_a_prompt_without_one_place_for_a_question_is_refused(tmp_path, name):
    path = written(tmp_path / "a.jsonl", [of_arpo(SEARCHED)])
    with pytest.raises(UsageError, match=f"{name}-v0: its prompt has no one place for a question of a.jsonl"):
        list(tool_episodes(path, gym.make(f"agent_envs:agent_envs/{name}-v0"), "train"))
