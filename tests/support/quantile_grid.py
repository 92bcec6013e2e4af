"""The grid on which quantiles are measured: data, seeded runs, and the former estimator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from shuffledp import plan_quantiles
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.plans.plan import Plan
from shuffledp.queries.quantiles.range_errors import steps_below
from shuffledp.queries.quantiles.result import QuantilesResult

Floats = NDArray[np.float64]
USERS = (30, 333, 10_000)
EPSILONS = ("0.2", "1", "4")
BINS = (16, 64)
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
DATA = ("uniform", "normal", "lumpy", "integer", "one bin", "skewed")


WORSE = 1.03


@dataclass(frozen=True)
class Case:
    """One point of the grid; every case measures all probabilities."""

    users: int
    epsilon: str
    bins: int
    data: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What runs of one case gave: a row for each run, a column for each probability."""

    truth: Floats
    noiseless: Floats
    """What the estimator gives without noise: it differs from the truth inside buckets."""
    values: Floats
    lows: Floats
    highs: Floats
    plain: Floats
    """Where the curve in rising order crosses, not averaged over further noise."""
    former: Floats
    former_mirrored: Floats
    """The former estimator on the mirror image of the data, mirrored back."""
    former_lows: Floats
    former_highs: Floats

    def coverage(self) -> Floats:
        return self._held(self.lows, self.highs)

    def former_coverage(self) -> Floats:
        return self._held(self.former_lows, self.former_highs)

    def narrowed_coverage(self) -> Floats:
        """The coverage of intervals of half the width: a twin that must be rejected."""
        middle, reach = (self.lows + self.highs) / 2, (self.highs - self.lows) / 4
        return self._held(middle - reach, middle + reach)

    def bias_of_noise(self, values: Floats) -> Floats:
        """How far the mean is from what there would be without noise, in standard deviations."""
        return np.asarray((values - self.noiseless).mean(axis=0) / (values.std(axis=0) + 1e-9))

    def _held(self, lows: Floats, highs: Floats) -> Floats:
        return np.asarray(((lows <= self.truth) & (self.truth <= highs)).mean(axis=0))

    def rmse(self, values: Floats) -> Floats:
        return np.asarray(np.sqrt(((values - self.truth) ** 2).mean(axis=0)))

    def bias(self, values: Floats) -> Floats:
        return np.asarray((values - self.truth).mean(axis=0))

    def worse_cells(self, values: Floats | None = None) -> NDArray[np.bool_]:
        """Where the estimate (or these values) errs more than 3 % more than the former one."""
        found = self.values if values is None else values
        return np.asarray(self.rmse(found) > WORSE * self.rmse(self.former))

    def former_rmse_both_ways(self) -> Floats:
        """The former estimator's RMSE over the data and its mirror image."""
        ways = self.rmse(self.former) ** 2 + self.rmse(self.former_mirrored) ** 2
        return np.asarray(np.sqrt(ways / 2))


def values_of(data: str, users: int) -> Floats:
    """Values in [0, 1)."""
    rng = np.random.default_rng([3, users])
    lumps = rng.choice([0.11, 0.34, 0.35, 0.72, 0.93], users, p=[0.15, 0.3, 0.1, 0.35, 0.1])
    made = {
        "uniform": rng.random(users),
        "normal": rng.normal(0.5, 0.12, users),
        "lumpy": lumps + rng.normal(0, 0.003, users),
        "integer": rng.binomial(15, 0.6, users) / 16,
        "one bin": 0.3 + 0.01 * rng.random(users),
        "skewed": rng.exponential(0.08, users),
    }
    return np.clip(made[data], 0.0, 1 - 1e-9)


def true_quantile(values: Floats, probability: float) -> float:
    """The least value at or below which this part of the users lies."""
    return float(np.quantile(values, probability, method="inverted_cdf"))


@lru_cache(maxsize=32)
def plan_of(users: int, epsilon: str, bins: int, cell: str = "best") -> Plan[QuantilesResult]:
    return plan_quantiles(users, epsilon, (0, 1), bins=bins, cell=cell)


def former_crossing(edges: Floats, below: Floats, rank: float) -> tuple[float, int]:
    """The former estimator: where the running maximum first reaches a rank, and the edge there."""
    rising = np.maximum.accumulate(below)
    at = min(int(np.searchsorted(rising, rank)), len(edges) - 1)
    if at == 0:
        return float(edges[0]), 0
    step = rising[at] - rising[at - 1]
    part = min((rank - rising[at - 1]) / step, 1.0) if step > 0 else 1.0
    return float(edges[at - 1] + part * (edges[at] - edges[at - 1])), at


def former(result: QuantilesResult, probability: float) -> tuple[float, float, float]:
    """(estimate, low, high) as the former estimator gave them."""
    below, rank = result.below, probability * result.users
    variances = result.errors.of_sums(result.errors.below_edges())[0]
    reach = NormalDist().inv_cdf(0.5 + result.confidence / 2) * np.sqrt(variances.clip(0))
    value, _ = former_crossing(result.edges, below, rank)
    _, first = former_crossing(result.edges, below + reach, rank)
    _, last = former_crossing(result.edges, below - reach, rank)
    return value, float(result.edges[max(first - 1, 0)]), float(result.edges[last])


def plain(result: QuantilesResult, probability: float) -> float:
    """The estimate without the mean over a little more noise."""
    below = np.clip(result.below, 0.0, result.users)
    return steps_below(below, probability * result.users) / (len(below) - 1)


def former_mirrored(result: QuantilesResult, probability: float) -> float:
    below = result.users - result.below[::-1]
    return 1 - former_crossing(result.edges, below, (1 - probability) * result.users)[0]


def measure(case: Case, runs: int) -> Measured:
    """So many seeded runs of a case."""
    plan = plan_of(case.users, case.epsilon, case.bins)
    values, entropy = values_of(case.data, case.users), SeededEntropy(str(case))
    tally = plan.protocol.tally(plan.protocol.encode(values))
    rows = []
    for _ in range(runs):
        result = plan.analyze(plan.release(plan.protocol.aggregate_tally(tally, entropy)))
        found = result.quantiles(PROBABILITIES)
        before = [former(result, p) for p in PROBABILITIES]
        mirrored = [former_mirrored(result, p) for p in PROBABILITIES]
        rows.append(
            [
                [one.value for one in found],
                [one.low for one in found],
                [one.high for one in found],
                [plain(result, p) for p in PROBABILITIES],
                [one[0] for one in before],
                mirrored,
                [one[1] for one in before],
                [one[2] for one in before],
            ]
        )
    columns = np.array(rows).transpose(1, 0, 2)
    exact = np.concatenate([[0.0], np.cumsum(tally)])
    return Measured(
        truth=np.array([true_quantile(values, p) for p in PROBABILITIES]),
        noiseless=np.array([steps_below(exact, p * case.users) / case.bins for p in PROBABILITIES]),
        values=columns[0],
        lows=columns[1],
        highs=columns[2],
        plain=columns[3],
        former=columns[4],
        former_mirrored=columns[5],
        former_lows=columns[6],
        former_highs=columns[7],
    )
