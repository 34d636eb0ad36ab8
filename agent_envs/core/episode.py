"""An episode is one immutable value, and each turn extends it to a new one."""

from dataclasses import dataclass
from typing import Any

from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Parsed
from agent_envs.base.serialization import state_type
from agent_envs.core.rewards import RewardSpec
from agent_envs.core.trajectory import Header, Task, Trajectory, Turn

MAX_ACTION_CHARACTERS = 1_000_000
_CUT = "action cut to "
_REPLACED = "lone surrogates replaced by ?"


@state_type
@dataclass(frozen=True, slots=True, weakref_slot=True)  # as `serialization.kept_text` asks
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
    """What a family makes of one action. `terminated` is the task's end, `truncated` a limit's."""

    state: Any
    parsed: Parsed | None
    observation: tuple[Message, ...] = ()
    results: tuple[ToolResult, ...] = ()
    events: tuple[str, ...] = ()
    terminated: bool = False
    truncated: bool = False
    success: bool = False


def extended(
    episode: Episode, action: Any, outcome: Outcome, spec: RewardSpec, max_turns: int, notes: tuple[str, ...]
) -> Episode:
    """Return the episode with one more turn, rewarded; truncated when it was the last of `max_turns`."""
    index, ended = len(episode.turns) + 1, outcome.terminated
    cut = not ended and (outcome.truncated or index >= max_turns)
    turn = Turn(
        index, episode.header.origin, action, outcome.parsed, outcome.observation, outcome.results, 0.0, (), ended, cut,
        notes + outcome.events,
    )  # fmt: skip
    drafted = episode.trajectory(turn)
    reward = spec(drafted)
    # Nobody but the reward has seen this turn yet, so it may still be completed; a second one would cost microseconds.
    object.__setattr__(turn, "reward", reward.total)
    object.__setattr__(turn, "terms", reward.terms)
    return Episode(episode.task, episode.header, episode.prompt, outcome.state, drafted.turns, outcome.success)


def legal_text(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text that is parsed and recorded, and what was changed: the length is capped, lone surrogates replaced."""
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
