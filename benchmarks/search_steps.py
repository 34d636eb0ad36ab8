"""Our Search QA is timed with real retrieval or a stub, with and without records, as `benchmarks.steps` asks: JSON.

    python -m benchmarks.search_steps ENGINE

The 52,082 passages are those of the folder that `AGENT_ENVS_DATA` names; nothing that a query found is kept for the next one.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.base.documents import Hit, Passage
from agent_envs.core.env import Outcome, _info
from agent_envs.envs.search_qa.env import SearchQA

QUERY = "where was the author of the book born"  # the peers' scripts ask it, too
TASKS = 256
PUBLISHED = "nq+hotpotqa"
HITS = tuple(Hit(Passage(f"p{n}", "t", "word " * 70), 1.0) for n in range(3))


class Stub:
    """A retriever that finds the same three passages at once."""

    name = "stub"

    def search(self, query: str, top_k: int, *, support: Any = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the three passages."""
        return HITS


class LastTurn:
    """The part of an episode's turns that limits and rewards read: their number, and the newest one."""

    __slots__ = ("action", "count", "events", "observation", "parsed", "results", "terminated", "truncated")

    def __init__(self, count: int, action: str, outcome: Outcome, most: int) -> None:
        self.count, self.action, self.parsed = count, action, outcome.parsed
        self.observation, self.results, self.events = outcome.observation, outcome.results, outcome.events
        self.terminated = outcome.terminated
        self.truncated = not outcome.terminated and count >= most

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> "LastTurn":
        return self


class Forgetful:
    """An episode that is written over in place."""

    __slots__ = ("header", "prompt", "state", "task", "turns")

    def __init__(self, episode: Any) -> None:
        self.task, self.header, self.prompt = episode.task, episode.header, episode.prompt
        self.state, self.turns = episode.state, ()

    @property
    def key(self) -> str:
        """The episode's key."""
        return self.header.episode_key

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.turns) and (self.turns.terminated or self.turns.truncated)


class Unrecorded(SearchQA):
    """Search QA whose steps do all but keep the turns: no snapshot, no replay, no row of a journal."""

    def reset(self, **options: Any) -> Any:
        """Reset, and replace the episode by one that keeps no turns."""
        start = super().reset(**options)
        self._episode = Forgetful(self._episode)
        return start

    def step(self, action: Any) -> Any:
        """Take one turn."""
        episode = self._episode
        if episode.over:
            self._refuse("the episode is over", "call reset() before the next step")
        action, _ = self._read(action)
        outcome = self._advance(episode, action)
        episode.state = outcome.state
        turn = episode.turns = LastTurn(len(episode.turns) + 1, action, outcome, self.max_turns)
        reward = self.reward_spec(episode)
        info = _info(self, episode)
        info["reward_terms"] = dict(reward.terms)
        if episode.over:
            info["success"] = outcome.success
        text = "".join([message.content for message in turn.observation])
        return text, reward.total, turn.terminated, turn.truncated, info


def make_env(engine: str) -> tuple[gym.Env[Any, Any], str, bool]:
    """Return the environment of an engine, the split whose tasks are played, and whether its search is a stub."""
    if "passages" in engine:
        env = gym.make("agent_envs/SearchQA-v0", tasks=PUBLISHED)
    elif engine == "ours, stub":
        gym.register("Unrecorded-v0", Unrecorded)
        env = gym.make("Unrecorded-v0")
    else:
        env = gym.make("agent_envs/SearchQA-v0")
    stub = "stub" in engine
    if stub:
        only = Stub()
        env.unwrapped._retriever_of = lambda task: only
    return env, env.unwrapped.source.splits[0], stub


def player(engine: str) -> Callable[[], int]:
    """Return a function that plays every task once: three searches for its question (stub: the peers' query), an answer."""
    env, split, stub = make_env(engine)
    plans = []
    for task in range(min(TASKS, env.unwrapped.source.size(split))):
        env.reset(options={"task": task, "split": split})
        query = QUERY if stub else env.unwrapped.episode.task.question
        plans.append((task, [f"<think>t</think><search>{query}</search>"] * 3 + ["<answer>Lisbon</answer>"]))

    def window() -> int:
        """Step the planned episodes once and return the number of turns."""
        for task, turns in plans:
            env.reset(options={"task": task, "split": split})
            for turn in turns:
                env.step(turn)
        return sum(len(turns) for _, turns in plans)

    return window


def rate(window: Callable[[], int], seconds: float = 1.0) -> float:
    """Return steps per CPU-second."""
    started, steps = time.process_time(), 0
    while time.process_time() - started < seconds:
        steps += window()
    return steps / (time.process_time() - started)


def main() -> None:
    """Measure five windows and print the best."""
    if len(sys.argv) != 2 or ("passages" in sys.argv[1] and "AGENT_ENVS_DATA" not in os.environ):
        raise SystemExit(__doc__)
    window = player(sys.argv[1])
    print(json.dumps({"steps_per_cpu_second": max(rate(window) for _ in range(5))}))


if __name__ == "__main__":
    main()
