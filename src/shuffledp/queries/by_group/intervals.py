"""Estimates and intervals of counts, sums and means by private group. For reporting only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shuffledp.cells.base import Counts
from shuffledp.numbers.lattice import Part, error_quantiles
from shuffledp.numbers.rounding import even_rounding, worst_rounding
from shuffledp.protocols.results import NUMBERS
from shuffledp.queries.by_group.result import MEAN, Floats
from shuffledp.queries.ratios import Spread, ratio_interval
from shuffledp.queries.real_sum.protocol import likely_total

if TYPE_CHECKING:
    from shuffledp.queries.by_group.protocol import ByGroupProtocol

USUAL_ROUNDING, WORST_ROUNDING = float(even_rounding(1)), float(worst_rounding(1))
"""The variance of a value that is rounded at random, in squared steps: there is no dither, because
one counter does not show which group's sum it moved."""


def answers(
    protocol: ByGroupProtocol, sums: Counts, users: int, outsides: tuple[float, float]
) -> dict[str, Any]:
    """The estimates, intervals and sizes of every group, as fields of a result, from the sums of
    all its cells; intervals miss with these two probabilities, each group alone and all groups at
    once."""
    totals = protocol.totals(sums, users)
    if protocol.whole:
        return _whole(protocol, sums[0], totals[0], users, outsides)
    if protocol.answer == MEAN:
        found = [_mean(protocol, own, users, outsides) for own in totals.T]
    else:
        widest = (protocol.rmse(users) / float(protocol.values.step)) ** 2
        found = [_sum(protocol, own, users, outsides, widest) for own in totals.T]
    *numbers, rmse = np.array(found).T
    sizes = None if protocol.sizes is None else totals[-1]
    return dict(zip(NUMBERS, numbers, strict=True)) | {"sizes": sizes, "rmse": float(rmse.max())}


def _whole(
    protocol: ByGroupProtocol,
    sums: Counts,
    totals: Floats,
    users: int,
    outsides: tuple[float, float],
) -> dict[str, Any]:
    """Whole numbers: one cell per group, with its exact intervals."""
    cell = protocol.digits[0].cell
    numbers = [totals]
    for outside in outsides:
        least, most = cell.intervals(users, sums, outside)
        # estimates are not whole numbers: intervals extend to the next ones
        numbers.append(np.minimum(least, np.floor(totals)).astype(np.float64))
        numbers.append(np.maximum(most, np.ceil(totals)).astype(np.float64))
    largest = int(np.clip(np.ceil(totals.max()), 0, users * cell.largest))
    return dict(zip(NUMBERS, numbers, strict=True)) | {"rmse": cell.rmse(users, largest)}


class _Errors(NamedTuple):
    """The independent parts of a group's error, in grid steps."""

    digits: list[Part]
    size: Part | None
    held: float
    """About the most users whose values were rounded."""

    @property
    def variance(self) -> float:
        """Of the digits' sum, random rounding as usual."""
        return self.held * USUAL_ROUNDING + sum(p.weight**2 * p.variance for p in self.digits)


def _errors(protocol: ByGroupProtocol, totals: Floats, users: int) -> _Errors:
    """The error's parts at the totals that were estimated for one group."""
    digits = protocol.values.parts(users, totals[: len(protocol.digits)].tolist())
    if protocol.sizes is None:
        return _Errors(digits, None, float(users))
    cell = protocol.sizes.cell
    likely = likely_total(cell, users, float(totals[-1]))
    size = Part(
        weight=float(protocol.low / protocol.values.step),
        variance=cell.variance_at(users, likely, likely),
        log_error=partial(cell.log_error, users=users, total=likely),
    )
    return _Errors(digits, size, likely)


def _sum(
    protocol: ByGroupProtocol, totals: Floats, users: int, outsides: Sequence[float], widest: float
) -> tuple[float, ...]:
    """A group's sum: (value, low, high, joint low, joint high, RMSE); `widest` is the largest
    variance of the groups' errors, in squared grid steps, for a common grid."""
    errors, step = _errors(protocol, totals, users), float(protocol.values.step)
    value = float(np.dot(protocol.values.weights, totals[: len(protocol.digits)])) * step
    parts, variance = list(errors.digits), errors.variance
    if errors.size is not None:
        value += float(protocol.low) * float(totals[-1])
        parts.append(errors.size)
        variance += errors.size.weight**2 * errors.size.variance
    levels = [level for outside in outsides for level in (1 - outside / 2, outside / 2)]
    ends = error_quantiles(parts, errors.held * WORST_ROUNDING, levels, widest)
    return (value, *(value - end * step for end in ends), math.sqrt(variance) * step)


def _mean(
    protocol: ByGroupProtocol, totals: Floats, users: int, outsides: Sequence[float]
) -> tuple[float, ...]:
    """A group's mean: its sum over its size, both private, with Fieller's interval: the ratios r
    for which sum − r·size is not an outlier."""
    errors, grid = _errors(protocol, totals, users), protocol.values.grid
    assert errors.size is not None
    above = float(np.dot(protocol.values.weights, totals[: len(protocol.digits)])) / grid
    size, other = float(totals[-1]), errors.size.variance
    share = min(max(above / size, 0.0), 1.0) if size > 0 else 0.5
    low, span = float(protocol.low), float(protocol.high - protocol.low)
    # the error of sum − r·size; its shape hardly changes with r, so it is that at the estimate
    digits = [Part(one.weight / grid, one.variance, one.log_error) for one in errors.digits]
    parts = [*digits, Part(-share, other, errors.size.log_error)]
    rounding = errors.held * WORST_ROUNDING / grid**2
    own = rounding + sum(one.weight**2 * one.variance for one in digits)
    deviation = math.sqrt(own + share**2 * other)
    levels = [level for outside in outsides for level in (1 - outside / 2, outside / 2)]
    quantiles = error_quantiles(parts, rounding, levels)
    ends = []
    for most, least in zip(quantiles[::2], quantiles[1::2], strict=True):
        reaches = max(most, 0.0) / deviation, max(-least, 0.0) / deviation
        ends += [
            low + span * end for end in ratio_interval(above, size, Spread(own, other), reaches)
        ]
    usual = errors.variance / grid**2
    spread = math.sqrt(usual + share**2 * other) / size if size > 0 else 1.0
    return (low + span * share, *ends, span * min(spread, 1.0))
