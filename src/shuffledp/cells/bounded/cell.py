"""The bounded cell: one kind of message, at most K of them per user, exactly ε-DP (MATH §12).

For each direction of a change there is a noise with rational masses. Write r = 1/users and

    c_j = β^j · r(r+1)⋯(r+j−1)/j!,    C_k = c_0 + … + c_k,    μ_k = the law c_j/C_k on 0..k.

With odds 1 : o^u_1 … o^u_D : o^d_1 … o^d_D a user with value x draws

    data    v = x           + Z₊ − Z₋      Z₊ ~ μ_z of up,  Z₋ ~ μ_z of down
    up y    v = z_u + y     + Z₊ − Z₋      Z₊ ~ μ_w of up,  Z₋ ~ μ_z of down
    down y  v = D − z_d − y + Z₊ − Z₋      Z₊ ~ μ_z of up,  Z₋ ~ μ_w of down

and sends z_d + w_d + v equal messages: never below 0, never above K = z_u + w_u + z_d + w_d + D.

With values 0 and 1 the odds may depend on the user's own value (MATH §21): those of a jump upwards
are κ_u times as large for the value 1, those of a jump downwards κ_d times as large for the value
0, with (1 − κ_u)·o^u = (1 − κ_d)·o^d, so that users of both values are muted equally often.

A certificate decides whether these parameters are private, not this module.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm, log2
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.cells.base import (
    CELL_EPSILON,
    LEFT_OUT,
    MOST_USERS,
    PROBABILITY,
    Cell,
    Counts,
    IndependentCell,
    Parameters,
    Values,
    check_epsilon,
    only_plus,
)
from shuffledp.cells.bounded import draws
from shuffledp.cells.bounded import error as bounded_error
from shuffledp.cells.bounded import law as bounded_law
from shuffledp.cells.bounded import limit as bounded_limit
from shuffledp.documents.schema import Listing, OneOf, Rational, Record, Whole
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, positive, probability, show, to_float, whole
from shuffledp.numbers.finite import CutNegativeBinomial, Finite
from shuffledp.numbers.laws import Bernoulli, Binomial
from shuffledp.numbers.message_law import NoiseMessages
from shuffledp.numbers.sampler import sampler

MOST_CUT = 65_535
MOST_BOUNDED_VALUE = 65_535
MOST_BITS = 4_096
"""The most bits of a numerator or denominator, and of the common denominator of a direction's odds,
which are added up exactly."""
LARGEST_ODDS = Fraction(10**30)
STEPS_PER_CUT, STEP_BITS = 20, 256
"""The operations of a proof per step of the cut, and the number of bits that doubles them."""


@dataclass(frozen=True, kw_only=True)
class Direction(Parameters):
    """The noise and the muting that hide a change in one direction."""

    epsilon: Fraction
    """What a change in this direction may cost: the certificate shows D·ln(1/decay) ≤ epsilon."""
    decay: Fraction
    """β: the noise's masses fall by about this factor from one value to the next."""
    cut: int
    """z: the largest noise of a user who sends its value."""
    muted_cut: int
    """w ≤ z: the largest noise of a muted user."""
    odds: tuple[Fraction, ...]
    """o_1..o_D: the weight of each muted jump, against 1 for sending the value."""
    ratio: Fraction = field(default=Fraction(1), metadata=LEFT_OUT)
    """κ ≤ 1: the odds of a user whose value cannot change in this direction (1 for up, 0 for down)
    are κ times as large. Less than 1 only for values 0 and 1."""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon, "epsilon")
        probability(self.decay, "decay")
        whole(self.cut, "cut", least=0, most=MOST_CUT)
        whole(self.muted_cut, "muted_cut", least=0, most=self.cut)
        whole(len(self.odds), "the number of odds", most=MOST_BOUNDED_VALUE)
        for odds in self.odds:
            positive(odds, "each of the odds")
        if not 0 < self.ratio <= 1:
            raise ParameterError("ratio must be above 0 and at most 1.")
        numbers = (self.epsilon, self.decay, self.ratio, *self.odds)
        if not all(isinstance(number, Fraction) for number in numbers):
            raise ParameterError("epsilon, decay, ratio and the odds must be given as fractions.")
        if any(max(map(int.bit_length, n.as_integer_ratio())) > MOST_BITS for n in numbers):
            raise ParameterError(
                f"epsilon, decay, ratio and the odds may have at most {MOST_BITS:,} bits each "
                "in numerator and denominator; round them."
            )
        if max(self.odds) > LARGEST_ODDS:
            raise ParameterError(f"Each of the odds must be at most {show(LARGEST_ODDS)}.")
        common = 1
        for odds in self.odds:
            common = lcm(common, odds.denominator)
            if common.bit_length() > MOST_BITS:
                raise ParameterError(
                    f"The odds need a common denominator of more than {MOST_BITS:,} bits; round "
                    "them to decimals."
                )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: cells are what results are remembered by, and fractions take long."""
        return hash((self.epsilon, self.decay, self.cut, self.muted_cut, self.odds, self.ratio))

    @property
    def proof_steps(self) -> float:
        """About how many operations its proof takes. Its numbers have more bits where the noise is
        smaller."""
        bits_lost = (log2(self.decay.denominator) - log2(self.decay.numerator)) * self.cut
        return STEPS_PER_CUT * (self.cut + len(self.odds)) * (1 + bits_lost / STEP_BITS)

    @property
    def lost_odds(self) -> Fraction:
        """(1 − κ)·o_1: by how much the odds of users with the two values differ."""
        return (1 - self.ratio) * self.odds[0]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The parameters that `to_dict` describes."""
        if data.get("ratio") == "1":
            raise ParameterError("A ratio of 1 is left out; ask its author for a corrected file.")
        return super().from_dict(data)


ODDS = Rational(Fraction(0), LARGEST_ODDS)
DIRECTION = Record(
    {
        "epsilon": CELL_EPSILON,
        "decay": PROBABILITY,
        "cut": Whole(0, MOST_CUT),
        "muted_cut": Whole(0, MOST_CUT),
        "odds": Listing(ODDS, 1, MOST_BOUNDED_VALUE),
    }
)
CUT_FIELDS = {
    "users": Whole(1, MOST_USERS),
    "largest": Whole(1, MOST_BOUNDED_VALUE),
    "up": DIRECTION,
    "down": DIRECTION,
}
"""The JSON schema of a direction and of every such cell."""


@dataclass(frozen=True, kw_only=True)
class CutCell(Cell):
    """A cell with one kind of message whose noise is cut in both directions: the part that does not
    depend on whether it is drawn independently or shares its way up with others."""

    sends_minus: ClassVar[bool] = False

    users: int
    largest: int
    up: Direction
    down: Direction

    def __post_init__(self) -> None:
        whole(self.users, "users", most=MOST_USERS)
        whole(self.largest, "the largest value", most=MOST_BOUNDED_VALUE)
        if not len(self.up.odds) == len(self.down.odds) == self.largest:
            raise ParameterError(
                f"Each direction needs as many odds as the largest value, {self.largest:,}."
            )

    @property
    def by_value(self) -> bool:
        """Whether the odds depend on the user's value."""
        return min(self.up.ratio, self.down.ratio) < 1

    @property
    def up_loss(self) -> Fraction:
        return self.up.epsilon

    @property
    def proof_steps(self) -> float:
        return self.up.proof_steps + self.down.proof_steps

    # Where the two kinds of such cells differ

    @property
    @abstractmethod
    def data_probability(self) -> Fraction:
        """P: the chance that a user sends its value."""

    @property
    @abstractmethod
    def most_messages(self) -> int:
        """The most messages that a user sends to this cell."""

    @abstractmethod
    def moments(self) -> bounded_law.Moments:
        """The moments of one user's v, in balls of the working precision."""

    @abstractmethod
    def user_parts(self, at: bounded_error.Points) -> bounded_error.UserParts:
        """What the characteristic function, or the moments, of one user's v are made of."""

    # Common to both kinds

    @cached_property
    def base(self) -> int:
        """z_d + w_d: the messages of a user whose v is 0."""
        return self.down.cut + self.down.muted_cut

    # The laws of one user's draws

    @cached_property
    def up_noise(self) -> CutNegativeBinomial:
        """Z₊ of every user who is not up-muted."""
        return bounded_law.noise_law(self.up, self.up.cut, self.users)

    @cached_property
    def up_muted_noise(self) -> CutNegativeBinomial:
        """Z₊ of an up-muted user."""
        return bounded_law.noise_law(self.up, self.up.muted_cut, self.users)

    @cached_property
    def down_noise(self) -> CutNegativeBinomial:
        """Z₋ of every user who is not down-muted."""
        return bounded_law.noise_law(self.down, self.down.cut, self.users)

    @cached_property
    def down_muted_noise(self) -> CutNegativeBinomial:
        """Z₋ of a down-muted user."""
        return bounded_law.noise_law(self.down, self.down.muted_cut, self.users)

    def up_jump(self, y: int) -> int:
        """What replaces the value in the branch "up y"."""
        return self.up.cut + y

    def down_jump(self, y: int) -> int:
        """What replaces the value in the branch "down y"."""
        return self.largest - self.down.cut - y

    @cached_property
    def eventful(self) -> float:
        """Roughly the probability that a user is muted or draws nonzero noise."""
        up, down = float(self.up_noise.pmf(0)), float(self.down_noise.pmf(0))
        return float(1 - self.data_probability) + (1 - up) + (1 - down)

    # How many messages

    @property
    def absent_value(self) -> int:
        return 0

    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """The expected number of messages a user sends; at the largest value unless a mean is
        given."""
        x = Fraction(self.largest if mean_value is None else mean_value)
        known = self.moments()
        return self.base + known.shift + known.kept * ball(x)

    # The analyzer

    def estimate(self, plus: int, minus: int, users: int) -> arb:
        """The unbiased estimate of the sum of the users' values."""
        known = self.moments()
        return (plus - minus - users * (self.base + known.shift)) / known.kept

    def estimates(self, sums: Counts, users: int) -> NDArray[np.float64]:
        """The estimates for many numbers of messages, in floats, for reporting."""
        centre = to_float(lambda: self.estimate(self.base * users, 0, users))
        kept = bounded_error.shift_and_kept(self)[1]
        return np.asarray(centre + (sums - self.base * users) / kept)

    def mean_squared_error(self, users: int, total: Fraction | int | None = None) -> arb:
        """The error's exact second moment at the worst data with this sum of values (with any sum
        if None).

        One user's variance is convex in x, so the worst case is that as many users as possible have
        the value D, and at most one has the remainder. This is affine in their number, so none or
        all is the worst case.
        """
        known = self.moments()

        def error(total: Fraction | int) -> arb:
            full, rest = divmod(Fraction(total), self.largest)
            squares = ball(full * self.largest**2 + rest**2)
            return known.variance(users, ball(Fraction(total)), squares) / known.kept**2

        if total is None:
            return error(0).max(error(users * self.largest))
        return error(total)

    def variance_at(self, users: int, total: float, squares: float) -> float:
        known = self.moments()
        return to_float(
            lambda: known.variance(users, arb(total), arb(squares)) / (known.kept * known.kept)
        )

    intervals = bounded_error.intervals
    error_range = bounded_error.error_range
    error_law = bounded_error.error_law
    log_error = bounded_error.log_characteristic
    log_moment = bounded_error.log_moment
    user_function = bounded_error.user_function
    log_user_moment = bounded_error.log_user_moment


@dataclass(frozen=True, kw_only=True)
class BoundedCell(CutCell, IndependentCell):
    """A cell that sends between 0 and K messages of one kind."""

    kind: ClassVar[str] = "bounded"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_value and self.largest > 1:
            raise ParameterError("A ratio below 1 is for cells with the values 0 and 1.")

    @property
    def mutes_alike(self) -> bool:
        """Whether users of every value are muted equally often."""
        return not self.by_value or self.up.lost_odds == self.down.lost_odds

    def odds_at(self, value: int) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """The odds of the jumps upwards and downwards of a user with this value."""
        up, down = self.up.odds, self.down.odds
        if not self.by_value:
            return up, down
        return ((self.up.ratio * up[0],), down) if value > 0 else (up, (self.down.ratio * down[0],))

    @property
    def most_messages(self) -> int:
        return self.up.cut + self.up.muted_cut + self.down.cut + self.down.muted_cut + self.largest

    def message_laws(self, copies: int) -> tuple[int, list[NoiseMessages]]:
        return copies * self.most_messages, []

    @cached_property
    def data_probability(self) -> Fraction:
        """P: the chance that a user sends its value, the same for every value."""
        if not self.mutes_alike:
            raise ParameterError(
                "(1 − ratio)·odds must be the same in both directions: otherwise users with one "
                "value are muted more often than those with the other."
            )
        return 1 / sum(sum(self.odds_at(0), start=()), start=Fraction(1))

    @cached_property
    def mute(self) -> Binomial:
        """1 with the probability that a jump replaces a user's value."""
        return Bernoulli(1 - self.data_probability)

    def jumps(self, value: int) -> Finite:
        """The branch of a muted user with this value: 0..D−1 for up 1..D, D..2D−1 for down 1..D."""
        return self._jumps[1 if value and self.by_value else 0]

    @cached_property
    def _jumps(self) -> tuple[Finite, ...]:
        return tuple(Finite.of(sum(self.odds_at(value), start=())) for value in (0, 1))

    @cached_property
    def jump_values(self) -> Counts:
        """The jump of each of these branches."""
        ups = [self.up_jump(y) for y in range(1, self.largest + 1)]
        return np.array(ups + [self.down_jump(y) for y in range(1, self.largest + 1)], np.int64)

    # The randomizer

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """One user's messages, branch by branch (MATH §12); see `IndependentCell.randomize`.

        Ensures: also that the number lies in 0..K, by the laws' cuts.
        """
        up_noise, down_noise = self.up_noise, self.down_noise
        v = value
        if sampler(self.mute).draw_one(entropy):
            branch = sampler(self.jumps(value)).draw_one(entropy)
            v = int(self.jump_values[branch])
            if branch < self.largest:  # muted upwards: its noise upwards is cut shorter
                up_noise = self.up_muted_noise
            else:
                down_noise = self.down_muted_noise
        z_plus = sampler(up_noise).draw_one(entropy)
        z_minus = sampler(down_noise).draw_one(entropy)
        return self.base + v + z_plus - z_minus, 0

    def randomize_total(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        return draws.randomize_total(self, self.checked(values), entropy), 0

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        self.checked_tally(tally)
        return draws.aggregate(self, tally, entropy), 0

    def aggregate_copies(
        self, ones: Counts, users: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        return only_plus(draws.aggregate_copies(self, ones, users, entropy))

    def top_up(self, absent: int, copies: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """The messages of `absent` users with the value 0."""
        return only_plus(draws.copies_of_zero(self, copies, absent, entropy))

    moments = bounded_law.moments
    user_parts = bounded_error.user_parts
    fewest_messages = bounded_limit.fewest_messages


BY_VALUE = Record(DIRECTION.fields, {"ratio": PROBABILITY})
"""A direction whose odds may depend on the user's value."""
SCHEMA = Record(
    {"kind": OneOf((BoundedCell.kind,)), **CUT_FIELDS, "up": BY_VALUE, "down": BY_VALUE}
)
"""The JSON schema of a bounded cell."""
