"""The calculator tasks as text: arithmetic, Countdown and counting."""

from typing import Literal

from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.problems import MAX_GENERATIONS, CalculatorText


class Arithmetic(CalculatorText):
    """Compute an arithmetic expression, some of it in words, with a calculator, in text.

    Description:
        The arithmetic of EARL's Calc-Bench (arXiv 2510.07581, section 3): whether a calculator is used well where tests
        differ from training: more operands, and more questions in words. This is the text face; `ArithmeticExpA` is the
        same task with expanded actions. Both count the same calls.

    Task sources:
        Generated. Numbers have 1 to 5 digits; train has 5 operands and 10 % of its questions in words, dev and test 7
        operands and 70 % (Table 3; the paper's text gives other numbers of operations, which its code does not draw). Of
        those in words, half write the numbers so and half the operators. Values stay below 1e9 and have at most 3
        decimals. The release labels a question with operators in words by the flat expression, which contradicts what the
        words say in about two of five of them; here the label follows the words, and `labels="released"` repeats the
        contradiction.

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
        digits: most digits of a number, 1 to 9.
        train_operations: operations of a training question, 1 to 10.
        test_operations: operations of a dev or test question.
        train_words: portion of the training questions in words, 0 to 1.
        test_words: the same of dev and test.
        labels: `tree` (default) or `released`.
        $arguments_text

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


class Countdown(CalculatorText):
    """Make a target out of given numbers, each used exactly once, with a calculator to try, in text.

    Description:
        The Countdown of EARL's Calc-Bench (arXiv 2510.07581, section 3): contingent planning, because what to try next
        hangs on what the calculator showed. Four numbers allow 7,680 expressions. This is the text face; `CountdownExpA`
        is the same task with expanded actions. Both count the same calls.

    Task sources:
        Generated: four numbers of 1 to 4 digits, shuffled, and the value of an expression that uses each once, so that
        every task can be solved (Table 3: 20,000 and 2,000 tasks). In Calc-Bench the target may be negative or have
        decimals (`targets="any"`); the stand-alone release keeps integers (`targets="integers"`).

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
        numbers: how many numbers, 2 to 8.
        digits: most digits of a number, 1 to 9.
        targets: `any` (default), `integers` or `natural`.
        $arguments_text

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
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = CountdownSource(numbers=numbers, digits=digits, targets=targets)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)


class Count(CalculatorText):
    """Count how often a digit, or a symbol, stands in a sequence, in text.

    Description:
        The counting of EARL's Calc-Bench (arXiv 2510.07581, section 3): whether a model keeps its sense of numbers while
        it learns to use a calculator, which is of no help here. This is the text face; `CountExpA` is the same task with
        expanded actions. Both count the same calls.

    Task sources:
        Generated. `sequences="digits"` (default) is the released task: how often a digit stands in an integer of 1 to 20
        digits, written in words in 90 % of the questions (Table 3: 1,000 and 2,000 tasks). `sequences="symbols"` is what
        the paper's text describes: sequences of up to 20 symbols. Most answers to the released task are 0 or 1: always
        saying 0 earns about 39 %.

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
        sequences: `digits` (default) or `symbols`.
        length: longest sequence, 1 to 20.
        words: portion of questions in words, 0 to 1.
        $arguments_text

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
        max_generations: int = MAX_GENERATIONS,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        source = CountSource(sequences=sequences, length=length, words=words)
        self.play_tasks(source, max_generations, reward=reward, env_prompt=env_prompt, decimal_point=decimal_point)
