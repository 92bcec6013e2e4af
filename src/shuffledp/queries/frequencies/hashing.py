"""A public hash from any label to 256 bits, from which frequencies and heavy hitters take buckets.

The hash is SHA-256 of a fixed text, a public seed and the label. A new seed is drawn for every
batch, independently of the data. Privacy does not depend on it: a user may send to any bucket.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Values, check_one_value_each
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.queries.histogram.protocol import Label, check_label_sizes

Numbers = NDArray[np.uint64]

SEED_BYTES = 32
MOST_CANDIDATES, LARGEST_CANDIDATE = 10**5, 2**64 - 1
PREFIX = b"shuffledp label "
TEXT, WHOLE = b"\x00", b"\x01"
"""The byte before a text's UTF-8, and before a whole number's eight bytes."""
NUMBERS = 4
"""A hash is four numbers of 64 bits."""


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
