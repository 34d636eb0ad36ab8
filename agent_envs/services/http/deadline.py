"""The network layer for httpcore takes a timeout as the moment when the whole exchange must be over.

A timeout for each read is no deadline, because a server that drips one byte at a time never meets it. Here every
`timeout` that httpcore hands through is a value of `time.monotonic()`.
"""

import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Iterable
from ssl import SSLContext
from typing import Any

import httpcore

from agent_envs.services.http.faults import Admit, is_unroutable

# A slow reader frees its buffer bit by bit; between two pieces the clock is read.
WRITE_BYTES = 16_384


class NameTimeout(httpcore.ConnectTimeout):
    """The resolver of this machine did not answer in time."""


class DeadlineBackend(httpcore.NetworkBackend):
    """Connects within what is left of the time, the resolution of names included."""

    def __init__(self, admit: Admit | None = None) -> None:
        """Set the check that each host's addresses must pass; connections go to these very addresses."""
        self._admit = admit

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address that answers, each with an equal share of time; the most telling failure if none."""
        ends = _deadline_of(timeout)
        try:
            addresses = resolve(host, port, _seconds_left(ends, httpcore.ConnectTimeout))
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        if self._admit is not None:
            self._admit(host, port, addresses)
        failure: Exception = httpcore.ConnectError("the name has no address")
        for number, address in enumerate(addresses):
            share = _seconds_left(ends, httpcore.ConnectTimeout) / (len(addresses) - number)
            try:
                stream = httpcore.SyncBackend().connect_tcp(address, port, share, local_address, socket_options)
                return _DeadlineStream(stream)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                # A server that refuses says more than an address that this machine has no way to.
                failure = failure if number and is_unroutable(error) else error
        raise failure


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read at most so many bytes; httpcore.ReadTimeout when the deadline is over."""
        return self._stream.read(max_bytes, _seconds_left(_deadline_of(timeout), httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write in pieces, each within what is left to the deadline; httpcore.WriteTimeout when it is over."""
        for start in range(0, len(buffer), WRITE_BYTES):
            left = _seconds_left(_deadline_of(timeout), httpcore.WriteTimeout)
            self._stream.write(buffer[start : start + WRITE_BYTES], left)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Begin TLS and return the encrypted stream with the same rule on deadlines; ConnectTimeout when it is over."""
        left = _seconds_left(_deadline_of(timeout), httpcore.ConnectTimeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        """Return the inner stream's information of that name, such as its socket."""
        return self._stream.get_extra_info(info)


def _deadline_of(timeout: float | None) -> float:
    """Return a timeout, which stands for a moment of the monotonic clock; None is now, so at once over."""
    # Only a request without a deadline has none, and the client sends no such request.
    return time.monotonic() if timeout is None else timeout


def _seconds_left(ends: float, late: type[Exception]) -> float:
    """Return the seconds to a moment; raise `late` if it is over."""
    left = ends - time.monotonic()
    if left <= 0.0:
        raise late("the deadline is over")
    return left


def resolve(host: str, port: int, seconds: float) -> list[str]:
    """Return a host's addresses, each once, of an address itself; names are looked up in a thread: NameTimeout or OSError.

    Raises:
        NameTimeout: the resolver did not answer in time.
        OSError: there is no such name, or the resolver failed.
    """
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass  # a name
    answers: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        """Resolve the host in a thread of its own, and put addresses or the error into the queue."""
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(info[4][0]) for info in infos)))
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else socket.gaierror(str(error)))

    # The resolver knows no deadline; a thread that is late is left behind.
    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise NameTimeout("the name was not resolved in time") from None
    if isinstance(answer, OSError):
        raise answer
    return answer
