"""The exact law of all views of a pooled histogram, by enumeration: small instances only.

Nothing here uses the formulas of docs/mathematics.md §22 but the randomizer itself: urns are drawn
token by token, every bucket goes through its way down, views are sums of users' vectors, and all
labels of all users are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from math import lcm

from sparse_oracle import Law, Vector, plus, ratio, summed, together, urn, whole

F = Fraction


@dataclass(frozen=True, kw_only=True)
class Instance:
    """The numbers of a pooled cell, unchecked, so that spoilt ones can be tried too."""

    users: int
    buckets: int
    up: F
    """β_u."""
    tokens: int
    """Z."""
    drop: F
    """R."""
    down: F
    """β_d."""
    cut: int
    """z."""
    muted_cut: int
    """w."""
    odds: F
    """o, of a jump in a bucket that holds 1."""
    ratio: F
    """κ: of a jump in a bucket that holds 0, as a part of o."""
    weight: int | None = None
    """m in the urn: how much each earlier token weighs; the users unless it is spoilt."""
    one_bucket: bool = False
    """Whether the tokens of a dropped label all go to one bucket, a spoilt variant."""
    keeps_noise: bool = True
    """Whether a user that drops its label also sends its noise."""
    first_ratio: F | None = None
    """κ of the first bucket, if it differs from the others', a spoilt variant."""

    @property
    def loss(self) -> F:
        """1/(β_u·β_d), which no ratio of chances may exceed."""
        return 1 / (self.up * self.down)


def masses(shape: F, beta: F, cut: int) -> list[F]:
    """c_0 .. c_cut of a noise."""
    found = [F(1)]
    for j in range(cut):
        found.append(found[-1] * beta * (shape + j) / (j + 1))
    return found


def beyond(shape: F, beta: F, cut: int) -> F:
    """The first mass that the cut leaves out."""
    return masses(shape, beta, cut + 1)[-1]


def convolved(first: Law, second: Law) -> Law:
    law: Law = {}
    for a, x in first.items():
        for b, y in second.items():
            key = summed(a, b)
            law[key] = law.get(key, F(0)) + x * y
    return law


def mixed(parts: list[tuple[F, Law]]) -> Law:
    law: Law = {}
    for chance, part in parts:
        for vector, mass in part.items():
            law[vector] = law.get(vector, F(0)) + chance * mass
    return law


def way_down(cell: Instance, bucket: int, value: int) -> Law:
    """What one bucket sends, as a vector that is 0 elsewhere."""
    kappa = cell.ratio if bucket or cell.first_ratio is None else cell.first_ratio
    odds = cell.odds if value else kappa * cell.odds
    z, w, r = cell.cut, cell.muted_cut, F(1, cell.users)
    law: Law = {}
    for chance, start, cut in ((F(1), z + w + value, z), (odds, w, w)):
        noise = masses(r, cell.down, cut)
        for j, mass in enumerate(noise):
            key = tuple(start - j if b == bucket else 0 for b in range(cell.buckets))
            law[key] = law.get(key, F(0)) + chance / (1 + odds) * mass / sum(noise)
    return law


def ways_down(cell: Instance, label: int | None) -> Law:
    law: Law = {(0,) * cell.buckets: F(1)}
    for bucket in range(cell.buckets):
        law = convolved(law, way_down(cell, bucket, int(bucket == label)))
    return law


def user_law(cell: Instance, label: int | None) -> Law:
    """The law of one user's messages to each bucket; None is no label."""
    weight = cell.users if cell.weight is None else cell.weight
    sizes = masses(F(cell.buckets, cell.users), cell.up, cell.tokens)
    deal = [(mass / sum(sizes), urn(cell.buckets, weight, t)) for t, mass in enumerate(sizes)]
    noise = mixed(deal)
    if cell.one_bucket:
        far: Vector = (0,) * cell.buckets
        for _ in range(cell.tokens + 1):
            far = plus(far, 0)
        share = F(1, cell.buckets)
        jumps = mixed([(share, {far[-b:] + far[:-b]: F(1)}) for b in range(cell.buckets)])
    else:
        jumps = urn(cell.buckets, weight, cell.tokens + 1)
    kept = convolved(noise, ways_down(cell, label))
    dropped = convolved(jumps, ways_down(cell, None))
    if cell.keeps_noise:
        dropped = convolved(noise, dropped)
    total = 1 + cell.drop
    return mixed([(1 / total, kept), (cell.drop / total, dropped)])


def largest_ratio(cell: Instance, users: int | None = None, *, fillers: int = 0) -> F:
    """The largest P(view | labels)/P(view | neighbouring labels) over all labels of `users` users
    (the planned number unless said), of whom `fillers` have no label, and over all views."""
    labels = list(range(cell.buckets))
    laws = {label: user_law(cell, label) for label in [*labels, None]}
    scale = lcm(*(mass.denominator for law in laws.values() for mass in law.values()))
    known = {label: whole(law, scale) for label, law in laws.items()}
    worst = F(0)
    others = (users or cell.users) - 1 - fillers
    for inputs in combinations_with_replacement(labels, others):
        rest: dict[Vector, int] = {(0,) * cell.buckets: 1}
        for label in [*inputs, *[None] * fillers]:
            rest = together(rest, known[label])
        views = {label: together(rest, known[label]) for label in labels}
        for a, b in permutations(labels, 2):
            worst = max(worst, ratio(views[a], views[b]))
    return worst


def tight(
    users: int, buckets: int, cuts: tuple[int, int, int], decays: tuple[F, F], odds: F | None = None
) -> Instance:
    """The instance at the limit of the theorem, with κ = β_u. Cuts are Z, z, w; decays β_u, β_d.
    Equal cuts have the least odds o; others are given."""
    (tokens, cut, muted_cut), (up, down) = cuts, decays
    o = users * beyond(F(1, users), down, cut) / (1 - up * down) if odds is None else odds
    least = down * users * beyond(F(buckets, users), up, tokens) / (1 - up * down)
    # a user that dropped its label jumps less often, by which its weight is larger
    drop = least * (1 + up * o) / (1 + o)
    return Instance(
        users=users, buckets=buckets, up=up, tokens=tokens, drop=drop, down=down, cut=cut,
        muted_cut=muted_cut, odds=o, ratio=up,
    )  # fmt: skip
