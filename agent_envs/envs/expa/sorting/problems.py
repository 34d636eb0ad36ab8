"""The sorting tasks as problems: prompt, hidden arrangement, compare and swap, reward."""

from agent_envs.envs.expa.problem import EXPANDED, TEXT, Problem, checked_flag, opening, sections
from agent_envs.envs.expa.sorting.environments import SYMBOLS, Arrangement, Compare, Swap
from agent_envs.envs.expa.sorting.scoring import make_sort_reward, sort_solved
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Task, TaskSource

TOOLS = {"sort": ("compare", "swap"), "order": ("swap",), "compare": ("compare",)}
MAX_ACTIONS = 128  # expanded face: optimal play of Sort-5 takes at most 34, of Sort-8 fewer than 80
MAX_GENERATIONS = 40  # text face: at most 12 and 27


def sort_problem(env: str, source: TaskSource, *, items: int, expanded: bool, reward: str, env_prompt: bool) -> Problem:
    """Return a sorting problem over a source whose tasks hold `SortData` and hide the numbers.

    Args:
        env: name for messages.
        source: the tasks.
        items: the most items that a task of the source has: the symbols that have an action.
        expanded: which face's words to use.
        reward: name of the reward.
        env_prompt: whether the tools are described.

    Raises:
        UsageError: an argument is out of its range; the message names it.
    """
    checked_flag(env, "env_prompt", env_prompt)
    face = EXPANDED if expanded else TEXT

    def world(task: Task) -> Arrangement:
        data: SortData = task.data
        return Arrangement(tuple(SYMBOLS[: data.size]), tuple(task.hidden), TOOLS[data.kind])

    def first(task: Task) -> tuple[Message, ...]:
        return opening(_system(task.data, face, env_prompt), _user(task.data, face))

    spec = make_sort_reward(env, reward)
    finish = "<answer>...</answer>"
    return Problem(source, (Compare(items), Swap(items)), spec, sort_solved, world, first, finish, env_prompt)


def _system(data: SortData, face: str, env_prompt: bool) -> str:
    parts = sections("prompt.md")
    text = parts["system"].template
    if not env_prompt:
        return text
    if data.kind == "sort":
        return f"{text}\n\n{parts[f'tool.sort.{face}'].template}"
    (tool,) = TOOLS[data.kind]
    return f"{text}\n\n" + parts[f"tool.order.{face}"].substitute(tools=parts[f"order.{tool}.{face}"].template)


def _user(data: SortData, face: str) -> str:
    parts = sections("prompt.md")
    items = SYMBOLS[: data.size]
    return parts[f"{data.kind}.user"].substitute(
        items=", ".join(items),
        direction="descending" if data.descending else "ascending",
        relations=", ".join(data.relations),
        finish=parts[f"finish.{face}"].template,
        example=f"{items[0]} < {items[1]}",
    )
