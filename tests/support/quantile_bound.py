"""A lower bound for the errors of every estimator of quantiles, from the law of the view.

Let T estimate a quantile that is a in one dataset and b in another one, and let f and g be the laws
of the view on them. Then RMSE_f(T) + RMSE_g(T) ≥ |a − b|·∫√(fg): |a − b| ≤ |T − a| + |T − b|
everywhere, and ∫|T − a|·√f·√g ≤ RMSE_f(T) by Cauchy and Schwarz. The view is a number for each
bucket, all independent with bounded cells, so that ∫√(fg) is a product over the buckets; it is
computed in balls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import arb, arb_poly, ctx
from message_masses import message_masses
from numpy.typing import NDArray
from quantile_grid import (
    PROBABILITIES,
    Case,
    Floats,
    former,
    plan_of,
    true_quantile,
    values_of,
)

from shuffledp.cells.base import Cell
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.queries.quantiles.protocol import QuantilesProtocol
from shuffledp.queries.quantiles.result import QuantilesResult

PRECISION_BITS = 200
MIRRORED = "mirror image of "
UNLUCKY = 4.0
"""Standard errors by which a measured mean square may be too small by chance."""


def bucket_law(cell: BoundedCell, users: int, ones: int) -> list[arb]:
    """The chances of the numbers of messages of a bucket that holds so many of the users."""
    with ctx.workprec(PRECISION_BITS):
        without, with_one = (arb_poly(message_masses(cell, value)) for value in (0, 1))
        return list((without ** (users - ones) * with_one**ones).coeffs())


def affinity(one: Sequence[arb], other: Sequence[arb]) -> arb:
    """∑√(fg), or a little less: products that are not surely positive are left out."""
    with ctx.workprec(PRECISION_BITS):
        products = (a * b for a, b in zip(one, other, strict=True))
        return sum((product.sqrt() for product in products if product > 0), start=arb(0))


@lru_cache(maxsize=4096)
def _law(cell: BoundedCell, users: int, ones: int) -> tuple[arb, ...]:
    return tuple(bucket_law(cell, users, ones))


@lru_cache(maxsize=4096)
def _affinity(cell: BoundedCell, users: int, fewer: int, more: int) -> arb:
    return affinity(_law(cell, users, fewer), _law(cell, users, more))


def of_views(
    protocol: QuantilesProtocol, one: NDArray[np.int64], other: NDArray[np.int64]
) -> float:
    """A lower bound of ∫√(fg) of the views on two datasets, given by how many users each of the
    finest buckets holds."""
    users, product = int(one.sum()), arb(1)
    for level in protocol.levels:
        cell: Cell = level.cell
        if not isinstance(cell, BoundedCell):
            raise NotImplementedError("Only the views of bounded cells are one number each.")
        held = (tally.reshape(level.buckets, -1).sum(axis=1).tolist() for tally in (one, other))
        for a, b in zip(*held, strict=True):
            if a != b:
                product = product * _affinity(cell, users, min(a, b), max(a, b))
    return float(product.lower())


@dataclass(frozen=True)
class Dataset:
    """Values and a name."""

    name: str
    values: Floats

    def tally(self, protocol: QuantilesProtocol) -> NDArray[np.int64]:
        return np.asarray(protocol.tally(protocol.encode(self.values)))


def of_grid(data: str, users: int) -> Dataset:
    return Dataset(data, values_of(data, users))


def with_some_above(data: Dataset, moved: int) -> Dataset:
    """The same, but so many users hold a value at the upper bound."""
    values = np.sort(data.values)
    values[-moved:] = 0.99
    return Dataset(f"{data.name}, {moved} at the upper bound", values)


def mirror(data: Dataset) -> Dataset:
    """1 minus every value."""
    turned = data.name.removeprefix(MIRRORED)
    name = turned if turned != data.name else MIRRORED + data.name
    return Dataset(name, np.clip(1 - data.values, 0.0, 1 - 1e-9))


def _protocol(case: Case) -> QuantilesProtocol:
    protocol = plan_of(case.users, case.epsilon, case.bins, "bounded").protocol
    assert isinstance(protocol, QuantilesProtocol)
    return protocol


def results(case: Case, data: Dataset, runs: int) -> Iterable[QuantilesResult]:
    """Seeded runs on a dataset, planned as on the grid."""
    plan, entropy = (
        plan_of(case.users, case.epsilon, case.bins, "bounded"),
        SeededEntropy(data.name),
    )
    tally = data.tally(_protocol(case))
    for _ in range(runs):
        yield plan.analyze(plan.release(plan.protocol.aggregate_tally(tally, entropy)))


def at_most(values: Floats, truth: float) -> float:
    """The RMSE of runs with a margin for chance."""
    squares = (values - truth) ** 2
    return float(np.sqrt(squares.mean() + UNLUCKY * squares.std() / len(squares) ** 0.5))


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Two datasets on which no estimator that mirrors its answers with the data errs as little as
    the former one, if `least` exceeds the sum of the former one's errors.

    Such an estimator errs on the mirror image of a dataset, for 1 − p, as it errs on the dataset
    for p; `least` is the bound for the dataset and for the other one, not mirrored.
    """

    probability: float
    data: Dataset
    other: Dataset
    least: float
    former: float
    """The former estimator's RMSE on `data`, for p, with a margin for chance."""
    former_of_mirrored: float
    """And on the mirror image of `other`, for 1 − p."""

    @property
    def shown(self) -> bool:
        return self.former + self.former_of_mirrored < self.least

    def line(self, case: Case) -> str:
        errors = f"{self.former:.3f} + {self.former_of_mirrored:.3f}"
        where = f"{case.users} | {case.epsilon} | {case.bins} | {self.data.name}"
        return (
            f"| {where} | {self.probability:g} | {self.other.name} | {errors} | {self.least:.3f} |"
        )


def contradiction(
    case: Case, data: Dataset, other: Dataset, probability: float, runs: int
) -> Contradiction:
    protocol = _protocol(case)
    mirrored, opposite = mirror(other), round(1 - probability, 9)
    truth = true_quantile(data.values, probability)
    mirrored_truth = true_quantile(mirrored.values, opposite)
    return Contradiction(
        probability=probability,
        data=data,
        other=other,
        least=abs(truth - (1 - mirrored_truth))
        * of_views(protocol, data.tally(protocol), mirrored.tally(protocol)[::-1]),
        former=at_most(_formers(case, data, runs)[probability], truth),
        former_of_mirrored=at_most(_formers(case, mirrored, runs)[opposite], mirrored_truth),
    )


_known: dict[tuple[Case, str, int], dict[float, Floats]] = {}


def _formers(case: Case, data: Dataset, runs: int) -> dict[float, Floats]:
    """What the former estimator gives in runs, for every probability of the grid."""
    key = (case, data.name, runs)
    if key not in _known:
        found = list(results(case, data, runs))
        _known[key] = {
            p: np.array([former(result, p)[0] for result in found]) for p in PROBABILITIES
        }
    return _known[key]
