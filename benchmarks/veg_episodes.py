"""The test episodes of a VEG run are planned again, for its policy or for an agent that only does what the script says."""

import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.messages import FEEDBACK_MARK
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.envs.search_qa.chains import documents, follow, parse_question
from agent_envs.evaluation.statistics.rates import success_rate
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.policy import Reply, Request
from agent_envs.rollout.run_many import run_many
from trainers.command_line import read_settings
from trainers.environments import WrapperRow, environment_spec, tasks_of_step
from trainers.sampling import plan_groups
from trainers.veg import VEGSettings

WHAT = (
    "the script as the agent: it does what good hints say at every turn (epsilon 0) and decides nothing itself, on the test "
    "tasks of the runs. A policy that is measured with feedback is scored together with the script, so read its success "
    "beside this one; out_of_turns: the share of episodes that the limit of turns ended."
)
_FACT = re.compile(r": (.+?\?) (?:Look up|Answer now)")
_NAME = re.compile(r"Look up (.+?)(?: with other words)?\.$")
_STEP = re.compile(r"\. (Say: |Call )(.+)$", re.DOTALL)


def run_settings(folder: Path) -> VEGSettings:
    """Return the settings of a run as they were typed, before feedback became one of its wrappers."""
    return read_settings(VEGSettings, folder)


def measured_plan(settings: VEGSettings, rows: Sequence[WrapperRow], count: int, name: str) -> list[Planned]:
    """Return the test episodes of a run under wrappers: its tasks, and its draws where `name` is that of its measurement."""
    arguments = json.loads(settings.env.arguments) | json.loads(settings.env.test_arguments)
    split = settings.env.test_split
    size = core_of(gym.make(full_id(settings.env.id), **arguments)).source.size(split)
    tasks = tasks_of_step(0, min(count, size), size, seed=0)
    return plan_groups(environment_spec(settings.env.id, arguments, rows), split, tasks, 1, f"{settings.seed}/{name}")


class Follower:
    """A policy that follows the last hint."""

    name, batch = "follower", 1

    def __init__(self, obey: Callable[[str, Sequence[Mapping[str, Any]]], str]) -> None:
        """Set the function from a hint and the conversation to an action."""
        self._obey = obey

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Return one action a request."""
        return [Reply(self._obey(hint_of(request.messages), request.messages)) for request in requests]


def hint_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the last message without its mark; it is feedback."""
    return str(messages[-1]["content"]).removeprefix(FEEDBACK_MARK)


def look_up(hint: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Search for the subject of a hint of Search QA, or answer with the fact that it names, from the documents."""
    fact, name = _FACT.search(hint), _NAME.search(hint)
    if name is not None:
        return f"<search>{fact[1] if fact else name[1]}</search>"
    question = parse_question(fact[1]) if fact else None
    passages = [one for message in messages for one in documents(str(message["content"]))]
    answer = follow(question.sides[0], passages).value if question is not None else ""
    return f"<answer>{answer or 'unknown'}</answer>"


def obey_hint(hint: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the message or call that a hint of tau2 names, word for word."""
    step = _STEP.search(hint)
    if step is None:
        return hint
    return step[2] if step[1] == "Say: " else step[2].removesuffix(".")


FOLLOWERS = {"SearchQA": look_up, "Tau2Telecom": obey_hint}


def script_as_agent(folder: Path) -> dict[str, Any]:
    """Return the success of following good hints alone on the test tasks of a run, with its interval over tasks."""
    settings = run_settings(folder)
    core = core_of(gym.make(full_id(settings.env.id), **json.loads(settings.env.arguments)))
    rows = [("VerbalFeedback", {"feedback": "scripted:good", "epsilon": 0.0})]
    plan = measured_plan(settings, rows, settings.evaluation.test_tasks, "test")
    results = [result for _, result in run_many(plan, Follower(FOLLOWERS[settings.env.id]))]
    tasks = [result.trajectory.header.task_id for result in results]
    homes = [core.source.get(settings.env.test_split, task).cluster or task for task in tasks]
    rate = success_rate([float(result.success) for result in results], tasks, homes)
    return {
        "what": WHAT,
        "success": round(rate.value, 4),
        "interval": [round(rate.low, 4), round(rate.high, 4)],
        "tasks": len(results),
        "turns": round(statistics.mean(len(result.trajectory.turns) for result in results), 2),
        "out_of_turns": round(statistics.mean(result.status == "truncated" for result in results), 4),
    }
