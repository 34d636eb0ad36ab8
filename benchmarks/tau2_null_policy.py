"""`null_policy_score` counts the tasks of a split of tau2 that an empty conversation passes, for results and tests."""

from dataclasses import dataclass

from agent_envs.envs.tau2.metrics import idle_score
from agent_envs.envs.tau2.tasks import RowSource, tau2_task
from agent_envs.envs.tau2.toolkit import Domain


@dataclass(frozen=True)
class NullPolicyScore:
    """The number of tasks of a split that an empty conversation passes.

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


def null_policy_score(domain: Domain, source: RowSource, split: str) -> NullPolicyScore:
    """Score an empty conversation on every task of a split."""
    passed = unjudged = 0
    for place in range(source.size(split)):
        score = idle_score(domain, tau2_task(source.get(split, place), domain.name))
        if score.reward_without_nl == 1.0:
            passed += 1
            unjudged += bool(score.undecided)
    return NullPolicyScore(passed, source.size(split), unjudged)
