"""The proof that a bounded cell is private, for these exact parameters (MATH §12, §21).

A change in one direction costs at most D·ln(1/β) if the odds are large enough. For one direction
let r = 1/users, c_j and C_k as in `cells.bounded.cell`, A = 1 − β^D, H_k = 1 + ½ + … + 1/k,
ρ_k = (1+r)(1+r/2)⋯(1+r/k). The odds imply the share

    φ = max over y of  users · c_{z+1} · (C_w/C_z) · β^(y−D−1) / (o_y · (β^(−D) − 1)),

the part of a muted branch that the cut of the noise at z uses up. The rest must cover the cut of
the muted users' noise at w. Any one of three rules is enough:

* equal cuts: w = z and φ ≤ 1. A muted user's noise is cut like everyone's, so nothing else must be
  covered.
* closed form: users ≥ 3, w ≥ D − 1, z ≥ w + D and three inequalities.
* per index: the same conditions, the same proof, the shares compared index by index. With
  h = ρ_w Σ_{s=1..D} z/((z+1−s)(z−w+1−s)): φ(1+rh) ≤ 1, and for every I > w and every value x

      φ(1+rh)(z+1)/(z+1+I−x) + β^x·η(I) ≤ 1.

  The left side is convex in x, and beyond z it falls as I grows; so x = 0, x = D and I = w+1..z+1
  decide about all of them.

Where the odds depend on the value (κ < 1, D = 1), β^(−D) − 1 above becomes β^(−1) − κ, and A
becomes 1 − κβ. The jump itself is a sign of the value in the other direction, so κ is at least the
other direction's β; and users of both values are muted equally often: (1−κ)·o is the same both
ways.

Every comparison is made in ball arithmetic, whose precision is raised until it is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from shuffledp.cells.bounded.cell import BoundedCell, CutCell, Direction
from shuffledp.errors import PrivacyViolation, Undecided
from shuffledp.numbers.deadline import check_time
from shuffledp.numbers.exact import (
    FIRST_PRECISION,
    LAST_PRECISION,
    at_precision,
    ball,
    decimal_above,
    fraction_above,
    precisions,
    show,
    sign,
)

EQUAL_CUTS = "equal cuts"
CLOSED_FORM = "closed form"
PER_INDEX = "per index"

STATEMENTS = {
    "share": "φ ≤ 1",
    "muted branch": "φ(1+r) ≤ 1",
    "up to the cut": "φ(1+r)(z+1)/(z+w+2−D) + (ρ_w/A)(w+D)(H_{w+D}−H_w)/W + κ ≤ 1",
    "beyond the cut": "φ(1+r)(z+1)/(2z+1−D) + (ρ_w/A) Σ z/((z+1−s)(z−w+1−s)) + κ ≤ 1",
    "muted branch alone": "φ(1+rh) ≤ 1",
    "muted branch shared": "φ(1+rh)(z+1)/(z+1+I−x) + β^x η(I) ≤ 1",
}


@dataclass(frozen=True)
class Inequality:
    """One inequality of a rule: `left` ≤ 1."""

    statement: str
    left: arb
    index: tuple[int, int] | None = None
    """(I, x) where the rule has an inequality for each."""

    def to_dict(self) -> dict[str, Any]:
        index = {} if self.index is None else {"I": self.index[0], "x": self.index[1]}
        left = {"left": rounded_up(self.left), "right": "1"}
        return {"statement": self.statement, **index, **left}


class Scale:
    """The quantities that the rules use, for one direction."""

    def __init__(self, cell: CutCell, direction: Direction) -> None:
        self.users, self.d = cell.users, cell.largest
        self.z, self.w = direction.cut, direction.muted_cut
        self.beta = ball(direction.decay)
        self.r = arb(1) / self.users
        self.ratio = ball(direction.ratio)  # κ
        self.spare = 1 - self.ratio * self.beta**self.d  # A
        self.rho = [arb(1)]
        for i in range(1, self.z + 1):
            self.rho.append(self.rho[-1] * (1 + self.r / i))

    def share(self, odds: tuple[Fraction, ...]) -> arb:
        """φ: what the noise's cut uses up of a muted branch with these odds."""
        c, total, totals = arb(1), arb(0), []
        for j in range(self.z + 1):
            total += c
            totals.append(total)
            c *= self.beta * (self.r + j) / (j + 1)
        claim = self.users * c * totals[self.w] / totals[self.z]  # c is c_{z+1} by now
        claim /= self.beta ** (self.d + 1) * (self.beta ** (-self.d) - self.ratio)
        share = arb(0)
        for y, weight in enumerate(odds, start=1):
            share = share.max(claim * self.beta**y / ball(weight))
        return share

    def harmonic(self, above: int, last: int) -> arb:
        """1/(above+1) + … + 1/last."""
        return sum((arb(1) / i for i in range(above + 1, last + 1)), start=arb(0))

    def past(self) -> arb:
        """h = ρ_w Σ_{s=1..D} z/((z+1−s)(z−w+1−s))."""
        z, w = self.z, self.w
        terms = (arb(z) / ((z + 1 - s) * (z - w + 1 - s)) for s in range(1, self.d + 1))
        return self.rho[w] * sum(terms, start=arb(0))

    def noisy(self, last: int) -> arb:
        """κ: the part of the muted users' cut where the swapped user draws noise."""
        w, d = self.w, self.d
        factor = self.r / self.spare * self.rho[w] * self.rho[last] * self.harmonic(0, d)
        return factor * (w + d + 1) / (w + 2)


def equal_cuts(scale: Scale, share: arb) -> Iterator[Inequality]:
    """w = z: the share alone."""
    yield Inequality(STATEMENTS["share"], share)


def closed_form(scale: Scale, share: arb) -> Iterator[Inequality]:
    """Rule B′ of MATH §12: coarse constants, three inequalities."""
    z, w, d = scale.z, scale.w, scale.d
    first = 1 - 2 * scale.r  # s₀ = (users − 2)/users
    weight = arb(1)  # W
    for i in range(1, w + 1):
        weight *= (first + i) / i
    kappa = scale.noisy(z)
    share = share * (1 + scale.r)
    below = scale.rho[w] / scale.spare * (w + d) * scale.harmonic(w, w + d) / weight
    yield Inequality(STATEMENTS["muted branch"], share)
    yield Inequality(STATEMENTS["up to the cut"], share * (z + 1) / (z + w + 2 - d) + below + kappa)
    beyond = scale.past() / scale.spare
    yield Inequality(
        STATEMENTS["beyond the cut"], share * (z + 1) / (2 * z + 1 - d) + beyond + kappa
    )


def per_index(scale: Scale, share: arb) -> Iterator[Inequality]:
    """The shares compared index by index (MATH §12, "Sharper, same proof")."""
    z, d = scale.z, scale.d
    share = share * (1 + scale.r * scale.past())
    yield Inequality(STATEMENTS["muted branch alone"], share)
    fade = scale.beta**d
    for index, claim in swapped_claims(scale):
        for x, fallen in ((0, arb(1)), (d, fade)):
            left = share * (z + 1) / (z + 1 + index - x) + fallen * claim
            yield Inequality(STATEMENTS["muted branch shared"], left, (index, x))


def swapped_claims(scale: Scale) -> Iterator[tuple[int, arb]]:
    """(I, η(I)) for I = w+1 .. z+1: what the muted users' cut asks of a swapped muted branch."""
    z, w, d = scale.z, scale.w, scale.d
    first = 1 - 2 * scale.r  # s₀
    kappa = scale.noisy(max(z - w - 2, 0))
    factor = scale.rho[w] / scale.spare
    most, sums = arb(1), [arb(0)]  # N_n: the others' masses at most; Σ_{k<n} N_k/(k+w+1)
    for n in range(z - w):
        sums.append(sums[-1] + most / (n + w + 1))
        most = most * (first + n) / (n + 1)
    least, covered = arb(1), arb(0)  # u_n: the others' masses at least; U_I: their sum below I
    for index in range(1, z + 1):
        check_time()
        n = index - 1
        covered += least
        least = least * (n + first) - (first * scale.rho[w] if n >= w else 0)
        least = least.max(arb(0)) / (n + 1)
        if index > w:
            terms = sums[index - w] - sums[max(index - w - d, 0)]
            yield index, kappa + factor * index * terms / covered
    terms = (arb(z + 1) / ((z + 2 - s) * (z - w - s + 1)) for s in range(1, d + 1))
    yield z + 1, kappa + factor * sum(terms, start=arb(0))


def rounded_up(number: arb) -> str:
    """An upper bound on the true value, as decimal text."""
    return decimal_above(fraction_above(number))


Rule = Callable[[Scale, arb], Iterator[Inequality]]
"""Returns a rule's inequalities for given quantities and the share φ."""


@dataclass(frozen=True, kw_only=True)
class DirectionProof:
    """What was proved about one direction."""

    allowed: Fraction
    exponent: arb
    """D·ln(1/β), enclosed."""
    rule: str
    share: arb
    """φ, enclosed."""
    inequalities: tuple[Inequality, ...]
    """All inequalities of the rule; if it has one for each index, only the tightest."""
    precision: int
    ratio: Fraction
    """κ; 1 if the odds do not depend on the value."""
    other_decay: Fraction
    """β of the other direction, which κ is at least."""

    @property
    def margin(self) -> float:
        """How far below 1 the left sides of the rule's inequalities stay, for reporting."""
        return min(float(1 - inequality.left) for inequality in self.inequalities)

    def to_dict(self) -> dict[str, Any]:
        """Left sides are decimals rounded up: the true ones are at most that."""
        loss = {"statement": "D·ln(1/β) ≤ ε", "left": rounded_up(self.exponent)}
        sides = {"left": str(self.other_decay), "right": str(self.ratio)}
        ratio = {"ratio": {"statement": "β of the other direction ≤ κ", **sides}}
        return {
            "loss": {**loss, "right": str(self.allowed)},
            **(ratio if self.ratio < 1 else {}),
            "rule": self.rule,
            "share": rounded_up(self.share),
            "inequalities": [inequality.to_dict() for inequality in self.inequalities],
            "precision_bits": self.precision,
        }


@dataclass(frozen=True)
class BoundedProof:
    """What was proved about a bounded cell."""

    most_messages: int
    up: DirectionProof
    down: DirectionProof

    def to_dict(self) -> dict[str, Any]:
        return {
            "most_messages": self.most_messages,
            "up": self.up.to_dict(),
            "down": self.down.to_dict(),
        }

    def summary(self) -> str:
        """The rule that proved each direction, and its largest left side."""
        parts = [
            f"{name} by the rule '{side.rule}', margin {side.margin:.3g}"
            for name, side in (("up", self.up), ("down", self.down))
        ]
        return f"at most {self.most_messages} messages; " + "; ".join(parts)

    def claims(self) -> dict[str, Any]:
        """`to_dict` without the digits that depend on the arithmetic library."""
        return {
            "most_messages": self.most_messages,
            "up": {"rule": self.up.rule},
            "down": {"rule": self.down.rule},
        }


def prove(
    cell: BoundedCell,
    up: Fraction,
    down: Fraction,
    progress: Callable[[int], None] | None = None,
) -> BoundedProof:
    """The proof that a larger value instead of a smaller one costs at most `up`, and a smaller one
    instead of a larger one at most `down`.

    Requires: at least `cell.users` users take part, each an exact draw of the cell's randomizer.
    Ensures: returns only if for each direction its epsilon is at most what is allowed, its
    D·ln(1/β) is at most its epsilon, its κ at least the other one's β, and a rule above holds,
    every comparison certain, and if (1−κ)·o is the same in both directions. Raises
    `PrivacyViolation` with a witness if no rule holds; the cell may or may not be private then.
    Raises `Undecided` if a left side is equal to 1 or too close to it for 8192 bits.
    """
    proofs = [
        prove_direction(cell, name, direction, allowed)
        for name, direction, allowed in (("up", cell.up, up), ("down", cell.down, down))
    ]
    if not cell.mutes_alike:
        raise PrivacyViolation(
            "Users with one value are muted more often than those with the other: (1 − κ)·o must "
            "be the same in both directions.",
            {"up": str(cell.up.lost_odds), "down": str(cell.down.lost_odds)},
        )
    return BoundedProof(cell.most_messages, *proofs)


def prove_direction(
    cell: CutCell, name: str, direction: Direction, allowed: Fraction
) -> DirectionProof:
    """The proof for one direction; the other is its mirror image (x to D − x, v to D − v)."""
    exponent = loss_exponent(cell, name, direction, allowed)
    other = other_decay(cell, name)
    if direction.ratio < other:
        raise PrivacyViolation(
            f"The ratio of the {name} direction is below the decay of the other one, so that a "
            "jump tells more of the value than it may; raise the ratio.",
            {"direction": name, "inequality": "ratio", "decay": str(other)},
        )
    return decide(cell, name, direction, exponent, _rules(cell, direction))


def other_decay(cell: CutCell, name: str) -> Fraction:
    """β of the other direction."""
    return (cell.down if name == "up" else cell.up).decay


def loss_exponent(cell: CutCell, name: str, direction: Direction, allowed: Fraction) -> arb:
    """D·ln(1/β), enclosed; refuses a direction whose ε is not allowed or not kept."""
    if direction.epsilon > allowed:
        raise PrivacyViolation(
            f"The {name} direction is planned for a loss of {show(direction.epsilon)}, above the "
            f"{show(allowed)} that it may cost; lower its epsilon.",
            {"direction": name, "epsilon": str(direction.epsilon), "allowed": str(allowed)},
        )
    d = cell.largest
    verdict, slack, _ = sign(lambda: ball(direction.epsilon) + d * ball(direction.decay).log())
    if verdict < 0:
        raise PrivacyViolation(
            f"The {name} noise falls too fast: D·ln(1/β) exceeds {show(direction.epsilon)}; "
            "raise its decay.",
            {"direction": name, "inequality": "loss", "excess": (-slack).str(12, radius=False)},
        )
    return at_precision(FIRST_PRECISION, lambda: ball(direction.epsilon) - slack)


def decide(
    cell: CutCell, name: str, direction: Direction, exponent: arb, rules: dict[str, Rule]
) -> DirectionProof:
    """A rule that holds, at the lowest precision that can show it."""
    if not rules:
        raise PrivacyViolation(
            f"No rule covers the cuts z = {direction.cut}, w = {direction.muted_cut} of the {name} "
            "direction: either w = z, or at least 3 users, w ≥ D − 1 and z ≥ w + D.",
            {"direction": name, "cut": direction.cut, "muted_cut": direction.muted_cut},
        )
    for bits in precisions():
        failed: list[Inequality] = []
        for rule, inequalities in rules.items():
            share, shown = _evaluate(cell, direction, inequalities, bits)
            if all(entry.left <= 1 for entry in shown):
                return DirectionProof(
                    allowed=direction.epsilon,
                    exponent=exponent,
                    rule=rule,
                    share=share,
                    inequalities=_tightest(shown),
                    precision=bits,
                    ratio=direction.ratio,
                    other_decay=other_decay(cell, name),
                )
            failed += [entry for entry in shown if entry.left > 1][:1]
        if len(failed) == len(rules):
            worst = failed[-1]
            index = "" if worst.index is None else f" at I = {worst.index[0]}, x = {worst.index[1]}"
            raise PrivacyViolation(
                f"The {name} odds are not certified: {worst.statement} fails{index}; "
                "raise the odds, the cut or the muted cut.",
                {"direction": name, **worst.to_dict()},
            )
    raise Undecided(
        f"Whether the {name} odds are large enough was not decided at {LAST_PRECISION} bits; "
        "raise them slightly and certify again."
    )


# The decision


def _rules(cell: CutCell, direction: Direction) -> dict[str, Rule]:
    """The rules that may be tried, the simplest first."""
    z, w, d = direction.cut, direction.muted_cut, cell.largest
    if w == z:
        return {EQUAL_CUTS: equal_cuts}
    if cell.users >= 3 and w >= d - 1 and z >= w + d:
        return {CLOSED_FORM: closed_form, PER_INDEX: per_index}
    return {}


def _evaluate(
    cell: CutCell, direction: Direction, rule: Rule, bits: int
) -> tuple[arb, list[Inequality]]:
    """The share, and a rule's inequalities, with `bits` bits."""
    check_time()
    with ctx.workprec(bits):
        scale = Scale(cell, direction)
        share = scale.share(direction.odds)
        return share, list(rule(scale, share))


def _tightest(shown: list[Inequality]) -> tuple[Inequality, ...]:
    """Of each inequality, the instance with the largest left side."""
    found: dict[str, Inequality] = {}
    for entry in shown:
        kept = found.get(entry.statement)
        if kept is None or float(entry.left) > float(kept.left):
            found[entry.statement] = entry
    return tuple(found.values())
