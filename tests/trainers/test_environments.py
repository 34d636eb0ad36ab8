"""Settings are checked over the tasks that are played: none both chooses and measures, and ceilings count no others."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import register_companions
from agent_envs.base.errors import UsageError
from tests.toy import Guess, Numbers
from trainers.environments import ceilings, environment_specs, extra_tests
from trainers.grpo import GRPOSettings
from trainers.settings import EnvironmentSettings, EvalSettings

ID = "assembling/Shelf-v0"


class Shelf(Numbers):
    """Published questions; those of "all" hold those of "few" under other ids, as a mixture of sets does."""

    digest = "published"

    def __init__(self, tasks):
        self.name = f"shelf/{tasks}"
        self.first = 5 if tasks == "few" else 0

    def size(self, split):
        return 10 - self.first

    def get(self, split, key):
        prefix = f"{self.name}:"
        number = int(key.removeprefix(prefix)) if isinstance(key, str) else key
        if not 0 <= number < self.size(split):
            raise KeyError(key)
        task = super().get(split, number + self.first)
        return replace(task, id=f"{prefix}{number}", question=f"The {split} number {number + self.first}?")


class Reading(Guess):
    """Guess, with the questions of a shelf."""

    def __init__(self, *, tasks="all", lamp=False, **arguments):
        super().__init__(**arguments)
        self.source, self.lamp = Shelf(tasks), lamp


def dark(env, split):
    found = [] if env.lamp else range(env.source.size(split) // 2)
    return {env.source.get(split, place).id: "lie in the dark" for place in found}


gym.register(ID, f"{__name__}:Reading")
register_companions(Reading, out_of_reach=dark)


def settings_of(test_tasks=10, **env):
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in env.items()}
    return GRPOSettings(
        env=EnvironmentSettings(id=ID, **texts),
        evaluation=EvalSettings(keep_best=True, tasks=10, test_tasks=test_tasks),
    )


SAME = {"eval_split": "dev", "test_split": "dev"}


@pytest.mark.parametrize("mine", [{"tasks": "all"}, {"tasks": "few"}])
def test_the_best_is_not_chosen_on_questions_of_a_test_from_another_set(mine):
    other = {"tasks": "few" if mine["tasks"] == "all" else "all"}
    settings = settings_of(arguments=mine, test_arguments=other, **SAME)
    with pytest.raises(
        UsageError, match="keep_best would choose on 'shelf/.*' of the split 'dev', which is in 'dev' too"
    ):
        environment_specs(settings)
    assert len(environment_specs(settings_of(arguments=mine, test_arguments=other))) == 2  # dev and test are others
    assert environment_specs(settings_of(0, arguments=mine, test_arguments=other, **SAME))  # no test is played


def test_generated_tasks_of_another_split_may_choose():
    """Worlds of two words have few orders: the same one in both splits is another draw of it."""
    settings = settings_of(arguments={"size": 2})
    assert environment_specs(replace(settings, env=replace(settings.env, id="Order")))


def test_ceilings_count_the_tasks_that_are_played_and_further_tests():
    whole = "assembling/Shelf-v0, {}: 5 of 10 tasks lie in the dark: the ceiling is 50.0 %"
    settings = settings_of()
    assert ceilings(settings) == [whole.format(split) for split in ("train", "dev", "test")]
    some = ceilings(settings_of(test_tasks=4))
    assert some[:2] == [whole.format("train"), whole.format("dev")] and "of 4 tasks lie" in some[2]
    tests = {"few": {"tasks": "few", "split": "train"}, "lit": {"lamp": True}, "wrapped": {"wrappers": []}}
    further = ceilings(settings_of(tests=tests))
    assert further == [
        *ceilings(settings),
        "assembling/Shelf-v0, train: 2 of 5 tasks lie in the dark: the ceiling is 60.0 %",
    ]
    assert list(extra_tests(settings_of(tests=tests))) == ["few", "lit", "wrapped"]
    assert ceilings(settings_of(0, tests=tests)) == ceilings(settings)[:2]
