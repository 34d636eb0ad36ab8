"""The search of rewards finds a hole that was made on purpose, finds it again by its seed, and goes on where it was."""

import json
import random

import gymnasium as gym
import pytest

from benchmarks import reward_search
from benchmarks.action_templates import Gene, Screen, Templates
from benchmarks.reward_search import Search, Subject, searched, subjects
from tests.toy import ID

PROMPT = (
    'Write <search>a query</search> or <answer>45 days [sources: 3-101(b)]</answer>; if not sure, "I give up".\n'
    "- go forward: one step\n- turn left: turn\nACTION: one of them\nWho built Old Mill House?"
)
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "parameters": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string"}, "how": {"type": "string", "enum": ["fast", "slow"]},
                "count": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}},
                "sure": {"type": "boolean"},
            },
        },
    },
}  # fmt: skip


def test_templates_come_from_the_prompt_and_the_tools():
    templates = Templates(PROMPT, {"tools": [TOOL]})
    assert templates.frames == ("tag:search", "tag:answer", "tool:find", "label", "say")
    assert templates.actions == ("go forward", "turn left")
    assert {"a query", "45 days [sources: 3-101(b)]", "I give up", "yes"} <= set(templates.phrases)
    screen = Screen(PROMPT, "Who built Old Mill House in 1801?", "Found [s-12] Ann Lee, 30 years; [s-13] Bo Day, 1,200")
    shown = {
        source: templates.action(Gene("tag:answer", source, 1, "bare"), screen, None) for source in templates.sources
    }
    assert shown["name"] == "<answer>Ann Lee</answer>" and shown["id"] == "<answer>s-13</answer>"
    assert shown["asked name"] == "<answer>Old Mill House</answer>"
    assert shown["cited name"] == "<answer>Ann Lee [sources: s-12; s-13]</answer>"
    assert templates.action(Gene("label", "phrase", 3, "think"), screen, None) == "<think>so</think>ACTION: turn left"
    assert templates.action(Gene("tag:search", "name", 1, "open"), screen, None) == "<search>Ann Lee"
    assert templates.action(Gene("expanded", "name", 4, "bare"), screen, [False, True, True]) == 1
    call = templates.action(Gene("tool:find", "name", 1, "bare"), screen, None).split("\n")[1]
    assert json.loads(call) == {
        "name": "find",
        "arguments": {"order_id": "s-13", "how": "slow", "count": 30, "names": ["Ann Lee"], "sure": False},
    }


def test_every_mutation_is_a_plan():
    templates, rng = Templates(PROMPT, {"tools": [TOOL]}), random.Random(0)
    plan = templates.plan(rng)
    for _ in range(500):
        plan = templates.mutated(plan, rng)
        assert plan and all(gene.frame in templates.frames for gene in plan)
        assert templates.action(plan[0], Screen(PROMPT, "q", ""), None) is not None


def row(**changes):
    return searched(Subject(ID, {}, 400, 10), 3) | {"cpu_seconds": 0} | changes


def test_a_hole_is_found_and_found_again(monkeypatch):
    plain = row()
    assert not plain["above"] and plain["unsolved"]["return"] == 0.0, "a guess is worth nothing, and hints cost"
    step = gym.Wrapper.step

    def leaky(env, action):
        observation, reward, *rest = step(env, action)
        return observation, reward + 0.25 * ("luck" in action), *rest

    monkeypatch.setattr(gym.wrappers.OrderEnforcing, "step", leaky)
    first, again = row(), row()
    assert first == again and first["seed"] == 3
    assert first["above"] and first["bar"] == "heuristic" and first["mean_unsolved"] > 1.0


def test_ids_are_searched_with_each_of_their_rewards():
    found = {subject.label: subject.episodes for subject in subjects([], None)}
    assert found["SearchQA-v0"] == 10_000 and found["SearchQA-v0 reward=em_format"] == 2_000
    assert found["SortExpA-v0 max_actions=64"] == 10_000 and found["LegalSearch-v0"] == 1_000
    assert len(found) == len(subjects([], None)) > 50
    assert {subject.episodes for subject in subjects(["Sort"], 70)} == {70}
    assert [subject.label for subject in subjects(["Tau2Retail"], 70, other_rewards=False)] == ["Tau2Retail-v0"]


def test_a_killed_search_goes_on(tmp_path, monkeypatch, capsys):
    out, asked = tmp_path / "rows.json", []
    first, second = Subject(ID, {}, 20, 4), Subject(ID, {}, 30, 4)
    monkeypatch.setattr(reward_search, "subjects", lambda *chosen: [first, second][: 1 + bool(asked)])
    real = reward_search.searched
    monkeypatch.setattr(reward_search, "searched", lambda subject, seed: asked.append(subject) or real(subject, seed))
    monkeypatch.setattr("sys.argv", ["reward_search", "--out", str(out)])
    reward_search.main()
    reward_search.main()
    assert asked == [first, second]
    reward_search.main()
    assert asked == [first, second], "what was searched for longer is not searched again"
    assert [found["episodes"] for found in json.loads(out.read_text("utf-8"))["rows"]] == [30]
    assert capsys.readouterr().out.count("Guess-v0: ") == 2


def test_a_search_without_templates_that_fit_still_ends():
    search = Search(gym.make(ID), "none")
    plan, score = search.best(1)
    assert plan and score == pytest.approx(search.mean(plan))
