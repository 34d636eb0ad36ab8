"""`BlindReplay` is a reference that never looks: of some random plays of a task it plays the best one back, word for word.

A task of a suite is one fixed instance, so that who may try it often can record what worked. No replay can tell such a player
from an agent; how far it comes is how much of a suite can be had without reading (arXiv 2605.08261 shows that this is its
source's pass@k). An entry where it comes far stands marked on a board.

    agent-envs eval --suite demo@1 --agent leaderboard.blind_replay:BlindReplay --agent-arg plays=8
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.registry import companion
from agent_envs.core.snapshot import fork
from agent_envs.rollout.policy import Reply, Request
from leaderboard.standings import StandingsRow

NAME = "blind_replay"
FEW, HALF = (
    0.2,
    0.5,
)  # what it must win of an entry, and of the best agent's lower bound there, for the entry to be marked


class BlindReplay:
    """The reference; it is handed the environment, so that what it plays is packed as a reference's and never as an agent's."""

    batch, needs_env = 1, True

    def __init__(self, plays: int = 8) -> None:
        """Take how many random plays of a task are recorded, each with an episode key of its own; UsageError below 1."""
        self.plays = whole_number("BlindReplay", "plays", plays, 1, 10_000)
        self.name = f"{NAME}-{plays}"
        self._recorded: dict[tuple[str, str], tuple[Any, ...]] = {}

    def begin(self, env: gym.Env[Any, Any]) -> "Playback":
        """Return the best recorded play of the environment's task, recorded now if this agent has not met it before."""
        core = core_of(env)
        place = (core.spec_digest, core.episode.task.id)
        if place not in self._recorded:
            self._recorded[place] = best_of_plays(env, self.plays)
        return Playback(self.name, self._recorded[place])

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Raise: what `begin` returns for an episode acts in it."""
        raise NotImplementedError("BlindReplay plays by episode: call begin(env) first")


class Playback:
    """A recorded play, which ends in empty turns where the episode goes on behind it. It reads no message."""

    batch = 1

    def __init__(self, name: str, actions: Sequence[Any]) -> None:
        """Take the actions in their order."""
        self.name, self._actions = name, actions

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the action at the place of each request's turn."""
        return [
            Reply(self._actions[turn - 1] if (turn := request.turn) <= len(self._actions) else "")
            for request in requests
        ]


def best_of_plays(env: gym.Env[Any, Any], plays: int) -> tuple[Any, ...]:
    """Return the actions of the best of so many random plays of an environment's task: solved, then by return, then short.

    Raises UsageError: its class has no sampler of legal actions.
    """
    core = core_of(env)
    sampler, task = companion(env, "sampler"), core.episode.task
    if sampler is None:
        raise UsageError(f"{core.env_id}: no random agent, whose plays could be recorded")
    best: tuple[tuple[bool, float, int], tuple[Any, ...]] | None = None
    for play in range(plays):
        twin, name = fork(env), f"{NAME}:{core.spec_digest}:{task.split}:{task.id}:{play}"
        dice = random.Random(name)
        twin.reset(seed=play, options={"task": task, "split": task.split, "episode_key": name})
        actions, total, over, info = list[Any](), 0.0, False, dict[str, Any]()
        while not over:
            actions.append(sampler(twin, dice))
            _, reward, terminated, truncated, info = twin.step(actions[-1])
            total, over = total + float(reward), terminated or truncated
        rank = (bool(info.get("success", False)), total, -len(actions))
        if best is None or rank > best[0]:
            best = rank, tuple(actions)
    assert best is not None
    return best[1]


def blind_entries(rows: Sequence[StandingsRow]) -> dict[str, float]:
    """Return the entries that can be played blind, with the success of the best blind replay on the board.

    It wins more than a fifth of an entry's episodes, and more than half of the lower bound of the best agent there.
    """
    blind = [row for row in rows if row.group == "reference" and NAME in row.entrant.submission.agent.name]
    agents = [row for row in rows if row.group not in ("reference", "incomplete")]
    best, bound = Counter[str](), Counter[str]()
    for row in blind:
        best |= Counter({item["entry"]: item["success"] for item in row.entrant.verdict.entries})
    for row in agents:
        bound |= Counter({item["entry"]: item["interval"][0] for item in row.entrant.verdict.entries})
    return {entry: success for entry, success in best.items() if success > max(FEW, HALF * bound[entry])}
