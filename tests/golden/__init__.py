"""Golden replays: what every id, and every named value of its enumerated arguments, gave when it was recorded.

`python -m tests.golden` records them again. Embedded variants keep whole trajectories, but for some of games; variants on
outside data keep digests only, and are checked where the data is. `promises.json` has a sha256 of each replay that a release
had, the settings of each id, and a sha256 of episodes that show how turns are read: under the same id these may not move any
more, while new ids and values are free until `--promise` adds them.
"""

import json
import re
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
# How turns are read: the defaults, and another value of each argument that every id has for it.
READ_WITH: tuple[dict[str, Any], ...] = ({}, {"examples": 2}, {"thoughts": "count"}, {"strict": True})
SPOILT = ("", "I am not sure yet.", "<answer>", '<tool_call>{"name": ', "#### **18** dollars")
TURNS_READ = 12  # of an episode whose turns are dressed
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


def settings(row: Row) -> dict[str, Any]:
    """Return what a replay need not touch: an id's limits and other defaults, its range of reward, the sizes of its splits."""
    env = gym.make(row.id).unwrapped
    sizes = {f"tasks of {split}": env.source.size(split) for split in env.source.splits}
    rewards = {"reward of an episode": env.reward_spec.episode}
    rewards |= {f"term {term.name}": (term.low, term.high) for term in env.reward_spec.terms}
    values = {"most turns": env.max_turns, **rewards, **sizes, **env.arguments}
    plain: dict[str, Any] = json.loads(canonical_json(values))
    return plain


def dressed(action: str | int) -> str | int:
    """Return a turn as language models write it: a thought first, and the answer in bold type."""
    if isinstance(action, int):
        return action
    bold = re.sub(r"(<answer>|#### ?)([^<>\n]+)", r"\1**\2**", action)
    return f"<think>Perhaps <answer>7</answer>, #### 7.</think> {bold}"


def reading(row: Row, arguments: dict[str, Any]) -> str:
    """Return the sha256 of how turns are read: malformed, cut off, with a thought, dressed; a short episode each."""
    env = gym.make(row.id, **arguments)
    start = {"task": 1, "split": env.unwrapped.source.splits[-1], "episode_key": "reading"}
    env.reset(seed=1, options=start)
    plan = agent_envs.solve(env)[:TURNS_READ]
    text = next((action for action in plan if isinstance(action, str)), "")
    spoilt = (*SPOILT, text[:-4], f"{text} {text}", f"**{text}**", f"```json\n{text}\n```", f"<think>{text}</think>")
    episodes = [*([turn] for turn in spoilt), list(map(dressed, plan))]
    rows = []
    for actions in episodes:
        env.reset(seed=1, options=start)
        for action in actions:
            if any(env.step(action)[2:4]):
                break
        rows.append(core_row(env.unwrapped.trajectory))
    return digest(rows)


def readings(row: Row) -> dict[str, str]:
    """Return the digests of how an id reads turns, by the canonical text of the arguments."""
    return {canonical_json(arguments): reading(row, arguments) for arguments in READ_WITH}


def load_promises(part: str = "replays") -> dict[str, dict[str, Any]]:
    """Return a part of the promises by id.

    "replays" and "readings" have a sha256 by the canonical text of a variant's arguments, "settings" values by name.
    """
    path = FOLDER / "promises.json"
    promises = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {env_id: promised.get(part, {}) for env_id, promised in promises.items()}


def row_digest(row: dict[str, Any]) -> str:
    """Return the sha256 of a recorded row's trajectories."""
    stored: str = row["digest"] if "digest" in row else digest(row["trajectories"])
    return stored


def check_promises(row: Row, recorded: dict[str, dict[str, Any]]) -> None:
    """Raise UsageError where a promised replay of an id is gone, or differs from the rows that are to be its golden."""
    registered = {canonical_json(arguments) for outside in (False, True) for arguments in variants(row, outside)}
    for arguments, promised in load_promises().get(row.id, {}).items():
        moved = arguments not in recorded or row_digest(recorded[arguments]) != promised
        if moved or arguments not in registered:
            raise UsageError(f"{row.id} {arguments} moved since its release: -v{row.version + 1} is needed")


def write_promises() -> int:
    """Promise what is not promised yet, and return how many replays are promised now. Nothing that is there changes."""
    new: dict[str, dict[str, dict[str, Any]]] = {
        row.id: {
            "replays": {name: row_digest(one) for name, one in load(row.id).items()},
            "readings": readings(row),
            "settings": settings(row),
        }
        for row in TABLE
    }
    for part in ("replays", "readings", "settings"):
        for env_id, kept in load_promises(part).items():
            parts = new.setdefault(env_id, {})
            parts[part] = parts.get(part, {}) | kept
    text = json.dumps(new, indent=0, sort_keys=True)
    (FOLDER / "promises.json").write_text(text + "\n", encoding="utf-8")
    return sum(len(parts["replays"]) for parts in new.values())


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
    "readings", "recording", "row_digest", "row_of", "settings", "variants", "write_promises",
]  # fmt: skip
