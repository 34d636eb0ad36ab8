"""Environments of a process share their connections to a service, which is named by a URL that may be recorded."""

import threading
import weakref
from urllib.parse import urlsplit

from agent_envs.base.errors import UsageError
from agent_envs.services.http.client import HttpClient
from agent_envs.services.http.faults import Admit

_CLIENTS: weakref.WeakValueDictionary[tuple[str, int, Admit | None], HttpClient] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def shared_client(name: str, max_bytes: int, admit: Admit | None = None) -> HttpClient:
    """Return the client of a name, with a cap on bodies and rules for addresses; it closes after the last who has it."""
    with _LOCK:
        client = _CLIENTS.get((name, max_bytes, admit))
        if client is None:
            client = _CLIENTS[name, max_bytes, admit] = HttpClient(name, max_bytes=max_bytes, admit=admit)
        return client


def endpoint_of(owner: str, url: str, path: str, secret: str = "") -> str:
    """Return the normal form of the URL of `OWNER@URL`; one without a path gets `path`.

    Raises:
        UsageError: it is no http(s) URL, or holds a password, a query or a fragment; `secret` says where a secret belongs.
    """
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{owner}@...: after the @ stands http://HOST[:PORT][/PATH] or https://...")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UsageError(
            f"{owner}@{parts.scheme}://{parts.hostname}: names are recorded, so a URL holds no password, query or fragment"
            f"{secret}"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/') or path}"
