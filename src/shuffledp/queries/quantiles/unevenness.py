"""How uneven users are inside bins, as far as the estimated counts of bins show it.

Where a quantile lies in its bin is interpolated, as if the bin's users were spread evenly over it.
They are not, for two reasons that the counts of the neighbours reveal. Some users share one value:
their bin has clearly more users than the bins around it, and these are its *lump*. The others are
few or gather on a finer scale, so that counts vary from bin to bin.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from shuffledp.numbers.lattice import Floats

REACH = 2
"""How many bins on either side show what a bin would have without its lump."""
CLEAR = 5.0
"""By how many standard errors a bin must exceed this to have a lump."""
NEAR_BINS = 8
"""Bins before and after a bin that show how much counts vary around it."""
FEWEST_BINS = 8
EVEN_IN_BIN = 1 / 12
"""With fewer bins than the first number, quantiles may lie anywhere in their bins: the mean square
of a uniform error."""
ANY_PLACE = 1 / 6
"""The mean square of an error in a bin whose users have one value, anywhere in it: the most."""


ROUND = 1 / 3
"""The probability that a lump is at the roundest number of its bin because it is round. With 0, the
error of values rounded to bins' edges is stated 30 % too small; with 1/2, that of lumps at other
numbers 13 %."""


class Lumps(NamedTuple):
    """How bins divide into lumps and other users."""

    shares: Floats
    """The part of each bin's users who have one value in common; 0 where no lump is clear."""
    others: Floats
    """The estimated number of the other users of each bin."""


def lumps_of(counts: Floats, variances: Floats) -> Lumps:
    """The lumps of bins with these estimated counts, whose errors have these variances.

    A bin without a lump has at least as many users as a straight line between two of its neighbours
    says, up to noise, unless there is a lump between these. So the lowest such line shows the
    other users, if lumps are not in all bins.
    """
    lowest, around = counts, np.pad(counts, REACH, mode="reflect")
    for before, after in product(range(1, REACH + 1), repeat=2):
        left = around[REACH - before : len(around) - REACH - before]
        right = around[REACH + after : len(around) - REACH + after]
        lowest = np.minimum(lowest, (after * left + before * right) / (before + after))
    errors = np.sqrt(np.maximum(variances, 0.0) + np.maximum(lowest, 1.0))
    others = np.maximum(lowest + errors, 0.0)  # the lowest of several is about one error too low
    clear = counts - lowest > CLEAR * errors
    shares = np.where(clear, 1 - others / np.maximum(counts, 1.0), 0.0)
    return Lumps(np.clip(shares, 0.0, 1.0), np.where(clear, np.minimum(others, counts), counts))


def finer_squares(
    counts: Floats, others: Floats, step_variances: Floats, near: int, bins: slice
) -> Floats:
    """The mean squares of the errors of quantiles in these bins, in bins, that come from users who
    are few or gather on a finer scale; measured around the bin `near`.

    If a bin's users are k equal groups with random values, the relative variance of its count is
    1/k, and a quantile in it errs by 1/√(6k) bins. The difference of two neighbours has twice the
    variance of one; `step_variances` are those of the noise in these differences.
    """
    first = max(0, min(near - NEAR_BINS, len(counts) - 2 * NEAR_BINS))
    last = min(len(counts), first + 2 * NEAR_BINS)
    steps = np.diff(others[first:last]) ** 2 - step_variances[first : last - 1]
    variance = max(float(np.mean(steps)) / 2, 0.0)
    typical = max(float(np.mean(others[first:last])), 1.0)
    return np.minimum(variance / 6 / np.maximum(counts[bins], typical) ** 2, ANY_PLACE)


def lump_squares(ahead: Floats, round_places: Floats) -> Floats:
    """The mean squares of the errors of an estimate that lies `ahead` bins after the beginning of
    each bin, if the quantile is the value of the bin's lump. People round, so a third of the
    probability is at the bin's roundest number, and the rest anywhere; all of it if the roundest
    number is unknown (NaN)."""
    anywhere = ahead**2 - ahead + 1 / 3
    at_round = np.where(np.isnan(round_places), anywhere, (ahead - round_places) ** 2)
    return np.asarray(ROUND * at_round + (1 - ROUND) * anywhere)
