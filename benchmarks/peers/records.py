"""`PeerTurn` is what a peer's user would keep of each turn, as our environments keep it by themselves."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PeerTurn:
    """One turn, as its step returned it."""

    index: int
    action: str
    observation: Any
    reward: float
    ended: bool
    info: tuple[tuple[str, Any], ...]
