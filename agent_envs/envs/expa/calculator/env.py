"""Every calculator task is a class as text and its twin with expanded actions; `page.md` completes their docstrings."""

from typing import Literal

from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.problems import MAX_GENERATIONS, CalculatorText, expanded
from agent_envs.envs.expa.calculator.word_problems import calc_bench_source, scaled_source
from agent_envs.envs.expa.problem import TEXT, paged


@paged("calculator/page.md", TEXT)
class Arithmetic(CalculatorText):
    """Compute an arithmetic expression, some of it in words, with a calculator, in text."""

    def __init__(
        self,
        *,
        digits: int = 5,
        train_operations: int = 4,
        test_operations: int = 6,
        train_words: float = 0.1,
        test_words: float = 0.7,
        labels: Literal["tree", "released"] = "tree",
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = ArithmeticSource(
            digits=digits, train_operations=train_operations, test_operations=test_operations,
            train_words=train_words, test_words=test_words, labels=labels,
        )  # fmt: skip
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


ArithmeticExpA = expanded(Arithmetic)


@paged("calculator/page.md", TEXT)
class Countdown(CalculatorText):
    """Make a target out of given numbers, each used exactly once, with a calculator to try, in text."""

    def __init__(
        self,
        *,
        numbers: int = 4,
        digits: int = 4,
        targets: Literal["any", "integers", "natural"] = "any",
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = False,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = CountdownSource(numbers=numbers, digits=digits, targets=targets)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


CountdownExpA = expanded(Countdown)


@paged("calculator/page.md", TEXT)
class Count(CalculatorText):
    """Count how often a digit, or a symbol, stands in a sequence, in text."""

    def __init__(
        self,
        *,
        sequences: Literal["digits", "symbols"] = "digits",
        length: int = 20,
        words: float = 0.9,
        reward: str = "em",
        env_prompt: bool = False,
        decimal_point: bool = True,
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = CountSource(sequences=sequences, length=length, words=words)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


CountExpA = expanded(Count)


@paged("calculator/page.md", TEXT)
class GSM8KScaled(CalculatorText):
    """Solve word problems with large numbers, with a calculator, in text."""

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


GSM8KScaledExpA = expanded(GSM8KScaled)


@paged("calculator/page.md", TEXT)
class CalcBench(CalculatorText):
    """The mixture of the four calculator tasks on which EARL trains and tests, in text."""

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


CalcBenchExpA = expanded(CalcBench)
