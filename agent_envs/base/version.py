"""`VERSION` and `code_digest` tell which package this is, for whoever records it or keeps what it computed."""

from functools import cache
from pathlib import Path

from agent_envs.base.serialization import digest, sha256_file

VERSION = "0.1.0"


@cache
def code_digest() -> str:
    """Return the digest of the installed package's files, cached: a change of any of them has everything computed again."""
    root = Path(__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest([[str(path.relative_to(root)), sha256_file(path)] for path in files])
