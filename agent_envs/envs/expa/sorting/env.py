"""Sorting and ordering, as text and with expanded actions."""

from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.envs.expa.problem import checked_limit
from agent_envs.envs.expa.sorting.problems import MAX_ACTIONS, MAX_GENERATIONS, sort_problem
from agent_envs.envs.expa.sorting.tasks import OrderSource, SortSource
from agent_envs.envs.expa.text_env import TagEnv


class Sort(TagEnv):
    """Sort items by hidden numbers with as few comparisons and swaps as can be, in text.

    Description:
        The sorting problem of EARL (arXiv 2510.07581, section 3): partially observed, because only a comparison reveals
        how two items relate, and only swaps move them. It asks for planning that hangs on what comparisons tell. This is
        the text face, for the paper's Prompt baselines; `SortExpA` is the same task with expanded actions. Both count the
        same calls.

    Task sources:
        Generated: a random permutation of 2 to 5 hidden numbers and a fair coin for the direction. Train is the paper's
        80,000 tasks at 10, 20, 30 and 40 % of 2, 3, 4 and 5 items, test its 2,000 tasks, half Sort-4 and half Sort-5;
        `size` makes all tasks of one size, 2 to 8. There are only n! * 2 different tasks of a size, so splits differ in
        ids and draws, not in content. Table 2 of the paper is ascending only; reports tell the directions apart.

    Action:
        Text, up to a closing tag: `<compare>A, B</compare>`, `<swap>A, B</swap>`, or `<answer>finished</answer>`, which
        ends the episode. The first complete tag counts, an unclosed last tag counts as closed. `info["stop"]` holds the
        stop strings.

    Observation:
        `<result> A < B </result>` after a comparison, the whole new order `<result> B, A, C </result>` after a swap; a call
        that cannot be carried out gets an error result that says what is expected.

    Tools:
        `compare(x, y)` tells which number is less, wherever the items stand; an item may be compared with itself.
        `swap(x, y)` exchanges the places of two different items. Both are typed results of the turn.

    Reward:
        `fixed` (default): 0.5 for a sorted arrangement, and up to 0.5 that falls strictly with every comparison and swap;
        optimal play is its one maximum in expectation. `released` (also `paper`, which states no formula of its own): the
        released code's efficiency, which drops to 0 below ceil(log2 n!) comparisons and so punishes optimal play of 3 to 5
        items: in the mean over all Sort-4 tasks it pays the optimal tree 0.833, EARL* 0.722, six comparisons always 0.917,
        and the optimal tree padded from 4 to 5 comparisons 1.0 (`agent-envs bench sorting` has the exact table).
        `success`: 1 if sorted. Wrong order pays 0 everywhere. Calls that were carried out count, on both faces alike: the
        release gave its text baselines no efficiency signal, and counted a comparison when it was begun.

    Episode end:
        Terminated by an answer tag, whatever it says. Truncated after `max_generations` turns. The arrangement is judged
        as it stands in both cases, as in the release.

    Info:
        The common keys; no others.

    Arguments:
        size: number of items, 2 to 8; None (default) for the paper's mixture.
        directions: `both` (default), `ascending` or `descending`.
        reward: `fixed`, `released`, `paper` or `success`.
        env_prompt: whether the prompt describes the tools (Table 5 of the paper leaves it out).
        max_generations: turns in an episode, >= 1.

    Version history:
        v0: first version.
    """

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
        """Set up the tasks and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range; the message names it.
        """
        self.render_mode = render_mode
        checked_limit("Sort", "max_generations", max_generations)
        source = SortSource(size=size, directions=directions)
        problem = sort_problem("Sort", source, items=source.items, expanded=False, reward=reward, env_prompt=env_prompt)
        self.play_problem(problem, max_generations)


class SortExpA(ExpandedActionEnv):
    """Sort items by hidden numbers with as few comparisons and swaps as can be, with expanded actions.

    Description:
        The task of `Sort`, in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): language is one
        environment, compare and swap are two more, entered by routing actions. What actions append reads as text, so that
        the input of a language model stays vocabulary. `agent_envs.envs.expa.DiscreteActions` shows it to classic
        reinforcement learning.

    Task sources:
        Those of `Sort`.

    Action:
        A text, which extends the language history and never ends the episode, or the id of an expanded action, bare or as
        `action_space` samples it: 0 `end`, 1 `compare`, 2 `swap`, then one action an item. In language the text, `end`
        and the routing actions are legal; inside compare and swap only the task's items (swap: not the same one twice).
        An illegal action gets an explaining observation, counts, and changes nothing. `env.unwrapped.expanded_actions`
        lists them; `expanded_vocabulary(tokenizer, first_id)` gives them token ids.

    Observation:
        What the action appends to the history: ` compare`, ` A`, ` and`, ` B`, then `: A < B` and a line break; swaps end
        with ` => B, A, C`. Nothing after a text.

    Tools:
        compare and swap, as in `Sort`; the second operand carries the call out and returns to language.

    Reward:
        Those of `Sort`, on the same typed results.

    Episode end:
        Terminated by `end`. Truncated after `max_actions` actions. The arrangement is judged as it stands in both cases.

    Info:
        The common keys, and `active` (`language`, `compare` or `swap`) and `action_mask` (numpy bool over expanded
        actions).

    Arguments:
        size: number of items, 2 to 8; None (default) for the paper's mixture.
        directions: `both` (default), `ascending` or `descending`.
        reward: `fixed`, `released`, `paper` or `success`.
        env_prompt: whether the prompt describes the tools.
        max_actions: actions in an episode, >= 1; a text counts as one.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        directions: str = "both",
        reward: str = "fixed",
        env_prompt: bool = True,
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range; the message names it.
        """
        self.render_mode = render_mode
        checked_limit("SortExpA", "max_actions", max_actions)
        source = SortSource(size=size, directions=directions)
        problem = sort_problem(
            "SortExpA", source, items=source.items, expanded=True, reward=reward, env_prompt=env_prompt
        )
        self.play_problem(problem, max_actions)


class Order(TagEnv):
    """Bring items into order by swaps when their relations are told, in text: the first stage of EARL's curriculum.

    Description:
        The ordering tasks of EARL (arXiv 2510.07581, appendix E): the relations stand in the prompt, so that only
        swapping has to be learned; 5 % of the training tasks ask to compare two items instead. `Sort` comes after it.
        This is the text face; `OrderExpA` is the same task with expanded actions.

    Task sources:
        Generated. Train is the paper's 20,000 tasks, 95 % ordering and 5 % comparing, with 30, 30, 20 and 20 % of 2, 3, 4
        and 5 items; test its 2,000 ordering tasks with the same lengths. The relations are the neighbours in the wanted
        order and up to three more, shuffled, each written as `A<B` or `B>A`. Never in order at the start. `size` makes
        all tasks of one size, 2 to 8. The space of tasks is small: splits differ in ids and draws, not in content.

    Action:
        Text, up to a closing tag: `<swap>A, B</swap>` or `<answer>finished</answer>`; in comparing tasks
        `<compare>A, B</compare>` and `<answer>A < B</answer>`.

    Observation:
        `<result> B, A, C </result>`, the whole new order, or `<result> A < B </result>`; errors say what is expected.

    Tools:
        `swap(x, y)` in ordering tasks, `compare(x, y)` in comparing tasks; the other one answers that it is not there.

    Reward:
        `fixed` (default): 0.5 for a solved task and up to 0.5 that falls strictly with every swap (comparing tasks: with
        every comparison beside the one that is needed). `released` (also `paper`): 1 - the release's normalised number of
        swaps in place of it; comparing tasks ask for exactly one call. `success`: 1 if solved.

    Episode end:
        Terminated by an answer tag. Truncated after `max_generations` turns. Judged as it stands in both cases.

    Info:
        The common keys; no others.

    Arguments:
        size: number of items, 2 to 8; None (default) for the paper's mixture.
        directions: `both` (default), `ascending` or `descending`.
        compare_percent: share of the training tasks that ask to compare; with `size` there are none.
        reward: `fixed`, `released`, `paper` or `success`.
        env_prompt: whether the prompt describes the tools.
        max_generations: turns in an episode, >= 1.

    Version history:
        v0: first version.
    """

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
        """Set up the tasks and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range; the message names it.
        """
        self.render_mode = render_mode
        checked_limit("Order", "max_generations", max_generations)
        source = OrderSource(size=size, directions=directions, compare_percent=compare_percent)
        problem = sort_problem(
            "Order", source, items=source.items, expanded=False, reward=reward, env_prompt=env_prompt
        )
        self.play_problem(problem, max_generations)


class OrderExpA(ExpandedActionEnv):
    """Bring items into order by swaps when their relations are told, with expanded actions.

    Description:
        The tasks of `Order` in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): the first stage of the
        curriculum that ends in `SortExpA`, with the same expanded actions.

    Task sources:
        Those of `Order`.

    Action:
        A text, or the id of an expanded action: 0 `end`, 1 `compare`, 2 `swap`, then one action an item. Only the
        environment that a task has may be entered: swap in ordering tasks, compare in comparing tasks. An illegal action
        gets an explaining observation, counts, and changes nothing.

    Observation:
        What the action appends to the history: ` swap`, ` A`, ` and`, ` B`, then ` => B, A, C` and a line break.

    Tools:
        swap and compare, as in `Order`.

    Reward:
        Those of `Order`, on the same typed results.

    Episode end:
        Terminated by `end`. Truncated after `max_actions` actions. Judged as it stands in both cases: the arrangement, or
        the last `<answer>` tag that the policy wrote.

    Info:
        The common keys, and `active` (`language`, `compare` or `swap`) and `action_mask` (numpy bool over expanded
        actions).

    Arguments:
        size: number of items, 2 to 8; None (default) for the paper's mixture.
        directions: `both` (default), `ascending` or `descending`.
        compare_percent: share of the training tasks that ask to compare; with `size` there are none.
        reward: `fixed`, `released`, `paper` or `success`.
        env_prompt: whether the prompt describes the tools.
        max_actions: actions in an episode, >= 1; a text counts as one.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        directions: str = "both",
        compare_percent: int = 5,
        reward: str = "fixed",
        env_prompt: bool = True,
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range; the message names it.
        """
        self.render_mode = render_mode
        checked_limit("OrderExpA", "max_actions", max_actions)
        source = OrderSource(size=size, directions=directions, compare_percent=compare_percent)
        problem = sort_problem(
            "OrderExpA", source, items=source.items, expanded=True, reward=reward, env_prompt=env_prompt
        )
        self.play_problem(problem, max_actions)
