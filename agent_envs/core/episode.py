"""An episode is one immutable value, each turn extends it to a new one, and rewards are sums of bounded terms over its turns.

A term reads the trajectory up to its newest turn and gives that step's share. Text counts only where the policy wrote it
(`turn.action`, `turn.parsed`); tools count through `turn.results`; observation text is never matched.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Parsed
from agent_envs.base.serialization import digest, state_type
from agent_envs.core.trajectory import Header, Task, Trajectory, Turn

MAX_ACTION_CHARACTERS = 1_000_000
_CUT = "action cut to "
_REPLACED = "lone surrogates replaced by ?"


@dataclass(frozen=True, slots=True)
class Term:
    """One named part of a step's reward, in [low, high]; 0 where `applies` is False, and then pages and means leave it out."""

    name: str
    low: float
    high: float
    doc: str
    value: Callable[[Trajectory], float]
    applies: Callable[[Trajectory], bool] = lambda trajectory: True


def terms_from(
    values: Callable[[Trajectory], Mapping[str, float]], bounds: Mapping[str, tuple[float, float, str]]
) -> tuple[Term, ...]:
    """Return a term for each name of `bounds` (low, high, doc); `values` gives those that apply to a turn, by name."""
    latest: tuple[Trajectory | None, Mapping[str, float]] = (None, {})  # all terms of a turn come from one reckoning

    def current(run: Trajectory) -> Mapping[str, float]:
        """Return the terms that apply to a trajectory's newest turn, computed once."""
        nonlocal latest
        if (cached := latest)[0] is not run:  # taken once: threads that share the spec may replace it
            cached = latest = (run, values(run))
        return cached[1]

    def term(name: str, low: float, high: float, doc: str) -> Term:
        """Return the term of a name."""
        return Term(name, low, high, doc, _Part(name, current), lambda run: name in current(run))

    return tuple(term(name, *row) for name, row in bounds.items())


@dataclass(frozen=True, slots=True)
class _Part:
    """The value of one of the terms that `current` gives together; 0 where it does not apply."""

    name: str
    current: Callable[[Trajectory], Mapping[str, float]]

    def __call__(self, run: Trajectory) -> float:
        return self.current(run).get(self.name, 0.0)


class Share(float):
    """A metric's value from 0 to 1 that reports print in per cent: of a yes-or-no question 0 or 1."""


@dataclass(slots=True)  # read once and not kept, as `Outcome`
class Reward:
    """A step's reward: the total is the sum of the terms."""

    total: float
    terms: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class RewardSpec:
    """A reward under a name. `episode` bounds the return of a whole episode."""

    name: str
    terms: tuple[Term, ...]
    episode: tuple[float, float]

    @cached_property
    def _together(self) -> Callable[[Trajectory], Mapping[str, float]] | None:
        """What gives all terms of a turn by their names; None where they have to be asked one by one."""
        current: Any = getattr(self.terms[0].value, "current", None) if self.terms else None
        return current if all(term.value == _Part(term.name, current) for term in self.terms) else None

    def __call__(self, trajectory: Trajectory) -> Reward:
        """Return the reward of the newest turn: the sum of its terms; AssertionError for a term outside its bounds."""
        total = 0.0
        rows: list[tuple[str, float]] = []  # `list[...]()` would cost as much as a term
        values = None if self._together is None else self._together(trajectory)
        for term in self.terms:
            value = float(term.value(trajectory) if values is None else values.get(term.name, 0.0))
            if not term.low <= value <= term.high:
                raise AssertionError(f"reward term {term.name} gave {value}, outside [{term.low}, {term.high}]")
            rows.append((term.name, value))
            total += value
        return Reward(total, tuple(rows))

    def terms_by_turn(self, trajectory: Trajectory) -> list[dict[str, float | None]]:
        """Return the recorded terms of each turn by name, None for a 0 of one that does not apply; the task is there."""
        rows = list[dict[str, float | None]]()
        for end, turn in enumerate(trajectory.turns, 1):
            until = replace(trajectory, turns=trajectory.turns[:end])
            idle = {term.name for term in self.terms if not term.applies(until)}
            rows.append({name: None if name in idle and not value else value for name, value in turn.terms})
        return rows

    def sums(self, trajectory: Trajectory) -> dict[str, float | None]:
        """Return each term summed over an episode's turns, None for one that applies to no turn; the task is there."""
        sums = dict[str, float | None]()
        for name, value in (pair for row in self.terms_by_turn(trajectory) for pair in row.items()):
            sums[name] = (sums.get(name) or 0.0) + value if value is not None else sums.get(name)
        return sums

    @property
    def low(self) -> float:
        """The least reward of a step."""
        return _sum_in_order(term.low for term in self.terms)

    @property
    def high(self) -> float:
        """The greatest reward of a step."""
        return _sum_in_order(term.high for term in self.terms)

    def describe(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        rows = [{"name": term.name, "low": term.low, "high": term.high, "doc": term.doc} for term in self.terms]
        return {"name": self.name, "terms": rows, "step": [self.low, self.high], "episode": list(self.episode)}

    @property
    def digest(self) -> str:
        """sha256 of the declaration."""
        return digest(self.describe())


def _sum_in_order(values: Iterable[float]) -> float:
    """Add from left to right: `sum` rounds otherwise from Python 3.12 on, and digests of declarations would differ."""
    return reduce(add, values, 0)


@state_type
@dataclass(frozen=True, slots=True, weakref_slot=True)  # as `serialization.cached_text` asks
class Episode:
    """All that changes in an episode. `state` is the family's own immutable value."""

    task: Task
    header: Header
    prompt: tuple[Message, ...]
    state: Any
    turns: tuple[Turn, ...] = ()
    success: bool = False

    @property
    def key(self) -> str:
        """The episode key, under which outside samples are drawn."""
        return self.header.episode_key

    def trajectory(self, *draft: Turn) -> Trajectory:
        """Return the episode so far, and a turn that is being taken, as a trajectory with its task."""
        return Trajectory(self.header, self.prompt, self.turns + draft, self.task, self.success)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.turns) and (self.turns[-1].terminated or self.turns[-1].truncated)


@dataclass(slots=True)  # read once and not kept: to freeze it costs most of a microsecond
class Outcome:
    """The result of one action in a family. `terminated` is the task's end, `truncated` a limit's."""

    state: Any
    parsed: Parsed | None
    observation: tuple[Message, ...] = ()
    results: tuple[ToolResult, ...] = ()
    events: tuple[str, ...] = ()
    terminated: bool = False
    truncated: bool = False
    success: bool = False


def extend_episode(
    episode: Episode, action: Any, outcome: Outcome, spec: RewardSpec, max_turns: int, notes: tuple[str, ...]
) -> Episode:
    """Return the episode with one more turn, rewarded; unless terminated, `max_turns` or the outcome may truncate it."""
    index, ended = len(episode.turns) + 1, outcome.terminated
    cut = not ended and (outcome.truncated or index >= max_turns)
    turn = Turn(
        index, episode.header.origin, action, outcome.parsed, outcome.observation, outcome.results, 0.0, (), ended, cut,
        notes + outcome.events,
    )  # fmt: skip
    drafted = Trajectory(episode.header, episode.prompt, (*episode.turns, turn), episode.task, episode.success)
    reward = spec(drafted)
    # Nobody but the reward has seen this turn yet, so it may still be completed; a second one would cost microseconds.
    object.__setattr__(turn, "reward", reward.total)
    object.__setattr__(turn, "terms", reward.terms)
    return Episode(episode.task, episode.header, episode.prompt, outcome.state, drafted.turns, outcome.success)


def legal_text(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text that is parsed and recorded, and what was changed: the length is capped, lone surrogates replaced."""
    if type(text) is str and text.isascii() and len(text) <= MAX_ACTION_CHARACTERS:
        return text, ()
    text, notes = cut_text(str(text), MAX_ACTION_CHARACTERS)
    if not text.isascii():
        clean = text.encode("utf-8", "replace").decode("utf-8")
        if clean != text:
            text, notes = clean, (*notes, _REPLACED)
    return text, notes


def cut_text(text: str, most: int) -> tuple[str, tuple[str, ...]]:
    """Return at most so many characters of a text, and the note that says so where it was cut."""
    return (text, ()) if len(text) <= most else (text[:most], (f"{_CUT}{most} of {len(text)} characters",))


def border_notes(events: tuple[str, ...]) -> tuple[str, ...]:
    """Return the events that `legal_text` and `cut_text` wrote: the recorded text, stepped again, repeats all but these."""
    return tuple(event for event in events if event == _REPLACED or event.startswith(_CUT))
