"""HTTP for outside services: one deadline over everything, a cap on bytes, and every failure as one kind of error.

`client` sends and bounds, `connections` keeps what is open, `deadline` cuts reads and writes, `faults` says what went wrong.
It stands on httpcore, the part of httpx that owns connections, because only there can a deadline cut an exchange anywhere
and leave the connections sound: cancelling httpx's asynchronous client leaks sockets and blocks its pool for good.
"""

from agent_envs.services.http.client import HttpClient, HttpReply
from agent_envs.services.http.faults import RETRYABLE_STATUSES, TransportFault, wait_seconds_of

__all__ = ["RETRYABLE_STATUSES", "HttpClient", "HttpReply", "TransportFault", "wait_seconds_of"]
