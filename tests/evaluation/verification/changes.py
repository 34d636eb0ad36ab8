"""Ways to change a packed submission, with the manifest made again, so that only the change itself can be found."""

import json

from agent_envs.evaluation.submission.pack import _write_manifest
from agent_envs.evaluation.verification.shards import read_lines
from tests.evaluation.submission.packing import files_of, gzipped

__all__ = ["change_rows", "files_of", "reseal", "shards_of"]


def reseal(folder):
    """Write the manifest again, as a forger would."""
    (folder / "manifest.json").unlink(missing_ok=True)
    _write_manifest(folder, replayed=True)


def shards_of(folder):
    return sorted(folder.glob("episodes/*/*.gz"))


def change_rows(folder, change, at=0):
    """Give the lines of a shard to `change` and write what it returns; the manifest fits."""
    path = shards_of(folder)[at]
    lines = change([json.loads(line) for line in read_lines(path)])
    rows = [json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for row in lines]
    path.write_bytes(gzipped("".join(f"{row}\n" for row in rows).encode(), level=0))
    reseal(folder)
