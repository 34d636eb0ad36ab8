"""The rewards are declared here by name: `official` and `without_nl`, as shares of the score's components, and `dense`.

A term takes the shares back unless all that counts holds. The score of a conversation is made where it ends, and travels as
one typed result of the last turn, which no tool can forge: its call id is empty. Terms and metrics read it there, and
nothing else.
"""

from collections.abc import Mapping
from functools import lru_cache, partial

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolResult
from agent_envs.core.episode import RewardSpec, Share, Term, terms_from
from agent_envs.core.trajectory import Trajectory, Turn
from agent_envs.envs.tau2.dialogue import STOPS, Dialogue
from agent_envs.envs.tau2.evaluation import NL_ASSERTION, Evaluation, evaluate
from agent_envs.envs.tau2.state_diff import Difference, differences
from agent_envs.envs.tau2.task_schema import COMPONENTS, Tau2Task
from agent_envs.envs.tau2.task_states import initial_world, solved_world
from agent_envs.envs.tau2.toolkit import Domain


def reached(domain: Domain, task: Tau2Task, dialogue: Dialogue, solo: bool = False) -> float:
    """Return the fraction of state changes that stand, in [0, 1]; where none is wanted, 1 if it ended and passes, else 0.

    Made for training, and never mixed with the official score, which is all or nothing. The expected actions change records;
    each member that they leave with another value is one state change. What a conversation changes besides counts neither way.
    Of a task that wants no change: 1 once a side has ended the conversation and it passes but for a judge, else 0; a share of
    what was not touched would pay for hanging up.
    """
    changes = state_changes(domain, task)
    if not changes:
        if dialogue.ended not in STOPS:
            return 0.0
        return float(evaluate(domain, task, dialogue.lines, dialogue.ended, solo).reward_without_nl == 1.0)
    return sum(change.stands_in(domain, dialogue.world) for change in changes) / len(changes)


@lru_cache(maxsize=1024)
def state_changes(domain: Domain, task: Tau2Task) -> tuple[Difference, ...]:
    """Return the changes of the expected actions, each followed by its consequences; cached."""
    return differences(domain, initial_world(domain, task), solved_world(domain, task))


REWARDS = ("official", "without_nl", "dense")
_NAME, _PROGRESS, _BACK = "evaluation", "progress", "all_or_nothing"
_DOCS = {
    "DB": "both databases are as the expected actions leave them",
    "ENV_ASSERTION": "all assertions hold in the world at the end",
    "ACTION": "each expected action was made by some side",
    "COMMUNICATE": "the agent said all that it had to say",
    "NL_ASSERTION": "a judge finds every expectation in words met; 0 where nobody judged",
}


USER_METRICS = ("unconsented_changes", "user_version")
MARK = "scripted user on official tasks: another benchmark"


def result_of(score: Evaluation, ended: str, user: Mapping[str, int], marked: bool = False) -> ToolResult:
    """Return a score as the last turn's typed result: names and values as `ids`, counting ones starred; MARK if `marked`.

    `user` holds what reports tell of a scripted user, by the names in USER_METRICS.
    """
    parts = [f"{name}{'*' * (name in score.basis)}={_text(value)}" for name, value in score.components.items()]
    mark = ("scripted_on_official=1",) if marked else ()
    counts = (f"{name}={value}" for name, value in user.items())
    ids = (
        f"official={score.reward:g}",
        f"without_nl={score.reward_without_nl:g}",
        f"ended={ended}",
        *parts,
        *counts,
        *mark,
    )
    notes = (*score.notes, *([MARK] if marked else ()))
    return ToolResult("", _NAME, "\n".join(notes), ids=ids)


def progress_of(before: float, after: float) -> ToolResult:
    """Return a turn's progress as its typed result: the fraction reached, and the gain."""
    return ToolResult("", _PROGRESS, "", ids=(f"reached={after!r}", f"gained={after - before!r}"))


def _text(value: float | None) -> str:
    """Return a number as text; a question mark for None."""
    return "?" if value is None else f"{value:g}"


def score_of(turn: Turn) -> dict[str, str]:
    """Return the names and values of a turn's score; empty where it did not end the conversation."""
    return _typed_result(turn, _NAME)


def _typed_result(turn: Turn, name: str) -> dict[str, str]:
    """Return the names and values in a turn's own result of a name; {} where it has none."""
    for result in turn.results:
        if not result.call_id and result.name == name:
            return dict(part.split("=", 1) for part in result.ids)
    return {}


def succeeded(score: Evaluation, reward: str) -> bool:
    """Return whether a conversation earned the full reward."""
    return (score.reward_without_nl if reward == "without_nl" else score.reward) == 1.0


def make_reward(name: str) -> RewardSpec:
    """Return the reward of a name, `dense` by progress, others by shares of the basis; UsageError for an unknown one."""
    if name not in REWARDS:
        raise UsageError(f"tau2: reward={name!r} is unknown; the rewards are {', '.join(REWARDS)}")
    if name == "dense":
        doc = "what this turn changed in the fraction of the task's state changes that stand"
        return RewardSpec(name, (Term("progress", -1.0, 1.0, doc, _gain),), (0.0, 1.0))
    bounds = {one.lower(): (0.0, 1.0, f"share of the basis: {_DOCS[one]}") for one in COMPONENTS}
    doc = "takes the shares back unless all that counts holds and one side ended the conversation"
    bounds[_BACK] = (-1.0, 0.0, doc)
    values = partial(_terms, reward=name)
    return RewardSpec(name, terms_from(values, bounds), (0.0, 1.0))


def _gain(trajectory: Trajectory) -> float:
    """Return the progress that the last turn gained; 0 where it has no such result."""
    return float(_typed_result(trajectory.last, _PROGRESS).get("gained", "0"))


def _terms(trajectory: Trajectory, reward: str) -> dict[str, float]:
    """Return the terms that apply: a scored turn's shares, 1 over the counting components or 0, and what is taken back.

    What a judge decides counts in `official` alone.
    """
    score = score_of(trajectory.last)
    if not score:
        return {}
    basis = [name for name in COMPONENTS if f"{name}*" in score and (reward == "official" or name != NL_ASSERTION)]
    terms = {name.lower(): float(score[f"{name}*"] == "1") / len(basis) for name in basis}
    total = 0.0
    for share in terms.values():  # summed as RewardSpec sums, so that nothing is left over
        total += share
    back = min(0.0, float(score.get(reward) == "1") - total)
    return {**terms, _BACK: back} if back else terms


def metrics(trajectory: Trajectory) -> dict[str, float | None]:
    """Return each component that counts, None for others, `without_nl`, MARK, and USER_METRICS; {} for an unscored turn."""
    score = score_of(trajectory.last)
    if not score:
        return {}
    values = {name.lower(): _verdict(score.get(f"{name}*", "?")) for name in COMPONENTS}
    mark = {MARK: Share(1)} if "scripted_on_official" in score else {}
    user = {name: float(score[name]) for name in USER_METRICS if name in score}
    return {"without_nl": _verdict(score["without_nl"]), **values, **mark, **user}


def _verdict(text: str) -> Share | None:
    """Return a component as a share, None for a question mark."""
    return None if text == "?" else Share(text == "1")
