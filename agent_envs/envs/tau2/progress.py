"""How much of what a task wants was brought about: the fraction of its state changes that stand now.

The expected actions change records; each member that they leave with another value is one state change. What a conversation
changes besides counts neither way. Made for training: the official score is all or nothing, and is never mixed with this.
"""

from functools import lru_cache

from agent_envs.envs.tau2.dialogue import STOPS, Dialogue
from agent_envs.envs.tau2.state_diff import Difference, differences
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.envs.tau2.task_states import initial_world, solved_world


def reached(domain: Domain, task: Tau2Task, dialogue: Dialogue, solo: bool = False) -> float:
    """Return the fraction of the task's state changes that stand in a conversation's world, in [0, 1].

    Of a task that wants no change: 1 once a side has ended the conversation and it passes but for a judge, else 0; a share of
    what was not touched would pay for hanging up.
    """
    wanted = state_changes(domain, task)
    if not wanted:
        if dialogue.ended not in STOPS:
            return 0.0
        return float(evaluate(domain, task, dialogue.lines, dialogue.ended, solo).reward_without_nl == 1.0)
    return sum(change.stands_in(domain, dialogue.world) for change in wanted) / len(wanted)


@lru_cache(maxsize=1024)
def state_changes(domain: Domain, task: Tau2Task) -> tuple[Difference, ...]:
    """Return what the expected actions change, each followed by what it brings about."""
    return differences(domain, initial_world(domain, task), solved_world(domain, task))
