"""Cells and groups of cells: what a protocol is made of.

A *cell* is one counter for values 0..D. A user sends one or two kinds of messages to it, +1 and −1.
The analyzer sees how many of each arrived, and the cell turns these counts into estimates. A
*group* is what a user draws at once: copies of a cell, or cells that share their noise. It also
determines how long a report must be.

Code outside this package uses only the classes below; only the folder of a kind of cell uses its
parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self, get_type_hints

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.documents.schema import Rational
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import positive, show, to_float
from shuffledp.numbers.message_law import NoiseMessages

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]

MOST_USERS = 10**13
LARGEST_VALUE = 10**6
SMALLEST_EPSILON_OF_CELL, LARGEST_EPSILON_OF_CELL = Fraction(1, 10**9), Fraction(1000)
"""Limits on what a change may cost; planners accept a narrower range."""
USERS_AT_ONCE = 1 << 18
"""How many users are randomized together; small enough for the processor's cache."""

CELL_EPSILON = Rational(SMALLEST_EPSILON_OF_CELL, LARGEST_EPSILON_OF_CELL)
PROBABILITY = Rational(Fraction(0), Fraction(1))
"""The type in JSON; the cell itself checks that it is neither 0 nor 1."""


def check_epsilon(epsilon: Fraction, name: str) -> None:
    """Refuses an ε that is too small or too large for a proof to finish."""
    positive(epsilon, name)
    least, most = SMALLEST_EPSILON_OF_CELL, LARGEST_EPSILON_OF_CELL
    if not least <= epsilon <= most:
        raise ParameterError(f"{name} must lie between {show(least)} and {show(most)}.")


def check_one_value_each(values: Values) -> None:
    """Refuses arrays of more than one dimension: a row of values would count as one user."""
    if values.ndim != 1:
        raise ValueOutOfRange(
            f"One value per user is needed; an array of shape {values.shape} was given."
        )


LEFT_OUT = {"left_out": True}
"""Metadata of a field that JSON leaves out where it has its default."""


class Parameters:
    """A dataclass of exact parameters that is read from JSON and written as JSON. A field may have
    another name there, which its metadata gives as `json`."""

    json_order: ClassVar[tuple[str, ...]] = ()
    """The fields in JSON, if not all of them are there or in another order."""

    @classmethod
    def _in_json(cls) -> list[Field[Any]]:
        known = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]
        return [known[name] for name in cls.json_order or known]

    def to_dict(self) -> dict[str, Any]:
        """All parameters, rationals as exact text."""
        kinds, found = get_type_hints(type(self)), {}
        for one in self._in_json():
            value = getattr(self, one.name)
            if not one.metadata.get("left_out") or value != one.default:
                found[one.metadata.get("json", one.name)] = _to_json(kinds[one.name], value)
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The parameters that `to_dict` describes."""
        kinds, found = get_type_hints(cls), {}
        for one in cls._in_json():
            name = one.metadata.get("json", one.name)
            if not one.metadata.get("left_out") or name in data:
                found[one.name] = _from_json(kinds[one.name], data[name])
        return cls(**found)


def _to_json(kind: Any, value: Any) -> Any:
    if isinstance(value, Parameters):
        return value.to_dict()
    if isinstance(value, tuple):
        return [str(number) for number in value]
    return str(value) if kind is Fraction else value


def _from_json(kind: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return kind.from_dict(value)
    if isinstance(value, list):
        return tuple(Fraction(text) for text in value)
    return Fraction(value) if kind is Fraction else value


class Cell(Parameters, ABC):
    """One counter with exact parameters, and the estimates that follow from its messages."""

    kind: ClassVar[str]
    """How this kind of cell is named in JSON."""
    sends_minus: ClassVar[bool] = True
    """Whether honest users send −1 messages; if not, such a message is malformed."""
    for_levels: ClassVar[bool] = True
    """Whether its buckets may be a level behind quantiles."""
    bytes_per_copy: ClassVar[int] = 1 << 10
    """About how many bytes it takes to draw and analyze one copy."""
    users: int
    """How many honest users are guaranteed to take part: together they carry the whole noise."""
    largest: int
    """D: a user's value is one of 0..D."""

    @property
    @abstractmethod
    def up_loss(self) -> Fraction:
        """ε that a change of one user's value upwards costs."""

    def checked(self, values: Values) -> Values:
        """`values` as integers in 0..D (not copied); raises an error that does not show them."""
        array = np.asarray(values)
        check_one_value_each(array)
        if array.dtype.kind not in "biu":
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{self.largest}; "
                f"an array of type {array.dtype} was given: round or encode it first."
            )
        if (
            array.size
            and array.dtype != np.bool_
            and (int(array.min()) < 0 or int(array.max()) > self.largest)
        ):
            raise ValueOutOfRange(
                f"Some values are outside 0..{self.largest}; nothing was randomized: "
                "correct the data, or plan for larger values."
            )
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    # How many messages

    @abstractmethod
    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """The expected number of messages of a user, at the largest value unless a mean is
        given."""

    def fewest_messages(self, loss: Fraction, copies: int) -> float | None:
        """A proved lower bound on the average number of messages that a user sends to `copies`
        cells of this design (one with the largest value) with this loss and the same error; None if
        none is known."""
        return None

    @property
    def proof_steps(self) -> float:
        """About how many exact operations its proof takes, counted the same way in every client; 0
        if it is always short."""
        return 0.0

    # Missing users

    @property
    @abstractmethod
    def absent_value(self) -> int:
        """The value that the estimate counts for every missing user whose noise was topped up."""

    # The analyzer

    @abstractmethod
    def estimate(self, plus: int, minus: int, users: int) -> arb:
        """The unbiased estimate of the sum of the users' values."""

    @abstractmethod
    def estimates(self, sums: Counts, users: int) -> Floats:
        """The estimates for many differences V₊ − V₋, in floats, for reporting."""

    @abstractmethod
    def mean_squared_error(self, users: int, total: Fraction | int | None = None) -> arb:
        """The estimate's mean squared error at the worst data with this true sum; at the worst of
        all data if none is given."""

    @abstractmethod
    def variance_at(self, users: int, total: float, squares: float) -> float:
        """The estimate's mean squared error when the users' values add up to `total` and their
        squares to `squares`, for reporting."""

    def rmse(self, users: int, total: Fraction | int | None = None) -> float:
        """The root of `mean_squared_error`, for reporting."""
        return to_float(lambda: self.mean_squared_error(users, total).sqrt())

    @abstractmethod
    def intervals(self, users: int, sums: Counts, outside: float) -> tuple[Counts, Counts]:
        """The interval of true sums for each difference V₊ − V₋: for sums below or above it, the
        difference would be an outlier, with a probability of at most outside/2 each."""

    @abstractmethod
    def error_range(self, users: int, total: int, outside: float) -> tuple[float, float]:
        """The range of the estimate's error when the true sum is `total`, with probability
        outside/2 left out on each side."""

    @abstractmethod
    def error_law(self, users: int, total: int) -> tuple[Floats, Floats]:
        """Errors of the estimate and how likely each is, when the true sum is `total`."""

    @abstractmethod
    def log_error(self, t: Floats, users: int, total: float) -> NDArray[np.complex128]:
        """ln E[e^(it·error)] of the estimate when the true sum is `total`; for sums of cells."""

    @abstractmethod
    def log_moment(self, theta: Floats, users: int, total: float) -> Floats:
        """ln E[e^(θ·error)] of the estimate when the true sum is `total`; not finite if the
        expectation is not."""

    def minus_law(self, reports: int, absent: int) -> tuple[float, float]:
        """(mean, standard deviation) of the number of −1 in `reports` reports and the noise of
        `absent` users: by default, there are none."""
        return 0.0, 0.0

    def minus_moment(self, theta: Floats, reports: int, absent: int) -> Floats:
        """ln E[e^(θ·X)] where X is that number less its mean."""
        return np.zeros_like(theta)

    # Sums of copies. Independent copies of n users are one cell of copies·n users.

    def intervals_of_sum(
        self, copies: int, users: int, sums: Counts, outside: float
    ) -> tuple[Counts, Counts]:
        """`intervals` for the sum of the differences of several copies."""
        return self.intervals(copies * users, sums, outside)

    def error_range_of_sum(
        self, copies: int, users: int, total: int, outside: float
    ) -> tuple[float, float]:
        """`error_range` of the sum of several copies' estimates."""
        return self.error_range(copies * users, total, outside)

    def variance_of_sum(self, copies: int, users: int, total: float) -> float:
        """The variance of the sum of several copies' estimates, if `total` of all their values are
        1 and the others 0; for reporting only."""
        return self.variance_at(copies * users, total, total)

    def covariance(self, users: int) -> tuple[float, float]:
        """(a, b): the estimates of two copies of which f and g of the users hold 1 have the
        covariance a + b·(f + g); for reporting only."""
        return 0.0, 0.0

    def to_dict(self) -> dict[str, Any]:
        """The kind and all parameters, rationals as exact text."""
        return {"kind": self.kind, **super().to_dict()}


class IndependentCell(Cell):
    """A cell that is drawn independently of all others, by its own randomizer."""

    @abstractmethod
    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """How many +1 and −1 one user sends: what runs on a device.

        Requires: a whole number in 0..D (`checked` makes sure).
        Ensures: an exact draw of the law that the certificate is about.
        """

    @abstractmethod
    def randomize_total(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """The sums of `randomize` over users with these values, each drawn independently."""

    @abstractmethod
    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """How many +1 and −1 all users send together, if `tally[x]` of them have the value x.

        Ensures: the distribution of the sum of `randomize` over these users, at a cost that does
        not grow with their number.
        """

    @abstractmethod
    def aggregate_copies(
        self, ones: Counts, users: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """`aggregate` for many copies of a cell for 0 and 1: in copy b, `ones[b]` of the users have
        the value 1 and the others 0."""

    @abstractmethod
    def top_up(self, absent: int, copies: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """Messages that replace the noise of `absent` missing users, for each of the copies.

        Ensures: an exact draw, never repeated, with which the estimate counts `absent_value` for
        each of them; at most `most_messages` per missing user and copy.
        """

    def checked_tally(self, tally: Counts) -> int:
        """How many users a tally counts; refuses one that does not fit the values 0..D."""
        if tally.shape != (self.largest + 1,) or (tally < 0).any():
            raise ValueOutOfRange(f"A tally needs one count for each value 0..{self.largest}.")
        return int(tally.sum())

    @property
    def most_messages(self) -> int | None:
        """The most messages that a user sends; None if there is no limit."""
        sure, laws = self.message_laws(1)
        return None if laws else sure

    @abstractmethod
    def message_laws(self, copies: int) -> tuple[int, list[NoiseMessages]]:
        """(a, laws): in `copies` copies, of which at most one does not hold 0, a user sends at most
        a + a sum of independent draws of these laws, in stochastic order; without laws, at most
        a."""


def independent_cell(cell: Cell) -> IndependentCell:
    """The cell; raises if it is not drawn independently of others."""
    if not isinstance(cell, IndependentCell):
        raise ParameterError(
            "Cells that are drawn together are for the digits of a real sum only; plan this "
            "query again."
        )
    return cell


# Groups


@dataclass(frozen=True, kw_only=True)
class Member:
    """Equal cells of a group, and what a change of one of them may cost."""

    cell: Cell
    copies: int
    """How many there are; at most one of them has a value other than 0."""
    up: Fraction
    """ε that a change upwards may cost; the certificate proves it."""
    down: Fraction
    """ε that a change downwards may cost; the certificate proves it."""


class CellGroup(ABC):
    """What a user draws at once, and how long a report must be for it.

    A user's values in all cells of the group are one number below `codes`: its code.
    """

    independent: ClassVar[bool] = True
    """Whether the messages to different counters are independent, given the values."""

    @property
    @abstractmethod
    def members(self) -> tuple[Member, ...]:
        """The cells, in the order of their counters."""

    replacement_rule: ClassVar[str] = "up + down"
    """In words, how `replacement_loss` follows from the members' losses."""

    @property
    def replacement_loss(self) -> Fraction:
        """What replacing one code by another costs if every cell costs what its `Member` allows: by
        default, one bucket goes down and one goes up."""
        return sum((member.up + member.down for member in self.members), start=Fraction(0))

    @property
    def counters(self) -> int:
        """How many counters the group has."""
        return sum(member.copies for member in self.members)

    @property
    @abstractmethod
    def codes(self) -> int:
        """How many codes there are."""

    @abstractmethod
    def held(self, codes: Values, counter: int) -> Values:
        """The values of users with these codes in one of the counters."""

    # The randomizer: how many +1 and −1 each counter gets

    @abstractmethod
    def randomize(self, code: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """The messages of one user: what runs on a device.

        Ensures: an exact draw of the law that the certificate is about.
        """

    @abstractmethod
    def randomize_total(self, codes: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """The messages of many users, each drawn independently, added up."""

    @abstractmethod
    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """The messages of all users added up, if `tally[c]` of them have the code c.

        Ensures: the law of `randomize_total`, at a cost that does not grow with the users.
        """

    @abstractmethod
    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """Messages that replace the noise of `absent` missing users.

        Ensures: an exact draw, never repeated, with which the estimate counts the `absent_value` of
        every cell for each of them; at most `most_messages` per missing user.
        """

    # The size of a report

    def messages_per_user(self) -> arb:
        """The expected number of messages of a user with the largest value in one of the equal
        cells."""
        return sum(
            (
                member.cell.messages_per_user()
                + (member.copies - 1) * member.cell.messages_per_user(0)
                for member in self.members
            ),
            start=arb(0),
        )

    @property
    def most_messages(self) -> int | None:
        """The most messages that a user sends; None if there is no limit."""
        sure, laws = self.message_laws()
        return None if laws else sure

    @abstractmethod
    def message_laws(self) -> tuple[int, list[NoiseMessages]]:
        """(a, laws): a user sends at most a + a sum of independent draws of these laws; without
        laws, at most a."""

    # The analyzer

    def log_total_moment(self, theta: Floats, users: int, holders: int) -> Floats | None:
        """ln E[e^(θ·X)] of all messages together less their mean, from `users` users, `holders` of
        whom have a value; None if the counters are independent, so that their own laws suffice."""
        return None

    def joint_variance(self, weights: Sequence[Fraction]) -> Fraction:
        """An upper bound on what drawing the cells at once adds to the variance of one user's share
        of the weighted sum of their estimates."""
        return Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Copies(CellGroup):
    """Copies of a cell: a user has a value in one and 0 in all others (with one copy, a single
    cell). The code is the number of that copy times D + 1, plus the value."""

    cell: IndependentCell
    copies: int = 1
    up: Fraction
    down: Fraction

    def __post_init__(self) -> None:
        independent_cell(self.cell)

    @property
    def members(self) -> tuple[Member, ...]:
        return (Member(cell=self.cell, copies=self.copies, up=self.up, down=self.down),)

    @property
    def codes(self) -> int:
        return self.copies * (self.cell.largest + 1)

    def held(self, codes: Values, counter: int) -> Values:
        if self.copies == 1:
            return codes
        copy, value = np.divmod(codes, self.cell.largest + 1)
        return np.asarray(np.where(copy == counter, value, 0))

    def value(self, code: int, counter: int) -> int:
        """`held` for one user."""
        copy, value = divmod(code, self.cell.largest + 1)
        return value if copy == counter else 0

    def randomize(self, code: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        return _columns(
            [self.cell.randomize(self.value(code, copy), entropy) for copy in range(self.copies)]
        )

    def randomize_total(self, codes: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        rows = (self.held(codes, copy) for copy in range(self.copies))
        return _columns([self.cell.randomize_total(row, entropy) for row in rows])

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        held = tally.reshape(self.copies, -1).copy()
        held[:, 0] += tally.sum() - held.sum(axis=1)  # the users with a value in another copy
        return _columns([self.cell.aggregate(row, entropy) for row in held])

    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        return self.cell.top_up(absent, self.copies, entropy)

    def message_laws(self) -> tuple[int, list[NoiseMessages]]:
        return self.cell.message_laws(self.copies)


@dataclass(frozen=True, kw_only=True)
class Buckets(Copies):
    """Copies of a cell for 0 and 1: a user has a 1 in one of them, whose number is the code."""

    @classmethod
    def of(cls, cell: IndependentCell, buckets: int, up: Fraction, down: Fraction) -> Buckets:
        """A bucket for each copy."""
        return cls(cell=cell, copies=buckets, up=up, down=down)

    @property
    def codes(self) -> int:
        return self.copies

    def held(self, codes: Values, counter: int) -> Values:
        return np.equal(codes, counter)

    def value(self, code: int, counter: int) -> int:
        return int(code == counter)

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        return self.aggregate_with(tally, 0, entropy)

    def aggregate_with(
        self, tally: Counts, without: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """`aggregate` with `without` further users who have a 1 in none of the copies."""
        return self.cell.aggregate_copies(tally, int(tally.sum()) + without, entropy)


def _columns(sent: Sequence[tuple[int, int]]) -> tuple[Counts, Counts]:
    """Pairs of +1 and −1 as two arrays."""
    plus, minus = np.array(sent, np.int64).T
    return plus, minus


def only_plus(sent: Sequence[int] | Counts) -> tuple[Counts, Counts]:
    """Messages of one kind as numbers of +1 and −1: there are no −1."""
    plus = np.asarray(sent, np.int64)
    return plus, np.zeros_like(plus)


def one_by_one(cells: Sequence[IndependentCell]) -> tuple[CellGroup, ...]:
    """Groups of independently drawn cells, each with the same loss in both directions."""
    return tuple(Copies(cell=cell, up=cell.up_loss, down=cell.up_loss) for cell in cells)


class Proof(Protocol):
    """What was proved about a cell."""

    def to_dict(self) -> dict[str, Any]:
        """The proof as it appears in a certificate."""

    def summary(self) -> str:
        """Where the proof is tightest, for people to read."""

    def claims(self) -> dict[str, Any]:
        """The part of `to_dict` that every correct proof of the same cell agrees on."""
