"""The bounded cell: one kind of message, at most K of them per user, exactly ε-DP (MATH §12).

For each direction of a change there is a noise with rational masses. Write r = 1/users and

    c_j = β^j · r(r+1)⋯(r+j−1)/j!,    C_k = c_0 + … + c_k,    μ_k = the law c_j/C_k on 0..k.

With odds 1 : o^u_1 … o^u_D : o^d_1 … o^d_D a user with value x draws

    data    v = x           + Z₊ − Z₋      Z₊ ~ μ_z of up,  Z₋ ~ μ_z of down
    up y    v = z_u + y     + Z₊ − Z₋      Z₊ ~ μ_w of up,  Z₋ ~ μ_z of down
    down y  v = D − z_d − y + Z₊ − Z₋      Z₊ ~ μ_z of up,  Z₋ ~ μ_w of down

and sends z_d + w_d + v equal messages: never below 0, never above K = z_u + w_u + z_d + w_d + D.

Whether these numbers are private is not decided here but by a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.cell import MOST_USERS, STRIDE, Counts, Values, one_each
from shuffledp.cells import bounded_law
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.exact.crowd import events, successes, tallies, total_of
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.finite import CutNegativeBinomial, Finite
from shuffledp.exact.laws import Bernoulli, Binomial
from shuffledp.exact.numbers import ball, positive, probability, to_float, whole
from shuffledp.exact.sampler import sampler

MOST_CUT = 65_535
LARGEST = 65_535
MOST_BITS = 4_096  # of a numerator or denominator
SLOTS = 1 << 62  # places that are told apart by one 64-bit number
EVENTS = 1 << 18  # users with noise, about, that are held at the same time


@dataclass(frozen=True, kw_only=True)
class Direction:
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

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        probability(self.decay, "decay")
        whole(self.cut, "cut", least=0, most=MOST_CUT)
        whole(self.muted_cut, "muted_cut", least=0, most=self.cut)
        whole(len(self.odds), "the number of odds", most=LARGEST)
        for odds in self.odds:
            positive(odds, "each of the odds")
        numbers = (self.epsilon, self.decay, *self.odds)
        if not all(isinstance(number, Fraction) for number in numbers):
            raise ParameterError("epsilon, decay and the odds must be given as fractions.")
        if any(max(map(int.bit_length, n.as_integer_ratio())) > MOST_BITS for n in numbers):
            raise ParameterError(
                f"epsilon, decay and the odds may have at most {MOST_BITS:,} bits each above and "
                "below the line; round them."
            )


@dataclass(frozen=True, kw_only=True)
class BoundedCell:
    """One counter with values 0..largest; every parameter an exact number."""

    users: int
    largest: int
    up: Direction
    down: Direction

    def __post_init__(self) -> None:
        whole(self.users, "users", most=MOST_USERS)
        whole(self.largest, "the largest value", most=LARGEST)
        if not len(self.up.odds) == len(self.down.odds) == self.largest:
            raise ParameterError(
                f"Each direction needs as many odds as the largest value, {self.largest:,}."
            )

    @cached_property
    def most_messages(self) -> int:
        """K: what a user sends at most."""
        return (
            self.up.cut + self.up.muted_cut + self.down.cut + self.down.muted_cut + self.largest
        )

    @cached_property
    def base(self) -> int:
        """z_d + w_d: the messages of a user whose v is 0."""
        return self.down.cut + self.down.muted_cut

    # the laws of one user's draws

    @cached_property
    def up_noise(self) -> CutNegativeBinomial:
        """Z₊ of everybody but the up-muted."""
        return bounded_law.noise_law(self.up, self.up.cut, self.users)

    @cached_property
    def up_muted_noise(self) -> CutNegativeBinomial:
        """Z₊ of an up-muted user."""
        return bounded_law.noise_law(self.up, self.up.muted_cut, self.users)

    @cached_property
    def down_noise(self) -> CutNegativeBinomial:
        """Z₋ of everybody but the down-muted."""
        return bounded_law.noise_law(self.down, self.down.cut, self.users)

    @cached_property
    def down_muted_noise(self) -> CutNegativeBinomial:
        """Z₋ of a down-muted user."""
        return bounded_law.noise_law(self.down, self.down.muted_cut, self.users)

    @cached_property
    def data_probability(self) -> Fraction:
        """P: the chance that a user sends its value."""
        return 1 / sum(self.up.odds + self.down.odds, start=Fraction(1))

    def up_probability(self, y: int) -> Fraction:
        """The chance of the branch "up y"."""
        return self.data_probability * self.up.odds[y - 1]

    def down_probability(self, y: int) -> Fraction:
        """The chance of the branch "down y"."""
        return self.data_probability * self.down.odds[y - 1]

    def up_jump(self, y: int) -> int:
        """What the branch "up y" puts in the value's place."""
        return self.up.cut + y

    def down_jump(self, y: int) -> int:
        """What the branch "down y" puts in the value's place."""
        return self.largest - self.down.cut - y

    @cached_property
    def mute(self) -> Binomial:
        """The coin that puts a jump in the place of a user's value."""
        return Bernoulli(1 - self.data_probability)

    @cached_property
    def jumps(self) -> Finite:
        """A muted user's branch: 0..D−1 for up 1..D, D..2D−1 for down 1..D."""
        odds = self.up.odds + self.down.odds
        scale = lcm(*(o.denominator for o in odds))
        return Finite(tuple(int(o * scale) for o in odds))

    @cached_property
    def _jump_values(self) -> Counts:
        """The jump of each of these branches."""
        ups = [self.up_jump(y) for y in range(1, self.largest + 1)]
        return np.array(ups + [self.down_jump(y) for y in range(1, self.largest + 1)], np.int64)

    @cached_property
    def _eventful(self) -> float:
        """About the chance that a user is muted or draws a noise that is not 0."""
        up, down = float(self.up_noise.pmf(0)), float(self.down_noise.pmf(0))
        return float(1 - self.data_probability) + (1 - up) + (1 - down)

    # the randomizer

    def randomize(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """How many messages each user sends, user by user, each with noise of its own; and zeros,
        for this cell has one kind of message.

        Requires: an integer array.
        Ensures: place i is an independent draw of the randomizer at values[i], exactly, and lies
        in 0..K.
        """
        values = self.checked(values)
        sent = np.empty(values.size, np.int64)
        for begin in range(0, values.size, STRIDE):  # part by part: it all stays in the cache
            part = slice(begin, begin + STRIDE)
            self._randomize_part(values[part], sent[part], entropy)
        return sent, np.zeros_like(sent)

    def _randomize_part(self, values: Values, sent: Counts, entropy: Entropy) -> None:
        sent[:] = values  # v = x, first widened, then added to: a byte would wrap around
        places, noise = sampler(self.up_noise).events(values.size, entropy)
        sent[places] += noise  # + Z₊
        places, noise = sampler(self.down_noise).events(values.size, entropy)
        sent[places] -= noise  # − Z₋
        muted = sampler(self.mute).hits(values.size, entropy)
        sent[muted] = self._muted(muted.size, entropy)  # and nothing is left of what was there
        sent += self.base

    def _muted(self, users: int, entropy: Entropy) -> Counts:
        """v of so many muted users: a jump, and noise that is cut shorter in its direction.

        Ensures: each is an independent draw of v, given that the user is muted.
        """
        branch = sampler(self.jumps).draw(users, entropy)
        v = self._jump_values[branch]
        ups, downs = np.flatnonzero(branch < self.largest), np.flatnonzero(branch >= self.largest)
        v[ups] += sampler(self.up_muted_noise).draw(ups.size, entropy)
        v[ups] -= sampler(self.down_noise).draw(ups.size, entropy)
        v[downs] += sampler(self.up_noise).draw(downs.size, entropy)
        v[downs] -= sampler(self.down_muted_noise).draw(downs.size, entropy)
        return v

    def randomize_total(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """The sums of `randomize`: every user's own draws, of which only the sums are kept."""
        values, size = self.checked(values), len(values)
        muted = sampler(self.mute).hits(size, entropy)
        total = self.base * size + int(values.sum(dtype=np.int64))
        total += int(self._muted(muted.size, entropy).sum())
        total -= int(values[muted].sum(dtype=np.int64))
        for law, sign in ((self.up_noise, 1), (self.down_noise, -1)):
            places, noise = sampler(law).events(size, entropy)
            total += sign * int(noise[~np.isin(places, muted)].sum())  # the muted have their own
        return total, 0

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """How many messages users with these values send in all: `tally[x]` of them hold x.

        Ensures: the law of the sum of `randomize` over these users, at a cost that does not grow
        with their number.
        """
        if tally.shape != (self.largest + 1,) or (tally < 0).any():
            raise ValueOutOfRange(f"A tally holds one count for each value 0..{self.largest}.")
        users, all_muted, total = int(tally.sum()), 0, 0
        for value in np.flatnonzero(tally):
            holders = int(tally[value])
            muted = successes(holders, self.mute.probability, entropy)
            total += int(value) * (holders - muted)
            all_muted += muted
        branches = tallies(self.jumps, all_muted, entropy)
        total += int((branches * self._jump_values).sum())
        ups = int(branches[: self.largest].sum())
        downs = all_muted - ups
        total += total_of(self.up_noise, users - ups, entropy)
        total += total_of(self.up_muted_noise, ups, entropy)
        total -= total_of(self.down_noise, users - downs, entropy)
        total -= total_of(self.down_muted_noise, downs, entropy)
        return self.base * users + total, 0

    def aggregate_copies(
        self, ones: Counts, users: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """How many messages arrive for each of many like cells for 0 and 1, from so many users,
        of whom `ones[b]` hold 1 in cell b.

        Ensures: place b is an independent draw of `aggregate` with that tally.
        """
        ones = np.asarray(ones, np.int64)
        if self.largest != 1 or ones.ndim != 1 or not ((ones >= 0) & (ones <= users)).all():
            raise ValueOutOfRange("Copies are for cells with values 0 and 1, at most one per user.")
        step = int(min(SLOTS, EVENTS / self._eventful) / max(users, 1))
        if step == 0:  # too many users with noise to hold them
            tally = np.stack([users - ones, ones], axis=1)
            sent = np.array([self.aggregate(row, entropy)[0] for row in tally], np.int64)
        else:
            sent = self.base * users + ones
            for begin in range(0, ones.size, step):
                part = slice(begin, begin + step)
                self._add_copies(sent[part], ones[part], users, entropy)
        return sent, np.zeros_like(sent)

    def _add_copies(self, sent: Counts, ones: Counts, users: int, entropy: Entropy) -> None:
        """Adds noise and muting to cells that hold the values alone. Place c·users + i stands for
        user i in cell c; the first ones[c] users hold 1."""
        slots = ones.size * users
        muted, _ = events(self.mute, slots, entropy)
        cells = muted // max(users, 1)
        held = muted - cells * users < ones[cells]
        np.add.at(sent, cells, self._muted(muted.size, entropy) - held)
        for law, sign in ((self.up_noise, 1), (self.down_noise, -1)):
            places, noise = events(law, slots, entropy)
            kept = ~np.isin(places, muted)  # the muted have noise of their own
            np.add.at(sent, places[kept] // max(users, 1), sign * noise[kept])

    def checked(self, values: Values) -> Values:
        """`values` as integers in 0..D (not copied), or a refusal that does not name them."""
        array = np.asarray(values)
        one_each(array)
        if array.dtype.kind not in "biu":
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{self.largest}; "
                f"an array of type {array.dtype} was given: round or encode it first."
            )
        if array.dtype.kind == "b":
            return array.view(np.uint8)
        if array.size and (int(array.min()) < 0 or int(array.max()) > self.largest):
            raise ValueOutOfRange(
                f"Some value lies outside 0..{self.largest}; nothing was randomized: "
                "correct the data, or plan for a larger range."
            )
        return array

    # the analyzer

    def estimate(self, plus: int, minus: int, users: int) -> arb:
        """The unbiased estimate of the sum of the users' values."""
        known = bounded_law.moments(self)
        return (plus - minus - users * (self.base + known.shift)) / known.kept

    def estimates(self, sums: Counts, users: int) -> NDArray[np.float64]:
        """The estimates behind many numbers of messages, in floats, for reporting."""
        centre = to_float(lambda: self.estimate(self.base * users, 0, users))
        kept = float(self.data_probability)
        result: NDArray[np.float64] = centre + (sums - self.base * users) / kept
        return result

    def mean_squared_error(self, users: int, total: Fraction | int | None = None) -> arb:
        """The error's exact second moment at the worst data with this sum of values (with any sum
        if None).

        One user's variance is convex in x, so it is worst when the total comes in lumps of D and
        one rest. As a function of the number of lumps that is affine: none or all is the worst.
        """
        known = bounded_law.moments(self)

        def error(total: Fraction | int) -> arb:
            lumps, rest = divmod(Fraction(total), self.largest)
            squares = ball(lumps * self.largest**2 + rest**2)
            return known.variance(users, ball(Fraction(total)), squares) / known.kept**2

        if total is None:
            return error(0).max(error(users * self.largest))
        return error(total)

    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """The expected number of messages a user sends; at the largest value unless a mean is
        given."""
        x = Fraction(self.largest if mean_value is None else mean_value)
        known = bounded_law.moments(self)
        return self.base + known.shift + known.kept * ball(x)

    def message_masses(self, value: int) -> list[arb]:
        """P(a user with this value sends k messages) for k = 0..K, at the working precision."""
        return bounded_law.message_masses(self, whole(value, "value", least=0, most=self.largest))
