"""rank-bm25's Okapi scores out of bm25s' matrix: the same term frequencies under another idf."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

EPSILON = 0.25  # rank-bm25's default: a negative idf becomes this much of the mean idf


def okapi_idf(frequencies: Sequence[int], documents: int) -> list[float]:
    """Return the idf of terms by the number of documents that hold each: Robertson's, negative ones floored.

    The floor is itself negative where the mean is, as in corpora of one or two documents.
    """
    idf = [math.log(documents - frequency + 0.5) - math.log(frequency + 0.5) for frequency in frequencies]
    floor = EPSILON * math.fsum(idf) / len(idf)
    return [floor if value < 0 else value for value in idf]


def reweigh(matrix: dict[str, Any], documents: int) -> None:
    """Give the columns of an atire matrix with Lucene's idf, which is never 0, the idf of rank-bm25's Okapi."""
    frequencies = np.diff(matrix["indptr"])
    counted = frequencies.tolist()
    present = [math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)) for frequency in counted]
    wanted = okapi_idf(counted, documents)
    matrix["data"] *= np.repeat(np.array(wanted) / np.array(present), frequencies)
