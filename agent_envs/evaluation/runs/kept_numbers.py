"""What the episodes of a large run came to is kept in the cache folder, so that its finished journal is decoded once.

A file there is named by the journal's bytes, the run's suite and settings, and the package's code: a change of any of these has
the journal read again. It lies in the cache folder and not in the run's, where somebody else's run could bring its own.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from pathlib import Path

from agent_envs.base.cache_dir import cache_dir
from agent_envs.base.serialization import digest, sha256_file
from agent_envs.core.registry import env_ids
from agent_envs.datasets.corpora import write_atomically
from agent_envs.evaluation.runs.episode_numbers import EpisodeNumbers
from agent_envs.evaluation.runs.measures import Measures
from agent_envs.evaluation.suites.suite import Suite

FOLDER = "numbers"
LEAST = 1_000  # episodes: a smaller run is read in less than the start of a process takes
MOST_FILES = 32

_VALUES = attrgetter(*(field.name for field in fields(EpisodeNumbers)))


@cache
def code_digest() -> str:
    """Return the digest of the installed package's files."""
    root = Path(__file__).parents[2]
    files = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest([[str(path.relative_to(root)), sha256_file(path)] for path in files])


class KeptNumbers:
    """The place of one run's numbers."""

    def __init__(self, suite: Suite, identity: dict[str, object], journal: Path) -> None:
        """Name the place. There is none for a small run, nor for environments of others, whose code nothing here covers."""
        ours, self._path = set(env_ids()), None
        size = suite.trials * sum(len(entry.tasks) for entry in suite.entries)
        if size >= LEAST and journal.is_file() and all(entry.env_id in ours for entry in suite.entries):
            name = digest([suite.digest(), identity, sha256_file(journal), code_digest()])
            self._path = cache_dir() / FOLDER / f"{name[:32]}.json"

    def load(self) -> list[EpisodeNumbers] | None:
        """Return the numbers of every planned episode, None where they are not kept."""
        if self._path is None or not self._path.is_file():
            return None
        return [EpisodeNumbers(*row) for row in json.loads(self._path.read_bytes())]

    def keep(self, numbers: Sequence[EpisodeNumbers], measures: Measures) -> None:
        """Keep the numbers of a run where all is played and told, and forget those of the runs that were kept first."""
        if self._path is None or measures.notes or not all(item.played for item in numbers):
            return
        text = json.dumps([_VALUES(item) for item in numbers]).encode()
        with contextlib.suppress(OSError):  # without a cache a run is decoded each time
            write_atomically(self._path, lambda file: file.write(text))
            files = sorted(self._path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
            for path in files[:-MOST_FILES]:
                path.unlink(missing_ok=True)
