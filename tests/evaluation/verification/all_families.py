"""A submission over all families: each id is played by its solver on even tasks and at random on odd ones, and packed."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import Unsolvable
from agent_envs.core.env import core_of
from agent_envs.core.registry import TABLE
from agent_envs.evaluation.runs.costs import prices_of
from agent_envs.evaluation.runs.run_folder import Run, Settings, claim
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import plan_of, tasks_of
from agent_envs.evaluation.suites.suite import Entry, Suite
from agent_envs.rollout.policy import CompanionPolicy, Reply, Request
from agent_envs.rollout.run_many import run_many
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

TURNS = {"Crafter": 12, "BabyAI": 16, "BabaIsAI": 16, "Tau2Retail": 12, "Tau2Airline": 12, "Tau2Telecom": 12}
_WORDS = ("", "I don't know.", "<answer>7</answer>", 'ü\u202e\n"quoted" \\ {', "lone \ud800 half")


class Mixed:
    """Plays as the solver or at random, by the number of the task, and says odd things now and then."""

    name, batch, needs_env = "mixed", 1, True

    def __init__(self, env: gym.Env[Any, Any] | None = None) -> None:
        """Take the environment of an episode."""
        if env is not None:
            self._source = random.Random(core_of(env).episode.key)
            self._solver, self._random = CompanionPolicy("solver", env), CompanionPolicy("random", env)
            self._solves = self._source.random() < 0.5

    def begin(self, env: gym.Env[Any, Any]) -> "Mixed":
        """Return this agent for one episode."""
        return Mixed(env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return one reply a request."""
        if self._source.random() < 0.15:
            return [Reply(self._source.choice(_WORDS), usage={"input": 9, "output": 1})]
        if self._solves:
            try:
                return self._solver.act(requests)
            except Unsolvable:  # after an odd word, or under a turn limit
                self._solves = False
        return self._random.act(requests)


def families_suite(tasks: int, trials: int = 1) -> Suite:
    """Return a suite of every id, the long ones under a turn limit."""
    entries = []
    for row in TABLE:
        core = core_of(gym.make(row.id))
        entries.append(
            Entry(
                label=row.name, env_id=row.id, arguments={}, spec_digest=core.spec_digest, split="test",
                turn_limit=TURNS.get(row.name), tasks=tasks_of(core, "test", tasks),
            )
        )  # fmt: skip
    return Suite(id="families", version="1.0", trials=trials, entries=tuple(entries))


def play(suite: Suite, folder: Path) -> Run:
    """Play a suite into the folder of a run."""
    settings = Settings("mixed")
    run = claim(folder, suite, settings, prices_of(suite, settings))
    with Recording(run.externals, "record") as recording:
        for _ in run_many(plan_of(suite), Mixed(), journal=run.log(), services=Services(recording)):
            pass
    return run


def make_submission(folder: Path, tasks: int, trials: int = 1) -> tuple[Suite, Path]:
    """Return the suite and the folder of a submission over all families that was just played and packed."""
    suite = families_suite(tasks, trials)
    play(suite, folder / "run")
    pack_run(folder / "run", folder / "packed")
    return suite, folder / "packed"
