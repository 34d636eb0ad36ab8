"""Replay recorded vectors of the original and compare: `python -m tests.envs.tau2.vectors FOLDER [--domain D]`.

A vector file is JSONL; a line is one episode on a fresh database, either a gold trajectory or a random sequence of calls.
Exit status 1 on any difference.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.dialogue import Line, ToolReply
from agent_envs.envs.tau2.evaluation import Evaluation, evaluate
from agent_envs.envs.tau2.metrics import IDLE
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.task_schema import Tau2Task, read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.toolkit import FRESH, Domain, DomainState, FunctionOutcome, ToolOutcome, call, run_function
from tests.envs.tau2.gold import breakdown, env_reward
from tests.envs.tau2.hashes import lenient_hash, original_hash

SHOWN = 5
# Errors whose text is the original's own; of all others (Python's, pydantic's) only the flag is compared.
EXACT_ERRORS = ("domain",)
TRAJECTORIES = ("gold", "gold_no_text", "empty", "gold_minus_last_write", "gold_reversed")
EXACT_TEXTS = ("Error: division by zero",)


@dataclass
class Tally:
    """What agreed and what did not, by kind of comparison."""

    agreed: Counter[str] = field(default_factory=Counter)
    differed: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def compare(self, kind: str, where: str, ours: Any, recorded: Any) -> None:
        if ours == recorded:
            self.agreed[kind] += 1
            return
        self.differed[kind] += 1
        self.differences.append(f"{where}: {kind}\n      recorded {recorded!r}\n      ours     {ours!r}")


@cache
def original_domain(name: str) -> Domain:
    """The original with its bugs, and with the bill ids that the recording counted up instead of drawing them."""
    domain = load_domain(name)
    return replace(domain, compat=replace(domain.compat, random_bill_id=False))


def normal(text: str) -> str:
    """A JSON object or list with its keys sorted (1, 1.0 and true stay apart), another text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else text


class Replay:
    """One vector on its way through the engine."""

    def __init__(self, vector: dict[str, Any], tally: Tally) -> None:
        self.vector, self.tally = vector, tally
        self.name = vector.get("id") or vector.get("task_id")
        self.domain = original_domain(vector["domain"])
        self.state: DomainState = FRESH
        self.outcomes: list[ToolOutcome] = []

    def run(self) -> None:
        for check in CHECKS:
            check(self)

    def hashes(self, where: str, recorded: dict[str, Any] | None) -> None:
        if recorded is None:
            return
        sides = (
            ("agent", self.domain.agent_database, self.state.agent),
            ("user", self.domain.user_database, self.state.user),
        )
        for side, database, changes in sides:
            known = recorded.get(side)
            known = known if isinstance(known, dict) else {"exact": known}
            for spelling, of in (("exact", original_hash), ("lenient", lenient_hash)):
                if spelling in known:
                    ours = None if database is None else of(database, changes)
                    self.tally.compare(f"{spelling} hash", f"{self.name} {where} {side}", ours, known[spelling])


def check_init(replay: Replay) -> None:
    replay.hashes("fresh", replay.vector.get("hash_fresh"))
    for place, action in enumerate(replay.vector["init"]):
        outcome, replay.state = run_function(
            replay.domain, replay.state, action["env_type"], action["func_name"], action["arguments"]
        )
        compare_function(replay, f"{replay.name} init[{place}] {action['func_name']}", outcome, action)
    replay.hashes("after init", replay.vector.get("hash_after_init"))


def compare_function(replay: Replay, where: str, outcome: FunctionOutcome, recorded: dict[str, Any]) -> None:
    tally = replay.tally
    tally.compare("raised", where, outcome.raised is not None, "raised" in recorded)
    if "raised" in recorded and recorded["raised"] in ("ValueError", "AssertionError"):
        tally.compare("message", where, outcome.raised, recorded["message"])
    if "returned" in recorded:
        tally.compare("returned", where, json.loads(json.dumps(outcome.returned)), recorded["returned"])


def check_steps(replay: Replay) -> None:
    for place, step in enumerate(replay.vector["steps"]):
        outcome, replay.state = call(
            replay.domain, replay.state, step["requestor"], step["name"], step["arguments"],
            replay.vector.get("solo_mode", False),
        )  # fmt: skip
        replay.outcomes.append(outcome)
        where = f"{replay.name} steps[{place}] {step['name']}({json.dumps(step['arguments'])})"
        compare_result(replay.tally, where, outcome, step)
        replay.hashes(f"after steps[{place}] {step['name']}", step.get("hash_after"))
    replay.hashes("final", replay.vector["hash_final"])


def compare_result(tally: Tally, where: str, outcome: ToolOutcome, step: dict[str, Any]) -> None:
    tally.compare("error flag", where, outcome.error, step["error"])
    if not step["error"] or step["error_kind"] in EXACT_ERRORS or step["content"] in EXACT_TEXTS:
        tally.compare("content", where, normal(outcome.content), normal(step["content"]))
    if step["error_kind"] in EXACT_ERRORS:
        tally.compare("error kind", where, outcome.kind, step["error_kind"])


def check_assertions(replay: Replay) -> None:
    recorded = replay.vector.get("env_assertions", replay.vector.get("assertions", []))
    for place, assertion in enumerate(recorded):
        outcome, replay.state = run_function(
            replay.domain, replay.state, assertion["env_type"], assertion["func_name"], assertion["arguments"]
        )
        where = f"{replay.name} assertions[{place}] {assertion['func_name']}({json.dumps(assertion['arguments'])})"
        if "met" in assertion:
            replay.tally.compare("met", where, outcome.returned == assertion["assert_value"], assertion["met"])
        else:
            compare_function(replay, where, outcome, assertion)


def check_evaluations(replay: Replay) -> None:
    """The evaluator's word on the trajectories that gold vectors name, from nothing but the vector."""
    recorded = replay.vector.get("evaluations", {})
    task = vector_task(replay.vector) if recorded else None
    for name, expected in recorded.items():
        if name not in TRAJECTORIES:
            replay.tally.compare("evaluated trajectory", f"{replay.name} {name}", "not known here", name)
            continue
        lines = trajectory(replay, task, name)
        score = evaluate(replay.domain, task, lines, "user_stop")
        for member, ours in evaluated(score, lines).items():
            if member in expected:
                replay.tally.compare(f"evaluated {member}", f"{replay.name} {name}", ours, expected[member])


def vector_task(vector: dict[str, Any]) -> Tau2Task:
    """The task of a gold vector: its steps are the expected actions."""
    actions = [{**step, "action_id": str(place)} for place, step in enumerate(vector["steps"])]
    criteria = {
        "actions": actions,
        "env_assertions": vector.get("env_assertions"),
        "communicate_info": vector.get("communicate_info"),
        "nl_assertions": [f"expectation {place}" for place in range(vector.get("n_nl_assertions", 0))],
        "reward_basis": vector.get("reward_basis", []),
    }
    row = {
        "id": vector.get("task_id", vector.get("id")),
        "user_scenario": {"instructions": ""},
        "initial_state": {"initialization_actions": vector["init"]},
        "evaluation_criteria": criteria,
    }
    return read_task(row, vector["domain"])


def trajectory(replay: Replay, task: Tau2Task, name: str) -> tuple[Line, ...]:
    """One of the trajectories that are evaluated: one call a message, each with its answer, then the final text."""
    if name == "empty":
        return IDLE
    steps, contents = replay.vector["steps"], {}
    if name in ("gold", "gold_no_text"):
        contents = {place: (step["content"], step["error"]) for place, step in enumerate(steps)}
    elif name == "gold_minus_last_write":
        last = max((place for place, step in enumerate(steps) if "hash_after" in step), default=len(steps))
        steps = [step for place, step in enumerate(steps) if place != last]
    else:
        steps = steps[::-1]
    state, lines = initial_world(replay.domain, task), []
    for place, step in enumerate(steps):
        requestor, called = step["requestor"], step["name"]
        outcome, state = call(replay.domain, state, requestor, called, step["arguments"])
        content, error = contents.get(place, (outcome.content, outcome.error))
        asked = ToolCall(f"call_{place}", called, canonical_json(step["arguments"]))
        reply = ToolReply(asked.id, called, content, error, requestor)
        lines += [Line(requestor, calls=(asked,)), Line("environment", results=(reply,))]
    if name != "gold_no_text":
        lines.append(Line("assistant", replay.vector["final_text"]))
    return tuple(lines)


def evaluated(score: Evaluation, lines: tuple[Line, ...]) -> dict[str, Any]:
    """Our evaluation in the words of the recording."""
    checks = {name: list(parts) for name, parts in score.checks.items()}
    return {
        "reward_without_nl": score.reward_without_nl,
        "db_match": checks["DB"] == [True],
        "env_reward": env_reward(score),
        "env_breakdown": {name: part for name, part in breakdown(score).items() if name in ("DB", "ENV_ASSERTION")},
        "env_assertions": checks["ENV_ASSERTION"],
        "action_reward": score.components["ACTION"],
        "action_checks": checks["ACTION"] or None,
        "communicate_reward": score.components["COMMUNICATE"],
        "communicate_checks": checks["COMMUNICATE"] or None,
        "errors": [reply.error for line in lines for reply in line.results],
    }


# In order; a check may use what the ones before it left in the replay.
CHECKS: tuple[Callable[[Replay], None], ...] = (check_init, check_steps, check_assertions, check_evaluations)


def vectors_in(path: Path, domain: str | None = None) -> Iterator[dict[str, Any]]:
    """The vectors of a file, perhaps of one domain alone."""
    with path.open(encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            vector = json.loads(line)
            if domain is None or vector["domain"] == domain:
                yield vector


def replay_file(path: Path, domain: str | None = None) -> tuple[int, Tally]:
    """How many vectors a file has, and how they agreed."""
    tally, number = Tally(), 0
    for vector in vectors_in(path, domain):
        number += 1
        Replay(vector, tally).run()
    return number, tally


def main(arguments: list[str] | None = None) -> int:
    """Replay every file of a folder: the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.envs.tau2.vectors", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with *.jsonl vectors")
    parser.add_argument("--domain", help="replay this domain's vectors alone")
    chosen = parser.parse_args(arguments)
    try:
        return replay_folder(chosen.folder, chosen.domain)
    except AgentEnvsError as error:
        print(error, file=sys.stderr)
        return 1


def replay_folder(folder: Path, domain: str | None = None) -> int:
    """Print how each file agrees; 1 on any difference, and where there is nothing to replay."""
    total, failed = 0, False
    for path in sorted(folder.glob("*.jsonl")):
        number, tally = replay_file(path, domain)
        if not number:
            continue
        total += number
        kinds = sorted(tally.agreed.keys() | tally.differed.keys())
        figures = ", ".join(
            f"{kind} {tally.agreed[kind]}/{tally.agreed[kind] + tally.differed[kind]}" for kind in kinds
        )
        print(f"{path.name}: {number} vectors; {figures}")
        for difference in tally.differences[:SHOWN]:
            print(f"  - {difference}")
        if len(tally.differences) > SHOWN:
            print(f"  ... and {len(tally.differences) - SHOWN} more differences")
        failed = failed or bool(tally.differences)
    if not total:
        print(f"{folder} has no vectors to replay", file=sys.stderr)
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
