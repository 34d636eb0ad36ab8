"""The scripted solvers, which act as anyone would, and the samplers of random legal actions.

The calculator solver knows the derivation of the task and lets the calculator compute every step of it. The sorting solver
knows nothing: it compares, in the order that needs the fewest comparisons in the mean, and then swaps the fewest times.
"""

import random
from typing import Any

import gymnasium as gym

from agent_envs.expa.actions import END, LANGUAGE
from agent_envs.expa.calc_scoring import MARK
from agent_envs.expa.calculator import Calculator, finish, keyable
from agent_envs.expa.generated import CalcData, Derivation
from agent_envs.expa.machine import ExpandedActionEnv, ExpandedState
from agent_envs.expa.problem import said
from agent_envs.expa.sort_scoring import arrangement
from agent_envs.expa.sorting import SYMBOLS
from agent_envs.expa.sorting_knowledge import closure, minimal_swaps, next_comparison
from agent_envs.expa.sorting_tasks import SortData
from agent_envs.policies import core_of
from agent_envs.protocol import marked_answer
from agent_envs.trajectory import Trajectory
from agent_envs.wrappers.turns import allowance

Move = tuple[str, tuple[str, ...]]  # an environment's name, and the actions to take in it


def next_action(env: gym.Env[Any, Any]) -> str | int:
    """Return the next action of the solver, as the episode stands."""
    core = core_of(env)
    data = core.episode.task.data
    left, prefill = allowance(env)
    if isinstance(data, SortData):
        return _sort_action(core, left)
    if isinstance(core, ExpandedActionEnv):
        return _keyed_calculation(core, left)
    return _written_calculation(core.trajectory, left, prefill)


# Calculator tasks.


def _pending(trajectory: Trajectory) -> str:
    """Return the first step of the derivation that the calculator has not computed, "" when all are."""
    assert trajectory.task is not None
    hidden = trajectory.task.hidden
    computed = {ids for turn in trajectory.turns for ids in (result.ids for result in turn.results)}
    steps = hidden.steps if isinstance(hidden, Derivation) else ()
    return next((step for step in steps if (step,) not in computed), "")


def _answer(trajectory: Trajectory) -> str:
    assert trajectory.task is not None
    task = trajectory.task
    data: CalcData = task.data
    hidden = task.hidden
    if isinstance(hidden, Derivation):
        return f"{MARK} {hidden.answer}"
    return f"{MARK} {task.gold[0] if task.gold else data.target}"


def _written_calculation(trajectory: Trajectory, left: int, prefill: str) -> str:
    step = _pending(trajectory)
    if step and left > 1:
        return f"The next value is <calculator>{step}</calculator>"
    return _answer(trajectory) if prefill else f"Every value is known.\n{_answer(trajectory)}"


def _keyed_calculation(core: ExpandedActionEnv, left: int) -> str | int:
    state: ExpandedState = core.episode.state
    trajectory = core.trajectory
    step = _pending(trajectory)
    if state.active != LANGUAGE:
        keyed = "".join(state.latent.keyed)
        name = (step + "=")[len(keyed)] if step.startswith(keyed) else finish(state.latent.keyed)
        return _id(core, name)
    calculator = core.environments[0]
    assert isinstance(calculator, Calculator)
    # Opening, the keys, closing; then two more actions for the answer and the end.
    if step and left >= len(step) + 4 and keyable(step, "." in calculator.actions):
        return 1
    answer = _answer(trajectory)
    if trajectory.turns and marked_answer(said(trajectory))[1] == answer.removeprefix(MARK).strip():
        return END
    return f"\n{answer}"


# Sorting tasks.


def known_relations(trajectory: Trajectory) -> frozenset[tuple[int, int]]:
    """Return the pairs (a, b) of symbols' indices with a's number below b's that the task or a comparison has told."""
    assert trajectory.task is not None
    data: SortData = trajectory.task.data
    told = [(text[0], text[1], text[2]) for text in data.relations]
    for turn in trajectory.turns:
        for result in turn.results:
            if result.name == "compare" and not result.error:
                told.append((result.ids[0], result.content.split()[1], result.ids[1]))
    pairs = ((SYMBOLS.index(one), sign, SYMBOLS.index(other)) for one, sign, other in told if sign != "=")
    return frozenset((one, other) if sign == "<" else (other, one) for one, sign, other in pairs)


def next_move(trajectory: Trajectory) -> Move | None:
    """Return the next comparison or swap of optimal play, None when nothing is left to do."""
    assert trajectory.task is not None
    data: SortData = trajectory.task.data
    known = known_relations(trajectory)
    pair = next_comparison(data.size, known)
    if pair is not None and data.kind != "order":
        return "compare", (SYMBOLS[pair[0]], SYMBOLS[pair[1]])
    if pair is not None or data.kind == "compare":
        return None
    below = closure(known)
    rank = {place: sum(other == place for _, other in below) for place in range(data.size)}
    target = tuple(sorted(rank, key=lambda place: rank[place], reverse=data.descending))
    swaps = minimal_swaps(arrangement(trajectory), target)
    return ("swap", (SYMBOLS[swaps[0][0]], SYMBOLS[swaps[0][1]])) if swaps else None


def _sort_action(core: Any, left: int) -> str | int:
    trajectory: Trajectory = core.trajectory
    move = next_move(trajectory) if left > 1 else None
    final = _relation(trajectory) if trajectory.task.data.kind == "compare" else "finished"  # type: ignore[union-attr]
    if not isinstance(core, ExpandedActionEnv):
        return f"<answer>{final}</answer>" if move is None else f"<{move[0]}>{', '.join(move[1])}</{move[0]}>"
    return expanded_action(core, move, "" if final == "finished" else f"<answer>{final}</answer>")


def expanded_action(core: ExpandedActionEnv, move: Move | None, final: str = "") -> str | int:
    """Return the next action of a move on the expanded face; without a move, the final text, and then the end."""
    state: ExpandedState = core.episode.state
    legal = core.legal_actions()
    if state.active != LANGUAGE:
        keyed = state.latent.keyed
        if move is not None and move[0] == state.active and move[1][: len(keyed)] == keyed:
            return _id(core, move[1][len(keyed)])
        return legal[0]
    if move is not None:
        return _id(core, move[0])
    if final and (not core.episode.turns or final not in said(core.trajectory)):
        return final
    return END


def _relation(trajectory: Trajectory) -> str:
    """Return what a compare task is answered with: what the comparison told, else a guess."""
    known = known_relations(trajectory)
    return "A < B" if (0, 1) in known or not known else "A > B"


def _id(core: ExpandedActionEnv, name: str) -> int:
    return next(action.id for action in core.expanded_actions if action.name == name)


# Random legal actions.

_WORDS = ("so", "then", "next", "the number", "I think", "this is", "larger", "smaller")


def random_action(env: gym.Env[Any, Any], rng: random.Random) -> str | int:
    """Return a random legal action: a text, a call, or an answer."""
    core = core_of(env)
    if isinstance(core, ExpandedActionEnv):
        return _random_expanded(core, rng)
    data = core.episode.task.data
    thought = f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}. "
    if isinstance(data, SortData):
        if rng.random() < 0.15:
            return f"{thought}<answer>{_guess(data, rng)}</answer>"
        one, other = rng.sample(SYMBOLS[: data.size], 2)
        tool = {"order": "swap", "compare": "compare"}.get(data.kind) or rng.choice(("compare", "swap"))
        return f"{thought}<{tool}>{one}, {other}</{tool}>"
    if rng.random() < 0.25:
        return f"{thought}\n{MARK} {_random_expression(data, rng)}"
    return f"{thought}<calculator>{_random_expression(data, rng)}</calculator>"


def _random_expanded(core: ExpandedActionEnv, rng: random.Random) -> str | int:
    state: ExpandedState = core.episode.state
    legal = core.legal_actions()
    data = core.episode.task.data
    if state.active == LANGUAGE:
        draw = rng.random()
        if draw < 0.15:
            return END
        if draw < 0.4:
            answer = (
                f"<answer>{_guess(data, rng)}</answer>"
                if isinstance(data, SortData)
                else (f"\n{MARK} {_random_expression(data, rng)}")
            )
            return rng.choice((f" {rng.choice(_WORDS)}", answer))
    return rng.choice(legal)


def _guess(data: SortData, rng: random.Random) -> str:
    return f"A {rng.choice('<>')} B" if data.kind == "compare" else "finished"


def _random_expression(data: CalcData, rng: random.Random) -> str:
    numbers = rng.sample(data.given, min(len(data.given), rng.randint(1, 4))) or ["1"]
    text = numbers[0]
    for number in numbers[1:]:
        text += rng.choice("+-*/") + number
    return text
