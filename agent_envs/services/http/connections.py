"""The connections of one client in one process are pooled by kind and proxy, and a bound holds how many are used at once."""

import base64
import functools
import os
import ssl
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_envs.base.errors import UsageError
from agent_envs.services.http.faults import Admit

if TYPE_CHECKING:
    import httpcore

KEEPALIVE_SECONDS = 30.0


class Connections:
    """Open connections. They belong to the process that made them: a forked child makes its own."""

    def __init__(self, name: str, limit: int, admit: Admit | None = None) -> None:
        """Open nothing yet; `admit` is asked before each connection that goes through no proxy."""
        self.process = os.getpid()
        self._name, self._limit, self._admit = name, limit, admit
        self._free = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False
        self._proxies: dict[str, str] = {}
        self._pools: dict[tuple[bool, str], httpcore.ConnectionPool] = {}

    @contextmanager
    def lend(self, scheme: str, host: str, seconds: float) -> "Iterator[httpcore.ConnectionPool]":
        """Lend the pool for a host once a connection is free; TimeoutError where none is within `seconds`.

        The pool itself has no limit: one that makes callers wait may keep a connection for a caller who gave up.

        Raises:
            TimeoutError: none was free in time.
        """
        if not self._free.acquire(timeout=max(seconds, 0.0)):
            raise TimeoutError
        with self._lock:
            self._users += 1
        try:
            with self._lock:
                pool = self._pool(scheme, host)
            yield pool
        finally:
            with self._lock:
                self._users -= 1
                over = self._closed and not self._users
            self._free.release()
            if over:
                self._close_pools()

    def close(self) -> None:
        """Close what is open once exchanges under way have ended; nothing in a forked child, as they are the parent's."""
        if self.process != os.getpid():
            return  # the parent's, and a lock may have been held when the process forked
        with self._lock:
            self._closed = True
            over = not self._users
        if over:
            self._close_pools()

    def _close_pools(self) -> None:
        """Close the pools of connections."""
        for pool in self._pools.values():
            pool.close()

    def _pool(self, scheme: str, host: str) -> "httpcore.ConnectionPool":
        """Return the pool of connections for a host: one each for plain and secure connections and each proxy."""
        origin = f"{scheme}://{host}"
        if origin not in self._proxies:
            # What httpx does, too: http_proxy, https_proxy, all_proxy, no_proxy and the system's settings.
            proxies = {} if urllib.request.proxy_bypass(host) else urllib.request.getproxies()
            self._proxies[origin] = proxies.get(scheme) or proxies.get("all") or ""
        key = (scheme == "https", self._proxies[origin])
        if key not in self._pools:
            self._pools[key] = self._open_pool(*key)
        return self._pools[key]

    def _open_pool(self, secure: bool, proxy: str) -> "httpcore.ConnectionPool":
        """Open a pool of connections, through the proxy if there is one."""
        import httpcore

        from agent_envs.services.http.deadline import DeadlineBackend

        context, limit = tls_context() if secure else None, self._limit
        if not proxy:
            return httpcore.ConnectionPool(
                ssl_context=context,
                max_connections=None,
                max_keepalive_connections=limit,
                keepalive_expiry=KEEPALIVE_SECONDS,
                network_backend=DeadlineBackend(self._admit),
            )
        address, authorization = _proxy(self._name, proxy)
        return httpcore.HTTPProxy(
            address, proxy_headers=authorization,
            proxy_ssl_context=tls_context() if address.startswith("https:") else None, ssl_context=context,
            max_connections=None, max_keepalive_connections=limit, keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=DeadlineBackend(),
        )  # fmt: skip


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the one TLS context of the process, because reading the certificates takes 20 ms."""
    import httpx

    return httpx.create_ssl_context()


def basic_authorization(user: str, password: str) -> str:
    """Return the value of an `Authorization` header for Basic, from a percent-encoded user and password."""
    pair = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _proxy(name: str, proxy: str) -> tuple[str, list[tuple[str, str]]]:
    """Parse a proxy's address into its URL and authorization headers, [] without a user; UsageError if not http(s)."""
    parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{name}: the proxy of the environment is not of the form http://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if parts.username is None:
        return f"{parts.scheme}://{host}:{port}", []
    value = basic_authorization(parts.username, parts.password or "")
    return f"{parts.scheme}://{host}:{port}", [("Proxy-Authorization", value)]
