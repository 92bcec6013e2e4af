"""The pooled cell: the buckets of a histogram share one noise upwards (docs/mathematics.md §22).

All buckets are drawn at once. Write m for the planned users, B for the buckets, r = 1/m, (x)_k for
the rising factorial, and for the noise upwards

    s_t = β_u^t·(B·r)_t/t!,    C = s_0 + … + s_Z.

"t tokens by the urn" (Pólya's): token i+1 goes to a uniformly drawn bucket with probability
B/(B + i·m), and otherwise to the bucket of one of the i earlier tokens, drawn uniformly. A user
with the label b

1. keeps it with odds 1, or drops it with odds R and adds Z+1 tokens by the urn,
2. in either case adds t tokens by another urn, P(t) = s_t/C for t = 0..Z,
3. sends every bucket through its own way down with the value 1 (b, if it was kept) or 0: with
   c_j, C_k, μ_k as in the bounded cell, for β_d and r,

       data    z + w + value − Z₋     Z₋ ~ μ_z
       jump    w − Z₋                 Z₋ ~ μ_w      with odds o for the value 1, κ·o for 0.

A user sends at most B(z + w) + 2Z + 1 messages.

A certificate decides whether these parameters are private, not this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.cells.base import MOST_USERS, Counts, Floats, Member, Values, only_plus
from shuffledp.cells.bounded import error as bounded_error
from shuffledp.cells.bounded.cell import BY_VALUE, DIRECTION, CutCell
from shuffledp.cells.bounded.limit import fewest_messages
from shuffledp.cells.pooled import draws, law
from shuffledp.cells.urn import DealtBuckets
from shuffledp.documents.schema import OneOf, Record, Whole
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import whole
from shuffledp.numbers.finite import CutNegativeBinomial
from shuffledp.numbers.laws import Bernoulli, Binomial

MOST_POOLED_BUCKETS = 10**6
LARGEST_URN = 2**53
"""The limit of B + Z·m, below which an urn draws uniform numbers: exact in every language."""


@dataclass(frozen=True, kw_only=True)
class PooledCell(CutCell):
    """The randomizer of all buckets, and the estimates from the messages to one of them."""

    kind: ClassVar[str] = "pooled"
    json_order: ClassVar[tuple[str, ...]] = ("users", "buckets", "up", "down")

    largest: int = 1
    buckets: int
    """B."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.buckets, "buckets", most=MOST_POOLED_BUCKETS)
        if self.largest != 1:
            raise ParameterError("A pooled cell is for the values 0 and 1.")
        if self.up.cut != self.up.muted_cut or self.up.ratio != 1:
            raise ParameterError(
                "The way up of a pooled cell has equal cuts and no ratio; plan the cell again."
            )
        if self.buckets + self.up.cut * self.users > LARGEST_URN:
            raise ParameterError("users times the cut upwards is too large; plan the cell again.")

    # A user's chances

    @property
    def drop_odds(self) -> Fraction:
        """R: against 1 for keeping the label."""
        return self.up.odds[0]

    def jump_odds(self, value: int) -> Fraction:
        """The odds of a jump downwards in a bucket with this value: o, or κ·o."""
        return self.down.odds[0] if value else self.down.ratio * self.down.odds[0]

    @cached_property
    def data_probability(self) -> Fraction:
        """The chance that a user's label is kept, and not lost in a jump."""
        return 1 / ((1 + self.drop_odds) * (1 + self.jump_odds(1)))

    # The laws of one user's draws

    @cached_property
    def drop(self) -> Binomial:
        """1 with the probability that a user drops its label."""
        return Bernoulli(self.drop_odds / (1 + self.drop_odds))

    @cached_property
    def tokens(self) -> CutNegativeBinomial:
        """t: the tokens of the noise upwards."""
        return CutNegativeBinomial(Fraction(self.buckets, self.users), self.up.decay, self.up.cut)

    def jump(self, value: int) -> Binomial:
        """1 with the probability of a jump in a bucket with this value."""
        return self._jumps[value]

    @cached_property
    def _jumps(self) -> tuple[Binomial, Binomial]:
        none, one = (self.jump_odds(value) for value in (0, 1))
        return Bernoulli(none / (1 + none)), Bernoulli(one / (1 + one))

    @property
    def most_messages(self) -> int:
        """The most messages that a user sends to one bucket; see `PooledBuckets` for all
        buckets."""
        return self.base + 1 + 2 * self.up.cut + 1

    # Several buckets together

    @property
    def together(self) -> int:
        """How many buckets are looked at together."""
        return 1

    moments = law.moments
    user_parts = law.user_parts

    def merged(self, copies: int) -> PooledCell:
        """A cell that estimates, from the messages to several buckets, how many users have one of
        them."""
        return self if copies == 1 else _merged(self, copies)

    def intervals_of_sum(
        self, copies: int, users: int, sums: Counts, outside: float
    ) -> tuple[Counts, Counts]:
        return self.merged(copies).intervals(users, sums, outside)

    def error_range_of_sum(
        self, copies: int, users: int, total: int, outside: float
    ) -> tuple[float, float]:
        return self.merged(copies).error_range(users, total, outside)

    def variance_of_sum(self, copies: int, users: int, total: float) -> float:
        return self.merged(copies).variance_at(users, total, total)

    def covariance(self, users: int) -> tuple[float, float]:
        none, every = (
            self.variance_of_sum(2, users, total)
            - self.variance_at(users, 0, 0)
            - self.variance_at(users, total, total)
            for total in (0, users)
        )
        return none / 2, (every - none) / (2 * users)

    def fewest_messages(self, loss: Fraction, copies: int) -> float:
        """The loss of each bucket is what replacing a label costs."""
        return fewest_messages(self, self.up.epsilon + self.down.epsilon, copies)


@dataclass(frozen=True, kw_only=True)
class MergedCell(PooledCell):
    """Several buckets of a pooled cell looked at together; never drawn, and in no document."""

    copies: int

    @property
    def together(self) -> int:
        return self.copies

    @cached_property
    def base(self) -> int:
        return self.copies * (self.down.cut + self.down.muted_cut)


@lru_cache(maxsize=64)
def _merged(cell: PooledCell, copies: int) -> MergedCell:
    return MergedCell(
        users=cell.users, buckets=cell.buckets, up=cell.up, down=cell.down, copies=copies
    )


SCHEMA = Record(
    {
        "kind": OneOf((PooledCell.kind,)),
        "users": Whole(1, MOST_USERS),
        "buckets": Whole(1, MOST_POOLED_BUCKETS),
        "up": DIRECTION,
        "down": BY_VALUE,
    }
)
"""The JSON schema of a pooled cell."""


@dataclass(frozen=True, kw_only=True)
class PooledBuckets(DealtBuckets):
    """All buckets of a pooled cell; a user has one of them, whose number is the code."""

    cell: PooledCell

    @classmethod
    def of(cls, cell: PooledCell, buckets: int, up: Fraction, down: Fraction) -> PooledBuckets:
        """The group of a cell that was made for this number of buckets and these losses."""
        if (buckets, up, down) != (cell.buckets, cell.up.epsilon, cell.down.epsilon):
            raise ParameterError(
                "A pooled cell is proved for its own number of buckets and its own losses; plan "
                "it again for these."
            )
        return cls(cell=cell)

    @property
    def members(self) -> tuple[Member, ...]:
        cell = self.cell
        losses = {"up": cell.up.epsilon, "down": cell.down.epsilon}
        return (Member(cell=cell, copies=cell.buckets, **losses),)

    @property
    def codes(self) -> int:
        return self.cell.buckets

    # The randomizer

    def randomize(self, code: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """One user's messages, step by step; see `CellGroup.randomize`."""
        if not 0 <= code < self.codes:
            raise ValueOutOfRange("A code is a bucket's number.")
        return only_plus(draws.randomize(self.cell, code, entropy))

    def randomize_total(self, codes: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        codes = np.asarray(codes)
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < self.codes:
            raise ValueOutOfRange("A code is a bucket's number.")
        return only_plus(draws.randomize_total(self.cell, codes, entropy))

    def drawn(self, tally: Counts, without: int, entropy: Entropy) -> Counts:
        return draws.aggregate(self.cell, tally, without, entropy)

    # The size of a report

    @property
    def most_messages(self) -> int:
        return self.codes * self.cell.base + 2 * self.cell.up.cut + 1

    def log_total_moment(self, theta: Floats, users: int, holders: int) -> Floats:
        """All buckets together are one cell."""
        every = self.cell.merged(self.codes)
        held, none = (every.log_user_moment(theta, x) for x in (1, 0))
        shift, kept = bounded_error.shift_and_kept(every)
        logs = holders * (held + theta) + (users - holders) * none
        return np.asarray(logs - theta * (users * shift + holders * kept))
