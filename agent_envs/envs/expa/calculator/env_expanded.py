"""The calculator tasks with expanded actions: arithmetic, Countdown and counting."""

from typing import Literal

from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.problems import MAX_ACTIONS, CalculatorExpanded


class ArithmeticExpA(CalculatorExpanded):
    """Compute an arithmetic expression, some of it in words, with a calculator, with expanded actions.

    Description:
        The tasks of `Arithmetic` in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): language is one
        environment, the calculator another, entered by a routing action; what actions append reads as text.

    Task sources:
        Those of `Arithmetic`.

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
        digits: most digits of a number, 1 to 9.
        train_operations: operations of a training question, 1 to 10.
        test_operations: operations of a dev or test question.
        train_words: portion of the training questions in words, 0 to 1.
        test_words: the same of dev and test.
        labels: `tree` (default) or `released`.
        $arguments_expanded

    Version history:
        v0: first version.
    """

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
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = ArithmeticSource(
            digits=digits, train_operations=train_operations, test_operations=test_operations,
            train_words=train_words, test_words=test_words, labels=labels,
        )  # fmt: skip
        self.play_tasks(source, max_actions, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


class CountdownExpA(CalculatorExpanded):
    """Make a target out of given numbers, each used exactly once, with a calculator to try, with expanded actions.

    Description:
        The tasks of `Countdown` in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): language is one
        environment, the calculator another, entered by a routing action; what actions append reads as text.

    Task sources:
        Those of `Countdown`.

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
        numbers: how many numbers, 2 to 8.
        digits: most digits of a number, 1 to 9.
        targets: `any` (default), `integers` or `natural`.
        $arguments_expanded

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        numbers: int = 4,
        digits: int = 4,
        targets: Literal["any", "integers", "natural"] = "any",
        reward: str = "em",
        env_prompt: bool = True,
        decimal_point: bool = False,
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = CountdownSource(numbers=numbers, digits=digits, targets=targets)
        self.play_tasks(source, max_actions, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


class CountExpA(CalculatorExpanded):
    """Count how often a digit, or a symbol, stands in a sequence, with expanded actions.

    Description:
        The tasks of `Count` in the expanded action space of EARL (arXiv 2510.07581, Algorithm 1): language is one
        environment, the calculator another, entered by a routing action; what actions append reads as text.

    Task sources:
        Those of `Count`.

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
        sequences: `digits` (default) or `symbols`.
        length: longest sequence, 1 to 20.
        words: portion of questions in words, 0 to 1.
        $arguments_expanded

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        sequences: Literal["digits", "symbols"] = "digits",
        length: int = 20,
        words: float = 0.9,
        reward: str = "em",
        env_prompt: bool = False,
        decimal_point: bool = True,
        max_actions: int = MAX_ACTIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = CountSource(sequences=sequences, length=length, words=words)
        self.play_tasks(source, max_actions, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)
