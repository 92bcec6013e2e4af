"""A Merkle tree as in RFC 9162: one hash for a list that only grows.

An inclusion path proves that an entry is in the list with a given root; a consistency path proves
that the list with one root extends the list with an earlier one. Both need about log₂(size) hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """The hash of one entry (RFC 9162, 2.1.1)."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees (RFC 9162, 2.1.1)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """The tree over a list of entries, to which more can be added."""

    def __init__(self, entries: Iterable[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        """In level k the hashes of all full subtrees of 2ᵏ entries, from the left."""
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, entry: bytes) -> None:
        """Adds an entry at the end."""
        self._levels[0].append(leaf_hash(entry))
        level = 0
        while len(self._levels[level]) % 2 == 0:
            if level + 1 == len(self._levels):
                self._levels.append([])
            self._levels[level + 1].append(node_hash(*self._levels[level][-2:]))
            level += 1

    def level(self, height: int) -> Sequence[bytes]:
        """The hashes of all full subtrees of 2^height entries, from the left."""
        return self._levels[height] if height < len(self._levels) else []

    def root(self, size: int) -> bytes:
        """The root of the first `size` entries."""
        self._check(size)
        return self._hash(0, size) if size else EMPTY_ROOT

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """The path that shows entry `index` in the first `size` entries (2.1.3.1)."""
        self._check(size)
        if not 0 <= index < size:
            raise IndexError("There is no such entry.")
        path, begin, end = [], 0, size
        while end - begin > 1:
            middle = begin + _split(end - begin)
            if index < middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(begin, middle))
                begin = middle
        return path[::-1]

    def consistency(self, first: int, second: int) -> list[bytes]:
        """The path that shows that the first `second` entries begin with the first `first` ones
        (2.1.4.1)."""
        self._check(second)
        if not 0 <= first <= second:
            raise IndexError("There is no such earlier tree.")
        if first in (0, second):
            return []
        path, begin, end, whole = [], 0, second, True
        while first != end:
            middle = begin + _split(end - begin)
            if first <= middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(begin, middle))
                begin, whole = middle, False
        if not whole:
            path.append(self._hash(begin, end))
        return path[::-1]

    def _check(self, size: int) -> None:
        if not 0 <= size <= len(self):
            raise IndexError("The tree has fewer entries.")

    def _hash(self, begin: int, end: int) -> bytes:
        """The hash of the aligned subtree over entries begin..end−1."""
        size = end - begin
        if size & (size - 1) == 0:
            return self._levels[size.bit_length() - 1][begin // size]
        middle = begin + _split(size)
        return node_hash(self._hash(begin, middle), self._hash(middle, end))


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def includes(entry: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the path shows the entry at this index in the list of `size` entries behind a root
    (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    at, last, found = index, size - 1, leaf_hash(entry)
    for other in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node_hash(other, found)
            while at & 1 == 0 and at:
                at, last = at >> 1, last >> 1
        else:
            found = node_hash(found, other)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def extends(
    first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]
) -> bool:
    """Whether the path shows that the `second` entries behind one root begin with the `first`
    entries behind another (RFC 9162, 2.1.4.2)."""
    if not 0 <= first <= second:
        return False
    if first == second:
        return not path and first_root == second_root
    if first == 0:
        return not path and first_root == EMPTY_ROOT
    given = [first_root, *path] if first & (first - 1) == 0 else list(path)
    if not given:
        return False
    at, last = first - 1, second - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = given[0]
    for other in given[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = node_hash(other, old), node_hash(other, new)
            while at & 1 == 0 and at:
                at, last = at >> 1, last >> 1
        else:
            new = node_hash(new, other)
        at, last = at >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root
