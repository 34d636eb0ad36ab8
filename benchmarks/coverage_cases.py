"""The cases of benchmarks/coverage.py are designs and quantities with known truths, and two common intervals beside ours."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent_envs.evaluation.statistics.rates import (
    Rate,
    clustered_variance,
    mean_interval,
    number_names,
    pass_hat_k,
    pass_rate,
    rerun_interval,
    success_rate,
    weighted_rate,
)

Z = 1.959963984540054
Bounds = tuple[float, float]
Table = NDArray[np.float64]  # (tasks, trials)


@dataclass(frozen=True)
class Design:
    """Tasks with chances from Beta(a, b); where tasks come in clusters, a cluster's chance has that distribution."""

    tasks: int
    trials: int
    a: float
    b: float
    cluster_size: int = 1
    likeness: float = 4.0  # chances within a cluster of chance c: Beta(likeness c, likeness (1 - c))

    @property
    def labels(self) -> list[str]:
        """The task of each trial."""
        return [str(task) for task in range(self.tasks) for _ in range(self.trials)]

    @property
    def clusters(self) -> list[str]:
        """The cluster of each trial."""
        return [str(task // self.cluster_size) for task in range(self.tasks) for _ in range(self.trials)]

    @property
    def mean(self) -> float:
        """The true rate."""
        return self.a / (self.a + self.b)

    def chances(self, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw each task's chance, those of a cluster around one centre."""
        if self.cluster_size == 1:
            return generator.beta(self.a, self.b, self.tasks)
        centre = generator.beta(self.a, self.b, self.tasks // self.cluster_size).repeat(self.cluster_size)
        centre = centre.clip(1e-6, 1 - 1e-6)
        return generator.beta(self.likeness * centre, self.likeness * (1 - centre))

    def play(self, generator: np.random.Generator, chances: NDArray[np.float64]) -> Table:
        """Draw each trial's outcome."""
        return (generator.random((self.tasks, self.trials)) < chances[:, None]).astype(float)

    def pass_hat(self, k: int) -> float:
        """Return the true pass^k, for tasks that are their own clusters."""
        return math.prod((self.a + i) / (self.a + self.b + i) for i in range(k))


@dataclass(frozen=True)
class CoverageCase:
    """A quantity with a known truth: `draw` yields one simulation's truth and intervals, ours, naive, cluster z."""

    name: str
    gated: bool
    draw: Callable[[np.random.Generator], tuple[float, Bounds, Bounds, Bounds]]


def generator_for(name: str, seed: str) -> np.random.Generator:
    """Return a generator of random numbers for a case, from seed and name."""
    return np.random.default_rng(random.Random(f"{seed} {name}").getrandbits(128))


def wilson(value: float, n: float) -> Bounds:
    """Return Wilson's interval of a rate."""
    centre = (value + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(value * (1 - value) / n + Z * Z / (4 * n * n))
    return centre - half, centre + half


def cluster_z(per_task: NDArray[np.float64], homes: list[str]) -> Bounds:
    """Return the interval of a mean by its clustered variance and the normal distribution."""
    half = Z * math.sqrt(clustered_variance(per_task, number_names(homes))[0])
    return float(per_task.mean()) - half, float(per_task.mean()) + half


def bounds(rate: Rate) -> Bounds:
    """Return the ends of a rate's interval."""
    return rate.low, rate.high


def rate_case(name: str, design: Design, gated: bool = False) -> CoverageCase:
    """Build the case of a success rate."""
    labels, clusters = design.labels, design.clusters

    def draw(generator: np.random.Generator) -> tuple[float, Bounds, Bounds, Bounds]:
        """Play an evaluation once; return the true rate and the intervals of ours, of Wilson and by clusters."""
        table = design.play(generator, design.chances(generator))
        ours = success_rate(table.ravel().tolist(), labels, clusters)
        peer = cluster_z(table.mean(1), clusters[:: design.trials])
        return design.mean, bounds(ours), wilson(float(table.mean()), table.size), peer

    return CoverageCase(name, gated, draw)


def pass_case(name: str, design: Design, k: int, gated: bool = False) -> CoverageCase:
    """Build the case of pass^k."""
    labels, truth = design.labels, design.pass_hat(k)

    def draw(generator: np.random.Generator) -> tuple[float, Bounds, Bounds, Bounds]:
        """Draw a table of successes, and return the truth with three intervals of pass^k."""
        table = design.play(generator, design.chances(generator))
        ours = pass_rate(pass_hat_k, table.ravel().tolist(), labels, k)
        wins = table.sum(1).astype(int).tolist()
        each = np.array([math.comb(won, k) / math.comb(design.trials, k) for won in wins])
        return truth, bounds(ours), wilson(float(each.mean()), table.size), cluster_z(each, labels[:: design.trials])

    return CoverageCase(name, gated, draw)


def mean_case(name: str, design: Design, skewed: bool) -> CoverageCase:
    """Build the case of a mean return, with normal or skewed task means."""
    clusters = design.labels

    def draw(generator: np.random.Generator) -> tuple[float, Bounds, Bounds, Bounds]:
        """Draw a table of returns, and return the truth with three intervals of their mean."""
        level = generator.exponential(1.0, design.tasks) if skewed else generator.normal(1.0, 1.0, design.tasks)
        table = level[:, None] + generator.normal(0.0, 1.0, (design.tasks, design.trials))
        mean, half = float(table.mean()), Z * float(table.std(ddof=1)) / math.sqrt(table.size)
        ours = mean_interval(table.ravel().tolist(), clusters)
        return 1.0, ours, (mean - half, mean + half), cluster_z(table.mean(1), clusters[:: design.trials])

    return CoverageCase(name, False, draw)


def suite_case(name: str, designs: tuple[Design, ...], weights: tuple[float, ...], gated: bool = False) -> CoverageCase:
    """Build the case of a suite's weighted score."""
    shares = [weight / sum(weights) for weight in weights]
    truth = math.fsum(share * design.mean for share, design in zip(shares, designs, strict=True))

    def draw(generator: np.random.Generator) -> tuple[float, Bounds, Bounds, Bounds]:
        """Draw a table for each entry, and return the truth with three intervals of the score."""
        tables = [design.play(generator, design.chances(generator)) for design in designs]
        rates = [success_rate(t.ravel().tolist(), d.labels) for t, d in zip(tables, designs, strict=True)]
        ours = weighted_rate(rates, weights)
        parts = [s * s * t.mean(1).var(ddof=1) / len(t) for t, s in zip(tables, shares, strict=True)]
        half = Z * math.sqrt(sum(parts))
        naive = wilson(ours.value, sum(t.size for t in tables))
        return truth, bounds(ours), naive, (ours.value - half, ours.value + half)

    return CoverageCase(name, gated, draw)


def rerun_case(name: str, design: Design, seed: str, gated: bool = False) -> CoverageCase:
    """Build the case of a rerun on the same tasks: the truth is their mean chance, which is drawn each time."""
    labels = design.labels
    tasks = generator_for(f"{name}: the tasks", seed)

    def draw(generator: np.random.Generator) -> tuple[float, Bounds, Bounds, Bounds]:
        """Draw the tasks' chances and a table, and return the mean chance with three intervals."""
        chances = design.chances(tasks)
        table = design.play(generator, chances)
        ours = rerun_interval(table.ravel().tolist(), labels)
        naive = wilson(float(table.mean()), table.size)
        return float(chances.mean()), ours, naive, cluster_z(table.mean(1), labels[:: design.trials])

    return CoverageCase(name, gated, draw)


def cases(seed: str) -> Iterator[CoverageCase]:
    """Yield all cases; the gated ones must hold their coverage."""
    bimodal, mixed = Design(50, 4, 0.5, 0.5), Design(50, 4, 2, 2)
    easy, hard = Design(50, 4, 9, 1), Design(50, 4, 0.5, 9.5)
    yield rate_case("50 x 4, Beta(.5, .5)", bimodal, True)
    yield rate_case("50 x 4, Beta(2, 2)", mixed, True)
    yield rate_case("50 x 4, mean .9", easy, True)
    yield rate_case("50 x 4, mean .05", hard, True)
    yield rate_case("20 x 4, Beta(.5, .5)", Design(20, 4, 0.5, 0.5))
    yield rate_case("115 x 4, Beta(.5, .5)", Design(115, 4, 0.5, 0.5))
    yield rate_case("5 x 5, mean .03", Design(5, 5, 0.3, 9.7))
    yield rate_case("20 clusters of 5, x 4", Design(100, 4, 1, 1, cluster_size=5))
    yield rate_case("40 clusters of 5, x 4", Design(200, 4, 1, 1, cluster_size=5))
    for k in (2, 4):
        yield pass_case(f"pass^{k}, 50 x 4, Beta(.5, .5)", bimodal, k, True)
        yield pass_case(f"pass^{k}, 50 x 4, Beta(2, 2)", mixed, k, True)
        yield pass_case(f"pass^{k}, 20 x 4, mean .25", Design(20, 4, 1, 3), k)
    yield suite_case("suite of three, weights 2 1 1", (bimodal, easy, hard), (2, 1, 1), True)
    yield suite_case("suite of three, 0 or 1 near", (hard, Design(20, 4, 0.3, 9.7), Design(20, 4, 19, 1)), (1, 1, 1))
    yield mean_case("mean return, 50 x 4, normal", bimodal, False)
    yield mean_case("mean return, 50 x 4, skewed", bimodal, True)  # a t interval of a skewed mean: 94.4 % of 20,000
    yield rerun_case("same tasks again, 50 x 4, Beta(.5, .5)", bimodal, seed, True)
    yield rerun_case("same tasks again, 50 x 4, mean .05", hard, seed)
