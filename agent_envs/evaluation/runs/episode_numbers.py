"""`EpisodeNumbers` holds what tables need of one episode, so that a run of ten thousand holds no transcript."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Answer, Call, Malformed, Say
from agent_envs.core.trajectory import Turn
from agent_envs.evaluation.suites.suite import Entry
from agent_envs.rollout.episode_runner import EpisodeResult

FAILURES = {
    "solved": "the task was solved",
    "wrong answer": "the episode ended with an answer that is not right",
    "out of turns": "the turns were used up",
    "unreadable": "the turns were used up, and at least half of them held no readable action",
    "not achieved": "the episode ended by the task's own rules, without success and without an answer",
    "fault": "an outside service failed for good",
    "budget": "the cost limit was reached",
    "missing": "it was not played",
}
UNPLAYED = ("fault", "budget", "missing")


@dataclass(frozen=True, slots=True)
class EpisodeNumbers:
    """What counts of one planned episode."""

    entry: str  # label of the suite's entry
    task: str
    cluster: str
    trial: int
    status: str  # `terminated`, `truncated`, `fault`, `budget` or `missing`
    outcome: str  # one of `FAILURES`
    success: bool = False  # by the suite's predicate; False where it was not played to its end
    total_reward: float = 0.0  # undiscounted return
    turns: int = 0  # actions of the policy
    valid: int = 0  # of them, those that were readable and carried out as meant
    calls: int = 0  # tool calls that were carried out
    prose: int = 0  # characters that the policy wrote beside its actions: its reasoning
    usage: dict[str, int] = field(default_factory=dict)  # tokens by name
    seconds: float = 0.0  # wall time
    agent_seconds: float = 0.0  # the policy's part of it
    attempts: int = 0  # how many attempts failed before this one
    fault: str = ""  # what failed
    labels: dict[str, str] = field(default_factory=dict)  # of its task, as the family names them
    metrics: dict[str, float] = field(default_factory=dict)  # as the family counts them; none before its end

    @property
    def played(self) -> bool:
        """Whether the episode came to an end of its own."""
        return self.status not in UNPLAYED


def missing(entry: Entry, task: str, cluster: str, trial: int) -> EpisodeNumbers:
    """Return the numbers of a planned episode that was not played."""
    return EpisodeNumbers(entry.label, task, cluster, trial, "missing", "missing")


def numbers_of(entry: Entry, cluster: str, trial: int, result: EpisodeResult) -> EpisodeNumbers:
    """Return the numbers of a result."""
    trajectory = result.trajectory
    turns = trajectory.turns
    success = result.status not in UNPLAYED and entry.solved(trajectory)
    return EpisodeNumbers(
        entry=entry.label, task=trajectory.header.task_id, cluster=cluster, trial=trial, status=result.status,
        outcome=outcome_of(result, success), success=success, total_reward=trajectory.total_reward, turns=len(turns),
        valid=sum(map(valid_turn, turns)), calls=tool_calls(turns).total(), prose=sum(map(_prose, turns)),
        usage=result.usage, seconds=result.seconds, agent_seconds=result.agent_seconds, attempts=len(result.attempts),
        fault=result.fault,
    )  # fmt: skip


def tool_calls(turns: Iterable[Turn]) -> Counter[str]:
    """Return how often each tool was carried out."""
    results = [item for turn in turns for item in turn.results]
    return Counter(item.name for item in results if item.call_id and not item.error)


def valid_turn(turn: Turn) -> bool:
    """Return whether an action was readable and carried out as meant."""
    return not turn.events and not isinstance(turn.parsed, Malformed) and not any(item.error for item in turn.results)


def outcome_of(result: EpisodeResult, success: bool) -> str:
    """Return how an episode ended: a key of `FAILURES`."""
    if result.status in UNPLAYED:
        return result.status
    if success:
        return "solved"
    turns = result.trajectory.turns
    if result.status == "truncated":
        return "unreadable" if 2 * sum(map(valid_turn, turns)) <= len(turns) else "out of turns"
    return "wrong answer" if isinstance(turns[-1].parsed, Answer) else "not achieved"


def _prose(turn: Turn) -> int:
    if not isinstance(turn.action, str):
        return 0
    payload = 0
    if isinstance(turn.parsed, Say):  # what is said, or the name of an action behind its reasoning
        payload = len(turn.action) if turn.parsed.text.strip() == turn.action.strip() else len(turn.parsed.text)
    elif isinstance(turn.parsed, Answer):
        payload = len(turn.parsed.text)
    elif isinstance(turn.parsed, Call):
        payload = sum(map(_payload, turn.parsed.calls))
    return max(len(turn.action) - payload, 0)


def _payload(call: ToolCall) -> int:
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):  # no environment writes such a call; a run's file may hold one
        return len(call.arguments)
    return sum(len(value) if isinstance(value, str) else len(str(value)) for value in values.values())
