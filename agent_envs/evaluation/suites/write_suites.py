"""`make suites` writes the suites of the package, which are frozen from the first release on and may change before it.

`core` covers every id that text can play: its version is 1.N for N entries, and each family weighs the same.
"""

from collections import Counter
from pathlib import Path

import gymnasium as gym

from agent_envs.core.registry import NAMESPACE, TABLE
from agent_envs.core.wrapper_stack import core_of
from agent_envs.datasets.corpora import write_atomically
from agent_envs.evaluation.suites.plan import tasks_of
from agent_envs.evaluation.suites.suite import Entry, Suite, suite_text

TASKS = 128
TRIALS = 4
FOLDER = Path(__file__).parent


def core_suite() -> Suite:
    """Return `core`: every such id with its default arguments, 128 test tasks, 4 trials."""
    rows = [row for row in TABLE if not row.twin]
    members = Counter(row.family for row in rows)
    entries = []
    for row in rows:
        core = core_of(gym.make(row.id))
        entries.append(
            Entry(
                label=row.id.removeprefix(f"{NAMESPACE}/"),
                env_id=row.id,
                arguments={},
                spec_digest=core.spec_digest,
                split="test",
                weight=1 / members[row.family],
                tasks=tasks_of(core, "test", TASKS),
            )
        )
    return Suite(id="core", version=f"1.{len(entries)}", trials=TRIALS, entries=tuple(entries))


def main() -> None:
    """Write the files."""
    text = suite_text(core_suite())
    write_atomically(FOLDER / "core.json", lambda file: file.write(text.encode()))
    print(FOLDER / "core.json")


if __name__ == "__main__":
    main()
