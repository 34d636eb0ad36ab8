"""A third party's environment: guess a number. Small enough to reason about, with every feature that the contract has."""

import random
from dataclasses import dataclass, replace

import gymnasium as gym

from agent_envs import Message, RewardSpec, Task, Term, ToolResult, TurnEnv, UsageError, register_companions
from agent_envs.base.protocol import Answer, Call, TagProtocol
from agent_envs.base.serialization import digest, state_type
from agent_envs.base.tool_schema import tool
from agent_envs.core.env import Episode, Outcome

ID, TRIES = "toy/Guess-v0", "toy/Tries-v0"
PROTOCOL = TagProtocol({"compare": ("compare", "number"), "luck": ("luck", "wish")})


@state_type
@dataclass(frozen=True, slots=True)
class GuessState:
    """Which hints were given, and how many draws of luck were taken."""

    hints: tuple[tuple[int, str], ...] = ()
    draws: int = 0


class Numbers:
    """Ten tasks a split."""

    name = "numbers"
    splits = ("train", "dev", "test")
    digest = ""

    def size(self, split: str) -> int:
        return 10

    def get(self, split: str, key: int | str) -> Task:
        ids = [f"{split}-{index}" for index in range(10)]
        index = ids.index(key) if key in ids else key
        if not isinstance(index, int) or not 0 <= index < 10:
            raise KeyError(key)
        number = random.Random(f"numbers:{split}:{index}").randint(1, 100)
        question = "I think of a whole number from 1 to 100. Which?"
        return Task(f"{split}-{index}", split, question, (str(number),), cluster=split, hidden=number)


@tool
def compare(number: int) -> str:
    """Compare a number with the secret.

    Args:
        number: what to compare.
    """
    return str(number)


def _correct(trajectory) -> float:
    parsed = trajectory.last.parsed
    return float(isinstance(parsed, Answer) and parsed.text in trajectory.task.gold)


def _cost(trajectory) -> float:
    return -0.0625 if trajectory.last.results else 0.0


REWARD = RewardSpec(
    "guess",
    (
        Term("correct", 0.0, 1.0, "1 for the number", _correct),
        Term("cost", -0.0625, 0.0, "each hint costs a sixteenth", _cost),
    ),
    episode=(-1.0, 1.0),
)


class Guess(TurnEnv):
    """Guess a number: `<compare>50</compare>` gives a hint, `<luck>wish</luck>` a draw, `<answer>50</answer>` ends."""

    stop = PROTOCOL.stop
    answer_tags = ("<answer>", "</answer>")

    def __init__(
        self,
        *,
        turns: int = 9,
        offer_tools: bool = False,
        words: tuple[str, ...] | list[str] = ("higher", "lower"),
        clue: object = None,
        render_mode: str | None = None,
    ) -> None:
        if turns < 1:
            raise UsageError(f"Guess: turns={turns!r}; give a whole number >= 1")
        self.render_mode = render_mode
        self.source, self.reward_spec, self.max_turns = Numbers(), REWARD, turns
        self.words = tuple(words)
        self.tools = (compare.schema(),) if offer_tools else ()

    def _begin(self, task: Task, key: str) -> tuple[GuessState, tuple[Message, ...]]:
        rules = Message("system", "Guess the number.", "environment")
        return GuessState(), (rules, Message("user", task.question, "environment"))

    def _advance(self, episode: Episode, action: str) -> Outcome:
        parsed = PROTOCOL.parse(action)
        if isinstance(parsed, Answer):
            success = parsed.text in episode.task.gold
            text = "Right." if success else f"No, it was {episode.task.hidden}."
            said = (Message("user", text, "environment"),)
            return Outcome(episode.state, parsed, said, terminated=True, success=success)
        if isinstance(parsed, Call):
            return self._hint(episode, parsed)
        said = (Message("user", "Say <compare>, <luck> or <answer>.", "environment"),)
        return Outcome(episode.state, parsed, said, events=(parsed.reason,))

    def _hint(self, episode: Episode, call: Call) -> Outcome:
        state: GuessState = episode.state
        wanted = call.calls[0]
        if wanted.name == "luck":
            sample = digest([episode.key, episode.header.branch, state.draws])[:8]
            return self._told(replace(state, draws=state.draws + 1), call, f"luck: {sample}")
        text = wanted.arguments.removeprefix('{"number":"').removesuffix('"}')
        if not (text.isascii() and text.isdigit() and len(text) < 4):
            return self._told(state, call, "no number", error=True)
        number, secret = int(text), episode.task.hidden
        word = self.words[0] if secret > number else self.words[1] if secret < number else "equal"
        return self._told(replace(state, hints=(*state.hints, (number, word))), call, f"{number}: {word}")

    @staticmethod
    def _told(state: GuessState, call: Call, text: str, error: bool = False) -> Outcome:
        result = ToolResult("call_0", call.calls[0].name, text, error)
        events = (text,) if error else ()
        return Outcome(state, call, (Message("user", text, "tool"),), (result,), events)


class Tries(Guess):
    """A guessing game: a wrong answer is a try, and the episode goes on."""

    def _advance(self, episode: Episode, action: str) -> Outcome:
        outcome = super()._advance(episode, action)
        return outcome if outcome.success else replace(outcome, terminated=False)


def solver(env: gym.Env) -> str:
    """Answer with the gold."""
    return f"<answer>{env.unwrapped.episode.task.gold[0]}</answer>"


def sampler(env: gym.Env, rng: random.Random) -> str:
    """Compare or answer at random."""
    name = rng.choice(("compare", "compare", "luck", "answer"))
    return f"<{name}>{rng.randint(1, 100)}</{name}>"


def heuristic(request) -> str:
    """Halve the range by the hints seen."""
    low, high = 1, 100
    for message in request.messages:
        number, colon, word = message["content"].partition(": ")
        if colon and number.isdigit():
            low = max(low, int(number) + (word == "higher")) if word != "lower" else low
            high = min(high, int(number) - (word == "lower")) if word != "higher" else high
    middle = (low + high) // 2
    return f"<answer>{low}</answer>" if low >= high else f"<compare>{middle}</compare>"


register_companions(Guess, solver=solver, sampler=sampler, heuristic=heuristic)
gym.register(id=ID, entry_point="tests.toy:Guess")
gym.register(id=TRIES, entry_point="tests.toy:Tries")
