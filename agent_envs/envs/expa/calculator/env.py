"""Every calculator task is a class as text and its twin with expanded actions; `page.md` completes their docstrings."""

from collections.abc import Callable
from typing import Any

from agent_envs.base.arguments import flag
from agent_envs.base.messages import Message
from agent_envs.core.env import Episode
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.calculator import Calculator
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.calculator.scoring import MARK, calc_solved, make_calc_reward, plain_answer
from agent_envs.envs.expa.calculator.word_problems import calc_bench_source, scaled_source
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv, both_faces
from agent_envs.envs.expa.generated import CalcData
from agent_envs.envs.expa.problem import EXPANDED, JSON, TEXT, Problem, opening, paged, sections
from agent_envs.envs.expa.text_env import TagEnv

MAX_ACTIONS = 512  # expanded face; the paper limits 1,024 tokens, which is the trainer's to do
MAX_GENERATIONS = 24  # text face; the hungriest method of Table 4 makes 15.1 calls an episode
UNHELPED = "count"  # the kind of task for which a calculator is of no use, and is not described in the mixture


def calc_problem(
    env: str, source: TaskSource, action_space: str, *, reward: str, env_prompt: bool, decimal_point: bool
) -> Problem:
    """Return a calculator problem over `CalcData` tasks in a face's words; the tool is told if `env_prompt`; UsageError.

    In the mixture the prompt of a counting task says nothing of the calculator, as in the release.
    """
    flag(env, "env_prompt", env_prompt)
    flag(env, "decimal_point", decimal_point)
    parts = sections("prompt.md")
    system, native = parts["system"].template, ".json" if action_space == JSON else ""
    described = f"{system}\n\n" + parts[f"tool.calculator.{action_space}"].template

    def first(task: Task) -> tuple[Message, ...]:
        """Return a task's opening messages; the calculator is described if `env_prompt` is set and the kind of task has it."""
        data: CalcData = task.data
        helped = env_prompt and (data.kind != UNHELPED or source.name == UNHELPED)
        form = parts[f"form.{'expression' if data.kind == 'countdown' else 'number'}{native}"].template
        return opening(
            described if helped else system, parts["calc.user"].substitute(question=task.question, form=form)
        )

    spec = make_calc_reward(env, reward)
    environments = (Calculator(decimal_point),)
    finish = "a call of answer" if native else f"the answer after {MARK}"
    return Problem(source, environments, spec, calc_solved, lambda task: (), first, finish, env_prompt)


class CalculatorText(TagEnv):
    """Base of the calculator tasks as text."""

    def play_tasks(self, source: TaskSource, max_generations: int, protocol: str = "tags", **choices: Any) -> None:
        """Play a source; `choices` are `reward`, `env_prompt` and `decimal_point`."""
        words = self.words_of(protocol)
        self.play_problem(calc_problem(type(self).__name__, source, words, **choices), max_generations, MARK)

    def _tolerate(self, episode: Episode, text: str) -> tuple[str, tuple[str, ...]]:
        """Read dressed numbers behind the mark as plain ones, with notes; with native calls as every environment does."""
        return super()._tolerate(episode, text) if self.native else plain_answer(text, episode.task)


class CalculatorExpanded(ExpandedActionEnv):
    """Base of the calculator tasks with expanded actions."""

    def _tolerate(self, episode: Episode, text: str) -> tuple[str, tuple[str, ...]]:
        """Read dressed numbers behind the mark as plain ones, but for a task whose answer is an expression."""
        return plain_answer(text, episode.task)

    def play_tasks(self, source: TaskSource, max_actions: int, **choices: Any) -> None:
        """Play a source; `choices` are `reward`, `env_prompt` and `decimal_point`."""
        self.play_problem(calc_problem(type(self).__name__, source, EXPANDED, **choices), max_actions)


def _faces(
    name: str, summary: str, source: Callable[..., TaskSource], env_prompt: bool = True, decimal_point: bool = True
) -> tuple[Any, Any]:
    """Return a source's two classes, as text and with expanded actions, their pages completed by calculator/page.md."""
    limits = {"max_generations": MAX_GENERATIONS, "max_actions": MAX_ACTIONS}
    choices = {"reward": "em", "env_prompt": env_prompt, "decimal_point": decimal_point}
    text, expanded = both_faces(name, summary, source, (CalculatorText, CalculatorExpanded), limits, choices)
    text.__module__ = expanded.__module__ = __name__
    return paged("calculator/page.md", TEXT)(text), paged("calculator/page.md", EXPANDED)(expanded)


Arithmetic, ArithmeticExpA = _faces(
    "Arithmetic",
    "Compute an arithmetic expression, some of it in words, with a calculator, in text.",
    ArithmeticSource,
)
Countdown, CountdownExpA = _faces(
    "Countdown",
    "Make a target out of given numbers, each used exactly once, with a calculator to try, in text.",
    CountdownSource,
    decimal_point=False,
)
Count, CountExpA = _faces(
    "Count", "Count how often a digit, or a symbol, stands in a sequence, in text.", CountSource, env_prompt=False
)
GSM8KScaled, GSM8KScaledExpA = _faces(
    "GSM8KScaled", "Solve word problems with large numbers, with a calculator, in text.", scaled_source
)
CalcBench, CalcBenchExpA = _faces(
    "CalcBench",
    "The mixture of the four calculator tasks on which EARL trains and tests, in text.",
    calc_bench_source,
)
