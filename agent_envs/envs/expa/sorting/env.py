"""Sorting and ordering are each a class as text and its twin with expanded actions; `page.md` completes their docstrings."""

from typing import Any

from agent_envs.base.arguments import flag
from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Task
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv, both_faces
from agent_envs.envs.expa.problem import EXPANDED, JSON, Problem, opening, paged, sections
from agent_envs.envs.expa.sorting.environments import SYMBOLS, Arrangement, Compare, Swap
from agent_envs.envs.expa.sorting.scoring import make_sort_reward, sort_solved
from agent_envs.envs.expa.sorting.tasks import OrderSource, SortData, SortingSource, SortSource
from agent_envs.envs.expa.text_env import TagEnv

TOOLS = {"sort": ("compare", "swap"), "order": ("swap",), "compare": ("compare",)}
MAX_ACTIONS = 128  # expanded face: optimal play of Sort-5 takes at most 34, of Sort-8 fewer than 80
MAX_GENERATIONS = 40  # text face: at most 12 and 27


def sort_problem(env: str, source: SortingSource, action_space: str, *, reward: str, env_prompt: bool) -> Problem:
    """Return a sorting problem over a source in an action space's words; UsageError for a bad `env_prompt` or reward.

    Args:
        env: name for messages.
        source: the tasks.
        action_space: `text`, `json` or `expanded`: whose words to use.
        reward: name of the reward.
        env_prompt: whether the tools are described.
    """
    flag(env, "env_prompt", env_prompt)

    def world(task: Task) -> Arrangement:
        """Return the task's items in their hidden order, with the tools of its kind."""
        data: SortData = task.data
        return Arrangement(tuple(SYMBOLS[: data.size]), tuple(task.hidden), TOOLS[data.kind])

    def first(task: Task) -> tuple[Message, ...]:
        """Return the opening messages: the system text and the task's question."""
        return opening(_system(task.data, action_space, env_prompt), _user(task.data, action_space))

    tools = (Compare(source.items), Swap(source.items))
    spec = make_sort_reward(env, reward)
    finish = "a call of answer" if action_space == JSON else "<answer>...</answer>"
    return Problem(source, tools, spec, sort_solved, world, first, finish, env_prompt)


class SortingText(TagEnv):
    """Base of the sorting tasks as text."""

    example_is_copied = True

    def play_tasks(self, source: SortingSource, max_generations: int, protocol: str = "tags", **choices: Any) -> None:
        """Play a source; `choices` are `reward` and `env_prompt`."""
        self.play_problem(
            sort_problem(type(self).__name__, source, self.words_of(protocol), **choices), max_generations
        )


class SortingExpanded(ExpandedActionEnv):
    """Base of the sorting tasks with expanded actions."""

    def play_tasks(self, source: SortingSource, max_actions: int, *, reward: str, env_prompt: bool) -> None:
        """Play a source."""
        problem = sort_problem(type(self).__name__, source, EXPANDED, reward=reward, env_prompt=env_prompt)
        self.play_problem(problem, max_actions)


def _system(data: SortData, action_space: str, env_prompt: bool) -> str:
    """Return the system prompt; where `env_prompt` is set with the tools of the task's kind in an action space's words."""
    parts = sections("prompt.md")
    text = parts["system"].template
    if not env_prompt:
        return text
    if data.kind == "sort":
        return f"{text}\n\n{parts[f'tool.sort.{action_space}'].template}"
    (tool,) = TOOLS[data.kind]
    return f"{text}\n\n" + parts[f"tool.order.{action_space}"].substitute(
        tools=parts[f"order.{tool}.{action_space}"].template
    )


def _user(data: SortData, action_space: str) -> str:
    """Return the user's message: items, direction, known relations and how to finish, in an action space's words."""
    parts = sections("prompt.md")
    items = SYMBOLS[: data.size]
    native = ".json" if data.kind == "compare" and action_space == JSON else ""
    return parts[f"{data.kind}.user{native}"].substitute(
        items=", ".join(items),
        direction="descending" if data.descending else "ascending",
        relations=", ".join(data.relations),
        finish=parts[f"finish.{action_space}"].template,
        example=f"{items[0]} < {items[1]}",
    )


def _faces(name: str, summary: str, source: type[SortingSource]) -> tuple[Any, Any]:
    """Return a source's two classes, as text and with expanded actions, their pages completed by sorting/page.md."""
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
