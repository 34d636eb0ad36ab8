"""A calculator problem joins prompt, calculator and reward; each face has a base class."""

from typing import Any

from agent_envs.base.arguments import flag
from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.envs.expa.calculator.calculator import Calculator
from agent_envs.envs.expa.calculator.scoring import MARK, calc_solved, make_calc_reward
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.envs.expa.generated import CalcData
from agent_envs.envs.expa.problem import EXPANDED, JSON, Problem, opening, sections
from agent_envs.envs.expa.text_env import TagEnv

MAX_ACTIONS = 512  # expanded face; the paper limits 1,024 tokens, which is the trainer's to do
MAX_GENERATIONS = 24  # text face; the hungriest method of Table 4 makes 15.1 calls an episode
UNHELPED = "count"  # the kind of task for which a calculator is of no use, and is not described in the mixture


def calc_problem(
    env: str, source: TaskSource, action_space: str, *, reward: str, env_prompt: bool, decimal_point: bool
) -> Problem:
    """Return a calculator problem over a source whose tasks hold `CalcData`, in the words of a face.

    In the mixture the prompt of a counting task says nothing of the calculator, as in the release.
    """
    flag(env, "env_prompt", env_prompt)
    flag(env, "decimal_point", decimal_point)
    parts = sections("prompt.md")
    system, native = parts["system"].template, ".json" if action_space == JSON else ""
    described = f"{system}\n\n" + parts[f"tool.calculator.{action_space}"].template

    def first(task: Task) -> tuple[Message, ...]:
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


class CalculatorExpanded(ExpandedActionEnv):
    """Base of the calculator tasks with expanded actions."""

    def play_tasks(self, source: TaskSource, max_actions: int, **choices: Any) -> None:
        """Play a source; `choices` are `reward`, `env_prompt` and `decimal_point`."""
        self.play_problem(calc_problem(type(self).__name__, source, EXPANDED, **choices), max_actions)
