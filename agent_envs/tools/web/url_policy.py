"""The URL policy admits public hosts, web ports and no passwords, and so guards against requests to a private network.

The name of a host proves nothing, so the addresses that it resolves to are checked, all of them, at the moment when a
connection to one of them is made (`HttpClient(admit=...)`); no other look-up lies between, and each redirect is a new URL.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from agent_envs.base.errors import UsageError
from agent_envs.tools.web.text import one_line

MAX_URL_CHARACTERS = 2_048
PORTS = (80, 443, 8080, 8443)
_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65_535
_MAX_HOST_CHARACTERS = 253
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)*[a-z0-9_][a-z0-9_-]{0,62}")
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_V6_PUBLIC = ipaddress.IPv6Network("2000::/3")
_V6_OF_V4 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::ffff:0:0/96"))
_NO_URL = "This is no URL of the form http://HOST/PATH or https://HOST/PATH."
# Not told from public ones by `is_global` of every Python: protocol assignments (one cloud's metadata among them), relays of
# 6to4, Azure's host; Teredo and its kin, documentation.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2001::/23", "2001:db8::/32", "3fff::/20")
)


class Unopenable(Exception):
    """A page that is not opened, for good; the message is a sentence for the policy."""


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """The rules, with the hosts that are exempt from them: (host, port), port 0 for all of its ports."""

    private: tuple[tuple[str, int], ...] = ()

    def place(self, url: str) -> str:
        """Return a URL in normal form; Unopenable for its form, a secret, or (exempt hosts apart) a port or private name.

        Raises Unopenable: it is none that may be opened, whatever its host resolves to.
        """
        import httpx

        if len(url) > MAX_URL_CHARACTERS:
            raise Unopenable(f"The URL is longer than {MAX_URL_CHARACTERS:,} characters.")
        try:
            parts = httpx.URL(url).copy_with(fragment=None)
            host, place = parts.raw_host.decode("ascii"), str(parts)
            secret = "@" in urlsplit(place).netloc
        except (httpx.InvalidURL, ValueError):
            raise Unopenable(_NO_URL) from None
        if parts.scheme not in _PORTS or not _sound_host(host):
            raise Unopenable(_NO_URL)
        if secret:
            raise Unopenable("The URL holds a user name or a password.")
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        if not 0 < port <= _LAST_PORT:
            raise Unopenable(_NO_URL)
        if not self._exempt(host, port):
            if port not in PORTS:
                raise Unopenable(f"Port {port} is not opened; the ports are {', '.join(map(str, PORTS))}.")
            if _private_name(host):
                raise _refusal(host)
        return place

    def __call__(self, host: str, port: int, addresses: Sequence[str]) -> None:
        """Refuse a host one of whose addresses is not public; raises Unopenable where there is one."""
        if not self._exempt(host, port) and not all(is_public(address) for address in addresses):
            raise _refusal(host)

    def _exempt(self, host: str, port: int) -> bool:
        """Return whether a host is exempt from the rules, at this port or at all of its ports."""
        name = _normal(host)
        return (name, 0) in self.private or (name, port) in self.private


def url_policy_for(private_hosts: Iterable[str]) -> UrlPolicy:
    """Return the policy that lets these hosts pass; UsageError for what is neither a host nor host:port.

    Args:
        private_hosts: `host` for all of its ports, or `host:port`; an IPv6 address with a port in brackets.

    Raises:
        UsageError: one is neither.
    """
    exempt = []
    for text in private_hosts:
        host, port = (text.lower(), "0") if _is_address(text) else _split(text.lower())
        if not _sound_host(host) or not port.isdecimal() or not int(port[:6]) <= _LAST_PORT:
            raise UsageError(
                f"PageReader: private_hosts holds {text!r}; give a host or host:port, without a scheme or path"
            )
        exempt.append((_normal(host), int(port)))
    return UrlPolicy(tuple(exempt))


def is_public(address: str) -> bool:
    """Return whether a text is an IP address of the public internet; IPv4 addresses inside IPv6 ones count as themselves."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if any(parsed in network for network in _V6_OF_V4):
            return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
        if parsed.sixtofour is not None:
            return is_public(str(parsed.sixtofour))
        if parsed not in _V6_PUBLIC:
            return False
    return parsed.is_global and not parsed.is_multicast and not any(parsed in network for network in _NOT_PUBLIC)


def _split(text: str) -> tuple[str, str]:
    """Split `host:port`; port "0", which stands for all, where there is none. A bare IPv6 address is not for it."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, "0"
    return host.removeprefix("[").removesuffix("]"), port


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _normal(host: str) -> str:
    """Return a lower-case host without the dot at its end, or an IP address in its one spelling."""
    return str(ipaddress.ip_address(host)) if _is_address(host) else host.removesuffix(".")


def _sound_host(host: str) -> bool:
    """Return whether a host is a well-formed name, or an IP address without a scope."""
    # A scope ("%eth0") names an interface of this machine.
    if len(host) > _MAX_HOST_CHARACTERS or "%" in host:
        return False
    return _is_address(host) or _NAME.fullmatch(host.removesuffix(".")) is not None


def _private_name(host: str) -> bool:
    """Return whether a host is a private address, a single label, a number or of a private suffix; names are not resolved."""
    if _is_address(host):
        return not is_public(host)
    name = host.removesuffix(".")
    labels = name.split(".")
    # The old spellings of addresses: 2130706433, 127.1, 0x7f.0.0.1.
    if len(labels) == 1 or _NUMBER.fullmatch(labels[-1]):
        return True
    return any(name.endswith(f".{suffix}") for suffix in _PRIVATE_NAMES)


def _refusal(host: str) -> Unopenable:
    """Return the error for a host that is not public."""
    return Unopenable(f"{one_line(host, _MAX_HOST_CHARACTERS)} is no public host.")
