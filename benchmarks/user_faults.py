"""The report counts the failed conversations in result files of tau2-bench that may be the user's fault.

    python -m benchmarks.user_faults FILE_OR_FOLDER... [--json]

Reads result files of tau2-bench: one JSON file with `info`, `tasks` and `simulations`, or a folder with `results.json` and one
file a simulation in `simulations/`. Of each recorded conversation it looks for what the user did that its scenario does not
cover (`faults`), and sets the failed conversations with such a fault apart. A fault says that the user may be why a
conversation failed; nothing is scored anew.
"""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.official import DOMAINS
from agent_envs.envs.tau2.record_schema import Anything, Default, Maybe, SchemaError, shaped
from agent_envs.envs.tau2.task_schema import Tau2Task, lines_of, read_task
from agent_envs.envs.tau2.users.faults import KINDS, UserFault, user_faults

MAX_BYTES = 1_000_000_000  # of a file
MAX_FILES = 50_000  # of a folder
MAX_MESSAGES = 5_000  # of a simulation
EXAMPLES = 3  # of each kind
_PASSED, _LEVEL_95 = 1 - 1e-6, 1.959964
_SIMULATION = {
    "task_id": str, "messages": [Anything()], "trial": Maybe(int), "termination_reason": Default(str, ""),
    "reward_info": Maybe({"reward": Maybe(float)}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """One simulation: whether it passed (None: it was never scored), and its user's faults."""

    task: str
    trial: int
    passed: bool | None
    faults: tuple[UserFault, ...]
    said: tuple[str, ...] = ()


@dataclass
class Findings:
    """What a result file holds, and what could not be read in it."""

    name: str
    domain: str = ""
    agent: str = ""
    user: str = ""
    judged: list[Judged] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def failed(self) -> list[Judged]:
        """The simulations that were scored and did not pass."""
        return [one for one in self.judged if one.passed is False]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        failed, faulty = self.failed, [one for one in self.failed if one.faults]
        low, high = interval(failed)
        return {
            "file": self.name,
            "domain": self.domain,
            "agent": self.agent,
            "user": self.user,
            "simulations": len(self.judged),
            "unread": len(self.unread),
            "first_unread": self.unread[0] if self.unread else "",
            "unscored": sum(one.passed is None for one in self.judged),
            "failures": len(failed),
            "failures_with_user_fault": len(faulty),
            "share": len(faulty) / len(failed) if failed else None,
            "interval": [low, high],
            "simulations_with_user_fault": sum(bool(one.faults) for one in self.judged),
            "kinds": {kind: [_with(self.judged, kind), _with(failed, kind)] for kind in KINDS},
            "examples": list(_examples(self.judged)),
        }


def interval(failed: Sequence[Judged]) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share of failures with a user's fault.

    Trials of a task are not independent: each task counts once, with the share of its failures, so that the interval is as
    wide as so many tasks allow.
    """
    by_task: dict[str, list[bool]] = {}
    for one in failed:
        by_task.setdefault(one.task, []).append(bool(one.faults))
    count = len(by_task)
    if not count:
        return 0.0, 1.0
    share = sum(bool(one.faults) for one in failed) / len(failed)
    spread = _LEVEL_95**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # At an end of the scale the bound is the share itself, but for rounding.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def findings(path: Path) -> Findings:
    """Return what a result file, or a folder of one, holds.

    Raises:
        UsageError: it is none; the message names the place.
    """
    head = _read_json(path / "results.json" if path.is_dir() else path)
    if not isinstance(head, dict) or not isinstance(head.get("tasks"), list):
        raise UsageError(f"{path}: no result file of tau2-bench: it has no list of tasks")
    info = head.get("info")
    domain = str(_inside(info, "environment_info", "domain_name"))[:50].partition("-")[0]
    if domain not in DOMAINS:
        raise UsageError(f"{path}: its domain is {domain or 'not told'!r}; the domains are {', '.join(DOMAINS)}")
    found = Findings(str(path), domain, str(_inside(info, "agent_info", "llm")), str(_inside(info, "user_info", "llm")))
    tasks = _Tasks(domain, head["tasks"])
    for where, row in _simulations(path, head, found):
        try:
            found.judged.append(_judged(row, where, tasks))
        except UsageError as error:
            found.unread.append(str(error)[:300])
    return found


class _Tasks:
    """The tasks of a result file, each read when it is first asked for."""

    def __init__(self, domain: str, rows: list[Any]) -> None:
        self.domain = domain
        self._rows = {row["id"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}
        self._read: dict[str, Tau2Task] = {}

    def get(self, name: str) -> Tau2Task:
        if name not in self._rows:
            raise UsageError(f"task {name[:100]!r} is not among the file's tasks")
        if name not in self._read:
            self._read[name] = read_task({**self._rows[name], "evaluation_criteria": None}, self.domain)
        return self._read[name]


def _simulations(path: Path, head: Mapping[str, Any], found: Findings) -> Iterator[tuple[str, Any]]:
    folder = path / "simulations"
    if path.is_dir() and folder.is_dir():
        files = sorted(one for one in folder.iterdir() if one.suffix == ".json")
        if len(files) > MAX_FILES:
            raise UsageError(f"{folder} holds more than {MAX_FILES} files")
        for file in files:
            try:
                yield file.name[:100], _read_json(file)
            except UsageError as error:
                found.unread.append(str(error)[:300])
        return
    rows = head.get("simulations")
    if not isinstance(rows, list):
        raise UsageError(f"{path}: no result file of tau2-bench: it has no list of simulations")
    yield from ((f"simulations[{place}]", row) for place, row in enumerate(rows))


def _judged(row: Any, where: str, tasks: _Tasks) -> Judged:
    try:
        told = shaped(row, _SIMULATION, where)
    except SchemaError as error:
        raise UsageError(str(error)) from None
    if len(told["messages"]) > MAX_MESSAGES:
        raise UsageError(f"{where}: more than {MAX_MESSAGES} messages")
    task = tasks.get(told["task_id"])
    lines = lines_of([one for message in told["messages"] for one in _parts(message)], f"{where}.messages")
    reward = (told["reward_info"] or {}).get("reward")
    faults = user_faults(task, lines, told["termination_reason"], builtin_domain(tasks.domain))
    said = tuple(lines[fault.line].text[:2000] for fault in faults)
    return Judged(task.id, told["trial"] or 0, None if reward is None else reward >= _PASSED, faults, said)


def _parts(message: Any) -> Sequence[Any]:
    """Return the messages of one that holds several tools' answers; any other alone."""
    several = message.get("tool_messages") if isinstance(message, Mapping) else None
    return several if isinstance(several, list | tuple) else (message,)


def _with(judged: Sequence[Judged], kind: str) -> int:
    return sum(any(fault.kind == kind for fault in one.faults) for one in judged)


def _examples(judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
    """Yield some faults of each kind, those of failures first."""
    shown = Counter[str]()
    for one in sorted(judged, key=lambda one: one.passed is not False):
        for fault, said in zip(one.faults, one.said, strict=True):
            if shown[fault.kind] < EXAMPLES:
                shown[fault.kind] += 1
                place = {"task": one.task, "trial": one.trial, "message": fault.line, "passed": one.passed}
                yield {"kind": fault.kind, **place, "what": fault.what, "said": said}


def _inside(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _read_json(path: Path) -> Any:
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise UsageError(f"{path} is no regular file of at most {MAX_BYTES:,} bytes")
        return json.loads(path.read_text(encoding="utf-8"))
    except UsageError:
        raise  # it is a ValueError, too
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} is no JSON: {type(error).__name__}") from None


def _print(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        show(f"{row['file']}: {row['domain']}, agent {row['agent'] or '?'}, user {row['user'] or '?'}")
        share = (
            "" if row["share"] is None else f" = {_percent(row['share'])} [{', '.join(map(_percent, row['interval']))}]"
        )
        show(
            f"{row['simulations']} simulations, {row['failures']} failures, {row['failures_with_user_fault']} of them with a "
            f"fault of the user{share}; {row['simulations_with_user_fault']} with one in all, {row['unscored']} unscored, "
            f"{row['unread']} unread{': ' + row['first_unread'] if row['unread'] else ''}"
        )
        kinds = [[kind, str(every), str(failed)] for kind, (every, failed) in row["kinds"].items() if every]
        if kinds:
            print_table("Simulations with a fault, by kind", ["kind", "all", "failed"], kinds)
        for one in row["examples"]:
            verdict = {True: "passed", False: "failed", None: "unscored"}[one["passed"]]
            place = f"task {one['task']}, trial {one['trial']}, message {one['message']}, {verdict}"
            show(f"  {one['kind']} ({place}): {one['what']}")
            show(f"      said: {' '.join(one['said'].split())[:300]}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 0, 2 where a path holds no result file, or 3 where some simulations could not be read."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.user_faults", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    try:
        found = [findings(path) for path in given.paths]
    except UsageError as error:
        show(f"error: {error}", sys.stderr)
        return 2
    rows = [one.as_json() for one in found]
    print_result(rows, given.json, lambda: _print(rows))
    return 3 if any(one.unread for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
