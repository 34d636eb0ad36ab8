"""Every calculator task is a class as text and its twin with expanded actions; `page.md` completes their docstrings."""

from collections.abc import Callable
from typing import Any

from agent_envs.core.trajectory import TaskSource
from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.problems import (
    MAX_ACTIONS,
    MAX_GENERATIONS,
    CalculatorExpanded,
    CalculatorText,
)
from agent_envs.envs.expa.calculator.word_problems import calc_bench_source, scaled_source
from agent_envs.envs.expa.expanded_env import both_faces
from agent_envs.envs.expa.problem import EXPANDED, TEXT, paged


def _faces(
    name: str, summary: str, source: Callable[..., TaskSource], env_prompt: bool = True, decimal_point: bool = True
) -> tuple[Any, Any]:
    limits = {"max_generations": MAX_GENERATIONS, "max_actions": MAX_ACTIONS}
    choices = {"reward": "em", "env_prompt": env_prompt, "decimal_point": decimal_point}
    text, expanded = both_faces(name, summary, source, (CalculatorText, CalculatorExpanded), limits, choices)
    text.__module__ = expanded.__module__ = __name__
    return paged("calculator/page.md", TEXT)(text), paged("calculator/page.md", EXPANDED)(expanded)


Arithmetic, ArithmeticExpA = _faces(
    "Arithmetic",
    "Compute an arithmetic expression, some of it in words, with a calculator, in text.",
    ArithmeticSource,
)
Countdown, CountdownExpA = _faces(
    "Countdown",
    "Make a target out of given numbers, each used exactly once, with a calculator to try, in text.",
    CountdownSource,
    decimal_point=False,
)
Count, CountExpA = _faces(
    "Count", "Count how often a digit, or a symbol, stands in a sequence, in text.", CountSource, env_prompt=False
)
GSM8KScaled, GSM8KScaledExpA = _faces(
    "GSM8KScaled", "Solve word problems with large numbers, with a calculator, in text.", scaled_source
)
CalcBench, CalcBenchExpA = _faces(
    "CalcBench",
    "The mixture of the four calculator tasks on which EARL trains and tests, in text.",
    calc_bench_source,
)
