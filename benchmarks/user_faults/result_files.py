"""`findings` reads a result file of tau2-bench: one JSON file, or a folder with `results.json` and a file a simulation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2.builtin import DOMAINS, builtin_domain
from agent_envs.envs.tau2.record_schema import Anything, Default, Maybe, SchemaError, shaped
from agent_envs.envs.tau2.task_schema import MESSAGE, Tau2Task, read_task, spoken
from benchmarks.user_faults.findings import Findings, Judged
from benchmarks.user_faults.rules import user_faults

MAX_BYTES = 1_000_000_000  # of a file
MAX_FILES = 50_000  # of a folder
MAX_MESSAGES = 5_000  # of a simulation
_PASSED = 1 - 1e-6
_SIMULATION = {
    "task_id": str, "messages": [Anything()], "trial": Maybe(int), "termination_reason": Default(str, ""),
    "reward_info": Maybe({"reward": Maybe(float)}),
}  # fmt: skip


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
        if len(told["messages"]) > MAX_MESSAGES:
            raise UsageError(f"{where}: more than {MAX_MESSAGES} messages")
        task = tasks.get(told["task_id"])
        parts = [one for message in told["messages"] for one in _parts(message)]
        lines = spoken(shaped(parts, [MESSAGE], f"{where}.messages"))
    except SchemaError as error:
        raise UsageError(str(error)) from None
    reward = (told["reward_info"] or {}).get("reward")
    faults = user_faults(task, lines, told["termination_reason"], builtin_domain(tasks.domain))
    said = tuple(lines[fault.line].text[:2000] for fault in faults)
    return Judged(task.id, told["trial"] or 0, None if reward is None else reward >= _PASSED, faults, said)


def _parts(message: Any) -> Sequence[Any]:
    """Return the messages of one that holds several tools' answers; any other alone."""
    several = message.get("tool_messages") if isinstance(message, Mapping) else None
    return several if isinstance(several, list | tuple) else (message,)


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
