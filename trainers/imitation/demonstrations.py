"""Demonstrations are played by an environment's solver with deliberate flaws, which strike by chance, whatever the question.

What is learnt from them mixes good habits with bad ones, each at a rate that is known, and says nothing about when the
bad ones come: so reinforcement learning has something to sort out, and the means to.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import Unsolvable, UsageError
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.calculator.random_expressions import draw_expression, spelled
from agent_envs.envs.expa.calculator.scoring import MARK
from agent_envs.envs.expa.generated import CalcData
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.rollout.episode_runner import solve
from agent_envs.rollout.policy import CompanionPolicy, Request
from agent_envs.wrappers.turns import allowance
from trainers.environments import spread_task
from trainers.episode_agents import EpisodeAgent, spread_episode

KINDS = ("early", "hasty", "astray", "repeated", "malformed", "sampled", "detour")
OTHERS = 64
_LAST_TAG = re.compile(r"<(\w+)>((?:(?!</?\w+>).)*)</\1>(?!.*<\w+>)", re.DOTALL)


@dataclass(frozen=True)
class Flaws:
    """The chance, in every turn, of each thing done in place of what the solver would do. They sum to at most 1.

    Attributes:
        early: end the episode with the last action of another task's solution.
        hasty: answer with what the solver would look into next (the words that it shares with the last observation).
        astray: an action of another task's solution: a search for somebody else, a calculation of something else.
        repeated: the action of the turn before once more; nothing in the first turn.
        malformed: the right action without its tags or its label.
        sampled: an action of the environment's sampler.
        detour: of games, the solver's own words with another action of the list, which its thought names as well.
        silent: no share of a turn: in every episode, the chance that no tool is used and a guess is written at once.
        keep_plan: after a detour go on with the actions planned at the reset, where the solver counts what was done and
            would skip some; an episode that runs out of turns so ends with another task's answer. For environments
            whose actions only look things up.
    """

    early: float = 0.0
    hasty: float = 0.0
    astray: float = 0.0
    repeated: float = 0.0
    malformed: float = 0.0
    sampled: float = 0.0
    detour: float = 0.0
    silent: float = 0.0
    keep_plan: bool = False

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, chances that are negative or sum to more than 1."""
        chances = [getattr(self, kind) for kind in KINDS]
        if not all(0 <= chance <= 1 for chance in chances) or sum(chances) > 1 + 1e-9:
            raise UsageError(f"Flaws: chances are >= 0 and sum to at most 1, not {chances}")
        if not 0 <= self.silent <= 1:
            raise UsageError(f"Flaws: silent={self.silent}: give a chance from 0 to 1")

    def draw(self, rng: random.Random) -> str:
        """Return the flaw of a turn, "" for none."""
        return draw_flaw(rng, {kind: getattr(self, kind) for kind in KINDS})


def draw_flaw(rng: random.Random, chances: Mapping[str, float]) -> str:
    """Return a flaw by its chance, "" for none."""
    left = rng.random()
    for kind, chance in chances.items():
        left -= chance
        if left < 0:
            return kind
    return ""


SEARCH_FLAWS = Flaws(early=0.05, hasty=0.5, astray=0.02, repeated=0.03, malformed=0.05, keep_plan=True)
TOOL_FLAWS = Flaws(early=0.04, repeated=0.03, malformed=0.03, sampled=0.06)

_LAST_LABEL = re.compile(r"ACTION: ?(?!.*ACTION:)", re.DOTALL)


def demonstrations(
    env: gym.Env[Any, Any],
    count: int,
    flaws: Flaws | None = None,
    *,
    split: str = "train",
    seed: int = 0,
    first: int = 0,
) -> Iterator[Trajectory]:
    """Yield episodes of a split's tasks, the same ones for the same arguments. They are spread over many worlds.

    Args:
        env: a text environment whose class has a solver (and a sampler, for random actions).
        count: how many; where tasks have no end, no two are of one task.
        flaws: None for the solver as it is.
        split: where the tasks come from.
        seed: of the flaws.
        first: the number of the first task.
    """
    source = core_of(env).source
    flaws = flaws or Flaws()
    others = []
    borrowing = flaws.early or flaws.hasty or flaws.astray or flaws.keep_plan
    for number in range(first + count, first + count + (OTHERS if borrowing else 0)):
        env.reset(seed=number, options={"split": split, "task": spread_task(source, split, number)})
        others.append(tuple(str(action) for action in solve(env)))
    policy = flawed_policy(flaws, others, seed)
    for number in range(first, first + count):
        yield spread_episode(env, policy, split, number)


def flawed_policy(flaws: Flaws, others: Sequence[Sequence[str]], seed: int = 0) -> EpisodeAgent:
    """Return the solver with flaws: takes them, solutions of other tasks to borrow from, and the seed of all chances."""
    return EpisodeAgent("flawed", lambda env: _Demonstrator(flaws, others, seed, env).action)


class _Demonstrator:
    """One episode of the solver with flaws."""

    def __init__(self, flaws: Flaws, others: Sequence[Sequence[str]], seed: int, env: gym.Env[Any, Any]) -> None:
        """Set up the demonstrator with generators seeded by episode; a silent one guesses an answer from the start."""
        self._env, self._core = env, core_of(env)
        self._flaws, self._others = flaws, others
        self._rng = random.Random(f"flaws:{seed}:{self._core.episode.key}")
        self._solver = CompanionPolicy("solver", env)
        self._sampler: CompanionPolicy | None = None
        self._plan = [str(action) for action in solve(env)] if flaws.keep_plan else []
        rng = random.Random(f"silent:{seed}:{self._core.episode.key}")
        silent = rng.random() < flaws.silent
        self._guess = guess(self._core.episode.task.data, rng).strip() if silent else ""

    def action(self, request: Request) -> str:
        """Return a guess, a flawed action, else the solver's or the plan's next; in a plan's last turn another task's end."""
        if self._guess:
            return self._guess
        left, _ = allowance(self._env)
        flaw = self._flaws.draw(self._rng)
        if flaw:
            action = self._flawed_action(flaw, request)
            if action:
                return action
        if not self._flaws.keep_plan:
            return self._right_action(request)
        if left == 1 and len(self._plan) > 1:
            return self._borrow()[-1]
        return self._plan.pop(0) if len(self._plan) > 1 else self._plan[0]

    def _right_action(self, request: Request) -> str:
        """Return the next action of the kept plan, else the solver's; a sampled one where the task became unsolvable."""
        if self._plan:
            return self._plan[0]
        try:
            return str(self._solver.act([request])[0].action)
        except Unsolvable:  # flaws took the turns that its plan needed
            return self._sample_action(request)

    def _sample_action(self, request: Request) -> str:
        """Draw a random legal action; the sampler is made at its first use."""
        self._sampler = self._sampler or CompanionPolicy("random", self._env)
        return str(self._sampler.act([request])[0].action)

    def _borrow(self) -> Sequence[str]:
        """Draw another task's actions."""
        return self._rng.choice(self._others)

    def _flawed_action(self, kind: str, request: Request) -> str:
        """Return the flawed action; "" where this flaw has no place."""
        turns = self._core.episode.turns
        if kind == "early":
            return self._borrow()[-1]
        if kind == "astray":
            other = self._borrow()
            return other[max(0, min(len(turns), len(other) - 2))]
        if kind == "repeated":
            return str(turns[-1].action) if turns else ""
        if kind == "malformed":
            return without_tags(self._right_action(request))
        if kind == "sampled":
            return self._sample_action(request)
        if kind == "detour":
            names = [action.name for action in getattr(getattr(self._core, "game", None), "actions", ())]
            return with_another_action(self._right_action(request), names, self._rng)
        observation = " ".join(message.content for turn in turns[-1:] for message in turn.observation)
        return self._hasty(shared_words(self._right_action(request), observation))

    def _hasty(self, words: str) -> str:
        """Return an answer with these words in the form of another task's answer; "" where that does not fit."""
        before, after = self._core.answer_tags
        form = self._borrow()[-1]
        if not words or not before or before not in form or len(self._plan) == 1:
            return ""
        head, _, tail = form.partition(before)
        return f"{head}{before}{words}{after}{tail.partition(after)[2]}"


def without_tags(action: str) -> str:
    """Return an action's text without what makes it one: its last pair of tags, or the label or mark of an answer's line."""
    bare, count = _LAST_TAG.subn(r"\2", action)
    return bare if count else _LAST_LABEL.sub("", action.replace("####", "", 1), count=1)


def with_another_action(text: str, names: Sequence[str], rng: random.Random) -> str:
    """Return a turn with another action of a game than the one it names, also where the thought ends with it; "" for none.

    A turn that names none gives "".
    """
    action_name = next((name for name in names if text.endswith(f" {name}")), "")
    if not action_name:
        return ""
    other, thought = rng.choice([name for name in names if name != action_name]), text.removesuffix(action_name)
    return re.sub(rf"\b{re.escape(action_name)}(?=\.\n[^\n]*$)", other, thought) + other


def shared_words(one: str, other: str) -> str:
    """Return the longest run of words that two texts share, the first of equal ones; "" where they share none."""
    words, text = re.findall(r"\w+", one), " " + " ".join(re.findall(r"\w+", other)) + " "
    best: list[str] = []
    for start in range(len(words)):
        for stop in range(start + len(best) + 1, len(words) + 1):
            if f" {' '.join(words[start:stop])} " not in text:
                break
            best = words[start:stop]
    return " ".join(best)


def guess(data: Any, rng: random.Random) -> str:
    """Return an answer to a task of this public content from nothing but chance; "" where none is written."""
    if isinstance(data, SortData):
        return f"<answer>A {rng.choice('<>')} B</answer>" if data.kind == "compare" else ""
    if not isinstance(data, CalcData):
        return ""
    if data.kind == "count":
        return f"\n{MARK} {rng.randrange(4)}"
    if data.kind != "countdown":
        return f"\n{MARK} {rng.choice(data.given or ('1',))}"
    numbers = [int(number) for number in data.given]
    rng.shuffle(numbers)
    first, operator, second = draw_expression(rng.random, numbers)
    return f"\n{MARK} {spelled([*first, operator, *second])}"
