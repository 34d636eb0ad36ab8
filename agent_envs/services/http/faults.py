"""A failed exchange becomes an error of one line that holds no key and says whether a retry may help."""

import email.utils
import errno
import json
import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, urljoin, urlsplit

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.protocol import is_too_deep
from agent_envs.base.terminal import visible

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
OVERLOADED = 529
QUOTED_CHARACTERS = 300
SHORTEST_SECRET = 6
MAX_DEPTH = 100
# Asked with host, port and addresses before a connection is made; what it raises goes through to the caller.
Admit: TypeAlias = Callable[[str, int, Sequence[str]], None]
Kind: TypeAlias = Literal[
    "time", "busy", "resolver", "name", "network", "proxy", "tunnel", "connect", "tls", "size", "broken"
]
_NO_WAY_OUT = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_RESOLVER_FAILED = frozenset(
    getattr(socket, name) for name in ("EAI_AGAIN", "EAI_FAIL", "EAI_SYSTEM") if hasattr(socket, name)
)
_PLAIN_HEADERS = frozenset({"accept", "anthropic-version", "content-type", "user-agent"})


class TransportFault(EnvFault):
    """An exchange that came to no whole answer.

    Attributes:
        kind: what failed: `time`, `busy` (no free connection here), `resolver` (it did not answer), `name` (there is none),
            `network` (this machine's), `proxy`, `tunnel` (the proxy refused this host), `connect`, `tls`, `size`, or
            `broken` (the connection was lost, or what came is not sound HTTP).
    """

    def __init__(self, cause: str, kind: Kind = "broken", retryable: bool = True) -> None:
        super().__init__(cause, retryable)
        self.kind: Kind = kind


def place_of(name: str, method: str, url: str) -> str:
    """Return a request's name in messages, without query, user and header; raises UsageError where the URL is none."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{name}: the URL is not of the form http://HOST/PATH or https://HOST/PATH")
    return one_line(f"{name}: {method} {parts.hostname}{port}{parts.path}")


def one_line(text: str) -> str:
    """Return a stranger's text as it may stand in a message."""
    return " ".join(visible(text).split())[:QUOTED_CHARACTERS]


def refusal(status: int, headers: Mapping[str, str], body: bytes, place: str, url: str, secrets: list[str]) -> EnvFault:
    """Return the fault of a status other than 2xx: a redirect's target, or a 4xx body's quote less `secrets`; 5xx may retry."""
    if 300 <= status < 400:
        return EnvFault(f"{place}: answered {status}{_target(url, headers.get('location', ''))}", retryable=False)
    quote = ""
    if 400 <= status < 500:
        text = visible(body[: 20 * QUOTED_CHARACTERS].decode("utf-8", "replace"))
        for secret in secrets:
            text = text.replace(secret, "[hidden]")
        quote = one_line(text)
    retryable = status in RETRYABLE_STATUSES or status >= 500
    fault = EnvFault(f"{place}: answered {status}{quote and ': '}{quote}", retryable, wait_seconds_of(headers))
    fault.overloaded = status == OVERLOADED
    return fault


def wait_seconds_of(headers: Mapping[str, str]) -> float:
    """Return the seconds that `Retry-After` asks for; 0 where it is missing, past or not sound."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def secrets_of(url: str, headers: Mapping[str, str]) -> list[str]:
    """Return query values, user, password and headers' values of 6 or more characters, longest first, as possible keys."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query)] + [parts.query, parts.username or "", parts.password or ""]
    for name, value in headers.items():
        plain = name.lower() in _PLAIN_HEADERS or name.lower().startswith("x-stainless-")  # SDKs tell of themselves
        values += [] if plain else [value, *value.split()]
    return sorted({value for value in values if len(value) >= SHORTEST_SECRET}, key=lambda value: (-len(value), value))


def transport_fault(error: Exception, place: str, answered: bool, proxied: bool = False) -> Exception:
    """Return UsageError for an illegal request, else the TransportFault, with its kind, of an exchange without whole answer."""
    import httpcore

    sign = sign_of(error)
    if isinstance(error, httpcore.LocalProtocolError):
        return UsageError(f"{place}: the request is not legal HTTP (a line break in a key?)")
    if isinstance(sign, ssl.SSLCertVerificationError):
        return TransportFault(f"{place}: the server's TLS certificate is not trusted", "tls", retryable=False)
    if getattr(sign, "error_status_hint", 0) == 431:
        return TransportFault(f"{place}: the headers of the answer are too large", "size", retryable=False)
    if isinstance(sign, socket.gaierror):
        kind: Kind = "resolver" if sign.errno in _RESOLVER_FAILED else "name"
        return TransportFault(f"{place}: the name of the host cannot be resolved", "proxy" if proxied else kind)
    if isinstance(error, httpcore.ConnectError | httpcore.ProxyError):
        return TransportFault(f"{place}: cannot connect", _connection_kind(error, proxied))
    if answered:
        return TransportFault(f"{place}: the body is cut short or is not sound HTTP")
    if sign is not None:
        return TransportFault(f"{place}: the answer is not sound HTTP")
    return TransportFault(f"{place}: the connection was closed before the answer")


def _connection_kind(error: Exception, proxied: bool) -> Kind:
    """Classify a failed connection: `proxy`, `tunnel`, `network` or `connect`."""
    import httpcore

    if isinstance(error, httpcore.ProxyError):
        # "503 Service Unavailable": the proxy is there, and the host is not, or may not be reached.
        return "proxy" if str(error).startswith(("407", "429")) else "tunnel"
    if proxied:
        return "proxy"
    return "network" if is_unroutable(error) else "connect"


def is_unroutable(error: BaseException) -> bool:
    """Return whether a connection failed because this machine has no way to the address."""
    below: BaseException | None = error
    while below is not None and getattr(below, "errno", None) not in _NO_WAY_OUT:
        below = below.__cause__ or below.__context__
    return below is not None


def sign_of(error: BaseException) -> BaseException | None:
    """Return the telling error beneath one of httpcore (of TLS, name resolution or the HTTP parser); None if there is none."""
    below: BaseException | None = error
    while below is not None:
        telling = isinstance(below, ssl.SSLCertVerificationError | socket.gaierror)
        if telling or hasattr(below, "error_status_hint"):
            return below
        below = below.__cause__ or below.__context__
    return None


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text; ValueError for no JSON or UTF-8, NaN, an infinity or more than MAX_DEPTH levels."""
    text = body.decode("utf-8-sig")
    if is_too_deep(text, MAX_DEPTH):
        raise ValueError(f"more than {MAX_DEPTH} levels")
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    """Parse a finite number; NaN and infinity raise ValueError."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _target(url: str, location: str) -> str:
    """Compose a hint with a redirect's target, without query or password; "" if that is no URL."""
    try:
        parts = urlsplit(urljoin(url, location))
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return ""
    if not location or parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    return one_line(
        f": a redirect, which is not followed; set the URL to {parts.scheme}://{parts.hostname}{port}{parts.path}"
    )
