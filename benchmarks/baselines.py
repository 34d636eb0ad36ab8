"""Each baseline does what it is for: the known order of procedures, with a scripted reader in place of a model.

    python -m benchmarks.baselines --out benchmarks/results/baselines.json

One reader (`baselines.scripted_reader`, a test double) plays every agent, on three seeds with tasks of their own, at three
settings of its error rates that were fixed before the first run. A place is a pair of agents of which the second must do better
on the same tasks; a defect is a mistake planted into an agent, and its place must then be lost. No figure says anything about
language models.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.core.env import spec_json
from agent_envs.evaluation.statistics.paired import compare_paired
from agent_envs.evaluation.statistics.rates import success_rate
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.policy import Policy
from agent_envs.rollout.run_many import run_many
from baselines.agents import agent_class
from baselines.chat_agent import TurnModel
from baselines.scripted_reader import Errors, ScriptedReader
from baselines.view import EpisodeView

SETTINGS = {"low": Errors(0.05, 0.05, 0.05), "middle": Errors(0.1, 0.15, 0.1), "high": Errors(0.2, 0.3, 0.2)}
SEEDS = (0, 1, 2)
TASKS = 90  # of a seed; LegalSearch has 300 test tasks in all


@dataclass(frozen=True)
class BaselineRow:
    """An agent on an environment, by a name that is unique."""

    env: str
    agent: str
    options: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    defect: str = ""


ENVS: dict[str, tuple[str, dict[str, Any]]] = {
    "search": ("SearchQA", {}),
    "law": ("LegalSearch", {}),
    "numbers": ("Arithmetic", {"test_words": 0.0}),
    "tools": ("ToolReasoning", {"needs": ("search",), "levels": (1, 2, 3)}),
}
ROWS = {
    "direct": BaselineRow("search", "direct"),
    "rag": BaselineRow("search", "rag"),
    "ircot": BaselineRow("search", "ircot"),
    "tag_agent": BaselineRow("search", "tag_agent"),
    "react": BaselineRow("search", "react"),
    "search_o1": BaselineRow("search", "search_o1", {"searches": 4}),
    "deep_search": BaselineRow("search", "deep_search"),
    "prompted_tools": BaselineRow("search", "prompted_tools"),
    "validator": BaselineRow("search", "validator"),
    "forced_answer": BaselineRow("search", "forced_answer", {"turns": 2}),
    "law rag": BaselineRow("law", "rag"),
    "law tag_agent": BaselineRow("law", "tag_agent"),
    "tools direct": BaselineRow("tools", "direct"),
    "tools rag": BaselineRow("tools", "rag"),
    "tools ircot": BaselineRow("tools", "ircot"),
    "tools search_o1": BaselineRow("tools", "search_o1", {"searches": 4}),
    "tools tag_agent": BaselineRow("tools", "tag_agent"),
    "tools tool_agent": BaselineRow("tools", "tool_agent", arguments={"protocol": "json"}),
    "zero-shot": BaselineRow("numbers", "direct"),
    "calculator": BaselineRow("numbers", "tag_agent"),
    "program_of_thought": BaselineRow("numbers", "program_of_thought"),
    "one sample": BaselineRow("numbers", "self_consistency", {"of": "direct", "samples": 1}),
    "self_consistency": BaselineRow("numbers", "self_consistency", {"of": "direct", "samples": 9}),
}
# The second does better than the first. IRCoT and the tool agent may be equal; SearchQA has no native tools: its tool agent is
# the tag agent, and ToolReasoning has both.
PLACES = (
    ("direct", "rag"), ("rag", "ircot"), ("ircot", "tag_agent"), ("rag", "react"), ("rag", "search_o1"), ("rag", "deep_search"),
    ("rag", "prompted_tools"), ("rag", "validator"), ("direct", "forced_answer"), ("law rag", "law tag_agent"),
    ("zero-shot", "program_of_thought"), ("zero-shot", "calculator"), ("one sample", "self_consistency"),
    ("tools direct", "tools rag"), ("tools rag", "tools ircot"), ("tools ircot", "tools tool_agent"),
    ("tools rag", "tools tag_agent"), ("tools rag", "tools search_o1"),
)  # fmt: skip
MAY_BE_EQUAL = {("ircot", "tag_agent"), ("tools ircot", "tools tool_agent")}
DROPPED = "results dropped"
DEFECTS = {
    ("direct", "rag"): BaselineRow("search", "rag", arguments={"retriever": "empty"}, defect="retrieval empty"),
    ("rag", "ircot"): BaselineRow("search", "ircot", {"followups": 0}, defect="last hop cut"),
    ("ircot", "tag_agent"): BaselineRow("search", "tag_agent", defect=DROPPED),
    ("rag", "react"): BaselineRow("search", "react", defect=DROPPED),
    ("rag", "search_o1"): BaselineRow("search", "search_o1", {"searches": 4}, defect="notes dropped"),
    ("rag", "deep_search"): BaselineRow("search", "deep_search", {"notes": 1}, defect="notes dropped"),
    ("rag", "prompted_tools"): BaselineRow("search", "prompted_tools", defect=DROPPED),
    ("rag", "validator"): BaselineRow("search", "validator", defect=DROPPED),
    ("direct", "forced_answer"): BaselineRow("search", "forced_answer", {"turns": 2}, defect=DROPPED),
    ("law rag", "law tag_agent"): BaselineRow("law", "tag_agent", defect=DROPPED),
    ("zero-shot", "program_of_thought"): BaselineRow("numbers", "program_of_thought", defect="output ignored"),
    ("zero-shot", "calculator"): BaselineRow("numbers", "tag_agent", defect=DROPPED),
    ("one sample", "self_consistency"): BaselineRow(
        "numbers", "self_consistency", {"of": "direct", "samples": 1}, defect="one vote"
    ),
    ("tools direct", "tools rag"): BaselineRow(
        "tools", "rag", arguments={"retriever": "empty"}, defect="retrieval empty"
    ),
    ("tools rag", "tools ircot"): BaselineRow("tools", "ircot", {"followups": 0}, defect="last hop cut"),
    ("tools ircot", "tools tool_agent"): BaselineRow(
        "tools", "tool_agent", arguments={"protocol": "json"}, defect=DROPPED
    ),
    ("tools rag", "tools tag_agent"): BaselineRow("tools", "tag_agent", defect=DROPPED),
    ("tools rag", "tools search_o1"): BaselineRow("tools", "search_o1", {"searches": 4}, defect="notes dropped"),
}


def with_defect(agent: Any, defect: str) -> Policy:
    """Return an agent with a mistake in it."""
    turn: Callable[[EpisodeView, TurnModel], str] = agent.turn
    if defect == DROPPED:
        agent.turn = lambda view, talk: turn(without_results(view), talk)
    elif defect == "notes dropped" and hasattr(agent, "_read"):
        agent._read = lambda view, talk: ""
    elif defect == "output ignored":
        agent.output = lambda program: "0"
    return agent  # type: ignore[no-any-return]


def without_results(view: EpisodeView) -> EpisodeView:
    """Return a view whose results are empty."""
    first = len(view.messages) - len(view.actions) - len(view.evidence)
    rows = tuple(
        {**row, "content": "(lost)"} if n >= first and row["role"] != "assistant" else row
        for n, row in enumerate(view.messages)
    )
    return replace(view, messages=rows, evidence=("(lost)",) * len(view.evidence))


def play(row: BaselineRow, errors: Errors, tasks: Sequence[int]) -> dict[str, list[float]]:
    """Return the success of each task."""
    name, arguments = ENVS[row.env]
    env = gym.make(f"agent_envs/{name}-v0", **arguments, **row.arguments)
    agent = with_defect(agent_class(row.agent)(ScriptedReader(errors), **row.options), row.defect)
    plan = [Planned(f"{task}", spec_json(env), task, "test", 0) for task in tasks]
    return {item.key: [float(result.success)] for item, result in run_many(plan, agent)}


def measure(errors: Errors, seeds: Sequence[int], count: int) -> dict[str, Any]:
    """Return rates, places and defects at one setting, over all seeds together, and the rates of each seed."""
    outcomes: dict[str, dict[str, list[float]]] = {}
    broken: dict[tuple[str, str], dict[str, list[float]]] = {}
    by_seed: dict[str, list[float]] = {}
    for seed in seeds:
        tasks = range(seed * count, (seed + 1) * count)
        for name, row in ROWS.items():
            scores = play(row, replace(errors, seed=seed), tasks)
            outcomes.setdefault(name, {}).update(scores)
            by_seed.setdefault(name, []).append(sum(value for (value,) in scores.values()) / count)
        for place, row in DEFECTS.items():
            broken.setdefault(place, {}).update(play(row, replace(errors, seed=seed), tasks))
    places = [place_of(pair, outcomes[pair[0]], outcomes[pair[1]]) for pair in PLACES]
    return {
        "errors": {name: getattr(errors, name) for name in ("missed_fact", "wrong_hop", "wrong_sum")},
        "rates": {name: {**rate_of(scores), "seeds": by_seed[name]} for name, scores in outcomes.items()},
        "places": places,
        "defects": [
            {
                "agent": pair[1],
                "defect": DEFECTS[pair].defect,
                **rate_of(scores),
                "place": place_of(pair, outcomes[pair[0]], scores),
            }
            for pair, scores in broken.items()
        ],
    }


def rate_of(scores: dict[str, list[float]]) -> dict[str, Any]:
    """Return a rate with its interval."""
    rate = success_rate([value for (value,) in scores.values()], list(scores))
    return {"success": round(rate.value, 4), "interval": [round(rate.low, 4), round(rate.high, 4)]}


def place_of(pair: tuple[str, str], lower: dict[str, list[float]], upper: dict[str, list[float]]) -> dict[str, Any]:
    """Return the paired difference of two agents, and whether the second holds its place."""
    paired = compare_paired(lower, upper)
    low, high = round(paired.low, 4), round(paired.high, 4)
    holds = high >= 0 if pair in MAY_BE_EQUAL else low > 0
    return {
        "below": pair[0],
        "above": pair[1],
        "difference": round(paired.difference, 4),
        "interval": [low, high],
        "holds": holds,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the order at each setting; exit code 1 where a place is lost, or a defect leaves one standing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.baselines", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    began = time.process_time()
    results = {name: measure(errors, SEEDS, TASKS) for name, errors in SETTINGS.items()}
    sound = True
    for setting, result in results.items():
        print(f"{setting}: {result['errors']}")
        for name, rate in result["rates"].items():
            print(f"  {name:20} {rate['success']:.3f} [{rate['interval'][0]:.3f}, {rate['interval'][1]:.3f}]")
        for row in result["places"]:
            sound &= row["holds"]
            print(f"  {row['below']} < {row['above']}: {row['difference']:+.3f} {row['interval']} {row['holds']}")
        for row in result["defects"]:
            sound &= not row["place"]["holds"]
            print(
                f"  {row['agent']} with {row['defect']}: {row['success']:.3f}, holds its place: {row['place']['holds']}"
            )
    if options.out is not None:
        body = {"command": "python -m benchmarks.baselines", "reader": "scripted: a test double, no language model",
                "seeds": list(SEEDS), "tasks_per_seed": TASKS, "cpu_seconds": round(time.process_time() - began, 1),
                "python": platform.python_version(), "settings": results}  # fmt: skip
        options.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
