"""Sorting and ordering are each a class as text and its twin with expanded actions; `page.md` completes their docstrings."""

from agent_envs.envs.expa.problem import paged
from agent_envs.envs.expa.sorting.problems import MAX_GENERATIONS, SortingText, expanded
from agent_envs.envs.expa.sorting.tasks import OrderSource, SortSource


@paged("sorting/page.md", "Sort")
class Sort(SortingText):
    """Sort items by hidden numbers with as few comparisons and swaps as can be, in text."""

    def __init__(
        self,
        *,
        size: int | None = None,
        directions: str = "both",
        reward: str = "fixed",
        env_prompt: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = SortSource(size=size, directions=directions)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt)


SortExpA = expanded(Sort)


@paged("sorting/page.md", "Order")
class Order(SortingText):
    """Bring items into order by swaps when their relations are told, in text: the first stage of EARL's curriculum."""

    def __init__(
        self,
        *,
        size: int | None = None,
        directions: str = "both",
        compare_percent: int = 5,
        reward: str = "fixed",
        env_prompt: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = OrderSource(size=size, directions=directions, compare_percent=compare_percent)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt)


OrderExpA = expanded(Order)
