"""Checkpoints and cosignatures: the specifications' own examples, an independent implementation,
and forgeries that are refused."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from logged_tasks import KEYS, OTHER_ENTRIES, proof_of
from service_needs import missing
from service_trio import Trio

from shuffledp.errors import ParameterError
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.merkle import MerkleTree, leaf_hash
from shuffledp.tasks.notes import (
    COSIGNATURE,
    LOG_SIGNATURE,
    Checkpoint,
    Signature,
    VerifierKey,
    parse_signatures,
    tile,
)
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Task

VECTORS_FILE = Path(__file__).parents[2] / "vectors" / "notes.json"
VECTORS = json.loads(VECTORS_FILE.read_text("utf-8"))
ORIGIN = "statistics.example/tasks"
WITNESSES = [SigningKey(bytes([number]) * 32) for number in (1, 2, 3)]
NAMES = [f"witness{number}.example" for number in (1, 2, 3)]
WITNESS_KEYS = [
    VerifierKey(name, COSIGNATURE, key.public) for name, key in zip(NAMES, WITNESSES, strict=True)
]


def checkpoint(entries: list[bytes], cosigned: int = 0) -> Checkpoint:
    tree = MerkleTree(entries)
    plain = Checkpoint(origin=ORIGIN, size=len(tree), root=tree.root(len(tree)))
    note = plain.signed_by(KEYS["analyzer"])
    lines = [
        note.cosignature(NAMES[number], WITNESSES[number], 1_800_000_000 + number)
        for number in range(cosigned)
    ]
    return note.with_signatures(lines)


LOG = VerifierKey(ORIGIN, LOG_SIGNATURE, KEYS["analyzer"].public)
ENTRIES = [bytes([number]) * 128 for number in range(70)]


@pytest.mark.parametrize("case", VECTORS["keys"], ids=lambda case: case["vkey"][:24])
def test_verifier_keys_of_the_specification(case: dict[str, str]) -> None:
    key = VerifierKey.parse(case["vkey"])
    assert str(key) == case["vkey"] and key.id.hex() == case["id"]


@pytest.mark.parametrize("case", VECTORS["checkpoints"], ids=lambda case: case["name"])
def test_vectors(case: dict[str, Any]) -> None:
    """Every case says whether the log and how many witnesses have signed, or that it is refused."""
    log = VerifierKey.parse(case["log"])
    witnesses = [VerifierKey.parse(one) for one in case["witnesses"]]
    if case["cosigned"] is None:
        with pytest.raises(ProofError):
            note = Checkpoint.parse(case["note"])
            if not note.holds(log):
                raise ProofError("head", "not signed")
            note.check_witnesses(witnesses, 0)
        return
    note = Checkpoint.parse(case["note"])
    assert str(note) == case["note"] and note.holds(log)
    note.check_witnesses(witnesses, case["cosigned"])
    with pytest.raises(ProofError, match="requires"):
        note.check_witnesses(witnesses, case["cosigned"] + 1)


def test_the_checkpoint_of_the_specification_is_read_as_it_is_written() -> None:
    text = VECTORS["specification"]["checkpoint"]
    note = Checkpoint.parse(text)
    assert str(note) == text and note.size == 20852163
    assert [line.name for line in note.signatures] == [
        "example.com/behind-the-sofa",
        "witness.example.com/w1",
    ]
    assert parse_signatures(text.rpartition("\n\n")[2]) == list(note.signatures)


def test_another_implementation_verifies_our_checkpoints() -> None:
    """metamorphic-log (Rust) shares no code with this package."""
    if find_spec("metamorphic_log") is None:
        missing("metamorphic-log", 'pip install "shuffledp[test]" on Linux')
    other: Any = importlib.import_module("metamorphic_log")
    tree, note = MerkleTree(ENTRIES), checkpoint(ENTRIES, cosigned=3)
    head = other.checkpoint_verify(str(note), [str(LOG)])
    assert (head.origin, head.size, bytes(head.root)) == (ORIGIN, 70, note.root)
    assert other.verify_signed_note(str(note), [str(LOG)]) == 1
    path = tree.inclusion(33, 70)
    other.checkpoint_verify_inclusion(str(note), [str(LOG)], 33, leaf_hash(ENTRIES[33]), path)
    other.verify_consistency(40, 70, tree.consistency(40, 70), tree.root(40), tree.root(70))
    for wrong in (str(replace(note, size=71)), str(note).replace("— stat", "— stats", 1)):
        with pytest.raises(other.VerifyError):
            other.checkpoint_verify(wrong, [str(LOG)])
    with pytest.raises(other.VerifyError):
        other.checkpoint_verify_inclusion(str(note), [str(LOG)], 34, leaf_hash(ENTRIES[33]), path)


def test_k_of_n_witnesses() -> None:
    note = checkpoint(ENTRIES, cosigned=2)
    note.check_witnesses(WITNESS_KEYS, 2)
    with pytest.raises(ProofError, match="2 of the witnesses"):
        note.check_witnesses(WITNESS_KEYS, 3)
    with pytest.raises(ProofError, match="1 of the witnesses"):  # a key counts once
        note.check_witnesses([WITNESS_KEYS[0], WITNESS_KEYS[0]], 2)


def test_forged_and_moved_signatures_are_refused() -> None:
    note = checkpoint(ENTRIES, cosigned=1)
    with pytest.raises(ProofError, match="wrong"):
        replace(note, size=69).holds(LOG)
    with pytest.raises(ProofError, match="wrong"):
        replace(note, root=bytes(32)).holds(WITNESS_KEYS[0])
    first = note.signatures[1]
    later = replace(first, value=bytes([0, 0, 0, 0, 0xFF]) + first.value[5:])
    with pytest.raises(ProofError, match="wrong"):
        replace(note, signatures=(later,)).holds(WITNESS_KEYS[0])
    # the log's signature is no cosignature, and the other way round
    for kind, value in ((COSIGNATURE, note.signatures[0].value), (LOG_SIGNATURE, first.value[8:])):
        key = VerifierKey(ORIGIN, kind, KEYS["analyzer"].public)
        with pytest.raises(ProofError, match="wrong"):
            replace(note, signatures=(Signature(ORIGIN, key.id, value),)).holds(key)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 600])
def test_tiles_reproduce_the_tree(size: int) -> None:
    """A reader who has the tiles alone computes the root."""
    entries = [number.to_bytes(4, "big") for number in range(size)]
    tree = MerkleTree(entries)
    hashes = b""
    bundles = b""
    for number in range((size + 255) // 256):
        width = min(256, size - 256 * number)
        name = f"{number:03}" + (f".p/{width}" if width < 256 else "")
        part, bundle = tile(f"0/{name}", tree, entries), tile(f"entries/{name}", tree, entries)
        assert part is not None and bundle is not None and len(part) == 32 * width
        hashes, bundles = hashes + part, bundles + bundle
    assert hashes == b"".join(leaf_hash(entry) for entry in entries)
    assert bundles == b"".join(b"\x00\x04" + entry for entry in entries)
    full = size // 256
    if full:
        above = tile(f"1/000.p/{full}", tree, entries)
        assert above == b"".join(
            MerkleTree(entries[256 * one : 256 * (one + 1)]).root(256) for one in range(full)
        )


@pytest.mark.parametrize(
    "path",
    [
        "0/000",
        "0/001.p/1",
        "0/000.p/256",
        "0/0",
        "0/x000/000",
        "64/000",
        "0/000.p/0",
        "2/000.p/1",
        "entries/001",
        "0/../000",
        "1/000.p/1",
        "entries",
    ],
)
def test_there_is_no_other_tile(path: str) -> None:
    entries = [bytes([number]) for number in range(100)]
    assert tile(path, MerkleTree(entries), entries) is None


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Trio(tmp_path).task()


def test_a_device_asks_for_k_of_n_witnesses(task: Task) -> None:
    plain = proof_of(task, entries=OTHER_ENTRIES)
    head = plain.head
    note = Checkpoint(origin=ORIGIN, size=head.size, root=head.root).signed_by(KEYS["analyzer"])
    lines = [note.cosignature(NAMES[one], WITNESSES[one], 1_800_000_000) for one in (0, 2)]
    proof = replace(plain, checkpoint=str(note.with_signatures(lines)))
    proof.check(task.id)
    texts = tuple(map(str, WITNESS_KEYS))
    for least in (0, 1, 2):
        ClientPolicy(witnesses=texts, least_witnesses=least).check_witnesses(proof)
    with pytest.raises(ProofError, match="requires 3"):
        ClientPolicy(witnesses=texts, least_witnesses=3).check_witnesses(proof)
    with pytest.raises(ProofError, match="No witness"):
        ClientPolicy(witnesses=texts, least_witnesses=1).check_witnesses(plain)
    again = ClientPolicy.from_dict(ClientPolicy(witnesses=texts, least_witnesses=2).to_dict())
    assert again.witnesses == texts and again.least_witnesses == 2


def test_a_checkpoint_of_another_head_is_refused(task: Task) -> None:
    plain = proof_of(task, entries=OTHER_ENTRIES)
    other = Checkpoint(origin=ORIGIN, size=plain.head.size, root=bytes(32))
    for note in (
        other.signed_by(KEYS["analyzer"]),
        replace(other, root=plain.head.root).signed_by(SigningKey.generate()),
    ):
        with pytest.raises(ProofError) as refused:
            replace(plain, checkpoint=str(note)).check(task.id)
        assert refused.value.code == "checkpoint"


@pytest.mark.parametrize(
    ("witnesses", "least"),
    [((), 1), ((str(WITNESS_KEYS[0]),), 2), ((str(WITNESS_KEYS[0]),) * 2, 2), ((str(LOG),), 1)],
)
def test_a_policy_that_cannot_be_met_is_refused(witnesses: tuple[str, ...], least: int) -> None:
    with pytest.raises(ParameterError, match="witnesses must be different"):
        ClientPolicy(witnesses=witnesses, least_witnesses=least)


def test_the_vectors_are_current() -> None:
    made = run_path(str(VECTORS_FILE.with_name("make_notes.py")))
    assert made["vectors"]() == VECTORS
