"""How far the RMSE that a real sum states lies above the truth where all users hold equal values.

    python scripts/sum_errors.py

The truth is exact: users who hold the same grid point hold the same digits, so that each cell's
variance is known, and rounding errs by what the public dither leaves. docs/limitations.md has the
largest ratio over grid points.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shuffledp import plan_real_sum
from shuffledp.plans.plan import Plan
from shuffledp.queries.real_sum.protocol import RealSumProtocol

SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("default error", {}),
    ("rmse=8", {"rmse": 8}),
)
POINTS = 60


def excess(plan: Plan[Any], users: int) -> float:
    """The largest part by which the stated RMSE is above the true one, over equal values."""
    protocol = plan.protocol
    assert isinstance(protocol, RealSumProtocol)
    k = protocol.dither
    rounding = users * (k * k - 1) / (12 * k * k)
    largest = 0.0
    for point in np.unique(np.linspace(0, protocol.grid, POINTS).astype(int)).tolist():
        digits = [point // w % b for w, b in zip(protocol.weights, protocol.radix, strict=True)]
        cells = sum(
            w * w * cell.variance_at(users, users * d, users * d * d)
            for w, cell, d in zip(protocol.weights, protocol.digits, digits, strict=True)
        )
        true = math.sqrt(cells + rounding) * float(protocol.step)
        stated = protocol.rmse(users, [float(users * d) for d in digits])
        largest = max(largest, stated / true - 1)
    return largest


def main() -> None:
    """Prints a line per setting and number of users."""
    for name, options in SETTINGS:
        for users in (100, 10**4, 10**6):
            plan = plan_real_sum(users, 1, **options)
            print(f"{name}, {users:,} users: stated RMSE up to {excess(plan, users):.0%} too high")


if __name__ == "__main__":
    main()
