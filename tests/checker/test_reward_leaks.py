"""The bait of the leak checks stands behind all that an environment shows, and nowhere else."""

import gymnasium as gym

from agent_envs.checker.reward_leaks import planting
from tests.toy import ID

COMPARE = "<compare>50</compare>"


def test_a_planted_text_touches_all_that_is_shown_and_no_action():
    env = gym.make(ID).unwrapped
    env.reset(seed=0)
    with planting(env, " PLANTED"):
        assert env.step(COMPARE)[0].endswith(" PLANTED")
        assert env.step("nonsense")[0].endswith(" PLANTED")
    assert [turn.action for turn in env.episode.turns] == [COMPARE, "nonsense"]
    assert env.episode.turns[0].results[0].content.endswith(" PLANTED")
    assert "PLANTED" not in env.step(COMPARE)[0]
