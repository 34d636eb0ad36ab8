"""Sorting and ordering are each a class as text and its twin with expanded actions; `page.md` completes their docstrings."""

from typing import Any

from agent_envs.envs.expa.expanded_env import both_faces
from agent_envs.envs.expa.problem import paged
from agent_envs.envs.expa.sorting.problems import MAX_ACTIONS, MAX_GENERATIONS, SortingExpanded, SortingText
from agent_envs.envs.expa.sorting.tasks import OrderSource, SortingSource, SortSource


def _faces(name: str, summary: str, source: type[SortingSource]) -> tuple[Any, Any]:
    limits = {"max_generations": MAX_GENERATIONS, "max_actions": MAX_ACTIONS}
    choices = {"reward": "fixed", "env_prompt": True}
    text, expanded = both_faces(name, summary, source, (SortingText, SortingExpanded), limits, choices)
    text.__module__ = expanded.__module__ = __name__
    return paged("sorting/page.md", name)(text), paged("sorting/page.md", f"{name}ExpA")(expanded)


Sort, SortExpA = _faces(
    "Sort", "Sort items by hidden numbers with as few comparisons and swaps as can be, in text.", SortSource
)
Order, OrderExpA = _faces(
    "Order",
    "Bring items into order by swaps when their relations are told, in text: the first stage of EARL's curriculum.",
    OrderSource,
)
