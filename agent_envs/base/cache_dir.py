"""Downloaded data and built indexes are kept in one cache folder."""

import os
import sys
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache folder: `AGENT_ENVS_CACHE` where it is set, else `agent_envs` in the platform's user cache.

    The folder is not created here.
    """
    chosen = os.environ.get("AGENT_ENVS_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "agent_envs" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "agent_envs"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "agent_envs"
