"""Text and expanded faces have one budget an episode: the tokens that follow the prompt, whoever writes them."""

import json

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.rollout.episode_runner import Planned
from benchmarks.sweeps import read_sweep
from tests.trainers.players import player
from trainers.command_line import parse
from trainers.earl import EARLSettings
from trainers.settings import SamplingSettings

WIDEST = 90


@pytest.mark.parametrize("sweep", ["table1", "table5"])
def test_every_cell_of_the_papers_tables_has_the_same_budget_an_episode(sweep, tmp_path):
    common, cells = read_sweep("earl", sweep)
    for cell in cells:
        settings, _ = parse(EARLSettings, [*common, *cell.options, "--out", str(tmp_path)], program="earl")
        text, arguments = not settings.env.id.endswith("ExpA"), json.loads(settings.env.arguments)
        sampling = settings.sampling
        assert (sampling.max_episode_tokens if text else sampling.max_new_tokens) == 1024
        # Tokens run out first: a turn of text takes eight at the least, with its closing tag and its answer; an action one.
        assert arguments["max_generations"] * 8 >= 1024 if text else arguments["max_actions"] >= 1024


def test_a_text_episode_ends_its_tokens_where_its_budget_does():
    policy, _, _, spec = player(
        "Countdown", {"numbers": 2, "digits": 1, "max_generations": 9}, max_new_tokens=12, max_episode_tokens=WIDEST
    )
    plan = [Planned(f"g/{task}", spec, task, "train", seed=task) for task in range(8)]
    policy.play(plan)
    for item in plan:
        (sequence,) = policy.sequences(item.key)
        prompt = sequence.trained.index(True)
        last = max(place for place, kept in enumerate(sequence.trained) if kept)
        assert last - prompt < WIDEST
    free, _, _, _ = player("Countdown", {"numbers": 2, "digits": 1, "max_generations": 9}, max_new_tokens=12)
    free.play(plan)
    ends = [free.sequences(item.key)[0].trained for item in plan]
    assert any(len(trained) - trained.index(True) > 2 * WIDEST for trained in ends), "without it some write on"


def test_a_budget_is_a_number():
    with pytest.raises(UsageError, match="max_episode_tokens=-1"):
        SamplingSettings(max_episode_tokens=-1)
