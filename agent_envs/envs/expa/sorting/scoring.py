"""A sorting task is judged as solved or not, and pays `fixed` (default), `released` (also `paper`) or `success`.

The paper states no formula of its own; the formulas, of counts, are below: the release's, and one whose maximum is optimal
play. Calls are read from typed results; only comparing tasks are judged by the answer that the policy wrote.
"""

import re
from collections.abc import Callable
from math import factorial

from agent_envs.base.arguments import choice
from agent_envs.base.protocol import Answer
from agent_envs.core.episode import RewardSpec, Term
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.problem import ended, policy_language, task_of
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import least_swaps
from agent_envs.envs.expa.sorting.tasks import SortData


def released(kind: str, n: int, *, correct: bool, compares: int, swaps: int, least_swaps: int) -> float:
    """Return EARL's released reward: 0 if wrong, else 0.5 and up to 0.5 for efficiency; none below ceil(log2 n!) comparisons.

    Sorting: one half of the efficiency falls from ceil(log2 n!) comparisons to n * ceil(log2 n), the other half from the
    fewest swaps to n * (n - 1) / 2. With fewer comparisons than ceil(log2 n!) there is no efficiency at all, swaps included:
    that is the most that the best plan needs, not what it needs in the mean, so that the best plan is punished.

    Args:
        kind: sort, order (only swaps count) or compare (efficient is exactly one call).
        n: number of items.
        correct: whether the task was solved.
        compares: comparisons that were made.
        swaps: swaps that were made.
        least_swaps: the fewest swaps that solve the task.
    """
    if not correct:
        return 0.0
    if kind == "compare":
        return 1.0 if compares + swaps == 1 else 0.5
    least, most = (factorial(n) - 1).bit_length(), n * (n - 1).bit_length()
    swaps_saved = 1 - _share(swaps, least_swaps, n * (n - 1) // 2)
    if kind == "order":
        return (1 + swaps_saved) / 2
    if compares < least:
        return 0.5
    return (1 + (1 - _share(compares, least, most)) / 2 + swaps_saved / 2) / 2


def _share(count: int, least: int, most: int) -> float:
    """Return the place of a count between the least, 0, and the most, 1."""
    return min(1.0, max(0.0, (count - least) / (max(most, least + 1) - least)))


def fixed(kind: str, n: int, *, correct: bool, compares: int, swaps: int, least_swaps: int) -> float:
    """Return 0 if wrong, else 0.5 and up to 0.5, less with each comparison and swap; a compare task wants one comparison.

    Sorting: a quarter each for comparisons and for swaps, order: a half for swaps. The fall is linear up to n * (n - 1) / 2,
    more than sensible play needs, so that the mean reward of plans that sort is a matter of their mean counts, and the
    plan with the fewest of both has the highest; beyond, it goes on towards 0. Half the reward for being right outweighs
    the comparisons that a guess would save. Compare: exactly one comparison is best, so that luck is not paid in full.

    The arguments are those of `released`; `least_swaps` is not used, as the reward is one function of the counts.
    """
    if not correct:
        return 0.0
    scale = n * (n - 1) // 2
    if kind == "compare":
        return 0.5 + _savings(abs(compares - 1), 1) / 2
    if kind == "order":
        return 0.5 + _savings(swaps, scale) / 2
    return 0.5 + _savings(compares, scale) / 4 + _savings(swaps, scale) / 4


def _savings(count: int, scale: int) -> float:
    """Return 1 for a count of 0, falling in a line to 1/2 at the scale and then, without a corner, as 1 / count."""
    return 1 - count / (2 * scale) if count <= scale else scale / (2 * count)


SORT_REWARDS = ("fixed", "released", "paper", "success")
_COMPARED = re.compile(r"\s*([A-Z])\s*([<>=])\s*([A-Z])\s*")


def arrangement(trajectory: Trajectory) -> tuple[int, ...]:
    """Return the arrangement that the swaps carried out have made, as symbols' indices, from 0..n-1."""
    data: SortData = task_of(trajectory).data
    order = list(range(data.size))
    for turn in trajectory.turns:
        for result in turn.results:
            if result.name == "swap" and not result.error:
                one, other = (order.index(SYMBOLS.index(symbol)) for symbol in result.ids)
                order[one], order[other] = order[other], order[one]
    return tuple(order)


def calls(trajectory: Trajectory, name: str) -> int:
    """Count an environment's calls that were carried out without error."""
    return sum(result.name == name and not result.error for turn in trajectory.turns for result in turn.results)


def sort_solved(trajectory: Trajectory) -> bool:
    """Return whether an ended episode's arrangement is sorted, or (compare) its last answer names the relation; else False."""
    if not ended(trajectory):
        return False
    task = task_of(trajectory)
    data: SortData = task.data
    if data.kind == "compare":
        return _relation(compared(trajectory)) == _relation(task.gold[0]) != ""
    return ", ".join(SYMBOLS[place] for place in arrangement(trajectory)) in task.gold


def compared(trajectory: Trajectory) -> str:
    """Return the typed answer's text, else that of the policy's last complete <answer> tag; "" without one."""
    if isinstance(trajectory.last.parsed, Answer):
        return trajectory.last.parsed.text
    closed = policy_language(trajectory, as_read=True).rpartition("</answer>")[0]
    return closed.rpartition("<answer>")[2] if "<answer>" in closed else ""


def _relation(text: str) -> str:
    """Return `A < B` and `B > A` as one text "A<B"; "" for anything else."""
    relation = _COMPARED.fullmatch(text[:100])
    if relation is None:
        return ""
    one, sign, other = relation.groups()
    return f"{other}<{one}" if sign == ">" else f"{one}{sign}{other}"


def make_sort_reward(env: str, name: str) -> RewardSpec:
    """Return a sorting reward: `success` alone, or 0.5 for success and up to 0.5 by `fixed` or `released`; else UsageError."""
    if choice(env, "reward", name, SORT_REWARDS) == "success":
        term = Term("solved", 0.0, 1.0, "1 if the task is solved", lambda run: float(sort_solved(run)), ended)
        return RewardSpec(name, (term,), (0.0, 1.0))
    formula = fixed if name == "fixed" else released
    doc = (
        "up to 0.5 for few comparisons and swaps, strictly less for each more"
        if name == "fixed"
        else "up to 0.5 by the released formula, which gives 0 below its own least number of comparisons"
    )

    def efficiency(trajectory: Trajectory) -> float:
        """Return the formula's payment beyond the 0.5 for a solved task; 0 if it is not solved."""
        return _payment(trajectory, formula) - 0.5 if sort_solved(trajectory) else 0.0

    terms = (
        Term("solved", 0.0, 0.5, "0.5 if the task is solved", lambda run: 0.5 * sort_solved(run), ended),
        Term("efficiency", 0.0, 0.5, doc, efficiency, sort_solved),
    )
    return RewardSpec("fixed" if name == "fixed" else "released", terms, (0.0, 1.0))


def _payment(trajectory: Trajectory, formula: Callable[..., float]) -> float:
    """Return a formula's reward, as if solved; in compare tasks 0 comparisons count until one is of two different items."""
    task = task_of(trajectory)
    data: SortData = task.data
    compares = calls(trajectory, "compare")
    results = (result for turn in trajectory.turns for result in turn.results)
    informed = any(result.name == "compare" and len(set(result.ids)) > 1 for result in results)
    if data.kind == "compare" and not informed:
        compares = 0  # an item compared with itself tells nothing: a guess after it is a guess
    return formula(
        data.kind, data.size, correct=True, compares=compares, swaps=calls(trajectory, "swap"),
        least_swaps=least_swaps(tuple(task.hidden), data.descending),
    )  # fmt: skip
