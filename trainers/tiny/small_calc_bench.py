"""A small Calc-Bench mixes the four calculator tasks as text, each with arguments of its own.

`agent_envs/CalcBench-v0` mixes tasks of the paper's sizes, which a model made here from nothing cannot read. This one mixes
the same sources, smaller as its arguments say; importing this module registers it as `trainers/SmallCalcBench-v0`.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.env import MAX_GENERATIONS, CalculatorText
from agent_envs.envs.expa.calculator.word_problems import KIND, CalcBenchSource, ScaledSource

Arguments = Mapping[str, Any]
EACH = {"train": 2000, "dev": 100, "test": 1000}  # tasks of every kind: the paper's overall score weighs them alike


class SmallCalcBench(CalculatorText):
    """The mixture of the four calculator tasks in equal parts, each as small as its arguments say, in text.

    Description:
        `CalcBench` for models made from nothing: the same four sources, prompts, calculator and reward.

    Task sources:
        Generated: `Arithmetic`, `Countdown`, `GSM8KScaled` and `Count`, a quarter each.

    Action, observation, tools, reward, episode end, info:
        Those of `CalcBench`, and so are the arguments that are not named here.

    Arguments:
        arithmetic: arguments of `ArithmeticSource`.
        countdown: arguments of `CountdownSource`.
        word_problems: arguments of `ScaledSource`.
        count: arguments of `CountSource`.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        arithmetic: Arguments | None = None,
        countdown: Arguments | None = None,
        word_problems: Arguments | None = None,
        count: Arguments | None = None,
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        members = {
            "arithmetic": ArithmeticSource(**(arithmetic or {})),
            "countdown": CountdownSource(**(countdown or {})),
            KIND: ScaledSource(**(word_problems or {})),
            "count": CountSource(**(count or {})),
        }
        source = CalcBenchSource(members, {split: dict.fromkeys(members, size) for split, size in EACH.items()})
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


gym.register("trainers/SmallCalcBench-v0", entry_point="trainers.tiny.small_calc_bench:SmallCalcBench")
