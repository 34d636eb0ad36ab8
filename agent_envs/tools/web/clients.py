"""Connections that all environments of a process share; they close after the last of these."""

import threading
import weakref

from agent_envs.services.http import HttpClient
from agent_envs.tools.web.url_policy import Guard

_CLIENTS: weakref.WeakValueDictionary[tuple[str, int, Guard | None], HttpClient] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def shared_client(name: str, max_bytes: int, guard: Guard | None = None) -> HttpClient:
    """Return the client of a name, with a cap on bodies and rules for addresses."""
    with _LOCK:
        client = _CLIENTS.get((name, max_bytes, guard))
        if client is None:
            client = _CLIENTS[name, max_bytes, guard] = HttpClient(name, max_bytes=max_bytes, admit=guard)
        return client
