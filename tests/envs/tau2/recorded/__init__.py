"""Small tasks with recorded dialogues, which tests play: `tasks="builtin"`, and `user="replay"` or `agent="replay"`.

Importing this module makes both known to the environments of this process. `DOMAIN_tasks.json` holds the tasks by split: rows
of the published form with one more member, `recording`, what both sides say (see `dialogue`).
"""

import json
from functools import cache
from importlib.resources import files

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2 import metrics
from agent_envs.envs.tau2.builtin import builtin_domain, known_domain
from agent_envs.envs.tau2.env import SOURCES
from agent_envs.envs.tau2.partners import PLAYERS
from agent_envs.envs.tau2.scene import recorded_lines
from agent_envs.envs.tau2.tasks import RowSource

SPLITS = ("train", "dev", "test")


@cache
def builtin_rows(name):
    """Return a domain's tasks by split, to read only."""
    rows = json.loads(files(__package__).joinpath(f"{name}_tasks.json").read_text(encoding="utf-8"))
    return {split: tuple(rows[split]) for split in SPLITS}


class BuiltinSource(RowSource):
    """The small tasks of a domain, in train, dev and test."""

    def __init__(self, domain):
        rows = builtin_rows(known_domain(domain))
        splits = {split: tuple(str(row["id"]) for row in of_split) for split, of_split in rows.items()}
        by_id = {row["id"]: row for of_split in rows.values() for row in of_split}
        super().__init__(f"builtin-{domain}", by_id.__getitem__, splits)


class Replay:
    """Says the recorded lines in order, whatever is said to it; where they end, it stops."""

    name, service = "replay", ""

    def speak(self, scene):
        place, lines = scene.memory or 0, recorded_lines(scene.task, scene.side)
        if type(place) is not int or place < 0:
            raise UsageError(
                "tau2: the stored state of the replayed side cannot be read: it is no place in a recording"
            )
        return (lines[place], place + 1) if place < len(lines) else (None, place)


SOURCES["builtin"] = lambda domain, compat, workflow: (builtin_domain(domain, compat), BuiltinSource(domain))
PLAYERS["user", "replay"] = PLAYERS["assistant", "replay"] = lambda persona: Replay()
metrics._DOMAINS["builtin"] = lambda name, task: builtin_domain(name)
