"""Demonstrations for ids with expanded actions show a good player that errs by chance, never by what is hidden.

They are the twin of `trainers.imitation.demonstrations` for actions that are no text. Chance decides wherever language is
active, before a call, an answer or the end, so that no call is left half done. For sorting there are players that sort well and
waste calls, whose imitation leaves reinforcement something to improve; for every id there is one that uses no tool at all.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.expa.actions import END, LANGUAGE
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, Moves, able_sizes
from agent_envs.envs.expa.sorting.environments import SYMBOLS
from agent_envs.envs.expa.sorting.knowledge import Pair
from agent_envs.envs.expa.sorting.solver import known_relations
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy, Reply, Request
from trainers.earl_parts.expanded.flaws import ExpandedFlaws, expanded_flaws_of, fixed_order
from trainers.environments import spread_task
from trainers.imitation.guesses import guess

__all__ = ["ExpandedFlaws", "FlawedPlayer", "expanded_demonstrations", "expanded_flaws_of"]

MOST_SAMPLED = 9  # keys of a sampled call, before it is brought to its end; a sorting call has two


def expanded_demonstrations(
    env: gym.Env[Any, Any],
    count: int,
    flaws: ExpandedFlaws | None = None,
    *,
    split: str = "train",
    seed: int = 0,
    first: int = 0,
) -> Iterator[Trajectory]:
    """Yield episodes of a split's tasks, the same ones for the same arguments.

    Args:
        env: an environment with expanded actions whose class has a solver.
        count: how many; where tasks have no end, no two are of one task.
        flaws: None for the solver as it is.
        split: where the tasks come from.
        seed: of the chances.
        first: the number of the first task.

    Raises:
        UsageError: the environment has no expanded actions, or the strategy is not for its tasks.
    """
    policy = FlawedPlayer(flaws or ExpandedFlaws(), seed)
    for number in range(first, first + count):
        task = spread_task(core_of(env).source, split, number)
        yield run_episode(env, policy, seed=number, split=split, task=task).trajectory


class FlawedPlayer:
    """Plays as the flaws say. `act` belongs to one episode: see `begin`."""

    name = "flawed"
    batch = 1
    needs_env = True
    privileged = True

    def __init__(self, flaws: ExpandedFlaws, seed: int = 0) -> None:
        """Take the flaws and the seed of all episodes' chances."""
        self.flaws, self.seed = flaws, seed

    def begin(self, env: gym.Env[Any, Any]) -> "_Player":
        """Return the policy of the episode that `env` is at the start of."""
        return _Player(self.flaws, self.seed, env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Refuse: which episode?"""
        raise UsageError("FlawedPlayer acts in one environment; call begin(env) first")


class _Player:
    """One episode of a FlawedPlayer."""

    name = "flawed"
    batch = 1

    def __init__(self, flaws: ExpandedFlaws, seed: int, env: gym.Env[Any, Any]) -> None:
        core = core_of(env)
        if not isinstance(core, ExpandedActionEnv):
            raise UsageError(
                f"{core.env_id} has no expanded actions; its demonstrations are trainers.imitation.demonstrations'"
            )
        self._core, self._flaws, self._solver = core, flaws, CompanionPolicy("solver", env)
        self._rng = random.Random(f"flaws:{seed}:{core.episode.key}")
        self._moves = self._strategy(random.Random(f"strategy:{seed}:{core.episode.key}"))
        self._asked: Pair | None = None  # the comparison whose answer the strategy waits for
        self._planned: list[str | int] = []
        self._call: list[int] = []
        self._random_keys = 0
        self._silent = self._rng.random() < flaws.silent
        if self._silent:
            text = guess(core.episode.task.data, self._rng)
            self._planned = [text, END] if text else [END]

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        return [Reply(self._action(request)) for request in requests]

    def _strategy(self, rng: random.Random) -> Moves | None:
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

    def _action(self, request: Request) -> str | int:
        in_language = self._core.episode.state.active == LANGUAGE
        if self._planned:
            action = self._planned.pop(0)
        elif in_language:
            action = self._decided(request)
        elif self._random_keys:
            self._random_keys -= 1
            action = self._rng.choice(self._core.legal_actions())
        else:
            action = self._solver.act([request])[0].action
        if isinstance(action, int) and action != END:
            self._call = [action] if in_language else [*self._call, action]
        return action

    def _decided(self, request: Request) -> str | int:
        """Return what is done next in language, and plan what belongs to it."""
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
        if self._asked is not None:
            answer = (self._asked in known_relations(self._core.trajectory)) != self._core.episode.task.data.descending
        try:
            name, one, other = self._moves.send(answer)
        except StopIteration:
            self._moves = None
            return 0
        self._asked = (one, other) if name == "compare" else None
        self._planned = [self._core.id_of(SYMBOLS[one]), self._core.id_of(SYMBOLS[other])]
        return self._core.id_of(name)
