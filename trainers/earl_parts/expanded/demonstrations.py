"""Demonstrations for ids with expanded actions show a good player that errs by chance, never by what is hidden.

They are the twin of `trainers.imitation.demonstrations` for actions that are no text. Chance decides wherever language is
active, before a call, an answer or the end, so that no call is left half done. For sorting there are players that sort well and
waste calls, whose imitation leaves reinforcement something to improve; for every id there is one that uses no tool at all.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.envs.expa.actions import END, LANGUAGE
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, Moves, able_sizes
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import Pair, closure, known_order, minimal_swaps
from agent_envs.envs.expa.sorting.solver import known_relations
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.rollout.policy import CompanionPolicy, Request
from trainers.episode_agents import EpisodeAgent
from trainers.imitation.demonstrations import draw_flaw, guess

KINDS = ("early", "repeated", "sampled")
STRATEGIES = ("solver", "fixed_order", "mixture")


@dataclass(frozen=True)
class ExpandedFlaws:
    """Chances of flaws, and the strategy where none strikes. `early`, `repeated` and `sampled` sum to at most 1.

    Attributes:
        early: in every decision, the chance to end the episode as it stands.
        repeated: the call before once more; nothing before the first call.
        sampled: a random call: a tool that may be entered, random legal actions in it, followed to its exit.
        silent: in every episode, the chance that no tool is used: a guess is written at once, and the episode ends.
            A guess at Countdown is a random expression of the given numbers, each once.
        strategy: `solver`; for sorting also `fixed_order` and `mixture`.
        skip: of fixed_order, which compares AB, AC, AD, ..., BC, BD, ...: the chance that a comparison whose outcome is
            known is left out, each by itself.
        fewest_swaps: of fixed_order, in every episode: the chance of the fewest swaps; else neighbours are swapped.
        algorithms: of mixture: names of `agent_envs.envs.expa.sorting.algorithms.ALGORITHMS` and their weights, one drawn for
            every episode among those that are for the task's number of items.
    """

    early: float = 0.0
    repeated: float = 0.0
    sampled: float = 0.0
    silent: float = 0.0
    strategy: str = "solver"
    skip: float = 0.5
    fewest_swaps: float = 0.5
    algorithms: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, chances out of their range and unknown names."""
        chances = {name: getattr(self, name) for name in (*KINDS, "silent", "skip", "fewest_swaps")}
        for name, chance in chances.items():
            if type(chance) not in (int, float) or not 0 <= chance <= 1:
                raise UsageError(f"ExpandedFlaws: {name}={chance!r}: give a chance from 0 to 1")
        if sum(chances[name] for name in KINDS) > 1 + 1e-9:
            raise UsageError(f"ExpandedFlaws: {', '.join(KINDS)} sum to at most 1")
        if self.strategy not in STRATEGIES:
            raise UsageError(f"ExpandedFlaws: strategy={self.strategy!r}: use {', '.join(STRATEGIES)}")
        if (self.strategy == "mixture") != bool(self.algorithms):
            raise UsageError("ExpandedFlaws: algorithms belong to strategy='mixture', which needs some")
        for name, weight in self.algorithms:
            able_sizes(name)
            if type(weight) not in (int, float) or not 0 < weight < float("inf"):
                raise UsageError(f"ExpandedFlaws: algorithms: {name} has weight {weight!r}; give a number above 0")

    def draw(self, rng: random.Random) -> str:
        """Return the flaw of a decision, "" for none."""
        return draw_flaw(rng, {kind: getattr(self, kind) for kind in KINDS})


def expanded_flaws_of(text: str) -> ExpandedFlaws:
    """Return the flaws of a setting: "none", or a JSON object of ExpandedFlaws' fields; UsageError for anything else.

    Raises:
        UsageError: it is none.
    """
    try:
        fields = {} if text == "none" else json.loads(text)
        if isinstance(fields.get("algorithms"), dict):
            fields["algorithms"] = tuple(fields["algorithms"].items())
        return ExpandedFlaws(**fields)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"flaws={text!r}: none, or a JSON object of the fields of ExpandedFlaws: {error}") from None


def fixed_order(n: int, rng: random.Random, skip: float, fewest_swaps: float) -> Moves:
    """Yield comparisons of pairs in order, known ones left out by chance, then swaps: by chance fewest, else neighbours'."""
    thrifty = rng.random() < fewest_swaps
    outcomes: set[Pair] = set()
    for one, other in combinations(range(n), 2):
        if {(one, other), (other, one)} & closure(outcomes) and rng.random() < skip:
            continue
        outcomes.add((one, other) if (yield "compare", one, other) else (other, one))
    target = known_order(n, outcomes)
    for one, other in minimal_swaps(tuple(range(n)), target) if thrifty else neighbour_swaps(target):
        yield "swap", one, other


def neighbour_swaps(target: tuple[int, ...]) -> Iterator[Pair]:
    """Yield the swaps of neighbours by which bubble sort gets from the order 0..n-1 to another one."""
    order = list(range(len(target)))
    for end in range(len(order) - 1, 0, -1):
        for place in range(end):
            one, other = order[place : place + 2]
            if target.index(one) > target.index(other):
                yield one, other
                order[place : place + 2] = other, one


MOST_SAMPLED = 9  # keys of a sampled call, before it is brought to its end; a sorting call has two


def flawed_player(flaws: ExpandedFlaws, seed: int = 0) -> EpisodeAgent:
    """Return the player with these flaws; the seed is that of all episodes' chances.

    It plays environments with expanded actions whose class has a solver; in others, and where the strategy is not for a task,
    the beginning of an episode raises UsageError.
    """
    return EpisodeAgent("flawed", lambda env: _Player(flaws, seed, env).action)


class _Player:
    """One episode of the player with flaws."""

    def __init__(self, flaws: ExpandedFlaws, seed: int, env: gym.Env[Any, Any]) -> None:
        """Set up the player with its generators, seeded by episode; a silent one plans a guessed answer and `end` at once."""
        core = core_of(env)
        if not isinstance(core, ExpandedActionEnv):
            raise UsageError(
                f"{core.env_id} has no expanded actions; its demonstrations are trainers.imitation.demonstrations'"
            )
        self._core, self._flaws, self._solver = core, flaws, CompanionPolicy("solver", env)
        self._rng = random.Random(f"flaws:{seed}:{core.episode.key}")
        self._moves = self._strategy(random.Random(f"strategy:{seed}:{core.episode.key}"))
        self._pair: Pair | None = None  # the comparison whose answer the strategy waits for
        self._planned: list[str | int] = []
        self._call: list[int] = []
        self._random_keys = 0
        self._silent = self._rng.random() < flaws.silent
        if self._silent:
            text = guess(core.episode.task.data, self._rng)
            self._planned = [text, END] if text else [END]

    def _strategy(self, rng: random.Random) -> Moves | None:
        """Return the moves of a strategy: None for the solver's, a fixed order, or a drawn algorithm; UsageError if unfit."""
        data, flaws = self._core.episode.task.data, self._flaws
        if flaws.strategy == "solver":
            return None
        if not isinstance(data, SortData) or data.kind != "sort":
            raise UsageError(f"{self._core.env_id}: strategy={flaws.strategy!r} is for sorting tasks: the id SortExpA")
        if flaws.strategy == "fixed_order":
            return fixed_order(data.size, rng, flaws.skip, flaws.fewest_swaps)
        able = [row for row in flaws.algorithms if data.size in able_sizes(row[0])]
        if not able:
            raise UsageError(f"{self._core.env_id}: none of the mixture's algorithms is for {data.size} items")
        names, weights = zip(*able, strict=True)
        return ALGORITHMS[rng.choices(names, weights)[0]](data.size)

    def action(self, request: Request) -> str | int:
        """Return the next step: a planned one, a decision in language, a random key, or the solver's."""
        in_language = self._core.episode.state.active == LANGUAGE
        if self._planned:
            action = self._planned.pop(0)
        elif in_language:
            action = self._decide(request)
        elif self._random_keys:
            self._random_keys -= 1
            action = self._rng.choice(self._core.legal_actions())
        else:
            action = self._solver.act([request])[0].action
        if isinstance(action, int) and action != END:
            self._call = [action] if in_language else [*self._call, action]
        return action

    def _decide(self, request: Request) -> str | int:
        """Return the next step in language (end, repeat, random route, strategy's or solver's) and plan what follows it."""
        self._random_keys = 0
        flaw = self._flaws.draw(self._rng)
        if flaw == "early":
            return END
        if flaw == "repeated" and self._call:
            self._planned = list(self._call[1:])
            return self._call[0]
        if flaw == "sampled":
            self._random_keys = self._rng.randint(2, MOST_SAMPLED)
            return self._rng.choice([action for action in self._core.legal_actions() if action != END])
        return self._next_of_strategy() or self._solver.act([request])[0].action

    def _next_of_strategy(self) -> int:
        """Return the tool of the strategy's next call and plan the rest of it; 0 where the solver is to finish.

        It finishes, too, what calls between those of the strategy have put out of order.
        """
        if self._moves is None:
            return 0
        answer = None
        if self._pair is not None:
            answer = (self._pair in known_relations(self._core.trajectory)) != self._core.episode.task.data.descending
        try:
            name, one, other = self._moves.send(answer)
        except StopIteration:
            self._moves = None
            return 0
        self._pair = (one, other) if name == "compare" else None
        self._planned = [self._core.id_of(SYMBOLS[one]), self._core.id_of(SYMBOLS[other])]
        return self._core.id_of(name)
