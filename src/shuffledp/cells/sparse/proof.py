"""The proof that a sparse cell is private, for these exact parameters (docs/mathematics.md §19).

Replacing any user's value by another one, or by none, costs at most ε among m or more users if

    (i)   p·m·s_(Z+1)  ≤  φ·o·C·β·(e^ε − 1)
    (ii)  p            ≤  (1 − φ(m−1)/m)·q·β·(e^ε − 1).

For a kept cell, a value instead of none costs at most u, and none instead of a value at most d, if

    (iii)  p/β + q          ≤  e^u·(p + q)
    (iv)   p·m·s_(Z+1)/β    ≤  (e^u − 1)·o
    (v)    p + q            ≤  e^d·q.

All are decided with fractions: e^ε is replaced by a rational number below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import factorial
from typing import Any

from shuffledp.cells.sparse.cell import KeptCell, SparseCell
from shuffledp.errors import PrivacyViolation
from shuffledp.numbers.exact import as_fraction, at_precision, ball, decimal_above, show

SPARSE = "sparse histogram"
JUMPS = "p·m·s_(Z+1) / (φ·o·C·β·(e^ε−1)) ≤ 1"
MUTING = "p / ((1 − φ(m−1)/m)·q·β·(e^ε−1)) ≤ 1"
STATEMENTS = {"jumps": JUMPS, "muting": MUTING}
KEPT = "sparse histogram beside exact cells"
TAKEN_UP = "(p/β + q) / (e^u·(p + q)) ≤ 1"
KEPT_JUMPS = "p·m·s_(Z+1) / (β·(e^u − 1)·o) ≤ 1"
GIVEN_UP = "(p + q) / (e^d·q) ≤ 1"
EXPONENTIAL_BITS = 192


def exponential_below(epsilon: Fraction, bits: int = EXPONENTIAL_BITS) -> Fraction:
    """A fraction that is at most e^ε and closer to it than 2^(4−bits) of it.

    Ensures: the lower end of a ball that encloses e^ε.
    """
    return as_fraction(at_precision(bits, lambda: ball(epsilon).exp().lower()))


def spill(users: int, buckets: int, decay: Fraction, cut: int) -> Fraction:
    """s_(Z+1)/C, from users and buckets. Multiplied out, so that fractions are reduced only once,
    at the end: with ρ = B/m and β = a/b the term s_J is a^J·B(B+m)⋯(B+(J−1)m) / (J!·(b·m)^J)."""
    a, b = decay.as_integer_ratio()
    last = cut + 1
    rising = _rising(users, buckets, a, last)
    falling, total = 1, 0  # (Z+1)!/J!·(b·m)^(Z+1−J)
    for j in range(last, 0, -1):
        falling *= j * b * users
        total += rising[j - 1] * falling
    return Fraction(rising[last], total)


def beyond_cut(users: int, buckets: int, decay: Fraction, cut: int) -> Fraction:
    """s_(Z+1), from users and buckets; multiplied out as in `spill`."""
    a, b = decay.as_integer_ratio()
    last = cut + 1
    return Fraction(_rising(users, buckets, a, last)[last], factorial(last) * (b * users) ** last)


def _rising(users: int, buckets: int, a: int, last: int) -> list[int]:
    """a^J·B(B+m)⋯(B+(J−1)m) for J = 0..last."""
    found = [1]
    for j in range(last):
        found.append(found[-1] * a * (buckets + j * users))
    return found


@dataclass(frozen=True, kw_only=True)
class UrnProof:
    """The left sides of a rule's inequalities, each at most 1."""

    rule: str
    losses: Mapping[str, Fraction]
    """What each change costs."""
    lefts: Mapping[str, Fraction]
    """By their statements."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.claims(),
            "inequalities": [
                {"statement": statement, "left": decimal_above(left), "right": "1"}
                for statement, left in self.lefts.items()
            ],
        }

    def claims(self) -> dict[str, Any]:
        return {"rule": self.rule, **{name: str(loss) for name, loss in self.losses.items()}}

    def summary(self) -> str:
        if self.rule == KEPT:
            return f"{KEPT}: {show(float(max(self.lefts.values())))} of 1"
        jumps, muting = (show(float(left)) for left in self.lefts.values())
        return f"{SPARSE}: jumps {jumps}, muting {muting} of 1"


def decided(proof: UrnProof, progress: Callable[[int], None] | None) -> UrnProof:
    """The proof; raises `PrivacyViolation` unless all its inequalities hold."""
    for statement, left in proof.lefts.items():
        if left > 1:
            raise PrivacyViolation(
                f"The inequality {statement} fails: its left side is {show(float(left), 12)}; "
                f"raise {'jump' if statement in (JUMPS, KEPT_JUMPS) else 'muted'}.",
                {"inequality": statement, "left": decimal_above(left)},
            )
    if progress:
        progress(1)
    return proof


def prove(
    cell: SparseCell,
    up: Fraction,
    down: Fraction,
    progress: Callable[[int], None] | None = None,
) -> UrnProof:
    """The proof that replacing any value, or none, costs at most `up`, and at most `down`.

    Requires: at least `cell.users` users take part, each an exact draw of the randomizer.
    Ensures: returned only if both inequalities were decided, in fractions.
    """
    if min(up, down) < cell.epsilon:
        raise PrivacyViolation(
            f"The cell is made for a loss of {show(cell.epsilon)}, but only "
            f"{show(min(up, down))} is allowed; plan it for less.",
            {"epsilon": str(cell.epsilon), "allowed": str(min(up, down))},
        )
    price = cell.decay * (exponential_below(cell.epsilon) - 1)  # β(e^ε − 1), from below
    if price <= 0:
        raise PrivacyViolation("epsilon is too small to be distinguished from 0.", {})
    m = cell.users
    beyond = spill(m, cell.buckets, cell.decay, cell.cut)
    jumps = cell.data * m * beyond / (cell.share * cell.jump * price)
    muting = cell.data / ((1 - cell.share * Fraction(m - 1, m)) * cell.muted * price)
    lefts = {JUMPS: jumps, MUTING: muting}
    proof = UrnProof(rule=SPARSE, losses={"replacement": cell.epsilon}, lefts=lefts)
    return decided(proof, progress)


def prove_kept(
    cell: KeptCell,
    up: Fraction,
    down: Fraction,
    progress: Callable[[int], None] | None = None,
) -> UrnProof:
    """The proof that a value instead of none costs at most `up`, and none instead of a value at
    most `down`.

    Requires: at least `cell.users` users take part, each an exact draw of the randomizer.
    Ensures: returned only if the three inequalities were decided, in fractions.
    """
    if up < cell.up or down < cell.down:
        raise PrivacyViolation(
            f"The cell is made for losses of {show(cell.up)} and {show(cell.down)}, but only "
            f"{show(up)} and {show(down)} are allowed; plan it for less.",
            {"up": str(cell.up), "down": str(cell.down)},
        )
    p, q, beta = cell.data, cell.muted, cell.decay
    taken, given = exponential_below(cell.up), exponential_below(cell.down)
    if taken <= 1:
        raise PrivacyViolation("up is too small to be distinguished from 0.", {})
    beyond = beyond_cut(cell.users, cell.buckets, beta, cell.cut)
    lefts = {
        TAKEN_UP: (p / beta + q) / (taken * (p + q)),
        KEPT_JUMPS: p * cell.users * beyond / (beta * (taken - 1) * cell.jump),
        GIVEN_UP: (p + q) / (given * q),
    }
    proof = UrnProof(rule=KEPT, losses={"up": cell.up, "down": cell.down}, lefts=lefts)
    return decided(proof, progress)
