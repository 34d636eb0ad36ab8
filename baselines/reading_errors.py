"""`Errors` are the scripted reader's three rates of error, drawn from what an error is about."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Errors:
    """The three rates, and the seed of the draws."""

    missed_fact: float = 0.0
    wrong_hop: float = 0.0
    wrong_sum: float = 0.0
    seed: int = 0

    def strikes(self, kind: str, *about: object) -> bool:
        """Return whether an error of a kind strikes, by a draw from the seed, the kind and what it is about, ever the same."""
        draw = random.Random(f"{self.seed}:{kind}:{about}").random()
        return draw < float(getattr(self, kind))
