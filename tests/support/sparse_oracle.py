"""The exact law of all views of a sparse histogram, by enumeration: small instances only.

Nothing here uses the formulas of docs/mathematics.md §19 but the randomizer itself: urns are drawn
token by token, views are sums of users' vectors, and all inputs are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm

F = Fraction
Vector = tuple[int, ...]
Law = dict[Vector, F]
Value = int | None


@dataclass(frozen=True, kw_only=True)
class Instance:
    """The numbers of a sparse cell, unchecked, so that spoilt ones can be tried too."""

    users: int
    buckets: int
    decay: F
    cut: int
    data: F
    muted: F
    jump: F
    weight: int | None = None
    """m in the urn: how much each earlier token weighs; the users unless it is spoilt."""
    one_bucket: bool = False
    """Whether a jump's tokens all go to one bucket, a spoilt variant."""
    keeps_noise: bool = False
    """Whether a user that jumps sends its noise too."""


def moved(one: Instance, name: str, part: F) -> Instance:
    """A part of a branch's chance goes to the data branch."""
    lost = getattr(one, name) * part
    return replace(one, **{name: getattr(one, name) - lost, "data": one.data + lost})


def urn(buckets: int, weight: int, count: int) -> Law:
    """How many of `count` tokens by Pólya's urn lie in each bucket."""
    law: Law = {(0,) * buckets: F(1)}
    for i in range(count):
        further: Law = {}
        for vector, chance in law.items():
            for bucket in range(buckets):  # a new one, or a copy of an earlier token
                share = F(1 + weight * vector[bucket], buckets + i * weight)
                key = plus(vector, bucket)
                further[key] = further.get(key, F(0)) + chance * share
        law = further
    return law


def plus(vector: Vector, bucket: int) -> Vector:
    return (*vector[:bucket], vector[bucket] + 1, *vector[bucket + 1 :])


def user_law(cell: Instance, value: Value) -> Law:
    """The law of one user's tokens."""
    weight = cell.users if cell.weight is None else cell.weight
    masses, term = [], F(1)
    for j in range(cell.cut + 1):
        masses.append(term)
        term = term * cell.decay * (F(cell.buckets, cell.users) + j) / (j + 1)
    law: Law = {}

    def add(part: Law, chance: F, extra: Value = None) -> None:
        for vector, mass in part.items():
            key = vector if extra is None else plus(vector, extra)
            law[key] = law.get(key, F(0)) + chance * mass

    for j, mass in enumerate(masses):
        noise = urn(cell.buckets, weight, j)
        add(noise, cell.data * mass / sum(masses), value)
        add(noise, cell.muted * mass / sum(masses))
    if cell.one_bucket:
        full = cell.cut + 1
        for bucket in range(cell.buckets):
            vector = tuple(full if b == bucket else 0 for b in range(cell.buckets))
            add({vector: F(1)}, cell.jump / cell.buckets)
    elif cell.keeps_noise:
        jumped = urn(cell.buckets, weight, cell.cut + 1)
        for j, mass in enumerate(masses):
            for own, chance in urn(cell.buckets, weight, j).items():
                moved = {summed(own, vector): one for vector, one in jumped.items()}
                add(moved, cell.jump * mass / sum(masses) * chance)
    else:
        add(urn(cell.buckets, weight, cell.cut + 1), cell.jump)
    return law


def summed(a: Vector, b: Vector) -> Vector:
    return tuple(i + j for i, j in zip(a, b, strict=True))


def whole(law: Law, scale: int) -> dict[Vector, int]:
    return {vector: int(mass * scale) for vector, mass in law.items() if mass}


def together(first: dict[Vector, int], second: dict[Vector, int]) -> dict[Vector, int]:
    sums: dict[Vector, int] = {}
    for a, x in first.items():
        for b, y in second.items():
            key = summed(a, b)
            sums[key] = sums.get(key, 0) + x * y
    return sums


Change = tuple[Value, Value]
"""The value on top of the ratio, and the one below."""


def largest_ratio(cell: Instance, users: int | None = None) -> F:
    """The largest P(view | inputs)/P(view | neighbouring inputs) over all inputs and views of
    `users` users (the planned number unless said); None is no value. A view that is impossible for
    a neighbour gives a ratio of 10^9."""
    return max(largest_ratios(cell, user_law, users).values())


def largest_ratios(
    cell: Instance, user_law: Callable[[Instance, Value], Law], users: int | None = None
) -> dict[Change, F]:
    """The same for every change of one user's value."""
    values: list[Value] = [*range(cell.buckets), None]
    laws = {value: user_law(cell, value) for value in values}
    scale = lcm(*(mass.denominator for law in laws.values() for mass in law.values()))
    known = {value: whole(law, scale) for value, law in laws.items()}
    worst = {(a, b): F(0) for a in values for b in values if a != b}
    others = (users or cell.users) - 1
    size = len(next(iter(laws[None])))
    for inputs in combinations_with_replacement(values, others):
        rest: dict[Vector, int] = {(0,) * size: 1}
        for value in inputs:
            rest = together(rest, known[value])
        views = {value: together(rest, known[value]) for value in values}
        for (a, b), known_worst in worst.items():
            worst[a, b] = max(known_worst, ratio(views[a], views[b]))
    return worst


def ratio(first: dict[Vector, int], second: dict[Vector, int]) -> F:
    if any(view not in second for view in first):
        return F(10**9)
    return max(F(mass, second[view]) for view, mass in first.items())


def tight(users: int, buckets: int, cut: int, decay: F, share: F, gain: F) -> Instance:
    """The instance with the largest p for a gain e^ε − 1: both inequalities are equalities."""
    term, kept = F(1), F(0)
    for j in range(cut + 1):
        kept += term
        term = term * decay * (F(buckets, users) + j) / (j + 1)
    jumps = users * term / kept / (share * decay * gain)
    muting = 1 / ((1 - share * F(users - 1, users)) * decay * gain)
    p = 1 / (1 + jumps + muting)
    return Instance(
        users=users, buckets=buckets, decay=decay, cut=cut, data=p, muted=p * muting, jump=p * jumps
    )


def tight_kept(users: int, buckets: int, cut: int, decay: F, gains: tuple[F, F]) -> Instance:
    """The instance that keeps its noise, with the largest p for the gains e^u − 1 of a value
    instead of none and e^d − 1 of none instead of a value. Requires: β above e^−u."""
    up, down = gains
    term = F(1)
    for j in range(cut + 1):
        term = term * decay * (F(buckets, users) + j) / (j + 1)
    odds = down  # p/q ≤ e^d − 1, and p/β + q ≤ e^u(p + q)
    if 1 / decay > 1 + up:
        odds = min(down, up / (1 / decay - 1 - up))
    jumps = odds / decay * users * term / up
    q = 1 / (1 + odds + jumps)
    return Instance(
        users=users, buckets=buckets, decay=decay, cut=cut, data=odds * q, muted=q, jump=jumps * q,
        keeps_noise=True,
    )  # fmt: skip


def grid() -> Iterator[tuple[int, int, int, F, F]]:
    """(users, buckets, cut, β, φ) of instances that are enumerated in seconds."""
    for users, buckets, cut in (
        (1, 1, 0), (1, 2, 2), (1, 3, 1), (2, 1, 1), (2, 2, 0), (2, 2, 1), (2, 2, 2), (2, 3, 1),
        (3, 1, 2), (3, 2, 1), (3, 3, 1), (4, 2, 1),
    ):  # fmt: skip
        for decay in (F(1, 2), F(9, 10)):
            for share in (F(1, 5), F(3, 5), F(1)):
                yield users, buckets, cut, decay, share


Spoil = Callable[[Instance], Instance]
