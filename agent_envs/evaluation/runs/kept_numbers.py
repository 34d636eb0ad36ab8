"""What the episodes of a finished large run came to is kept in the cache folder, so that its journal is decoded once.

It does not lie in the run's folder, where somebody else's run could bring its own.
"""

import json
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

from agent_envs.base.serialization import sha256_file
from agent_envs.core.registry import env_ids
from agent_envs.datasets.kept_rows import keep_rows, place_of
from agent_envs.evaluation.runs.episode_numbers import EpisodeNumbers
from agent_envs.evaluation.runs.measures import Measures
from agent_envs.evaluation.suites.suite import Suite

LEAST = 1_000  # episodes: a smaller run is read in less than the start of a process takes
_VALUES = attrgetter(*(field.name for field in fields(EpisodeNumbers)))


class KeptNumbers:
    """The place of one run's numbers; none for a small run, nor for environments of others, whose code no digest covers."""

    def __init__(self, suite: Suite, identity: dict[str, object], journal: Path) -> None:
        size, ours = suite.trials * sum(len(entry.tasks) for entry in suite.entries), set(env_ids())
        fits = size >= LEAST and journal.is_file() and all(entry.env_id in ours for entry in suite.entries)
        self._path = place_of("numbers", suite.digest(), identity, sha256_file(journal)) if fits else None

    def load(self) -> list[EpisodeNumbers] | None:
        """Return the numbers of every planned episode, None where they are not kept."""
        known = self._path is not None and self._path.is_file()
        return [EpisodeNumbers(*row) for row in json.loads(self._path.read_bytes())] if self._path and known else None

    def keep(self, numbers: list[EpisodeNumbers], measures: Measures) -> None:
        """Keep the numbers of a run where everything is played and told."""
        if self._path is not None and not measures.notes and all(item.played for item in numbers):
            keep_rows(self._path, [_VALUES(item) for item in numbers])
