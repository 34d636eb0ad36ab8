"""Several environments in one run: shares by weight, tasks once each, measured each and pooled, resumed exactly."""

import json
from collections import Counter
from dataclasses import replace

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from tests.trainers.test_training_run import curve
from trainers.command_line import parse
from trainers.earl import EARLSettings
from trainers.environments import TrainEnvironment, ceilings, environment_specs, extra_tests, members_of
from trainers.evaluation import EvaluationResult
from trainers.grpo import GRPOSettings, train
from trainers.run import open_run
from trainers.sampling import shares, step_plan
from trainers.settings import EnvironmentSettings, EvalSettings
from trainers.trained_agent import differences, evaluation_command, how_to_evaluate

BOTH = {
    "Order": {"weight": 1, "arguments": {"size": 2, "max_generations": 3}},
    "Count": {"weight": 3, "arguments": {"sequences": "digits", "max_generations": 4}},
}
SMALL = [
    "--env.id", "Order", "--env.mixture", json.dumps(BOTH),
    "--model.name", "tiny:tiny", "--model.tokenizer-plays", "64", "--sampling.max-new-tokens", "8", "--sampling.batch", "16",
    "--tasks-per-step", "4", "--sampling.max-context", "2048", "--group-size", "2", "--evaluation.every", "1",
    "--evaluation.tasks", "2", "--evaluation.test-tasks", "4", "--warm-start.demonstrations", "8", "--warm-start.steps", "1",
    "--warm-start.rows-per-step", "4", "--log.checkpoint-every", "1",
]  # fmt: skip


def test_shares_are_whole_and_stand_as_the_weights_do():
    for weights in ([28, 7, 21], [1.0], [1, 1, 1, 1], [0.1, 0.2, 0.7]):
        given = [shares(weights, 16, seed=3, step=step) for step in range(400)]
        assert all(sum(row) == 16 for row in given)
        for place, weight in enumerate(weights):
            share = 16 * weight / sum(weights)
            assert all(abs(row[place] - share) < 1 + 1e-9 for row in given)
            assert sum(row[place] for row in given) / 400 == pytest.approx(share, abs=0.1)


def test_every_task_comes_once_before_any_comes_again():
    environments = [TrainEnvironment(weight, name, name, size, ()) for weight, name, size in ((1, "A", 5), (3, "B", 7))]
    plans = [step_plan(environments, "train", (6, 2), step, seed=1) for step in range(40)]
    for plan in plans:
        assert len(plan) == 12 and len({item.key for item in plan}) == 12
        assert all((one.spec, one.task) == (two.spec, two.task) for one, two in zip(plan[::2], plan[1::2], strict=True))
    for name, size in (("A", 5), ("B", 7)):
        played = Counter(range(size))
        for plan in plans:
            played.update(item.task for item in plan[::2] if item.spec == name)
            assert max(played.values()) - min(played.values()) <= 1
        assert min(played.values()) > 4
    assert plans[7] == step_plan(environments, "train", (6, 2), 7, seed=1)


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ({"Count": 1}, "env.id='Order' among them"),
        ({"Order": 1, "agent_envs/Order-v0": 1}, "each once"),
        ({"Order": 0}, "a weight is > 0"),
        ({"Order": "much"}, "give a weight"),
        ({"Order": {"weight": 1, "split": "dev"}}, "give a weight"),
        ({"Order": {"weight": 1, "arguments": 3}}, "a JSON object is needed"),
        ([1], "a JSON object is needed"),
    ],
)
def test_what_is_no_mixture_is_one_line(mixture, message):
    with pytest.raises(UsageError, match=message):
        members_of(EnvironmentSettings(id="Order", mixture=json.dumps(mixture)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("mixture") / "run"
    settings, _ = parse(GRPOSettings, [*SMALL, "--steps", "2", "--out", str(out)], program="grpo")
    with open_run(settings, out) as run:
        return out, settings, train(settings, run)


def test_a_run_on_several_environments_tells_each_and_all_pooled(whole):
    out, settings, result = whole
    for side in ("before", "after"):
        kinds = result[side]["kinds"]
        assert list(kinds) == ["Count", "Order"] and [row["tasks"] for row in kinds.values()] == [4, 4]
        successes = sum(row["success"] * row["tasks"] for row in kinds.values())
        assert result[side]["tasks"] == 8 and result[side]["success"] == pytest.approx(successes / 8)
    assert result["env"] == "Order, Count" and "eval/success" in curve(out)[-1]
    told = how_to_evaluate(settings, out).splitlines()
    assert [line.split()[:5] for line in told] == [
        ["evaluate", "it:", "agent-envs", "eval", name] for name in ("Order", "Count")
    ]
    command = evaluation_command(json.loads((out / "settings.json").read_text()), out)
    assert [line.split()[2] for line in command.splitlines()] == ["Order", "Count"] and "sequences" in command
    env = {**json.loads((out / "settings.json").read_text())["env"]}
    assert differences(env, gym.make("agent_envs/Sort-v0")).startswith("Order and Count, not Sort")


def test_a_mixed_run_goes_on_as_it_began(whole, tmp_path):
    _, settings, _ = whole
    words = [*SMALL, "--steps", "2", "--log.no-curves", "--out", str(tmp_path / "cut")]
    settings, out = parse(GRPOSettings, words, program="grpo")
    with pytest.raises(KeyboardInterrupt), open_run(settings, out) as run:
        ended, end_step = [], run.end_step

        def stop(*given):
            if ended:
                raise KeyboardInterrupt
            ended.append(end_step(*given))

        run.end_step = stop
        train(settings, run)
    with open_run(settings, out) as run:
        train(settings, run)
    assert curve(out) == curve(whole[0])


class Broken:
    """Plays, but every episode of Count ends in a fault."""

    def __init__(self, policy):
        self.policy = policy

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def play(self, plan):
        played = self.policy.play(plan)
        broken = {item.key for item in plan if "Count-v0" in item.spec}
        return {key: replace(row, status="fault") if key in broken else row for key, row in played.items()}


def test_where_an_environment_has_faults_alone_there_is_no_pooled_figure(tmp_path):
    """That of the other one is not the rate of all: it is told by name, and no such evaluation is the best."""
    choosing = ["--evaluation.keep-best", "--env.eval-split", "dev", "--out", str(tmp_path / "run")]
    settings, out = parse(GRPOSettings, [*SMALL, "--steps", "1", *choosing], program="grpo")
    with open_run(settings, out) as opened:
        evaluator = opened._evaluator
        sound = evaluator.player
        evaluator.player = Broken(sound)
        result = train(settings, opened)
    after = result["after"]
    assert after["success"] is None and after["interval"] is None and after["faults"] == 4 and "reward" not in after
    assert after["kinds"]["Count"] == {"success": None, "interval": None, "tasks": 0, "faults": 4}
    assert after["kinds"]["Order"]["tasks"] == 4 and after["kinds"]["Order"]["faults"] == 0
    assert 0 <= after["kinds"]["Order"]["success"] <= 1
    assert result["gain"] is None and "chosen" not in result
    (row,) = curve(out)
    assert row["eval/faults"] == 2 and "eval/success" not in row
    assert EvaluationResult.from_json(json.loads(json.dumps(opened._state["before"]["within"]))).rate is None


def test_other_trainers_refuse_several_environments(tmp_path):
    words = ["--env.id", "SortExpA", "--env.mixture", '{"SortExpA": 1, "OrderExpA": 1}', "--model.name", "tiny:tiny"]
    settings, out = parse(EARLSettings, [*words, "--out", str(tmp_path / "run")], program="earl")
    with pytest.raises(UsageError, match="trainers.grpo and trainers.veg alone"), open_run(settings, out):
        pass


def settings_of(evaluation=None, **env):
    return GRPOSettings(env=EnvironmentSettings(**env), evaluation=evaluation or EvalSettings())


def test_each_environment_has_its_own_arguments_in_tests_too():
    settings = settings_of(id="Order", mixture=json.dumps(BOTH), tests='{"seen": {"split": "train"}}')
    trained, tested = environment_specs(settings)
    assert [name for name, _ in trained] == ["Order", "Count"] and trained == tested
    count = core_of(gym.make(EnvSpec.from_json(extra_tests(settings)["seen"][0][1][1])))
    assert count.env_id == "agent_envs/Count-v0" and count.arguments["sequences"] == "digits"


POOL = {"id": "Tau2Retail", "mixture": '{"Tau2Retail": 1, "Tau2Airline": 1, "Tau2Telecom": 1}'}
OFFICIAL = {**POOL, "train_split": "pooled_train80", "eval_split": "pooled_train80", "test_split": "pooled_test20"}


@pytest.mark.data
def test_a_ceiling_is_told_by_environment_and_split():
    bare = {**OFFICIAL, "arguments": '{"tasks": "official"}'}
    assert ceilings(settings_of(**bare)) == [
        "Tau2Retail, pooled_train80: 35 of 88 tasks rest on a judge and nobody judges: the ceiling is 60.2 %",
        "Tau2Retail, pooled_test20: 5 of 26 tasks rest on a judge and nobody judges: the ceiling is 80.8 %",
    ]
    judged = {**OFFICIAL, "arguments": '{"tasks": "official", "judge": "anthropic:some-model"}'}
    assert ceilings(settings_of(**judged)) == [] == ceilings(settings_of(**POOL))


@pytest.mark.data
@pytest.mark.parametrize(("split", "refused"), [("base", True), ("train80", True), ("pooled_train80", False)])
def test_the_best_is_never_chosen_on_tasks_of_the_test_whatever_their_split_is_called(split, refused):
    env = {**OFFICIAL, "arguments": '{"tasks": "official"}', "eval_split": split}
    settings = settings_of(EvalSettings(keep_best=True, tasks=64), **env)
    if not refused:
        assert len(environment_specs(settings)) == 2
        return
    with pytest.raises(UsageError, match=f"keep_best would choose on .* of the split '{split}', which is in 'pooled_"):
        environment_specs(settings)
