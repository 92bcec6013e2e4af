"""The Merkle tree: published roots, the example of RFC 9162, and every path of small trees."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp.tasks.merkle import EMPTY_ROOT, MerkleTree, extends, includes, leaf_hash, node_hash

PUBLISHED_ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
PUBLISHED_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""Roots of the first 0, 1, …, 8 of these entries, as Certificate Transparency's reference
implementation publishes them for the tree of RFC 6962, which is that of RFC 9162."""


def defined_root(entries: list[bytes]) -> bytes:
    """The definition of RFC 9162, 2.1.1, word by word."""
    if not entries:
        return hashlib.sha256().digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = 1
    while 2 * k < len(entries):
        k *= 2
    both = defined_root(entries[:k]) + defined_root(entries[k:])
    return hashlib.sha256(b"\x01" + both).digest()


def test_published_roots() -> None:
    tree = MerkleTree(PUBLISHED_ENTRIES)
    assert [tree.root(size).hex() for size in range(9)] == PUBLISHED_ROOTS
    assert tree.root(0) == EMPTY_ROOT


def test_the_example_of_the_rfc() -> None:
    """RFC 9162, 2.1.5: seven entries, with the names that the hashes have there."""
    entries = [bytes([number]) for number in range(7)]
    tree = MerkleTree(entries)
    a, b, c, d, e, f, j = (leaf_hash(entry) for entry in entries)
    g, h, i = node_hash(a, b), node_hash(c, d), node_hash(e, f)
    k, one = node_hash(g, h), node_hash(i, j)  # `one` is called l there
    assert tree.root(7) == node_hash(k, one)
    assert tree.inclusion(0, 7) == [b, h, one]
    assert tree.inclusion(3, 7) == [c, g, one]
    assert tree.inclusion(4, 7) == [f, j, k]
    assert tree.inclusion(6, 7) == [i, k]
    assert tree.consistency(3, 7) == [c, d, g, one]
    assert tree.consistency(4, 7) == [one]
    assert tree.consistency(6, 7) == [i, j, k]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=5), min_size=1, max_size=70), st.data())
def test_every_path_shows_its_own_and_nothing_else(
    entries: list[bytes], data: st.DataObject
) -> None:
    tree = MerkleTree(entries)
    size = data.draw(st.integers(1, len(entries)))
    index = data.draw(st.integers(0, size - 1))
    root = tree.root(size)
    assert root == defined_root(entries[:size])
    path = tree.inclusion(index, size)
    assert includes(entries[index], index, size, path, root)
    assert not includes(entries[index] + b"x", index, size, path, root)
    assert not includes(entries[index], size, size, path, root)
    assert not includes(entries[index], index, size, [*path, root], root)
    first = data.draw(st.integers(0, size))
    old, steps = tree.root(first), tree.consistency(first, size)
    assert extends(first, old, size, root, steps)
    other = hashlib.sha256(old).digest()
    assert not extends(first, other, size, root, steps)
    assert not extends(first, old, size, other, steps) or first == 0
    assert not extends(size + 1, old, size, root, steps)
    for at in range(len(steps)):
        changed = [*steps[:at], other, *steps[at + 1 :]]
        assert not extends(first, old, size, root, changed)
        assert not extends(first, old, size, root, steps[:at])


def test_a_forked_tree_does_not_extend_the_log() -> None:
    """Two lists that differ in one early entry: no honest path joins them."""
    entries = [bytes([number]) for number in range(20)]
    forked = MerkleTree([*entries[:5], b"another", *entries[6:]])
    tree = MerkleTree(entries)
    for first in range(6, 20):
        path = forked.consistency(first, 20)
        assert extends(first, forked.root(first), 20, forked.root(20), path)
        assert not extends(first, tree.root(first), 20, forked.root(20), path)


def test_places_outside_the_tree_are_refused() -> None:
    tree = MerkleTree([b"a", b"b"])
    for ask in (
        lambda: tree.root(3),
        lambda: tree.inclusion(2, 2),
        lambda: tree.inclusion(-1, 2),
        lambda: tree.consistency(3, 2),
    ):
        with pytest.raises(IndexError):
            ask()
