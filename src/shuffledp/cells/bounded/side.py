"""One direction of a bounded cell in floats: how much muting two cuts need (MATH §12).

Nothing here decides about privacy: these figures propose cuts and odds, which
`shuffledp.cells.bounded.proof` then proves or refuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.numbers.special import Floats

MOST_KEPT = 500_000  # floats held for each direction


@dataclass(frozen=True, kw_only=True)
class Muting:
    """A direction's muting at two cuts, with the least odds that the proof allows."""

    cut: int
    muted_cut: int
    first_odds: float
    """o_1; each later one is β times the one before."""
    odds: float
    """Their sum."""
    jump: float
    """Σ o_y·(z+y)."""
    squares: float
    """Σ o_y·(z+y)²."""

    @property
    def total(self) -> int:
        """What the direction adds to the largest number of messages."""
        return self.cut + self.muted_cut


class Side:
    """One direction: its noise, and the muting for every pair of cuts up to `size`."""

    def __init__(self, users: int, largest: int, decay: float, size: int) -> None:
        self.users, self.largest, self.decay, self.size = users, largest, decay, size
        self.r = 1 / users
        self.first = (users - 2) / users  # s₀
        self.places = np.arange(size + 2, dtype=float)
        steps = self.places[1:]
        self.rho = np.concatenate([[1.0], np.cumprod(1 + self.r / steps)])
        self.powers = decay**self.places
        shares = self.r * self.powers[1:] * self.rho[:-1]  # j·c_j
        self.sums = np.concatenate([[1.0], 1 + np.cumsum(shares / steps)])  # C_k
        self.means = np.concatenate([[0.0], np.cumsum(shares)]) / self.sums
        seconds = np.concatenate([[0.0], np.cumsum(shares * steps)]) / self.sums
        self.variances = seconds - self.means**2
        ratios = (self.first + self.places[:-1]) / steps
        self.most = np.concatenate([[1.0], np.cumprod(ratios)])  # N_n
        self.fade = float(decay**largest)
        self.spare = -math.expm1(largest * math.log(decay))  # A
        jumps = np.arange(1, largest + 1)
        self.weights = decay ** (jumps - 1.0)
        self.moments = [float((self.weights * jumps**k).sum()) for k in range(3)]
        self.harmonic = float((1 / jumps).sum())
        self._near: dict[int, Floats] = {}
        self._muting: dict[tuple[int, int], Muting | None] = {}
        self._best: dict[int, Muting | None] = {}

    def near(self, w: int) -> Floats:
        """e(I) for I = w+1 .. size: what the muted users' cut asks for at I, up to the cut z."""
        if w not in self._near:
            most, n = self.most, self.places
            sums = np.concatenate([[0.0], np.cumsum(most / (n + w + 1))])
            tail = self.first * self.rho[w] / (most[1:] * n[1:])
            tail[:w] = 0
            left = np.concatenate([[1.0], 1 - np.cumsum(tail)])
            covered = np.cumsum(most * np.maximum(left, 0))  # U_{I}, at place I − 1
            place = n[w + 1 : self.size + 1]
            count = np.arange(1, len(place) + 1)
            window = sums[count] - sums[np.maximum(count - self.largest, 0)]
            while len(self._near) * self.size > MOST_KEPT:
                self._near.pop(next(iter(self._near)))
            self._near[w] = place * window / covered[w : self.size]
        return self._near[w]

    def share(self, z: int, w: int) -> float:
        """The largest φ that the per-index rule allows; at most 0 where it allows none."""
        d = self.largest
        if self.users < 3 or w < d - 1 or z < w + d or z > self.size:
            return 0.0
        steps = np.arange(1, d + 1)
        gaps = z - w + 1 - steps
        past = float(self.rho[w] * (z / ((z + 1 - steps) * gaps)).sum())
        kappa = self.r / self.spare * float(self.rho[w] * self.rho[max(z - w - 2, 0)])
        kappa *= self.harmonic * (w + d + 1) / (w + 2)
        factor = float(self.rho[w]) / self.spare
        claims = np.empty(z - w + 1)
        claims[:-1] = kappa + factor * self.near(w)[: z - w]
        claims[-1] = kappa + factor * float(((z + 1) / ((z + 2 - steps) * gaps)).sum())
        place = self.places[w + 1 : z + 2]
        here = float(((1 - claims) * (z + 1 + place)).min())
        swapped = float(((1 - self.fade * claims) * (z + 1 + place - d)).min())
        return min(1.0, here / (z + 1), swapped / (z + 1)) / (1 + self.r * past)

    def muting(self, z: int, w: int) -> Muting | None:
        """The muting that the cuts need, or None where no rule covers them."""
        if (z, w) not in self._muting:
            share = self.share(z, w) if z > w else float(z <= self.size)
            self._muting[z, w] = self._with_share(z, w, share) if share > 1e-9 else None
        return self._muting[z, w]

    def _with_share(self, z: int, w: int, share: float) -> Muting:
        # users·c_{z+1}·(C_w/C_z)·β^(1−D−1)/(φ(β^(−D)−1)) with users·c_{z+1} = β^(z+1)·ρ_z/(z+1)
        first = float(self.powers[z + 1] * self.rho[z] / (z + 1))
        first *= float(self.sums[w] / self.sums[z]) / (share * self.spare)
        m0, m1, m2 = (first * moment for moment in self.moments)
        return Muting(
            cut=z,
            muted_cut=w,
            first_odds=first,
            odds=m0,
            jump=z * m0 + m1,
            squares=z * z * m0 + 2 * z * m1 + m2,
        )

    def best(self, total: int) -> Muting | None:
        """The least muting with cuts that add up to `total` (or 1 less, where no rule fits)."""
        if total < 0:
            return None
        if total not in self._best:
            self._best[total] = self._search(total) or (self.best(total - 1) if total % 2 else None)
        return self._best[total]

    def _search(self, total: int) -> Muting | None:
        def cost(w: int) -> float:
            muting = self.muting(total - w, w)
            return math.inf if muting is None else muting.squares

        lowest, highest = self.largest - 1, (total - self.largest) // 2
        found = [total // 2] if total % 2 == 0 else []  # equal cuts: rule A
        if highest >= lowest:
            # the muting falls and then rises with w; where it is infinite w is too small
            start, step = self._near_best(total)
            w, stride = min(max(start, lowest), highest), 1
            while math.isinf(cost(w)) and w < highest:
                w, stride = min(w + stride, highest), 2 * stride
            step = max(step, stride // 2)
            while step:
                moved = [v for v in (w - step, w + step) if lowest <= v <= highest]
                nearest = min(moved, key=cost, default=w)
                if cost(nearest) < cost(w):
                    w = nearest
                else:
                    step //= 2
            found.append(w)
        found = [w for w in found if math.isfinite(cost(w))]
        return self.muting(total - (w := min(found, key=cost)), w) if found else None

    def _near_best(self, total: int) -> tuple[int, int]:
        """A muted cut to start from, and how far the best may be; totals hardly move it."""
        known = [best for best in self._best.values() if best and best.cut > best.muted_cut]
        if not known:
            w = int(2 * self.largest / self.spare)
            return w, max(1, w // 4)
        w = min(known, key=lambda best: abs(best.total - total)).muted_cut
        return w, max(1, w // 32)


def reach(users: int, expected: int, largest: int, decay: float) -> int:
    """A cut beyond which muting no longer matters, whatever the error asked for."""
    fall = -math.log(decay)
    weight = math.log(expected + 2.0) + 4 * math.log(2 + largest + 1 / fall)
    return int(weight / fall) + 4 * largest + 16
