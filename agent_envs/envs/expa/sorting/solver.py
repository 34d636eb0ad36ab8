"""The sorting oracle policy knows nothing hidden: it compares by `next_comparison`, then swaps as few times as possible."""

import random

from agent_envs.core.env import TurnEnv
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.actions import END, LANGUAGE
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv, ExpandedState
from agent_envs.envs.expa.problem import policy_language
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import known_order, minimal_swaps, next_comparison
from agent_envs.envs.expa.sorting.scoring import arrangement
from agent_envs.envs.expa.sorting.tasks import SortData

Move = tuple[str, tuple[str, ...]]  # an environment's name, and the actions to take in it


def random_text(data: SortData, rng: random.Random, expanded: bool) -> str:
    """Return a call on two different items, or (15 in 100; always if `expanded`) an answer in its tag."""
    if expanded or rng.random() < 0.15:
        return f"<answer>A {rng.choice('<>')} B</answer>" if data.kind == "compare" else "<answer>finished</answer>"
    one, other = rng.sample(SYMBOLS[: data.size], 2)
    tool = {"order": "swap", "compare": "compare"}.get(data.kind) or rng.choice(("compare", "swap"))
    return f"<{tool}>{one}, {other}</{tool}>"


def known_relations(trajectory: Trajectory) -> frozenset[tuple[int, int]]:
    """Return the pairs (a, b) of symbols' indices, a's number below b's, that task or comparisons told; "=" is left out."""
    assert trajectory.task is not None
    data: SortData = trajectory.task.data
    comparisons = [(text[0], text[1], text[2]) for text in data.relations]
    for turn in trajectory.turns:
        compared = [result for result in turn.results if result.name == "compare" and not result.error]
        comparisons += [(result.ids[0], result.content.split()[1], result.ids[1]) for result in compared]
    pairs = ((SYMBOLS.index(one), sign, SYMBOLS.index(other)) for one, sign, other in comparisons if sign != "=")
    return frozenset((one, other) if sign == "<" else (other, one) for one, sign, other in pairs)


def next_move(trajectory: Trajectory) -> Move | None:
    """Return optimal play's next comparison or swap; None when nothing is left, or the order is unknown in an order task."""
    assert trajectory.task is not None
    data: SortData = trajectory.task.data
    relations = known_relations(trajectory)
    pair = next_comparison(data.size, relations)
    if pair is not None and data.kind != "order":
        return "compare", (SYMBOLS[pair[0]], SYMBOLS[pair[1]])
    if pair is not None or data.kind == "compare":
        return None
    swaps = minimal_swaps(arrangement(trajectory), known_order(data.size, relations, data.descending))
    return ("swap", (SYMBOLS[swaps[0][0]], SYMBOLS[swaps[0][1]])) if swaps else None


def next_action(core: TurnEnv, left: int) -> str | int:
    """Return the next action with `left` turns to go: a call in tags or an action's id; the answer for one left or no move."""
    trajectory: Trajectory = core.trajectory
    move = next_move(trajectory) if left > 1 else None
    final = "finished"
    if trajectory.task.data.kind == "compare":  # type: ignore[union-attr]
        relations = known_relations(trajectory)  # without one it is a guess
        final = "A < B" if (0, 1) in relations or not relations else "A > B"
    if not isinstance(core, ExpandedActionEnv):
        return f"<answer>{final}</answer>" if move is None else f"<{move[0]}>{', '.join(move[1])}</{move[0]}>"
    return expanded_action(core, move, "" if final == "finished" else f"<answer>{final}</answer>")


def expanded_action(core: ExpandedActionEnv, move: Move | None, final: str = "") -> str | int:
    """Return the next action of a move; leave another call first; without a move the final text, unless written, then END."""
    state: ExpandedState = core.episode.state
    legal = core.legal_actions()
    if state.active != LANGUAGE:
        keyed = state.latent.keyed
        if move is not None and move[0] == state.active and move[1][: len(keyed)] == keyed:
            return core.id_of(move[1][len(keyed)])
        return legal[0]
    if move is not None:
        return core.id_of(move[0])
    if final and (not core.episode.turns or final not in policy_language(core.trajectory)):
        return final
    return END
