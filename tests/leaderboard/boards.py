"""Boards that tests make: of submissions that were played, and of made up ones."""

import random

from agent_envs.evaluation.submission.models import AgentInfo, Harness, Submission, Submitter, Training
from agent_envs.evaluation.submission.replaying import Checked, places_of
from agent_envs.evaluation.suites.suite import Entry, Suite
from agent_envs.evaluation.verification.verify import How, Verification, scores
from leaderboard.board import boards_of
from leaderboard.standings import Entrant


def how(suite):
    return How(suite, jobs=0)


def built(board):
    (found,) = boards_of(board, How(jobs=0), lambda line: None)
    return found


def made_up(suite, name, chance, seed, turns=3, usage=None):
    """Return a verified submission that solves each task of a suite with a chance."""
    source = random.Random(seed)
    episodes = tuple(Checked(key, "terminated", source.random() < chance, turns=turns) for key, _ in places_of(suite))
    score, averages, entries = scores(suite, dict(places_of(suite)), {item.key: item for item in episodes})
    verdict = Verification(name * 64, suite.name, agent=name, kind="agent", badges=("complete", "registered"), score=score,
                      averages=averages, entries=entries, episodes=episodes, usage=usage or {})  # fmt: skip
    agent = AgentInfo(name=name, kind="agent")
    harness = Harness.model_construct(agent_envs="", python="")
    told = Submission.model_construct(agent=agent, models=(), submitter=Submitter(), training=Training(), date="",
                                      harness=harness, licence="", hardware="")  # fmt: skip
    return Entrant(verdict, told)


def many_tasks(count):
    tasks = tuple((f"t{number}", "0" * 64, f"t{number}") for number in range(count))
    entry = Entry(label="e", env_id="x/E-v0", arguments={}, spec_digest="0" * 64, split="test", tasks=tasks)
    return Suite(id="many", version="1.0", trials=2, entries=(entry,))
