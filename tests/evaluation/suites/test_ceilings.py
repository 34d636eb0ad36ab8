"""Tasks that cannot be earned under an environment's arguments are told before anything is played."""

import gymnasium as gym
import pytest

from agent_envs import register_companions
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, ceiling_note, ceilings
from tests.toy import Guess

ID = "ceilings/Half-v0"


class Half(Guess):
    """Guess, of which some tasks need what the environment may lack."""

    def __init__(self, *, lamp=False, key=False, **arguments):
        super().__init__(**arguments)
        self.lamp, self.key = lamp, key


def dark(env, split):
    core = env.unwrapped
    found = {} if core.lamp else {f"{split}-{place}": "lie in the dark" for place in range(3)}
    return found | ({} if core.key else {f"{split}-9": "are locked"})


gym.register(ID, Half)
register_companions(Half, out_of_reach=dark)


@pytest.mark.parametrize(
    ("arguments", "limit", "told"),
    [
        ({}, None, "3 of 10 tasks lie in the dark and 1 of 10 tasks are locked: the ceiling is 60.0 %"),
        ({"key": True}, 4, "3 of 4 tasks lie in the dark: the ceiling is 25.0 %"),
        ({"lamp": True, "key": True}, None, ""),
        ({"lamp": True}, 5, ""),
    ],
)
def test_tasks_out_of_reach_are_counted_among_those_that_are_played(arguments, limit, told):
    suite = adhoc_suite(Choice(ID, arguments, limit=limit))
    assert ceilings(suite) == ([f"{suite.entries[0].label}: {told}"] if told else [])


def test_an_environment_that_says_nothing_has_no_ceiling():
    assert ceiling_note(gym.make("agent_envs/SearchQA-v0"), "test", ["test-0"]) == ""
