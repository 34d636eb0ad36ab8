"""Labels and metrics of a conversation are made here for reports, above all the score of an agent that does nothing.

Registered as `labels` and `metrics` of the environments, so that every report shows the mean of `null_policy` over the very
episodes that were played, and success apart on the tasks that doing nothing passes.
"""

from collections.abc import Callable

from agent_envs.core.env import TurnEnv
from agent_envs.core.episode import Share
from agent_envs.core.trajectory import Task, Trajectory
from agent_envs.envs.tau2 import scoring
from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.env import Tau2Env
from agent_envs.envs.tau2.evaluation import Evaluation, evaluate
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.task_generator.source import generated_domain, world_of
from agent_envs.envs.tau2.tasks import RowSource, Tau2Task, tau2_task
from agent_envs.envs.tau2.toolkit import Domain

IDLE = (Line("assistant", "Hello! Thank you for calling. Goodbye!"),)


def idle_score(domain: Domain, task: Tau2Task) -> Evaluation:
    """Return the score of an empty conversation on a task."""
    return evaluate(domain, task, (*task.history, *IDLE), "user_stop")


_IDLE_SCORES: dict[str, float] = {}
_DOMAINS: dict[str, Callable[[str, Task], Domain]] = {
    "official": lambda name, task: load_domain(name),
    "generated": lambda name, task: generated_domain(name, world=world_of(task.id)),
}


def labels(task: Task) -> dict[str, str]:
    """Return a task's strata, those known: difficulty, whether doing nothing passes, reward basis, and telecom's issue."""
    floor, values = null_policy(task), {}
    if task.data.get("difficulty"):
        values["difficulty"] = task.data["difficulty"]
    if floor is not None:
        values["null policy"] = "passes" if floor else "fails"
    if task.hidden:
        values["reward basis"] = " ".join(task.hidden.get("reward_basis", ())) or "nothing"
    if task.id.startswith("["):
        values["issue"] = task.id.partition("]")[0].removeprefix("[")
    return values


def metrics(trajectory: Trajectory) -> dict[str, float | None]:
    """Return the score's components and, where known, `null_policy`: the score of doing nothing on the same task."""
    floor = None if trajectory.task is None else null_policy(trajectory.task)
    return scoring.metrics(trajectory) | ({} if floor is None else {"null_policy": Share(floor)})


def out_of_reach(env: TurnEnv, split: str) -> dict[str, str]:
    """Return, by id, why a split's tasks are out of reach: they need a judge and none judges; {} for generated ones."""
    core, unjudged = env.unwrapped, dict[str, str]()
    assert isinstance(core, Tau2Env)
    if core.arguments["judge"] or core.reward == "without_nl" or not isinstance(core.source, RowSource):
        return unjudged
    for task in (core.source.get(split, name) for name in core.source.ids(split)):
        criteria = tau2_task(task, core.domain).criteria
        if criteria is not None and criteria.needs_judge:
            unjudged[task.id] = "rest on a judge and nobody judges"
    return unjudged


def shows_gold(env: TurnEnv) -> str:
    """Return the reason why the agent sees the gold; "" where it does not."""
    core = env.unwrapped
    assert isinstance(core, Tau2Env)
    return "an oracle plan tells the expected actions" if core.arguments["plan"] == "oracle" else ""


def null_policy(task: Task) -> float | None:
    """Return the reward without a judge of doing nothing on a task, cached; None for one neither official nor generated.

    A task that is neither official nor generated has None.
    """
    kind, _, name = task.data.get("source", "").partition("-")
    if kind not in _DOMAINS:
        return None
    if task.digest not in _IDLE_SCORES:
        domain = _DOMAINS[kind](name, task)
        _IDLE_SCORES[task.digest] = idle_score(domain, tau2_task(task, name)).reward_without_nl
    return _IDLE_SCORES[task.digest]
