"""The law of a user's tokens in one bucket of the sparse cell: exact moments, masses, floats.

Of J tokens by the urn, k are in a given bucket with probability c_k·s′_(J−k)/s_J, where
c_k = β^k·(r)_k/k! and s′_i = β^i·(ρ−r)_i/i!: negative binomial shares given their sum. Of c buckets
together the same holds with c·r for r.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shuffledp.cells.base import Floats
from shuffledp.cells.urn import float_masses, urn_masses

if TYPE_CHECKING:
    from shuffledp.cells.sparse.cell import UrnCell


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Exact moments of one user's tokens; "with" means that the user has the bucket."""

    mean: Fraction
    """m₀: the expected tokens of a user in a bucket that it does not have; its own has p more."""
    variance: Fraction
    """v₀: the variance in a bucket that the user does not have."""
    variance_with: Fraction
    """v₁: the variance in the user's own bucket."""
    covariance: Fraction
    """The covariance of the tokens in two buckets that the user does not have."""
    covariance_with: Fraction
    """The covariance of the tokens in the user's own bucket and in another one."""
    tokens: Fraction
    """The expected tokens of a user without a value, in all buckets."""

    def of_sum(self, buckets: int) -> tuple[Fraction, Fraction, Fraction]:
        """(mean, variance, variance with) of a user's tokens in several buckets together."""
        others = buckets - 1
        without = self.variance + others * self.covariance
        apart = self.variance + 2 * self.covariance_with + (others - 1) * self.covariance
        return buckets * self.mean, buckets * without, self.variance_with + others * apart


def moments(cell: UrnCell) -> Moments:
    """The moments of docs/mathematics.md §19."""
    b, jumped = cell.buckets, cell.cut + 1
    p, o = cell.data, cell.jump
    one, variance = cell.noise.exact_moments()
    pairs = variance + one**2 - one  # E[J(J−1)]
    r, rho = Fraction(1, cell.users), Fraction(b, cell.users)
    same = (r + 1) / (b * (rho + 1))  # P₂: two tokens of an urn lie in this bucket
    apart = r / (b * (rho + 1))  # one lies in this bucket, the other in that one
    # the chances of noise, and of noise and a jump
    noisy, both = (Fraction(1), o) if cell.keeps_noise else (1 - o, Fraction(0))
    crossed = 2 * both * one * jumped / b**2  # one token is noise, the other from the jump
    tokens = noisy * one + o * jumped
    twos = noisy * pairs + o * jumped * (jumped - 1)
    mean = tokens / b
    square, product = twos * same + mean + crossed, twos * apart + crossed
    beside = p * one / b  # the user's own token, and noise
    return Moments(
        mean=mean,
        variance=square - mean**2,
        variance_with=square + p + 2 * beside - (mean + p) ** 2,
        covariance=product - mean**2,
        covariance_with=product + beside - mean * (mean + p),
        tokens=tokens,
    )


def masses_in(cell: UrnCell, r: Any, beta: Any, buckets: int = 1) -> tuple[list[Any], list[Any]]:
    """The masses of the noise tokens (0..K−1) and of all tokens of a user that jumps (0..K) in one
    bucket, or in several together, in the arithmetic of `r` and `beta`."""
    z = cell.cut
    noise, jumped = urn_masses(cell, z, buckets, r, beta)
    if cell.keeps_noise:
        jumped = [
            sum(noise[i] * jumped[k - i] for i in range(max(0, k - z - 1), min(k, z) + 1))
            for k in range(2 * z + 2)
        ]
        noise += [r - r] * z
    return noise, jumped


@dataclass(frozen=True, kw_only=True, eq=False)
class BucketLaw:
    """The law of one user's tokens in a bucket, in floats, for reporting. A user that holds the
    bucket sends 1 + N with probability p, N with q and a jump's tokens with o; one that does not
    sends N with p + q."""

    data: float
    """p."""
    muted: float
    """q."""
    jump: float
    """o."""
    noise: Floats
    """P(N = k) for k = 0..K−1."""
    jumped: Floats
    """P(k tokens of a user that jumps are here) for k = 0..K."""
    mean: float
    """m₀: the mean of a user that does not have the bucket."""
    variance: float
    """v₀."""
    variance_with: float
    """v₁."""

    @property
    def most(self) -> int:
        """K: the most tokens of a user."""
        return len(self.jumped) - 1


@lru_cache(maxsize=16)
def bucket_law(cell: UrnCell, buckets: int = 1) -> BucketLaw:
    """The law of several buckets together is that of a bucket which a user holds if it holds one of
    them."""
    noise, jumped = float_masses(
        cell, cell.cut, buckets, cell.decay, lambda r, beta: masses_in(cell, r, beta, buckets)
    )
    mean, variance, variance_with = cell.moments.of_sum(buckets)
    return BucketLaw(
        data=float(cell.data),
        muted=float(cell.muted),
        jump=float(cell.jump),
        noise=noise,
        jumped=jumped,
        mean=float(mean),
        variance=float(variance),
        variance_with=float(variance_with),
    )
