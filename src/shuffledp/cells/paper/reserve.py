"""Roughly how many messages a padded report keeps free for noise. Floats that only propose.

A user's share of geometric noise is almost always 0; in one of n reports or so it is large, above
k with chance about e^(−dk)/(n k (1 − e^(−d))) for a decay d. A mean of c flood pairs before it
makes that exp(c (e^(2d) − 1)) times as likely. Where the flood itself is what a report must hold,
Chernoff's bound at a smaller t is nearer. (`protocols.report_size` has the exact answer.)
"""

from __future__ import annotations

import math

import numpy as np

from shuffledp.numbers.message_law import OVERFLOW_BITS
from shuffledp.numbers.special import Floats

RESERVE_TILTS = np.linspace(
    0.05, 1.0, 40
)  # t as a part of the decay; the last is for one large draw alone


def reserve(decay: Floats, flood: Floats, copies: int, users: int) -> Floats:
    """Messages beyond the value's own that no report of a batch exceeds, up to 2⁻⁶⁴."""
    tilt = decay[..., None] * RESERVE_TILTS
    one_draw = math.log(copies) - np.log(-np.expm1(-decay) * 40 / decay)
    rare = OVERFLOW_BITS * math.log(2) + np.where(
        RESERVE_TILTS < 1, math.log(users), one_draw[..., None]
    )
    rare = rare + flood[..., None] * np.expm1(np.minimum(2 * tilt, 50.0))
    result: Floats = (rare / tilt).min(axis=-1)
    return result
