"""A small fixed load says how fast this machine is now, so that a cost can be told as a number of its units.

    python -m benchmarks.calibration

Four parts, none of which is code of this project: what environments spend is interpreting, gathering with numpy, JSON and
allocation. A unit is the geometric mean of their CPU times. A machine that is twice as slow has units twice as long, and a cost
in units stays what it is. Load changes CPU times, too, so that a run plays it before and after what it measures: where units
differ by more than MOST_DRIFT, the run has measured the minute and is void.
"""

import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

MOST_DRIFT = 1.2
REPEATS = 9  # of each part, the least counts
Play = dict[str, float]  # CPU-microseconds by part


class Point:
    """An object with one coordinate, which the interpreter's part of the load changes."""

    def __init__(self, x: int) -> None:
        self.x = x

    def moved(self, by: int) -> int:
        """Add to the place and return it."""
        self.x += by
        return self.x


def interpreter() -> None:
    """Call methods, look into a dict, add numbers, format and compare texts."""
    point, table, total = Point(0), {str(number): number for number in range(100)}, 0
    for number in range(10_000):
        total += point.moved(table[str(number % 100)])
        if f"{number}".startswith("99"):
            total -= 1


_RNG = np.random.default_rng(0)
_COLUMN = _RNG.random(1_000_000, dtype=np.float32)
_ROWS = _RNG.integers(0, len(_COLUMN), 200_000)
_SUMS = np.zeros(50_000)
_PLACES = _RNG.integers(0, len(_SUMS), 100_000)


def gather() -> None:
    """Read rows of a long column in no order, and add to places of a short one."""
    np.add.at(_SUMS, _PLACES, _COLUMN[_ROWS[: len(_PLACES)]].astype(np.float64))
    np.sort(_COLUMN[_ROWS])


_MESSAGE = {"role": "user", "content": "a few words to be quoted, é and \n" * 8, "calls": [{"id": 1, "x": 0.5}] * 4}


def texts() -> None:
    """Write and read messages as JSON."""
    for _ in range(300):
        json.loads(json.dumps(_MESSAGE, sort_keys=True))


def allocation() -> None:
    """Make many small objects and drop them."""
    source = random.Random(0)
    rows = [(number, [number], {"a": number}, Point(number)) for number in range(8_000)]
    source.shuffle(rows)
    rows.clear()


PARTS: dict[str, Callable[[], None]] = {
    "interpreter": interpreter, "numpy gather": gather, "JSON": texts, "allocation": allocation,
}  # fmt: skip


def play() -> Play:
    """Return the CPU-microseconds of each part, the least of its repeats, which take turns."""
    least = dict.fromkeys(PARTS, math.inf)
    for _ in range(REPEATS):
        for name, part in PARTS.items():
            started = time.process_time()
            part()
            least[name] = min(least[name], (time.process_time() - started) * 1e6)
    return least


def unit_of(plays: Sequence[Play]) -> float:
    """Return the CPU-microseconds of a unit: the geometric mean over parts and plays."""
    return math.exp(sum(math.log(value) for each in plays for value in each.values()) / sum(map(len, plays)))


def drift_of(plays: Sequence[Play]) -> float:
    """Return the longest unit of several plays over the shortest."""
    units = [unit_of([each]) for each in plays]
    return max(units, default=1.0) / min(units, default=1.0)


if __name__ == "__main__":
    times = play()
    json.dump({"unit": unit_of([times]), "parts": times}, sys.stdout)
