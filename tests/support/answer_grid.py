"""The grid on which counts, sums, means and histograms are measured: seeded runs of each query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shuffledp
from shuffledp import Plan, Result
from shuffledp.numbers.entropy import Entropy, SeededEntropy

Floats = NDArray[np.float64]
USERS = (30, 333, 10_000)
EPSILONS = ("0.2", "1", "4")
LARGEST, BUCKETS = 12, 6
BOUNDS = (-2, 3)
PLANNERS: dict[str, Callable[[int, str], Plan[Any]]] = {
    "count": shuffledp.plan_count,
    "integer-sum": lambda users, epsilon: shuffledp.plan_integer_sum(users, epsilon, LARGEST),
    "real-sum": lambda users, epsilon: shuffledp.plan_real_sum(users, epsilon, bounds=BOUNDS),
    "histogram": lambda users, epsilon: shuffledp.plan_histogram(users, epsilon, range(BUCKETS)),
}
QUERIES = ("count", "integer-sum", "real-sum", "mean", "histogram")
DATA = ("low", "high", "spread", "one value")


@dataclass(frozen=True)
class Case:
    """One point of the grid."""

    query: str
    users: int
    epsilon: str
    data: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What runs of one case gave: a row for each run, a column for each number of the answer."""

    truth: Floats
    values: Floats
    lows: Floats
    highs: Floats
    rmses: Floats

    def coverage(self) -> float:
        return float(((self.lows <= self.truth) & (self.truth <= self.highs)).mean())

    def narrowed_coverage(self) -> float:
        """The coverage of intervals that are 20 % shorter: a twin that must be rejected."""
        middle, reach = (self.lows + self.highs) / 2, 0.8 * (self.highs - self.lows) / 2
        return float((np.abs(self.truth - middle) <= reach).mean())

    def rmse(self) -> float:
        return float(np.sqrt(((self.values - self.truth) ** 2).mean()))

    def shift(self) -> float:
        """How far the mean error is from 0, in standard errors of a mean of so many runs."""
        errors = (self.values - self.truth).mean(axis=1)
        return float(errors.mean() / (self.rmses.mean() / len(errors) ** 0.5))


def values_of(case: Case) -> NDArray[Any]:
    """Everybody's values; the kinds of data lie at the ends, all over, and in one place."""
    rng = np.random.default_rng([5, case.users])
    parts = {
        "low": rng.beta(1, 8, case.users),
        "high": rng.beta(8, 1, case.users),
        "spread": rng.random(case.users),
        "one value": np.full(case.users, 0.37),
    }[case.data]
    if case.query == "count":
        return np.asarray(rng.random(case.users) < parts.mean(), np.int64)
    if case.query in ("real-sum", "mean"):
        return np.asarray(parts * 5 - 2)
    largest = LARGEST if case.query == "integer-sum" else BUCKETS - 1
    return np.asarray(np.rint(parts * largest), np.int64)


def truth_of(case: Case, values: NDArray[Any]) -> Floats:
    if case.query == "histogram":
        return np.bincount(values, minlength=BUCKETS).astype(np.float64)
    return np.array([values.mean() if case.query == "mean" else values.sum()])


@lru_cache(maxsize=64)
def plan_of(query: str, users: int, epsilon: str) -> Plan[Any]:
    return PLANNERS[query](users, epsilon)


def answer(case: Case, values: NDArray[Any], entropy: Entropy) -> Result:
    """One run; a mean is asked for by its query, which divides."""
    if case.query == "mean":
        asked: dict[str, Any] = {"epsilon": case.epsilon, "bounds": BOUNDS, "entropy": entropy}
        mean: Result = shuffledp.mean(values, **asked)
        return mean
    plan = plan_of(case.query, case.users, case.epsilon)
    tally = plan.protocol.tally(plan.protocol.encode(values, entropy))
    found: Result = plan.analyze(plan.release(plan.protocol.aggregate_tally(tally, entropy)))
    return found


def measure(case: Case, runs: int, seed: str = "") -> Measured:
    """So many seeded runs of a case, each with its own rounding."""
    values, entropy = values_of(case), SeededEntropy(f"{case}{seed}")
    results = [answer(case, values, entropy) for _ in range(runs)]
    columns = np.array([[row[1:] for row in result.rows()] for result in results])
    columns = columns.transpose(2, 0, 1)
    return Measured(
        truth=truth_of(case, values),
        values=columns[0],
        lows=columns[1],
        highs=columns[2],
        rmses=np.array([result.rmse for result in results]),
    )
