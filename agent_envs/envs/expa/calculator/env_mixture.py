"""The word problems, and the mixture of all calculator tasks that holds them, as text and with expanded actions."""

from typing import Literal

from agent_envs.envs.expa.calculator.problems import MAX_ACTIONS, MAX_GENERATIONS, CalculatorExpanded, CalculatorText
from agent_envs.envs.expa.calculator.word_problems import calc_bench_source, scaled_source


class GSM8KScaled(CalculatorText):
    """Solve word problems with large numbers, with a calculator, in text.

    Description:
        Word problems whose numbers are too large for the head, after the idea of the up-scaled grade school problems in
        EARL's Calc-Bench (arXiv 2510.07581, appendix E). That set, GSM8K*, was rewritten by hand and never published;
        these are not its problems, and scores are not comparable with its. This is the text face; `GSM8KScaledExpA` is
        the same task with expanded actions. Both count the same calls.

    Task sources:
        `tasks="generated"` (default): problems of 2 to 6 steps in everyday settings, with numbers of up to 6 digits,
        composed anew for every task. `tasks="gsm8k"` reads GSM8K (`agent-envs data get gsm8k`) and gives other,
        mostly larger numbers to those items whose annotated chain is fully traceable (832 of train, 142 of test), several
        times each; every answer is computed from the chain again, exactly, and divisions stay without remainder.

    Action:
        $action_text

    Observation:
        $observation_text

    Tools:
        $tools

    Reward:
        $reward

    Episode end:
        $end_text

    Info:
        $info_text

    Arguments:
        tasks: `generated` or `gsm8k`.
        digits: most digits of a number, 2 to 9.
        min_steps: fewest calculations of a generated problem, 1 to 8.
        max_steps: most calculations of a generated problem, up to 8.
        $arguments_text

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        tasks: str = "generated",
        digits: int = 6,
        min_steps: int = 2,
        max_steps: int = 6,
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = scaled_source(tasks, digits, min_steps, max_steps)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


class GSM8KScaledExpA(CalculatorExpanded):
    """Solve word problems with large numbers, with a calculator, with expanded actions.

    Description:
        The tasks of `GSM8KScaled` in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): language is one
        environment, the calculator another, entered by a routing action; what actions append reads as text.

    Task sources:
        Those of `GSM8KScaled`.

    Action:
        $action_expanded

    Observation:
        $observation_expanded

    Tools:
        $tools

    Reward:
        $reward

    Episode end:
        $end_expanded

    Info:
        $info_expanded

    Arguments:
        tasks: `generated` or `gsm8k`.
        digits: most digits of a number, 2 to 9.
        min_steps: fewest calculations of a generated problem, 1 to 8.
        max_steps: most calculations of a generated problem, up to 8.
        $arguments_expanded

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        tasks: str = "generated",
        digits: int = 6,
        min_steps: int = 2,
        max_steps: int = 6,
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = True,
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = scaled_source(tasks, digits, min_steps, max_steps)
        self.play_tasks(source, max_actions, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


class CalcBench(CalculatorText):
    """The mixture of the four calculator tasks on which EARL trains and tests, in text.

    Description:
        Calc-Bench (arXiv 2510.07581, section 3 and Table 1): arithmetic, Countdown, scaled word problems and counting,
        learned together. The paper's overall score is the plain mean over the four; reports give each task's own success.
        This is the text face; `CalcBenchExpA` is the same task with expanded actions. Both count the same calls.

    Task sources:
        Generated, in the sizes of Table 3: 1,000, 20,000, 5,317 and 1,000 training tasks and 2,000, 2,000, 579 and 2,000
        test tasks of `Arithmetic`, `Countdown`, `GSM8KScaled` and `Count` with their defaults. The order is mixed, so
        that the first tasks of a split hold the same portions. A task keeps the id that it has in its own environment. As
        in the release, all share a calculator with a decimal point, and counting tasks are not told of it.

    Action:
        $action_text

    Observation:
        $observation_text

    Tools:
        $tools

    Reward:
        $reward

    Episode end:
        $end_text

    Info:
        $info_text

    Arguments:
        tasks: `generated`, or `gsm8k` for word problems out of GSM8K.
        labels: of arithmetic, `tree` (default) or `released`.
        $arguments_text

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        tasks: str = "generated",
        labels: Literal["tree", "released"] = "tree",
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = calc_bench_source(tasks, labels)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


class CalcBenchExpA(CalculatorExpanded):
    """The mixture of the four calculator tasks on which EARL trains and tests, with expanded actions.

    Description:
        The tasks of `CalcBench` in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): language is one
        environment, the calculator another, entered by a routing action; what actions append reads as text.

    Task sources:
        Those of `CalcBench`.

    Action:
        $action_expanded

    Observation:
        $observation_expanded

    Tools:
        $tools

    Reward:
        $reward

    Episode end:
        $end_expanded

    Info:
        $info_expanded

    Arguments:
        tasks: `generated`, or `gsm8k` for word problems out of GSM8K.
        labels: of arithmetic, `tree` (default) or `released`.
        $arguments_expanded

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        tasks: str = "generated",
        labels: Literal["tree", "released"] = "tree",
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = True,
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = calc_bench_source(tasks, labels)
        self.play_tasks(source, max_actions, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)
