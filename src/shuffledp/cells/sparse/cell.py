"""The sparse cell: any number of buckets, at most Z+1 messages per user (docs/mathematics.md §19).

All buckets are drawn at once. Write m for the planned users, B for the buckets, r = 1/m, ρ = B/m,
(x)_k for the rising factorial, and

    s_J = β^J·(ρ)_J/J!,    C = s_0 + … + s_Z.

"J tokens by the urn" (Pólya's): token i+1 goes to a uniformly drawn bucket with probability
B/(B + i·m), and otherwise to the bucket of one of the i earlier tokens, drawn uniformly. A user
with the bucket x, or with no value, draws one of three branches:

    data    with probability p:  J tokens by the urn, P(J) = s_J/C for J = 0..Z, and one in x
    muted   with probability q:  J tokens by the urn alone
    jump    with probability o:  Z+1 tokens by the urn, nothing else

A *kept* cell differs in its jump, which keeps the noise: J tokens by an urn and Z+1 by another
one, at most 2Z+1 in all. Its two directions have separate losses, so it can be combined with exact
cells. A certificate decides whether these parameters are private, not this module.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from flint import arb

from shuffledp.cells.base import (
    CELL_EPSILON,
    MOST_USERS,
    PROBABILITY,
    Cell,
    Counts,
    Floats,
    Member,
    Values,
    check_epsilon,
    only_plus,
)
from shuffledp.cells.sparse import draws, error
from shuffledp.cells.sparse.law import BucketLaw, Moments, bucket_law, moments
from shuffledp.cells.urn import DealtBuckets
from shuffledp.documents.schema import OneOf, Record, Whole
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, probability, whole
from shuffledp.numbers.finite import CutNegativeBinomial, Finite
from shuffledp.numbers.laws import Bernoulli, Binomial

MOST_SPARSE_BUCKETS = 1 << 26
MOST_SPARSE_CUT = 1_023
MOST_BITS = 256
"""The most bits of the numerator or denominator of a parameter."""
NO_VALUE = -1
"""The code of a user without a value."""
WHOLE, CHANCES = ("users", "buckets", "cut"), ("decay", "data", "muted", "jump")
"""The fields of every such cell, apart from its losses."""
STEPS_PER_CUT = 64
"""The operations of a proof per step of the cut."""


@dataclass(frozen=True, kw_only=True)
class UrnCell(Cell):
    """The randomizer of all buckets, and the estimates from the tokens in one of them."""

    keeps_noise: ClassVar[bool]
    """Whether a user that jumps sends its noise tokens too."""
    losses: ClassVar[tuple[str, ...]]
    """The fields that say what a change may cost."""
    sends_minus: ClassVar[bool] = False
    for_levels: ClassVar[bool] = False
    bytes_per_copy: ClassVar[int] = 256
    largest: ClassVar[int] = 1  # type: ignore[misc]

    users: int
    """m: how many honest users are guaranteed; together they carry the whole noise."""
    buckets: int
    """B."""
    decay: Fraction
    """β: the noise's masses fall by about this factor from one number of tokens to the next."""
    cut: int
    """Z: the most noise tokens of a user that does not jump."""
    data: Fraction
    """p: the probability that a user sends its value."""
    muted: Fraction
    """q: the probability that a user sends noise alone."""
    jump: Fraction
    """o: the probability that a user sends Z+1 tokens by the urn."""

    def __post_init__(self) -> None:
        whole(self.users, "users", most=MOST_USERS)
        whole(self.buckets, "buckets", most=MOST_SPARSE_BUCKETS)
        whole(self.cut, "cut", least=0, most=MOST_SPARSE_CUT)
        for name in self.json_order[len(WHOLE) :]:
            number = getattr(self, name)
            if not isinstance(number, Fraction):
                raise ParameterError(f"{name} must be given as a fraction.")
            if max(map(int.bit_length, number.as_integer_ratio())) > MOST_BITS:
                raise ParameterError(
                    f"{name} may have at most {MOST_BITS:,} bits above and below the line; round "
                    "it."
                )
        for name in self.losses:
            check_epsilon(getattr(self, name), name)
        for name in CHANCES:
            probability(getattr(self, name), name)
        if self.data + self.muted + self.jump != 1:
            raise ParameterError("data, muted and jump must add up to exactly 1.")

    @property
    @abstractmethod
    def down_loss(self) -> Fraction:
        """The ε that giving up a value costs."""

    @property
    def proof_steps(self) -> float:
        return STEPS_PER_CUT * (self.cut + 1.0)

    # The laws of a user's draws

    @cached_property
    def branches(self) -> Finite:
        """Which branch a user takes: 0 data, 1 muted, 2 jump."""
        return Finite.of((self.data, self.muted, self.jump))

    @cached_property
    def sends_value(self) -> Binomial:
        """1 with probability p."""
        return Bernoulli(self.data)

    @cached_property
    def noise(self) -> CutNegativeBinomial:
        """J of a user that does not jump: P(J) = s_J/C."""
        return CutNegativeBinomial(Fraction(self.buckets, self.users), self.decay, self.cut)

    @cached_property
    def moments(self) -> Moments:
        """The exact moments of a user's tokens in one bucket, and of all its tokens."""
        return moments(self)

    @cached_property
    def bucket_law(self) -> BucketLaw:
        """The law of a user's tokens in one bucket, in floats."""
        return bucket_law(self)

    @property
    def most_messages(self) -> int:
        """K: Z+1, or 2Z+1 if a jump keeps the noise."""
        return self.cut + 1 + (self.cut if self.keeps_noise else 0)

    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """The expected tokens of a user in *all* buckets, with a value unless 0 is given."""
        value = Fraction(1 if mean_value is None else mean_value)
        return ball(self.moments.tokens + self.data * value)

    # Missing users: as if they had no value

    @property
    def absent_value(self) -> int:
        return 0

    # The analyzer, for one bucket

    def estimate(self, plus: int, minus: int, users: int) -> arb:
        return ball((plus - minus - users * self.moments.mean) / self.data)

    def estimates(self, sums: Counts, users: int) -> Floats:
        centre = float(users * self.moments.mean / self.data)
        return np.asarray(sums / float(self.data) - centre)

    def exact_mean_squared_error(self, users: int, count: Fraction | int) -> Fraction:
        """The exact MSE(f) of the estimate of a bucket that `count` of the users have."""
        known = self.moments
        held = count * known.variance_with + (users - count) * known.variance
        return held / self.data**2

    def mean_squared_error(self, users: int, total: Fraction | int | None = None) -> arb:
        if total is None:
            ends = (self.exact_mean_squared_error(users, end) for end in (0, users))
            return ball(max(ends))
        return ball(self.exact_mean_squared_error(users, Fraction(total)))

    def variance_at(self, users: int, total: float, squares: float) -> float:
        known = self.moments
        held = total * float(known.variance_with) + (users - total) * float(known.variance)
        return held / float(self.data) ** 2

    intervals = error.intervals
    error_range = error.error_range
    error_law = error.error_law
    log_error = error.log_characteristic
    log_moment = error.log_moment

    # Buckets together: they are not independent, but the urn's law of several is known exactly

    def intervals_of_sum(
        self, copies: int, users: int, sums: Counts, outside: float
    ) -> tuple[Counts, Counts]:
        return error.intervals(self, users, sums, outside, copies)

    def error_range_of_sum(
        self, copies: int, users: int, total: int, outside: float
    ) -> tuple[float, float]:
        return error.error_range(self, users, total, outside, copies)

    def variance_of_sum(self, copies: int, users: int, total: float) -> float:
        law = bucket_law(self, copies)
        held = total * law.variance_with + (users - total) * law.variance
        return held / law.data**2


@dataclass(frozen=True, kw_only=True)
class SparseCell(UrnCell):
    """A cell for all buckets of a histogram: replacing any value, or none, costs the same."""

    kind: ClassVar[str] = "sparse"
    keeps_noise: ClassVar[bool] = False
    losses: ClassVar[tuple[str, ...]] = ("epsilon",)
    json_order: ClassVar[tuple[str, ...]] = (*WHOLE, *losses, *CHANCES, "share")

    epsilon: Fraction
    """What replacing a user's value costs; the certificate proves it."""
    share: Fraction
    """φ: the part of the jumps that pays for the cut of the noise; the rest pays for the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ParameterError("share must lie above 0 and be at most 1.")

    @property
    def up_loss(self) -> Fraction:
        return self.epsilon

    @property
    def down_loss(self) -> Fraction:
        """What giving up a value costs: the same."""
        return self.epsilon


@dataclass(frozen=True, kw_only=True)
class KeptCell(UrnCell):
    """A cell for use together with exact cells: a user may have none of its buckets, and gaining a
    value and giving one up have separate losses."""

    kind: ClassVar[str] = "kept"
    keeps_noise: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("up", "down")
    json_order: ClassVar[tuple[str, ...]] = (*WHOLE, *losses, *CHANCES)

    up: Fraction
    """What a value instead of none costs; the certificate proves it."""
    down: Fraction
    """What none instead of a value costs; the certificate proves it."""

    @property
    def up_loss(self) -> Fraction:
        return self.up

    @property
    def down_loss(self) -> Fraction:
        """What giving up a value costs."""
        return self.down


def _schema(cell: type[UrnCell], *more: str) -> Record:
    """The JSON schema of a cell."""
    return Record(
        {
            "kind": OneOf((cell.kind,)),
            "users": Whole(1, MOST_USERS),
            "buckets": Whole(1, MOST_SPARSE_BUCKETS),
            **dict.fromkeys(cell.losses, CELL_EPSILON),
            "cut": Whole(0, MOST_SPARSE_CUT),
            **dict.fromkeys((*CHANCES, *more), PROBABILITY),
        }
    )


SCHEMA, KEPT_SCHEMA = _schema(SparseCell, "share"), _schema(KeptCell)
"""The JSON schema of a cell of each kind."""


@dataclass(frozen=True, kw_only=True)
class SparseBuckets(DealtBuckets):
    """All buckets of a sparse cell; a user has one of them, or none. The code is the
    bucket's number, or −1 for no value."""

    cell: UrnCell
    replacement_rule: ClassVar[str] = "any replacement"

    @classmethod
    def of(cls, cell: SparseCell, buckets: int, up: Fraction, down: Fraction) -> SparseBuckets:
        """The group of a cell that was made for this number of buckets; replacing any value costs
        `up`, which must be the cell's own loss."""
        if buckets != cell.buckets or up != cell.epsilon:
            raise ParameterError(
                "A sparse cell is proved for its own number of buckets and its own epsilon; plan "
                "it again for these."
            )
        return cls(cell=cell)

    @property
    def members(self) -> tuple[Member, ...]:
        cell = self.cell
        return (Member(cell=cell, copies=cell.buckets, up=cell.up_loss, down=cell.down_loss),)

    @property
    def replacement_loss(self) -> Fraction:
        """Replacing a value (or none) always costs the same; if a jump keeps the noise, one value
        is given up and another one gained."""
        cell = self.cell
        return cell.up_loss + cell.down_loss if cell.keeps_noise else cell.up_loss

    @property
    def codes(self) -> int:
        return self.cell.buckets

    # The randomizer

    def tokens(self, code: int, entropy: Entropy = SYSTEM) -> list[int]:
        """The buckets of one user's tokens: what runs on a device. Nothing here grows with the
        number of buckets.

        Requires: a bucket's number, or −1 for no value.
        Ensures: an exact draw of the law that the certificate is about.
        """
        if not NO_VALUE <= code < self.cell.buckets:
            raise ValueOutOfRange("A code is a bucket's number, or −1 for no value.")
        return draws.tokens(self.cell, code, entropy)

    def tokens_of_all(self, codes: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """(users, buckets): the tokens of many users, each drawn independently; users by their
        position in `codes`, in no particular order."""
        return draws.tokens_of_all(self.cell, self._checked(codes), entropy)

    def randomize(self, code: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        return self._counted(np.array(self.tokens(code, entropy), np.int64))

    def randomize_total(self, codes: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        return self._counted(self.tokens_of_all(codes, entropy)[1])

    def drawn(self, tally: Counts, without: int, entropy: Entropy) -> Counts:
        return draws.aggregate(self.cell, tally, without, entropy)

    def _checked(self, codes: Values) -> Values:
        if codes.size and not NO_VALUE <= int(codes.min()) <= int(codes.max()) < self.codes:
            raise ValueOutOfRange("A code is a bucket's number, or −1 for no value.")
        return codes

    def _counted(self, buckets: Counts) -> tuple[Counts, Counts]:
        return only_plus(np.bincount(buckets, minlength=self.cell.buckets))

    def log_total_moment(self, theta: Floats, users: int, holders: int) -> Floats:
        """Users send J noise tokens, a holder one more with probability p; a jump sends Z+1, with
        or without the noise."""
        cell, z = self.cell, self.cell.cut
        noise = np.array([float(mass) for mass in cell.noise.masses()])
        steps = np.expm1(np.multiply.outer(theta, np.arange(z + 2)))
        tokens, value = steps[:, :-1] @ noise, np.expm1(theta)
        jumped = steps[:, -1]
        if cell.keeps_noise:
            jumped = jumped + tokens + jumped * tokens
        jumps = float(cell.jump) * jumped
        without = np.log1p((1 - float(cell.jump)) * tokens + jumps)
        kept = value + tokens + value * tokens
        held = np.log1p(float(cell.data) * kept + float(cell.muted) * tokens + jumps)
        mean = users * float(cell.moments.tokens) + holders * float(cell.data)
        return np.asarray(holders * held + (users - holders) * without - theta * mean)

    # The size of a report

    def messages_per_user(self) -> arb:
        return self.cell.messages_per_user()

    @property
    def most_messages(self) -> int:
        return self.cell.most_messages
