"""δ of exact views in ball arithmetic, as hockey-stick divergences: H_ε(P‖Q) = Σ max(P − e^ε Q, 0).

Three shapes of view cover the approximate baselines:

* one count that moves by one under log-concave noise (BC20, the pairs of GKMP20): the terms are
  positive up to one integer, so H is a difference of two cumulative probabilities;
* two such counts, one up and one down (a histogram's buckets);
* two symbols, of which the user adds one, hidden among S noise messages that fall on either with
  equal chance (blankets: BBGN19, GGKPV21, LWY22): given S the ratio is a/(S + 1 − a).

Each returns an `arb` ball that contains an upper bound of δ; `settles` compares it with a target.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from flint import arb, ctx

from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import ball, round_to, sign, to_float
from shuffledp.numbers.laws import Binomial, Law

WORKING_BITS = 128
WINDOW_DEVIATIONS = 14  # covered by a sum on each side; the rest is added as a bound


def shift_delta(law: Law, epsilon: Fraction) -> arb:
    """δ of a count with this noise when it moves by one, the worse of both directions."""
    low, high = low_delta(law, epsilon), high_delta(law, epsilon)
    return low if low > high else high if high > low else low.union(high)


def low_delta(law: Law, epsilon: Fraction) -> arb:
    """H_ε(N ‖ N + 1): δ because small counts reveal that nothing was added.

    Requires: `law` log-concave on first, first+1, …
    """
    assert law.first is not None
    bound = ball(epsilon).exp()
    t = _first_below(law, bound)  # P(k)/P(k−1) > e^ε for k ≤ t
    return law.cdf(t) - bound * law.cdf(t - 1)


def high_delta(law: Law, epsilon: Fraction) -> arb:
    """H_ε(N + 1 ‖ N): δ because large counts reveal that something was added.

    Requires: `law` log-concave on first, first+1, …
    """
    bound = ball(epsilon).exp()
    u = _first_below(law, 1 / bound) + 1  # P(k)/P(k−1) < e^−ε for k ≥ u
    return (1 - law.cdf(u - 2)) - bound * (1 - law.cdf(u - 1))


def _first_below(law: Law, bound: arb) -> int:
    """The last k with P(k)/P(k−1) ≥ bound; the first value if there is none."""
    first = law.first or 0

    def above(k: int) -> bool:
        return bool(law.ratio(k - 1) >= bound)

    low, step = first, 1
    while (law.last is None or low + step <= law.last) and above(low + step):
        low, step = low + step, 2 * step
    high = low + step
    if law.last is not None:
        high = min(high, law.last + 1)
    return first_whole(lambda k: not above(k), low, high) - 1


def pair_delta(law: Law, epsilon: Fraction) -> arb:
    """δ when one count goes down and another, with independent noise, goes up.

    Σ over (i, j) of max(P(i)P(j−1) − e^ε P(i−1)P(j), 0). Given j the terms are positive up to an
    integer i that rises with j. Masses beyond the window are added in full.
    """
    first, masses, sums = _window(law)
    bound = ball(epsilon).exp()
    size = len(masses)
    padded = [arb(0), *masses, arb(0)]
    total, t = arb(0), 0
    for before, here in pairwise(padded):
        while t + 1 < size and masses[t + 1] * before > bound * masses[t] * here:
            t += 1
        term = before * sums[t] - bound * here * (sums[t - 1] if t else arb(0))
        total += term if not term < 0 else arb(0)
    return total + 2 * (1 - sums[-1]) + 2 * _beyond_low(law, first)


def _window(law: Law) -> tuple[int, list[arb], list[arb]]:
    """(first value, its probability and the next ones', their running sums) around the mean."""
    deviation = to_float(law.variance) ** 0.5
    centre = to_float(law.mean)
    first = max(int(centre - WINDOW_DEVIATIONS * deviation) - 30, law.first or 0)
    last = int(centre + WINDOW_DEVIATIONS * deviation) + 60
    last = last if law.last is None else min(last, law.last)
    masses = [law.pmf(first)]
    for k in range(first, last):
        masses.append(masses[-1] * law.ratio(k))
    sums = [_beyond_low(law, first) + masses[0]]
    for one in masses[1:]:
        sums.append(sums[-1] + one)
    return first, masses, sums


def _beyond_low(law: Law, first: int) -> arb:
    return law.cdf(first - 1) if first > (law.first or 0) else arb(0)


def swap_delta(hidden: Law, epsilon: Fraction) -> arb:
    """δ when the user adds one of two symbols and `hidden` noise messages fall on them evenly.

    More noise is a function of less, so the conditional δ falls with S: below the window it
    counts as 1, above it as its last value.
    """
    first, masses, sums = _window(hidden)
    total = _beyond_low(hidden, first)
    for offset, mass in enumerate(masses):
        total += mass * conditional_swap(first + offset, epsilon)
    return total + (1 - sums[-1]) * conditional_swap(first + len(masses) - 1, epsilon)


@lru_cache(maxsize=1 << 16)
def conditional_swap(noise: int, epsilon: Fraction) -> arb:
    """δ when exactly `noise` noise messages fall on the two symbols: (1 + A, S − A) against
    (A, S − A + 1), A ~ Bin(S, ½); the ratio at a is a/(S + 1 − a)."""
    with ctx.workprec(WORKING_BITS):
        grow = ball(epsilon).exp()
        a = int(((noise + 1) * grow / (1 + grow)).floor().unique_fmpz())
        mass = Binomial(noise, Fraction(1, 2)).pmf(a)  # the ratio exceeds e^ε from a + 1 on
        return mass * grow - (grow - 1) * mass * _tail_over_mass(noise, a)


def _tail_over_mass(trials: int, first: int) -> arb:
    """P(A ≥ first)/P(A = first) for A ~ Bin(trials, ½) and a value above the middle: a series
    that falls at least geometrically, its rest enclosed."""
    total = term = arb(1)
    for k in range(first, trials):
        ratio = arb(trials - k) / (k + 1)
        term = term * ratio
        total = total + term
        if term < total * arb(2) ** (-WORKING_BITS + 16):
            return total + arb(0).union(term * ratio / (1 - ratio))
    return total


def settles(quantity: Callable[[], arb], target: Fraction) -> bool:
    """Whether a δ is certainly at most the target."""
    return sign(lambda: ball(target) - quantity())[0] > 0


def least(
    meets: Callable[[Fraction], bool], start: float, digits: int = 4, most: float = 1e18
) -> Fraction:
    """The smallest number up to `most`, rounded up to `digits` digits, that meets a condition which
    holds from some number on. Floats propose; the condition decides, also about the result."""
    low = high = min(start, most)
    while not meets(Fraction(high)):
        if high >= most:
            raise PlanningError(
                "No amount of noise achieves this (ε, δ); plan for more users or allow a larger δ."
            )
        low, high = high, min(2 * high, most)
    while low == high or meets(Fraction(low)):
        low, high = low / 2, min(high, low)
        if low < 1e-12:
            break
    while high / low - 1 > 0.1 ** (digits + 1):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if meets(Fraction(middle)) else (middle, high)
    for nudge in range(20):
        found = round_to(min(high * (1 + nudge * 0.1**digits), most), digits, up=True)
        if meets(found):
            return found
    raise PlanningError("The calibration did not settle; change epsilon or delta slightly.")
