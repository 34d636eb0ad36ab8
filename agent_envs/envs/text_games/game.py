"""`TextGame` is the environment that puts words around a game, whose rules are functions on immutable states.

A `Game` says what may be done, what comes of it and how a state reads; `TextGame` adds prompt, parser, feedback on invalid
actions, limits and typed turns. BabyAI, Baba Is AI, Crafter and every adapted Gymnasium environment are games in this sense.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import gymnasium as gym

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.dialects import action_name
from agent_envs.base.errors import Unsolvable, UsageError
from agent_envs.base.messages import Message
from agent_envs.base.protocol import LabelProtocol, Malformed, Say
from agent_envs.core import pages
from agent_envs.core.env import Episode, Outcome, Task, TaskSource, TurnEnv
from agent_envs.envs.text_games.scoring import REWARDS, TurnFacts, facts_of, reward_of, typed

paged = pages.paged(__package__, "page.md", "page")  # decorates the classes whose pages are in page.md
PROTOCOL = LabelProtocol("ACTION:")
_parse = lru_cache(maxsize=8)(PROTOCOL.parse)  # a turn is read twice: to be tolerated, and to be played
ON_INVALID = ("default", "end")
PROMPT_ROLES = ("system", "user")
MAX_NAME_CHARACTERS = 200
_EDGE = r"[\s\"'`*_.,;:!()\[\]<>\u2018\u2019\u201c\u201d-]+"
_EDGES = re.compile(f"^{_EDGE}|{_EDGE}$")


@dataclass(frozen=True, slots=True)
class Action:
    """An action that a policy may name.

    Attributes:
        name: in lower case, as the prompt shows it.
        doc: what it does, in a few words.
        aliases: other names that are understood, in lower case.
    """

    name: str
    doc: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of an action.

    Attributes:
        state: after it.
        reward: of this step, by the game's own rule.
        progress: of the episode so far, from 0 to 1, by the game's own measure.
        terminated: the game is over, won or lost.
        success: it is won.
        truncated: a limit of the game's own is reached.
        notes: lines shown above the next description.
    """

    state: Any
    reward: float = 0.0
    progress: float = 0.0
    terminated: bool = False
    success: bool = False
    truncated: bool = False
    notes: tuple[str, ...] = ()


class Game(Protocol):
    """Rules. An object of this kind holds nothing that changes; its states are immutable and fit for snapshots.

    A game that derives from this class has `state.limit` turns, and all actions are legal, unless it says otherwise.

    Attributes:
        actions: what may be done, in the order of their numbers.
        default: the number of the action that stands in for an invalid one.
        prompt: the instructions, with the slots `{goal}`, `{actions}` and `{format}`.
        most_turns: the greatest limit of the game's own.
        native: the bounds of `Moved.reward` in one step.
        native_episode: the bounds of its sum over an episode.
    """

    actions: tuple[Action, ...]
    default: int
    prompt: str
    most_turns: int
    native: tuple[float, float]
    native_episode: tuple[float, float]

    def begin(self, task: Task, limit: int) -> Any:
        """Return the first state; `limit` is how many turns the episode may have, 0 for the game's own limit."""
        ...

    def limit(self, state: Any) -> int:
        """Return the turn limit of the episode of a state."""
        return int(state.limit)

    def goal(self, state: Any) -> str:
        """Return the goal as a phrase that fits behind `Your goal is to `, without a full stop."""
        ...

    def move(self, state: Any, action: int) -> Moved:
        """Apply an action. The given state is not changed."""
        ...

    def describe(self, state: Any, /) -> str:
        """Describe a state for the policy."""
        ...

    def legal(self, state: Any) -> Sequence[int]:
        """Return the actions that a random player draws from."""
        return range(len(self.actions))

    def picture(self, state: Any, /) -> str:
        """Return a state as the text of an SVG."""
        ...

    def drawing(self, state: Any, /) -> str:
        """Return a state as plain text for a terminal."""
        ...


def of_part(part: str, read: Callable[[Any], str]) -> Any:
    """Return a method of a game that reads one part of a state, such as `describe` of the inner game's state."""
    return staticmethod(lambda state: read(getattr(state, part)))


def numbered(owner: str, actions: Sequence[Action]) -> dict[str, int]:
    """Return the action's number for each name and alias; UsageError where one word stands for two actions.

    Raises UsageError: one word stands for two actions.
    """
    numbers: dict[str, int] = {}
    for number, action in enumerate(actions):
        for word in (action.name, *action.aliases):
            if numbers.setdefault(word, number) != number:
                raise UsageError(
                    f"{owner}: {word!r} names two actions, {actions[numbers[word]].name!r} and {action.name!r}"
                )
    return numbers


def in_steps(*ways: tuple[int, str, str]) -> str:
    """Return a distance in words, `2 steps left and 1 step up`, from (count, name, name backwards); "" where all are 0."""
    parts = (
        f"{abs(count)} step{'s' if abs(count) > 1 else ''} {forth if count > 0 else back}"
        for count, forth, back in ways
        if count
    )
    return " and ".join(parts)


class TextGame(TurnEnv):
    """Base of the ids of this family. One turn is one action by its name, behind `ACTION:`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "svg"], "render_fps": 1}  # type: ignore[misc]
    standing = 1  # how many messages of the reset are instructions; what follows them is an observation like any other
    written = PROTOCOL
    game: Game

    def play_game(
        self, game: Game, source: TaskSource, *, max_turns: int | None, reward: str, on_invalid: str, prompt_role: str
    ) -> None:
        """Set up rules, tasks and the arguments of all games (see `TextAdapter`); UsageError for bad ones; begins nothing."""
        name = type(self).__name__
        self.game, self.source = game, source
        self._limit = 0 if max_turns is None else whole_number(name, "max_turns", max_turns, high=1_000_000)
        self.max_turns = self._limit or game.most_turns
        self.reward_spec = reward_of(
            choice(name, "reward", reward, REWARDS), game.native, game.native_episode, self.max_turns
        )
        self._on_invalid = choice(name, "on_invalid", on_invalid, ON_INVALID)
        self._role = choice(name, "prompt_role", prompt_role, PROMPT_ROLES)
        self._numbers = numbered(name, game.actions)
        self.example_turn = self.say(game.default)

    def drawing(self) -> str:
        """Return the state as plain text, for a person at a terminal."""
        return self.game.drawing(self.episode.state)

    def say(self, action: int, thought: str = "") -> str:
        """Return the turn that takes an action by its number, behind a thought if one is given."""
        line = f"{PROTOCOL.label} {self.game.actions[action].name}"
        return f"THINK: {thought}\n{line}" if thought else line

    def action_of(self, text: str) -> tuple[int | None, Say | Malformed]:
        """Return the number of the action that a turn names and the turn as read; (None, Malformed) if it names none."""
        parsed = _parse(text)
        if not isinstance(parsed, Say):
            return None, parsed if isinstance(parsed, Malformed) else Malformed("no action found")
        number = self._numbers.get(_plain_name(parsed.text[:MAX_NAME_CHARACTERS]))
        if number is None:
            names = ", ".join(action.name for action in self.game.actions)
            return None, Malformed(f"{_shorten(parsed.text)!r} is no action; name one of {names}")
        return number, parsed

    def _tolerate(self, episode: Episode, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a turn whose line is no action as the longest action name it begins with, and a note; others unchanged."""
        if self.action_of(text)[0] is not None or not isinstance(line := _parse(text), Say):
            return text, ()
        name = action_name(line.text, self._numbers)
        note = f"tolerated: {_shorten(line.text)!r} was read as {name}"
        return (f"{PROTOCOL.label} {name}", (note,)) if name else (text, ())

    def _begin(self, task: Task, key: str) -> tuple[Any, tuple[Message, ...]]:
        """Return a task's first state and the first messages: the prompt with its slots filled, and the description."""
        state = self.game.begin(task, self._limit)
        slots = {
            "{goal}": self.game.goal(state),
            "{actions}": "\n".join(
                f"- {action.name}: {action.doc}" if action.doc else f"- {action.name}" for action in self.game.actions
            ),
            "{format}": FORMAT.format(default=self.game.actions[self.game.default].name),
        }
        text = re.sub("|".join(map(re.escape, slots)), lambda slot: slots[slot[0]], self.game.prompt.strip())
        instructions = Message("system" if self._role == "system" else "user", text, "environment")
        return state, (instructions, _observation(self.game.describe(state)))

    def restate(self, episode: Episode) -> str:
        """Return the goal."""
        return f"Your goal is to {self.game.goal(episode.state)}."

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Play the action that a turn names; an invalid turn plays the default one, or ends the episode (`on_invalid`)."""
        number, parsed = self.action_of(action)
        game, state = self.game, episode.state
        events: tuple[str, ...] = (parsed.reason,) if isinstance(parsed, Malformed) else ()
        if number is None and self._on_invalid == "end":
            note = f"The episode ends here: {events[0]}."
            progress = facts_of(episode.turns[-1]).progress if episode.turns else 0.0
            facts = TurnFacts("", True, 0.0, progress, False)
            return Outcome(state, parsed, (_observation(note),), (typed(facts),), events, terminated=True)
        performed = game.actions[game.default if number is None else number]
        moved = game.move(state, game.default if number is None else number)
        index = len(episode.turns) + 1
        truncated = not moved.terminated and (moved.truncated or index >= game.limit(moved.state))
        notes = (f"{self.teach(episode, events[0])}\nInstead you did: {performed.name}.",) if events else ()
        lines = (*notes, *moved.notes, game.describe(moved.state))
        facts = TurnFacts(performed.name, bool(events), moved.reward, moved.progress, moved.success)
        return Outcome(
            moved.state,
            parsed,
            (_observation("\n".join(filter(None, lines))),),
            (typed(facts),),
            events,
            terminated=moved.terminated,
            truncated=truncated,
            success=moved.success,
        )

    def _extras(self, episode: Episode) -> dict[str, Any]:
        """Return `turns_left`, by the lower of the state's limit and the environment's; 0 once the episode is over."""
        left = min(self.game.limit(episode.state), self.max_turns) - len(episode.turns)
        return {"turns_left": 0 if episode.over else left}

    def _picture(self, episode: Episode) -> str:
        """Return the game's drawing of the state."""
        return self.game.picture(episode.state)


def random_action(env: gym.Env[Any, Any], rng: random.Random) -> str:
    """Return a turn with any of the legal actions, each as likely as the others."""
    core: Any = env.unwrapped
    return core.say(rng.choice(core.game.legal(core.episode.state)))  # type: ignore[no-any-return]


def core_in_play(env: gym.Env[Any, Any], game_class: str) -> TextGame:
    """Return the `TextGame` at the core of a stack; UsageError where it is no `game_class`, Unsolvable once it is over.

    Raises:
        UsageError: it is no such game.
        Unsolvable: the episode is over.
    """
    core = env.unwrapped
    if not isinstance(core, TextGame) or game_class not in [base.__name__ for base in type(core).__mro__]:
        raise UsageError(f"{game_class}'s solver plays {game_class}, not {env.spec.id if env.spec else core!r}")
    if core.episode.over:
        raise Unsolvable(f"{core.env_id}: the episode is over")
    return core


FORMAT = """\
Answer every observation in this form:
THINK: what you see, what you still have to do, and which step comes next
ACTION: the name of one action from the list, and nothing behind it
A turn whose action is not in the list counts as `{default}`, unless invalid turns end the episode."""


def _observation(text: str) -> Message:
    """Return a text as a message from the environment."""
    return Message("user", text, "environment")


@lru_cache(maxsize=64)  # turns name few actions
def _plain_name(text: str) -> str:
    """Return the name of an action in lower case, without signs at its ends, words one blank apart; cached."""
    return " ".join(_EDGES.sub("", text.lower()).replace("_", " ").split())


def _shorten(text: str) -> str:
    """Return a text, cut after 60 characters."""
    return text if len(text) <= 60 else text[:60] + "..."
