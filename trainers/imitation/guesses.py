"""A guess is an answer drawn by chance, as an agent writes it that uses no tool."""

import random
from typing import Any

from agent_envs.envs.expa.calculator.random_expressions import draw_expression, spelled
from agent_envs.envs.expa.calculator.scoring import MARK
from agent_envs.envs.expa.generated import CalcData
from agent_envs.envs.expa.sorting.tasks import SortData


def guess(data: Any, rng: random.Random) -> str:
    """Return an answer to a task of this public content from nothing but chance; "" where none is written."""
    if isinstance(data, SortData):
        return f"<answer>A {rng.choice('<>')} B</answer>" if data.kind == "compare" else ""
    if not isinstance(data, CalcData):
        return ""
    if data.kind == "count":
        return f"\n{MARK} {rng.randrange(4)}"
    if data.kind != "countdown":
        return f"\n{MARK} {rng.choice(data.given or ('1',))}"
    numbers = [int(number) for number in data.given]
    rng.shuffle(numbers)
    first, operator, second = draw_expression(rng.random, numbers)
    return f"\n{MARK} {spelled([*first, operator, *second])}"
