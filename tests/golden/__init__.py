"""Golden replays: what every id, and every named value of its enumerated arguments, gave when it was recorded.

`python -m tests.golden` records them again. Embedded variants keep whole trajectories, but for some of games; variants on
outside data keep digests only, and are checked where the data is. `promises.json` has a sha256 of each replay that a release
had: under the same id it may not move any more, while new ids and values are free until `--promise` adds them.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.core.registry import TABLE, Row, companion, row_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.policy import CompanionPolicy

FOLDER = Path(__file__).parent
# Arguments that have a meaning only together with another one.
BESIDE = {
    "vocabulary": lambda value: {"world": {"vocabulary": value, "short": value == "closed"}},
    "goal": lambda value: {"goal": value, "max_turns": 60} if value == "full" else {"goal": value},
    "agent": lambda value: {"side": "user", "agent": value},
    "policy": lambda value: {"tasks": "official", "policy": value},
    "guidelines": lambda value: {"tasks": "official", "side": "user", "guidelines": value},
}
# Of games, whose episodes are long, some variants are kept as digests too: the defaults and the rewards stand there whole.
DIGESTED = {"kind", "goal", "on_invalid", "prompt_role"}
POLICIES = ("solver", "heuristic", "random", "random")
# Families whose goldens are older than their heuristic: random play has its place, so that no golden had to move for it.
BEFORE_HEURISTICS = ("expa", "text_games", "tool_reasoning")


def variants(row: Row, outside: bool) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each variant of an id, the defaults first."""
    if not outside:
        yield {}
    for name, values in (row.outside if outside else row.variants).items():
        for value in values:
            yield BESIDE[name](value) if name in BESIDE else {name: value}


def play(row: Row, arguments: dict[str, Any]) -> list[Trajectory]:
    """Return the trajectories of the built-in policies on the first tasks of the last split but train."""
    env = gym.make(row.id, **arguments)
    splits = env.unwrapped.source.splits
    split = "test" if "test" in splits else splits[-1]
    records = []
    has_heuristic = companion(env, "heuristic") is not None and row.family not in BEFORE_HEURISTICS
    for task, kind in enumerate(POLICIES):
        kind = "random" if kind == "heuristic" and not has_heuristic else kind
        key = f"golden-{task}"
        result = agent_envs.run_episode(env, CompanionPolicy(kind), seed=task, task=task, split=split, episode_key=key)
        records.append(result.trajectory)
    return records


def core_row(trajectory: Trajectory) -> dict[str, Any]:
    """Return what a golden compares: everything but the spec digest, which a new argument may move without any score."""
    row = trajectory.to_json()
    row["header"] = {key: value for key, value in row["header"].items() if key != "spec_digest"}
    return row


def path_of(env_id: str) -> Path:
    """Return the golden file of an id."""
    return FOLDER / f"{env_id.split('/')[-1]}.jsonl"


def recording(env_id: str) -> str:
    """Return the command that records the golden file of an id."""
    return f"make golden ID={row_of(env_id).name}"


def is_default(env_id: str, arguments: dict[str, Any]) -> bool:
    """Return whether arguments only name defaults, which makes the very environment that is made without them."""
    named, bare = (gym.make(env_id, **chosen).unwrapped for chosen in (arguments, {}))
    return named.arguments == bare.arguments and named.spec_digest == bare.spec_digest


@lru_cache(maxsize=1)
def load(env_id: str) -> dict[str, dict[str, Any]]:
    """Return the recorded rows of an id, by the canonical text of the variant's arguments."""
    assert path_of(env_id).exists(), f"{env_id} has no golden replays: {recording(env_id)} records them"
    lines = path_of(env_id).read_text(encoding="utf-8").splitlines()
    return {canonical_json(row["arguments"]): row for row in map(json.loads, lines)}


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield the places where two JSON values differ, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, two) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, two, f"{where}[{place}]")
    elif old != new:
        yield f"{where}: was {str(old)[:200]!r}, is {str(new)[:200]!r}"


def load_promises() -> dict[str, dict[str, str]]:
    """Return the sha256 of each promised replay, by id and by the canonical text of the variant's arguments."""
    path = FOLDER / "promises.json"
    promises: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return promises


def row_digest(row: dict[str, Any]) -> str:
    """Return the sha256 of a recorded row's trajectories."""
    stored: str = row["digest"] if "digest" in row else digest(row["trajectories"])
    return stored


def check_promises(row: Row, recorded: dict[str, dict[str, Any]]) -> None:
    """Raise UsageError where a promised replay of an id is gone, or differs from the rows that are to be its golden."""
    for arguments, promised in load_promises().get(row.id, {}).items():
        if arguments not in recorded or row_digest(recorded[arguments]) != promised:
            raise UsageError(f"{row.id} {arguments} moved since its release: -v{row.version + 1} is needed")


def write_promises() -> int:
    """Promise each replay that is not promised yet, and return how many are promised now. None that is there changes."""
    old = load_promises()
    rows = {row.id: load(row.id) for row in TABLE}
    new = {
        env_id: {name: row_digest(one) for name, one in rows[env_id].items()} | old.get(env_id, {}) for env_id in rows
    }
    text = json.dumps(old | new, indent=0, sort_keys=True)
    (FOLDER / "promises.json").write_text(text + "\n", encoding="utf-8")
    return sum(map(len, (old | new).values()))


def record(row: Row, with_data: bool) -> None:
    """Write the golden file of an id; digests of outside variants are kept where the data is not here.

    Raises:
        UsageError: a promised replay moved.
    """
    lines = []
    for arguments in variants(row, outside=False):
        rows = [core_row(item) for item in play(row, arguments)]
        kept = {"digest": digest(rows)} if DIGESTED & arguments.keys() else {"trajectories": rows}
        lines.append({"arguments": arguments, **kept})
    known = load(row.id) if path_of(row.id).exists() else {}
    for arguments in variants(row, outside=True):
        if with_data:
            lines.append({"arguments": arguments, "digest": digest([core_row(item) for item in play(row, arguments)])})
        elif canonical_json(arguments) in known:
            lines.append(known[canonical_json(arguments)])
    check_promises(row, {canonical_json(line["arguments"]): line for line in lines})
    text = "".join(canonical_json(line) + "\n" for line in lines)
    path_of(row.id).write_text(text, encoding="utf-8")


__all__ = [
    "TABLE", "check_promises", "core_row", "differences", "is_default", "load", "load_promises", "path_of", "play", "record",
    "recording", "row_digest", "row_of", "variants", "write_promises",
]  # fmt: skip
