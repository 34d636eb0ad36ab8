"""All environments of a process share their HTTP connections to the web, which close after the last of them."""

import threading
import weakref

from agent_envs.services.http import HttpClient
from agent_envs.tools.web.url_policy import UrlPolicy

_CLIENTS: weakref.WeakValueDictionary[tuple[str, int, UrlPolicy | None], HttpClient] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def shared_client(name: str, max_bytes: int, url_policy: UrlPolicy | None = None) -> HttpClient:
    """Return the client of a name, with a cap on bodies and rules for addresses."""
    with _LOCK:
        client = _CLIENTS.get((name, max_bytes, url_policy))
        if client is None:
            client = _CLIENTS[name, max_bytes, url_policy] = HttpClient(name, max_bytes=max_bytes, admit=url_policy)
        return client
