"""Seats are what the server knows of its clients: connections, their sessions, and how far each one's episode is."""

import asyncio
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any

from agent_envs.rollout.episode_pool import PoolTurn
from agent_envs.serving.wire import Served

KEPT_BYTES = 2_048  # of a turn without its texts


@dataclass(frozen=True, slots=True)
class Stand:
    """How far an episode is: its turns, the last action and the answer to it, and roughly the bytes of all its texts."""

    turns: int = 0
    action: Any = None
    turn: PoolTurn | None = None
    size: int = 0

    def after(self, action: Any, turn: PoolTurn) -> "Stand":
        """Return the stand after a turn, or after a reset, whose action is None."""
        size = (
            self.size + KEPT_BYTES + 2 * (getsizeof(action) + getsizeof(turn.text))
        )  # texts stand in state and answer
        return Stand(self.turns + (action is not None), action, turn, size)


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """A call of a session that is under way, the key of its episode after it, and its stand, None where the answer tells it."""

    future: "asyncio.Future[Any]"
    key: str
    action: Any = None
    stand: Stand | None = None
    index: int = -1  # of a step


@dataclass(eq=False, slots=True)
class Seat:
    """An open episode and its last turn, which is told again to who repeats its index."""

    id: str
    owner: str
    served: Served
    last_call: float
    key: str = ""  # in the pool, once the first reset is through
    stand: Stand = Stand()
    episode_id: str = ""
    pending: Pending | None = None
    ended: bool = False


@dataclass(eq=False)
class Caller:
    """One connection: whose token it has, the environment of its address, and the session that ends with it, "" for none."""

    owner: str
    served: Served
    session: str = ""
    lasting: bool = False  # of HTTP: the next request may come on another connection
    opened: list[Seat] = field(default_factory=list)  # by a message whose answer is not delivered yet
