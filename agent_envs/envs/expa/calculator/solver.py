"""The oracle policy of the calculator tasks knows the derivation, and lets the calculator compute its steps."""

import random

from agent_envs.base.protocol import marked_answer
from agent_envs.core.env import TurnEnv
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.actions import END, LANGUAGE
from agent_envs.envs.expa.calculator.calculator import Calculator, finish, keyable
from agent_envs.envs.expa.calculator.scoring import MARK
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv, ExpandedState
from agent_envs.envs.expa.generated import CalcData, Derivation
from agent_envs.envs.expa.problem import policy_language


def next_action(core: TurnEnv, left: int, prefill: str) -> str | int:
    """Return the next action: an expanded one's number or a turn's text; the answer where too few turns are left."""
    if isinstance(core, ExpandedActionEnv):
        return _keyed_calculation(core, left)
    return _written_calculation(core.trajectory, left, prefill)


def random_text(data: CalcData, rng: random.Random, expanded: bool) -> str:
    """Return a call with given numbers, or (a quarter of the time; always if `expanded`) an answer made of them."""
    numbers = rng.sample(data.given, min(len(data.given), rng.randint(1, 4))) or ["1"]
    text = numbers[0]
    for number in numbers[1:]:
        text += rng.choice("+-*/") + number
    return f"\n{MARK} {text}" if expanded or rng.random() < 0.25 else f"<calculator>{text}</calculator>"


def _next_step(trajectory: Trajectory) -> str:
    """Return the derivation's first step that was not sent to the calculator; "" when all were, or without a derivation."""
    assert trajectory.task is not None
    hidden = trajectory.task.hidden
    computed = {ids for turn in trajectory.turns for ids in (result.ids for result in turn.results)}
    steps = hidden.steps if isinstance(hidden, Derivation) else ()
    return next((step for step in steps if (step,) not in computed), "")


def _answer(trajectory: Trajectory) -> str:
    """Return the final answer behind its mark: the derivation's, else the first gold, else the target."""
    task = trajectory.task
    assert task is not None
    if isinstance(task.hidden, Derivation):
        return f"{MARK} {task.hidden.answer}"
    return f"{MARK} {task.gold[0] if task.gold else task.data.target}"


def _written_calculation(trajectory: Trajectory, left: int, prefill: str) -> str:
    """Return the turn that calls the calculator with the next step; the answer where no step or only one turn is left."""
    step = _next_step(trajectory)
    if step and left > 1:
        return f"The next value is <calculator>{step}</calculator>"
    return _answer(trajectory) if prefill else f"Every value is known.\n{_answer(trajectory)}"


def _keyed_calculation(core: ExpandedActionEnv, left: int) -> str | int:
    """Return 1 (route), a key's id, the answer, or END once it is written; a step that does not fit is left out."""
    state: ExpandedState = core.episode.state
    trajectory = core.trajectory
    calculator = core.environments[0]
    assert isinstance(calculator, Calculator)
    step = _next_step(trajectory)
    keyed = "".join(state.latent.keyed)
    # What is left of the keys, and closing; then two more actions for the answer and the end.
    fits = left >= len(step) - len(keyed) + 3 and keyable(step, "." in calculator.actions)
    if state.active != LANGUAGE:
        on_the_way = step and fits and step.startswith(keyed)
        return core.id_of((step + "=")[len(keyed)] if on_the_way else finish(state.latent.keyed))
    if step and fits and left >= len(step) + 4:
        return 1
    answer = _answer(trajectory)
    if trajectory.turns and marked_answer(policy_language(trajectory))[1] == answer.removeprefix(MARK).strip():
        return END
    return f"\n{answer}"
