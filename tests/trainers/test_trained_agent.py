"""The agent of a run plays as the run measured itself, at its end and at its start, also through evaluation."""

import json

import pytest

from agent_envs.errors import UsageError
from agent_envs.evaluation.agents import make_agent
from agent_envs.evaluation.evaluate import evaluate
from agent_envs.evaluation.plan import Choice, adhoc_suite
from agent_envs.evaluation.run_folder import Settings, open_run
from tests.trainers.test_training_run import SMALL, run
from trainers.measuring import measure
from trainers.sampling import environment_spec
from trainers.trained_agent import TrainedAgent

ARGUMENTS = json.loads(SMALL[SMALL.index("--env.arguments") + 1])
NAME = "trainers.trained_agent:TrainedAgent"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "run"
    return out, run(out, "--optim.learning-rate", "0.01", steps=2)


@pytest.mark.parametrize(("start", "side"), [(False, "after"), (True, "before")])
def test_it_plays_as_the_run_was_measured(trained, start, side):
    out, result = trained
    agent = TrainedAgent(str(out), start=start)
    found = measure(agent, environment_spec("Order", ARGUMENTS), "test", 8, "0/test").summary()
    assert found == result[side] and result["before"] != result["after"]
    assert agent.name == ("run at its start" if start else "run")


def test_evaluation_knows_it_by_name(trained, tmp_path):
    suite = adhoc_suite(Choice("Order", ARGUMENTS, "test", limit=4, turn_limits=(1, 2)))
    result = evaluate(suite, Settings(NAME, {"folder": str(trained[0])}, 4, smoke=True), folder=tmp_path / "eval")
    assert result.complete and len(open_run(tmp_path / "eval").numbers()) == 8
    assert {row.turns for row in open_run(tmp_path / "eval").numbers() if row.entry.endswith("turns=1")} <= {1, 2}


def test_what_is_no_finished_run_is_one_line(trained, tmp_path):
    with pytest.raises(UsageError, match="holds no finished run"):
        make_agent(NAME, folder=str(tmp_path))
    with pytest.raises(UsageError, match="has no weights of its start"):
        (tmp_path / "model").symlink_to(trained[0] / "model")
        (tmp_path / "settings.json").write_text((trained[0] / "settings.json").read_text())
        TrainedAgent(str(tmp_path), start=True)
