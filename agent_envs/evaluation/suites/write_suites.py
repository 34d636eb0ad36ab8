"""`make suites` writes the suites of the package, which are frozen from the first release on and may change before it.

`core` covers every id that text can play: its version is 1.N for N entries, and each family weighs the same. `demo` is a small
part of it. `calc-bench`, `sorting` and `babyai` follow papers' evaluations on generated tasks; see docs/leaderboard.md.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.core.registry import NAMESPACE, TABLE, full_id
from agent_envs.core.wrapper_stack import core_of
from agent_envs.evaluation.suites.plan import tasks_of
from agent_envs.evaluation.suites.suite import DEMO, Entry, Suite, suite_text

TASKS, TRIALS = 128, 4
DEMO_TASKS = 8
CANARY = "agent-envs suite, never train on it: canary 7c1e5b0e-3d5a-4f4e-9a53-0b8d2f6c91d4"
FOLDER = Path(__file__).parent
# Test tasks of the four parts of Calc-Bench (arXiv 2510.07581, Table 3); Table 1's Overall is the plain mean of the parts.
CALC_BENCH = {"Arithmetic": 2_000, "Countdown": 2_000, "Count": 2_000, "GSM8KScaled": 579}
SORTING, SORT_TASKS = (4, 5), 1_000  # "2,000 examples, equally split between Sort-4 and Sort-5"
BABYAI = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")


def _entry(label: str, name: str, tasks: int, weight: float = 1.0, **arguments: Any) -> Entry:
    core = core_of(gym.make(full_id(name), **arguments))
    given: dict[str, Any] = {"arguments": arguments, "split": "test", "weight": weight}
    drawn = tasks_of(core, "test", tasks)
    return Entry(label=label, env_id=full_id(name), spec_digest=core.spec_digest, tasks=drawn, **given)


def _every_id(tasks: int) -> tuple[Entry, ...]:
    rows = [row for row in TABLE if not row.twin]
    members = Counter(row.family for row in rows)
    return tuple(_entry(row.id.removeprefix(f"{NAMESPACE}/"), row.name, tasks, 1 / members[row.family]) for row in rows)


def core_suite() -> Suite:
    """Return `core`: every such id with its default arguments, 128 test tasks, 4 trials."""
    entries = _every_id(TASKS)
    return Suite(id="core", version=f"1.{len(entries)}", canary=CANARY, trials=TRIALS, entries=entries)


def shipped_suites() -> tuple[Suite, ...]:
    """Return all of them."""
    calc = tuple(_entry(name, name, tasks) for name, tasks in CALC_BENCH.items())
    sorts = tuple(_entry(f"Sort-{size}", "Sort", SORT_TASKS, size=size) for size in SORTING)
    levels = tuple(_entry(kind, "BabyAI", TASKS, kind=kind) for kind in BABYAI)
    papers = {"calc-bench": calc, "sorting": sorts, "babyai": levels}
    return (
        core_suite(),
        Suite(id=DEMO, version="1.0", canary=CANARY, trials=1, entries=_every_id(DEMO_TASKS)),
        *(Suite(id=name, version="1.0", canary=CANARY, trials=1, entries=rows) for name, rows in papers.items()),
    )


def main() -> None:
    """Write the files."""
    for suite in shipped_suites():
        path = FOLDER / f"{suite.id}.json"
        path.write_bytes(suite_text(suite).encode())
        print(path)


if __name__ == "__main__":
    main()
