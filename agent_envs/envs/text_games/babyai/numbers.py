"""`GridActions` shows BabyAI to classic reinforcement learning: `Discrete(6)` actions, the view and the mission in numbers."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from agent_envs.base.errors import UsageError
from agent_envs.core.env import TurnWrapper
from agent_envs.envs.text_games.babyai.env import BabyAI
from agent_envs.envs.text_games.babyai.grid import EMPTY, UNSEEN, VIEW, WALL, BabyWorld, identity, visible
from agent_envs.envs.text_games.babyai.mission import JOINTS, LOCATIONS, VERBS, BabyClause, Instructions

_PLAIN = (UNSEEN, EMPTY, WALL)
_KINDS, _STATES = ("key", "ball", "box", "door"), ("open", "closed", "locked")
_COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
_THING = (("", *_KINDS), ("", *_COLORS), LOCATIONS)
_CLAUSES = 4  # a mission of minigrid's grammar has at most two pairs of clauses
_SIZE = VIEW * VIEW * 16 + 3 * 3 + _CLAUSES * (4 + 2 * 17) + 1


class GridActions(TurnWrapper):
    """Show BabyAI as `Discrete(6)` actions over a numeric observation; `action_masks()` forbids nothing.

    The observation is a float32 vector in [0, 1]: of each of the 49 cells in view, from the farthest row to the agent's own,
    where it sees what it carries, one of unseen, empty, wall, key, ball, box, door (7), its color (6) and a door's state (3);
    then how the mission joins its clauses (before, after, and: 3 for the whole, its first and its second part); of each of four
    clauses its verb (4) and of both things that it may name the kind (any and 4), the color (any and 6) and where it is said to
    be (5); and the share of actions left (1). It tells what the text tells, but for "a" and "the".
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Wrap BabyAI; UsageError: it is another environment."""
        super().__init__(env)
        if not isinstance(self.turn_env(), BabyAI):
            raise UsageError(f"GridActions: {self.turn_env().env_id} is not BabyAI, whose world it shows")
        self.action_space, self.observation_space = Discrete(6), Box(0.0, 1.0, (_SIZE,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset and return the numeric observation."""
        _, info = self.env.reset(seed=seed, options=options)
        return self._features(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take the action of that number; return numeric observation, reward, ends and info; UsageError for any but 0 to 5."""
        if not self.action_space.contains(action):
            raise UsageError(f"GridActions: step() got {action!r:.40}; an action is a number from 0 to 5")
        _, *outcome, info = self.env.step(self.get_wrapper_attr("say")(int(action)))
        return self._features(), *outcome, info  # type: ignore[return-value]

    def action_masks(self) -> np.ndarray[Any, Any]:
        """Return that all actions are legal, bool of shape (6,)."""
        return np.ones(6, dtype=bool)

    def _features(self) -> np.ndarray[Any, Any]:
        """Return the view and the mission as one-hot numbers, and the share of the level's steps that is left."""
        world: BabyWorld = self.turn_env().episode.state
        choices: list[Any] = []  # names, and which of them it is
        for content in visible(world):
            thing = None if content in _PLAIN else world.things[identity(content)]
            kind, color, state = (thing.kind, thing.color, thing.state) if thing else (content, None, None)
            choices += [((*_PLAIN, *_KINDS), kind), (_COLORS, color), (_STATES, state)]
        choices += _mission(world.instructions)
        features = [name == value for names, value in choices for name in names]
        return np.array([*features, 1 - world.steps / world.limit], np.float32)


def _mission(whole: Instructions) -> list[Any]:
    """Return (names, value) choices of a mission: three joints, then a fixed number of clauses; None for what is not there."""
    parts = (whole, *((None, None) if isinstance(whole, BabyClause) else (whole.first, whole.second)))
    choices: list[Any] = [(JOINTS, getattr(part, "order", None)) for part in parts]
    clauses: list[Any] = [*_clauses(whole), *[None] * _CLAUSES]
    for clause in clauses[:_CLAUSES]:
        choices.append((VERBS, clause and clause.verb))
        for thing in (clause and clause.thing, clause and clause.beside):
            choices += zip(_THING, (thing.kind, thing.color, thing.loc) if thing else (None,) * 3, strict=True)
    return choices


def _clauses(whole: Instructions) -> list[BabyClause]:
    """Return the clauses of an instruction from left to right."""
    return [whole] if isinstance(whole, BabyClause) else [*_clauses(whole.first), *_clauses(whole.second)]
