"""Code in an interpreter of its own: with another hash seed than this process has, what depends on it comes out otherwise."""

import os
import subprocess
import sys

from tests import ROOT


def printed(code: str, *arguments: object, hash_seed: str = "4242", **variables: str) -> str:
    """Return what code prints, run from the checkout's root; it has to end well, and to warn of nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, **variables}, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout
