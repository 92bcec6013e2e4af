"""Quantiles on pooled cells: covariances within a level, range counts, intervals, certificates."""

import copy
import math
from typing import Any

import numpy as np
import pytest

from shuffledp import Plan, SeededEntropy, plan_histogram, plan_quantiles
from shuffledp.cells.pooled.cell import PooledBuckets, PooledCell
from shuffledp.errors import ParameterError
from shuffledp.queries.quantiles.protocol import Level, QuantilesProtocol
from shuffledp.queries.quantiles.range_errors import Common, RangeErrors
from shuffledp.queries.quantiles.result import QuantilesResult
from shuffledp_check.bounded import Rejected
from shuffledp_check.certificate import check

USERS, BINS, RUNS = 200, 8, 500
TRUTH = np.array([5, 40, 80, 30, 20, 15, 10, 0])
VALUES = np.repeat(np.arange(BINS) + 0.5, TRUTH)


@pytest.fixture(scope="module")
def plan() -> Plan[QuantilesResult]:
    return plan_quantiles(USERS, 2, (0, BINS), bins=BINS, padded=True)


@pytest.fixture(scope="module")
def runs(plan: Plan[QuantilesResult]) -> list[QuantilesResult]:
    protocol, entropy = plan.protocol, SeededEntropy("pooled levels")
    batches = (protocol.aggregate(VALUES, entropy) for _ in range(RUNS))
    return [protocol.analyze(protocol.release(batch)) for batch in batches]


def test_the_best_cells_of_levels_are_pooled() -> None:
    for padded, most in ((True, 3334), (False, 3354)):
        plan = plan_quantiles(10**4, 1, (0, 120), padded=padded)
        assert {cell.kind for cell in plan.protocol.cells} == {"pooled"}
        assert plan.report_size <= most and plan.padding == "exact"
        assert check(plan.certificate.to_dict())
    bounded = plan_quantiles(10**4, 1, (0, 120), cell="bounded")
    assert plan.forecast.messages_per_user < 0.94 * bounded.forecast.messages_per_user


@pytest.mark.parametrize("held", [[3, 1, 0], [0, 4, 0]])
def test_covariances_are_those_of_the_randomizer(held: list[int]) -> None:
    (cell, *_) = plan_histogram(4, 2, 3, cell="pooled").protocol.cells
    assert isinstance(cell, PooledCell)
    group, entropy = PooledBuckets(cell=cell), SeededEntropy(f"covariances {held}")
    tally, users = np.array(held), 4
    drawn = np.array([group.aggregate(tally, entropy)[0] for _ in range(4000)])
    found = np.cov(cell.estimates(drawn, users).T)
    fixed, each = cell.covariance(users)
    spread = np.sqrt(np.outer(np.diag(found), np.diag(found)) / len(drawn))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        stated = fixed + each * (held[a] + held[b])
        assert abs(found[a, b] - stated) < 6 * spread[a, b]
    away = [abs(found[a, b]) / spread[a, b] for a, b in ((0, 1), (0, 2), (1, 2))]
    assert max(away) > 8  # the twin: independent buckets would be refuted


def test_variances_of_sums_are_those_of_the_whole_matrix() -> None:
    random = np.random.default_rng(3)
    levels = [(random.uniform(3, 5, size), random.integers(0, 9, size)) for size in (2, 4)]
    common = tuple(
        Common(fixed=fixed, by_user=each, held=held.astype(float))
        for (_, held), (fixed, each) in zip(levels, ((0.7, -0.05), (0.3, 0.02)), strict=True)
    )
    own = np.concatenate([variances for variances, _ in levels])
    matrix, at = np.diag(own), 0
    for level in common:
        part = slice(at, at + len(level.held))
        pairs = level.held[:, None] + level.held[None, :]
        matrix[part, part] += level.fixed + level.by_user * pairs
        at += len(level.held)
    weights = random.normal(size=(5, 6))
    found = RangeErrors(weights, (own, 0 * own, 0 * own), common).of_sums(weights)[0]
    assert np.allclose(found, np.einsum("ij,jk,ik->i", weights, matrix, weights))


def test_counts_below_edges_err_as_stated(
    plan: Plan[QuantilesResult], runs: list[QuantilesResult]
) -> None:
    below = np.cumsum(TRUTH)[:-1]
    errors = np.array([np.cumsum(run.counts)[:-1] - below for run in runs])
    stated = np.mean(
        [run.errors.of_sums(run.errors.below_edges()[1:-1])[0] for run in runs], axis=0
    )
    assert np.abs(errors.mean(axis=0) / np.sqrt(stated / RUNS)).max() < 4
    ratios = (errors**2).mean(axis=0) / stated
    assert np.abs(ratios - 1).max() < 0.35 and abs(ratios.mean() - 1) < 0.2
    assert math.sqrt((errors**2).mean(axis=0).max()) < 1.1 * plan.forecast.rmse


def test_range_counts_and_quantiles_keep_their_confidence(runs: list[QuantilesResult]) -> None:
    inside, half, medians = [], [], []
    for run in runs:
        for low, high in ((0, 2), (1, 4), (3, 8)):
            one, true = run.between(low, high), TRUTH[low:high].sum()
            inside.append(one.low <= true <= one.high)
            half.append(abs(one.value - true) <= (one.high - one.low) / 4)
        median = run.quantile(0.5)
        medians.append(median.low <= 2.5 <= median.high)
    assert np.mean(inside) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / RUNS)
    assert np.mean(medians) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / RUNS)
    assert np.mean(half) < 0.85  # the twin


def test_honest_batches_are_plausible_and_others_are_not(plan: Plan[QuantilesResult]) -> None:
    protocol, entropy = plan.protocol, SeededEntropy(5)
    honest = protocol.aggregate(VALUES, entropy)
    assert abs(protocol.anomaly(honest)) < 5
    honest.plus[:] += 15  # no bucket is impossible, but all of them together are
    assert protocol.anomaly(honest) > 6


def test_what_does_not_fit_is_refused(plan: Plan[QuantilesResult]) -> None:
    protocol = plan.protocol
    assert isinstance(protocol, QuantilesProtocol)
    (level,) = protocol.levels
    shape: dict[str, Any] = {"epsilon": protocol.epsilon, "low": protocol.low}
    shape["high"] = protocol.high
    for wrong in (Level(4, level.cell, level.down), Level(8, level.cell, level.down / 2)):
        with pytest.raises(ParameterError, match="its own number of buckets"):
            QuantilesProtocol(levels=(wrong,), **shape)
    (sparse, *_) = plan_histogram(USERS, 2, BINS, cell="sparse", max_messages=9).protocol.cells
    with pytest.raises(ParameterError, match="Sparse cells cannot"):
        QuantilesProtocol(levels=(Level(BINS, sparse, sparse.up_loss),), **shape)
    document = plan.certificate.to_dict()
    assert check(document)
    for name, value in (("buckets", 4), ("down", "1/2")):
        damaged = copy.deepcopy(document)
        damaged["protocol"]["levels"][0][name] = value
        with pytest.raises(Rejected):
            check(damaged)
