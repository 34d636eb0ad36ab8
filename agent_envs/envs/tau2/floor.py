"""The floor under every score: what an agent earns that says one polite sentence and does nothing."""

from dataclasses import dataclass

from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.evaluation import Evaluation, evaluate
from agent_envs.envs.tau2.tasks import RowSource, Tau2Task, tau2_task
from agent_envs.envs.tau2.toolkit import Domain

IDLE = (Line("assistant", "Hello! Thank you for calling. Goodbye!"),)


@dataclass(frozen=True)
class NullFloor:
    """How many tasks of a split an empty conversation passes.

    Attributes:
        passed: by `reward_without_nl`.
        tasks: of the split.
        unjudged: of those that passed: how many a judge would still have to decide.
    """

    passed: int
    tasks: int
    unjudged: int

    @property
    def rate(self) -> float:
        """The share of tasks that it passes."""
        return self.passed / self.tasks


def idle_score(domain: Domain, task: Tau2Task) -> Evaluation:
    """Return the score of an empty conversation on a task."""
    return evaluate(domain, task, (*task.history, *IDLE), "user_stop")


def null_floor(domain: Domain, source: RowSource, split: str) -> NullFloor:
    """Score an empty conversation on every task of a split."""
    passed = unjudged = 0
    for place in range(source.size(split)):
        score = idle_score(domain, tau2_task(source.get(split, place), domain.name))
        if score.reward_without_nl == 1.0:
            passed += 1
            unjudged += bool(score.undecided)
    return NullFloor(passed, source.size(split), unjudged)
