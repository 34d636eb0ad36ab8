"""A conversation is scored as in the original, by five components; a task's reward basis names those that count.

- DB: both databases have the hashes that they have after the expected actions.
- ENV_ASSERTION: all assertions hold in the world as the conversation's calls left it.
- ACTION: each expected action matches some call of either side; the order is ignored, one call may match several.
- COMMUNICATE: each fact is told in some message of the assistant (`are_told`); in the original, and for the official tasks, it
  is part of a message's text, case and the message's commas aside. Text beside calls is delivered to nobody and does not count.
- NL_ASSERTION: a judge finds that each expectation in words is met.

The reward is the product over the basis, and 0 unless one side ended the conversation. What only a judge can decide is never
passed without one: the component is then None, a note says so, and it counts 0 in `reward`. `reward_without_nl` leaves the
judged component out: it is the number to compare where nobody was judged, and it is no official reward.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import state_type
from agent_envs.envs.tau2.dialogue import STOPS, Line, arguments_of
from agent_envs.envs.tau2.task_schema import COMPONENTS, Criteria, ExpectedAction, Tau2Task
from agent_envs.envs.tau2.task_states import (
    expected_arguments,
    expected_world,
    initial_world,
    replayed_world,
    run,
    same_world,
)
from agent_envs.envs.tau2.toolkit import Domain, DomainState
from agent_envs.grading.dressed_numbers import are_told
from agent_envs.services.chat import ChatModel
from agent_envs.services.judges import Judge, ModelJudge
from agent_envs.services.recording import CallSite, ExternalPort, Recording

NL_ASSERTION = "NL_ASSERTION"
LONGEST_TRANSCRIPT = 400_000


@dataclass(frozen=True)
class Judging:
    """A judge, and the call site at which it is asked."""

    judge: Judge
    site: CallSite


def expectation_judge(model: ChatModel | ExternalPort, *, recording: Recording | None = None) -> ModelJudge:
    """Return a judge of expectations, which reads the whole conversation and one expectation at a time."""
    return ModelJudge(model, "expectation@1", recording=recording, longest=LONGEST_TRANSCRIPT)


@state_type
@dataclass(frozen=True, slots=True)
class Evaluation:
    """A score and its components.

    Attributes:
        reward: the official reward; a component of the basis that nobody judged counts 0.
        reward_without_nl: the same without NL_ASSERTION.
        basis: the components that count.
        components: all five, 0 or 1; None where nobody judged. They are there for a conversation cut short, too.
        checks: what each component consists of, one truth a part.
        notes: in words, what a reader of the reward must know.
    """

    reward: float
    reward_without_nl: float
    basis: tuple[str, ...] = ()
    components: dict[str, float | None] = field(default_factory=dict)
    checks: dict[str, tuple[bool, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def undecided(self) -> tuple[str, ...]:
        """The components that count and that nobody judged."""
        return tuple(name for name in self.basis if self.components[name] is None)


def _product(components: Iterable[float | None]) -> float:
    """Return the product of components; None counts as 0, and of no components it is 1."""
    return prod((component or 0.0 for component in components), start=1.0)


def evaluate(
    domain: Domain, task: Tau2Task, lines: tuple[Line, ...], ended: str, solo: bool = False,
    judging: Judging | None = None,
) -> Evaluation:  # fmt: skip
    """Score a conversation. `domain.compat` says which of the original's bugs the score has.

    Args:
        domain: the domain that it took place in.
        task: what was to be done.
        lines: all of the conversation, the task's history included.
        ended: why it ended, by the original's names; only `agent_stop` and `user_stop` can earn anything.
        solo: the agent had both sides' tools.
        judging: who decides expectations in words, where they count.

    Raises:
        ReplayMismatch: an answer in the conversation is not what its call gives.
        EnvFault: the judge failed.
    """
    stopped = ended in STOPS
    notes = () if stopped else (f"the conversation was cut short ({ended or 'it goes on'}): the reward is 0",)
    criteria = task.criteria
    if criteria is None:
        passed = float(stopped)
        return Evaluation(passed, passed, notes=(*notes, "the task has no criteria: any conversation passes"))
    checks = _checks(domain, task, criteria, lines, solo)
    components: dict[str, float | None] = {name: float(all(checks[name])) for name in COMPONENTS if name in checks}
    if not criteria.nl_assertions:
        checks[NL_ASSERTION], components[NL_ASSERTION] = (), 1.0
    elif judging is not None and stopped and criteria.needs_judge:
        checks[NL_ASSERTION] = _judge_each(criteria.nl_assertions, lines, judging)
        components[NL_ASSERTION] = float(all(checks[NL_ASSERTION]))
    else:
        components[NL_ASSERTION] = None
        if criteria.needs_judge:
            notes = (
                *notes,
                f"{NL_ASSERTION} counts and was not judged: it is 0 in reward, and left out of reward_without_nl",
            )
    counted = {name: components[name] for name in criteria.basis}
    return Evaluation(
        reward=stopped * _product(counted.values()),
        reward_without_nl=stopped * _product(value for name, value in counted.items() if name != NL_ASSERTION),
        basis=tuple(counted),
        components=components,
        checks=checks,
        notes=notes,
    )


def matches(action: ExpectedAction, call: ToolCall, zero_argument_match: bool) -> bool:
    """Return whether a call is an expected action. Who called does not matter.

    Where the task names no arguments to compare, those of the call count, so that a call with fewer matches, too; one with
    none matches only an action without arguments, unless `zero_argument_match` reproduces the original.
    """
    if action.name != call.name:
        return False
    expected, arguments = expected_arguments(action.arguments), arguments_of(call)
    if action.compared is None:
        if not arguments:
            return zero_argument_match or not expected
        return all(name in expected and expected[name] == value for name, value in arguments.items())
    return _pick(expected, action.compared) == _pick(arguments, action.compared)


def _pick(arguments: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments of these names; a name that is not there is left out."""
    return {name: arguments[name] for name in names if name in arguments}


def _checks(
    domain: Domain, task: Tau2Task, criteria: Criteria, lines: tuple[Line, ...], solo: bool
) -> dict[str, tuple[bool, ...]]:
    """Return the verdicts of all components that need no judge, by name, from a replay of the conversation."""
    world = replayed_world(domain, initial_world(domain, task), lines[len(task.history) :], solo)
    # A task that expects nothing of the databases accepts every one of them.
    free = criteria.actions is None and criteria.env_assertions is None
    calls = [call for line in lines for call in line.calls]
    texts = [line.text for line in lines if line.sender == "assistant" and not line.calls]
    bug = domain.compat.zero_argument_match
    return {
        "DB": (free or same_world(domain, world, expected_world(domain, task)),),
        "ENV_ASSERTION": _assertion_verdicts(domain, world, criteria),
        "ACTION": tuple(any(matches(action, call, bug) for call in calls) for action in criteria.actions or ()),
        "COMMUNICATE": (_are_in if domain.compat.facts_as_text else are_told)(criteria.communicate_info, texts),
    }


def _are_in(facts: Iterable[str], texts: Iterable[str]) -> tuple[bool, ...]:
    """Return whether each fact is part of one of the texts, as the original has it: `61` is part of `1617`."""
    plain = [text.lower().replace(",", "") for text in texts]
    return tuple(any(fact.lower() in text for text in plain) for fact in facts)


def _assertion_verdicts(domain: Domain, world: DomainState, criteria: Criteria) -> tuple[bool, ...]:
    """Return the verdict on each assertion. One that raises does not hold: a conversation may have removed its object."""
    verdicts = []
    for assertion in criteria.env_assertions or ():
        outcome, world = run(domain, world, assertion)
        verdicts.append(outcome.returned is assertion.expected)
    return tuple(verdicts)


def _judge_each(expectations: tuple[str, ...], lines: tuple[Line, ...], judging: Judging) -> tuple[bool, ...]:
    """Return the judge's verdict on each expectation, each asked at a call site of its own."""
    conversation, verdicts = transcript(lines), []
    for place, expectation in enumerate(expectations):
        # Two places each: a judge may ask a second time.
        site = CallSite(judging.site.episode_key, judging.site.branch, judging.site.ordinal + 2 * place)
        verdicts.append(judging.judge(expectation, conversation, (), site).correct)
    return tuple(verdicts)


def transcript(lines: tuple[Line, ...]) -> str:
    """Return a conversation as a judge reads it, calls and answers included."""
    parts = []
    for line in lines:
        if line.text and not line.calls:
            parts.append(f"{line.sender}: {line.text}")
        parts += [f"{line.sender} calls {call.name}({call.arguments})" for call in line.calls]
        parts += [f"{reply.name} answers the {reply.requestor}: {reply.content}" for reply in line.results]
    return "\n".join(parts)
