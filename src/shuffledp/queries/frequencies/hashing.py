"""What frequencies and heavy hitters share: a sparse histogram over the buckets of a hash.

The hash is SHA-256 of a fixed text, a public seed and the label. A new seed is drawn for every
batch, independently of the data. A label is mapped to a bucket by 256 bits of the hash and by
private coins. The sparse histogram keeps its ε for any two buckets, and therefore for any two
random choices of buckets. Privacy does not depend on the hash (docs/mathematics.md §19).
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import USERS_AT_ONCE, Counts, Values, check_one_value_each
from shuffledp.cells.registry import cell_from_dict
from shuffledp.cells.sparse.cell import SparseBuckets, SparseCell
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.protocols.base import Protocol, R_co
from shuffledp.queries.histogram.protocol import Label, check_label_sizes

Numbers = NDArray[np.uint64]

SEED_BYTES = 32
MOST_CANDIDATES, LARGEST_CANDIDATE = 10**5, 2**64 - 1
PREFIX = b"shuffledp label "
TEXT, WHOLE = b"\x00", b"\x01"
"""The byte before a text's UTF-8, and before a whole number's eight bytes."""
NUMBERS = 4
"""A hash is four numbers of 64 bits."""
LEAST_BUCKETS, MOST_BUCKETS = 1 << 6, 1 << 23

Coder = Callable[[Counts, Entropy], Counts]
"""(positions of users' labels among different ones, entropy) → the bucket of each user."""


def checked_seed(seed: object) -> bytes:
    """The seed from its hexadecimal text."""
    try:
        found = bytes.fromhex(seed) if isinstance(seed, str) else b""
    except ValueError:
        found = b""
    if len(found) != SEED_BYTES or found.hex() != seed:
        raise ParameterError(f"The seed of a hash must be {2 * SEED_BYTES} hexadecimal digits.")
    return found


def new_hash_seed(entropy: Entropy = SYSTEM) -> str:
    """A new public seed."""
    return entropy.words(SEED_BYTES, np.uint8).tobytes().hex()


def checked_candidates(labels: object) -> tuple[Label, ...]:
    """Distinct texts, or distinct whole numbers of at most 64 bits."""
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise ParameterError("candidates must be a list of texts or of whole numbers.")
    names = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if len(names) > MOST_CANDIDATES:
        raise ParameterError(
            f"At most {MOST_CANDIDATES:,} candidates can be named; look up others in the result."
        )
    types = {type(name) for name in names}
    if not (types <= {str} or types <= {int}):
        raise ParameterError("Candidates must all be texts, or all be whole numbers.")
    check_label_sizes(names, LARGEST_CANDIDATE)
    if len({name % 2**64 if isinstance(name, int) else name for name in names}) < len(names):
        raise ParameterError("Two candidates are the same; name each once.")
    return names


def distinct(values: Values) -> tuple[list[Any], NDArray[np.int64]]:
    """The different values, and for each value its position among them."""
    array = np.asarray(values)
    check_one_value_each(array)
    if array.dtype.kind in "iu":
        seen, places = np.unique(array, return_inverse=True)
        return seen.tolist(), places
    known: dict[Any, int] = {}
    found = (known.setdefault(one, len(known)) for one in array.tolist())
    places = np.fromiter(found, np.int64, len(array))
    return list(known), places


def label_hashes(labels: Iterable[Any], seed: bytes) -> Numbers:
    """The hash of each label, as rows of four numbers of 64 bits."""
    names = list(labels)
    kinds = set(map(type, names))
    if kinds <= {str}:
        try:
            parts = [name.encode() for name in names]
        except UnicodeEncodeError:
            raise ValueOutOfRange(
                "Some text contains half of a surrogate pair, which is not a character; "
                "nothing was randomized: repair the text."
            ) from None
        head = PREFIX + seed + TEXT
    elif kinds <= {int} and all(-(2**63) <= name < 2**64 for name in names):
        parts = [(name % 2**64).to_bytes(8, "little") for name in names]
        head = PREFIX + seed + WHOLE
    else:
        raise ValueOutOfRange(
            "Values must all be texts, or all be whole numbers of at most 64 bits; nothing was "
            "randomized: convert all values to one type."
        )
    sha256 = hashlib.sha256
    digests = b"".join([sha256(head + part).digest() for part in parts])
    return np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, NUMBERS)


def power_of_two_near(number: int) -> int:
    """The power of two nearest to a number by ratio, among the sizes that a table can have."""
    low = 1 << max(number.bit_length() - 1, 0)
    found = low if number * number <= 2 * low * low else 2 * low
    return min(max(found, LEAST_BUCKETS), MOST_BUCKETS)


def sparse_cell(data: Mapping[str, Any]) -> SparseCell:
    """The sparse cell from its JSON; refuses cells of other kinds."""
    cell = cell_from_dict(data)
    if not isinstance(cell, SparseCell):
        raise ParameterError("Hashed labels need a sparse cell; plan this query again.")
    return cell


@dataclass(frozen=True, kw_only=True)
class HashedProtocol(Protocol[R_co]):
    """A sparse histogram over a power of two of buckets, to which labels are hashed."""

    epsilon: Fraction
    cell: SparseCell
    hash_seed: str
    """The hash seed: public, and new for every batch."""
    loss_rule: ClassVar[str] = "any replacement"
    encodes_counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_seed(self.hash_seed)
        buckets = self.cell.buckets
        if not LEAST_BUCKETS <= buckets <= MOST_BUCKETS or buckets & (buckets - 1):
            raise ParameterError(
                f"A table of hashed labels has a power of two of buckets, {LEAST_BUCKETS} to "
                f"{MOST_BUCKETS:,}."
            )
        if self.cell.epsilon != self.epsilon:
            raise ParameterError("The cell must be proved for the protocol's own epsilon.")

    @cached_property
    def cell_groups(self) -> tuple[SparseBuckets]:
        return (SparseBuckets(cell=self.cell),)

    def loss(self) -> Fraction:
        """A user's token moves from one bucket to another."""
        return self.cell_groups[0].replacement_loss

    def renewed(self, entropy: Entropy = SYSTEM) -> Self:
        """The same protocol with a new hash, on which its privacy does not depend."""
        return replace(self, hash_seed=new_hash_seed(entropy))

    @cached_property
    def seed(self) -> bytes:
        """The hash seed's bytes."""
        return checked_seed(self.hash_seed)

    # Its error, which depends on the count

    @abstractmethod
    def rmse(self, users: int, count: float | None = None) -> float:
        """The root mean squared error of a label with a true count; of one that everyone has if
        none is given."""

    def rmse_at(self, users: int, count: Fraction) -> float:
        return self.rmse(users, float(count))

    def rmse_at_zero(self, users: int) -> float:
        return self.rmse(users, 0)

    # Values

    @abstractmethod
    def coder(self, labels: list[Any]) -> Coder:
        """Draws the buckets of users with some of these different labels, each hashed once."""

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """The bucket of each user, in a row that is drawn here."""
        labels, places = distinct(values)
        return self.coder(labels)(places, entropy)

    def tally_of_counted(self, values: Values, counts: Counts, entropy: Entropy = SYSTEM) -> Counts:
        code, ends = self.coder(values.tolist()), np.cumsum(counts)
        tally, users = self.tally(np.zeros(0, np.int64)), int(ends[-1]) if len(ends) else 0
        for begin in range(0, users, USERS_AT_ONCE):
            part = np.arange(begin, min(begin + USERS_AT_ONCE, users))
            codes = code(np.searchsorted(ends, part, side="right"), entropy)
            np.add.at(tally, codes, 1)
        return tally

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=self.cell.buckets).astype(np.int64, copy=False)

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        yield tally

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "cell": self.cell.to_dict(),
            "hash_seed": self.hash_seed,
        }
