"""The HTTP client calls outside services with one deadline over everything, a cap on bytes, and failures as `EnvFault`s.

It stands on httpcore, the part of httpx that owns connections, because only there can a deadline cut an exchange anywhere
and leave the connections sound: cancelling httpx's asynchronous client leaks sockets and blocks its pool for good.

Modules, in reading order:
    client: `HttpClient`: requests, JSON answers, the cap on bytes, gzip, one more try on a stale connection; clients that
        environments of a process share, and endpoints that may stand in a name.
    faults: `TransportFault`, statuses that may be retried, `Retry-After`, hidden keys, bounded JSON.
    deadline: the network layer that cuts connects, reads and writes, and the resolution of names.
    connections: connection pools, keep-alive, proxies of the environment, TLS.
"""

from agent_envs.services.http.client import HttpClient, HttpReply, endpoint_of, http_parts, shared_client
from agent_envs.services.http.faults import RETRYABLE_STATUSES, TransportFault, wait_seconds_of

__all__ = [
    "RETRYABLE_STATUSES", "HttpClient", "HttpReply", "TransportFault", "endpoint_of", "http_parts", "shared_client",
    "wait_seconds_of",
]  # fmt: skip
