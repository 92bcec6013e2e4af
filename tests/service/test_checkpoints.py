"""The log of tasks as checkpoints and tiles, cosigned by witnesses, on the way to a device."""

from __future__ import annotations

import asyncio
import base64
import importlib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_needs import missing
from service_trio import Trio

from shuffledp.service.analyzer.witnesses import Witnesses, witness_of
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.merkle import MerkleTree, extends, leaf_hash
from shuffledp.tasks.notes import COSIGNATURE, LOG_SIGNATURE, Checkpoint, VerifierKey
from shuffledp.tasks.signing import SigningKey

NAME, URL = "witness.example", "https://witness.example"
KEY = SigningKey(b"\x21" * 32)
VKEY = VerifierKey(NAME, COSIGNATURE, KEY.public)
SECONDS = 1_800_000_000


class SmallWitness(httpx2.AsyncBaseTransport):
    """A witness as c2sp.org/tlog-witness describes it: it cosigns what continues its last head."""

    def __init__(self, log: VerifierKey | None = None, key: SigningKey = KEY) -> None:
        self.log, self.key, self.last = log, key, Checkpoint(origin="x", size=0, root=bytes(32))
        self.asked = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        head, _, note = (await request.aread()).decode().partition("\n\n")
        old, *path = head.split("\n")
        given, size = Checkpoint.parse(note), int(old.removeprefix("old "))
        if self.log is not None and not given.holds(self.log):
            return httpx2.Response(403)
        if size != self.last.size:
            return httpx2.Response(409, text=f"{self.last.size}\n")
        hashes = [base64.b64decode(one) for one in path]
        if size and not extends(size, self.last.root, given.size, given.root, hashes):
            return httpx2.Response(422)
        self.last = given
        return httpx2.Response(200, text=str(given.cosignature(NAME, self.key, SECONDS)))


def head(entries: list[bytes]) -> tuple[Checkpoint, MerkleTree]:
    tree = MerkleTree(entries)
    note = Checkpoint(origin="log.example", size=len(tree), root=tree.root(len(tree)))
    return note.signed_by(KEY), tree


def test_a_witness_follows_the_log_and_refuses_a_fork() -> None:
    server = SmallWitness(VerifierKey("log.example", LOG_SIGNATURE, KEY.public))
    asking = Witnesses((f"{VKEY} {URL}",), server)
    entries = [bytes([number]) for number in range(9)]
    for size in (1, 4, 9):
        note, tree = head(entries[:size])
        (line,) = asyncio.run(asking.cosign(note, tree))
        assert note.with_signatures([line]).holds(VKEY)
    restarted = Witnesses((f"{VKEY} {URL}",), server)  # does not know what the witness has seen
    assert asyncio.run(restarted.cosign(*head([*entries, b"next"])))
    fork = head([b"other", *entries, b"more"])
    assert asyncio.run(restarted.cosign(*fork)) == []


def test_an_answer_with_another_key_is_left_out() -> None:
    server = SmallWitness(key=SigningKey(b"\x22" * 32))
    asking = Witnesses((f"{VKEY} {URL}",), server)
    assert asyncio.run(asking.cosign(*head([b"one"]))) == []


@pytest.mark.parametrize("text", ["", URL, f"{VKEY}", f"{VKEY} ftp://x", f"no+key+ {URL}"])
def test_a_malformed_witness_is_refused(text: str) -> None:
    with pytest.raises(ProofError):
        witness_of(text)


def test_devices_get_cosignatures_with_the_proof(tmp_path: Path) -> None:
    """The analyzer asks its witness, the shuffler adds its own cosignature, a device counts."""
    server = SmallWitness()

    async def walk() -> tuple[TaskProof, str, bytes, bytes]:
        trio = Trio(tmp_path)
        async with trio.running():
            trio.analyzer.log._witnesses = Witnesses((f"{VKEY} {URL}",), server)
            task = trio.task()
            await trio.register(task)
            proof = (await trio.to_shuffler.get(f"/tasks/{task.id.hex()}/proof")).text
            note = await trio.to_analyzer.get("/log/checkpoint")
            assert note.headers["content-type"].startswith("text/plain; charset=utf-8")
            tile = await trio.to_analyzer.get("/log/tile/0/000.p/1")
            entries = await trio.to_analyzer.get("/log/tile/entries/000.p/1")
            assert (await trio.to_analyzer.get("/log/tile/0/000.p/2")).status_code == 404
            return TaskProof.from_json(proof), note.text, tile.content, entries.content

    proof, text, tile, entries = asyncio.run(walk())
    proof.check(proof.task_id)
    note = Checkpoint.parse(text)
    assert (note.size, note.root, note.root) == (1, tile, proof.head.root)
    assert entries[:2] == (128).to_bytes(2, "big") and entries[2:34] == proof.task_id
    assert note.holds(VerifierKey(note.origin, LOG_SIGNATURE, proof.head.log_key))
    assert note.holds(VKEY) and server.asked == 1
    shuffler = proof.keys["shuffler"]
    both = (
        str(VKEY),
        str(VerifierKey(f"shuffledp/witness/{shuffler.hex()}", COSIGNATURE, shuffler)),
    )
    ClientPolicy(witnesses=both, least_witnesses=2).check_witnesses(proof)
    stranger = VerifierKey("stranger.example", COSIGNATURE, SigningKey(b"\x23" * 32).public)
    with pytest.raises(ProofError, match="requires 3"):
        ClientPolicy(witnesses=(*both, str(stranger)), least_witnesses=3).check_witnesses(proof)


def test_a_witness_outside_this_code_base_watches_a_running_log(tmp_path: Path) -> None:
    """metamorphic-log (Rust) shares no code with this package. It follows what the analyzer serves:
    each checkpoint, that the second continues the first, and that a task is in it."""
    if find_spec("metamorphic_log") is None:
        missing("metamorphic-log", 'pip install "shuffledp[test]" on Linux')
    other: Any = importlib.import_module("metamorphic_log")

    async def walk() -> tuple[list[str], str, bytes]:
        notes = []
        async with Trio(tmp_path).running() as trio:
            for name in ("first", "second"):
                await trio.register(trio.task(name))
                notes.append((await trio.to_analyzer.get("/log/checkpoint")).text)
            entries = (await trio.to_analyzer.get("/log/tile/entries/000.p/2")).content
            return notes, trio.analyzer.signing.public.hex(), entries

    (before, after), public, bundle = asyncio.run(walk())
    old, new = Checkpoint.parse(before), Checkpoint.parse(after)
    key = str(VerifierKey(new.origin, LOG_SIGNATURE, bytes.fromhex(public)))
    entries = [bundle[2:130], bundle[132:]]
    tree = MerkleTree(entries)
    head = other.checkpoint_verify(after, [key])
    assert (head.origin, head.size, bytes(head.root)) == (new.origin, 2, tree.root(2))
    other.checkpoint_verify_inclusion(after, [key], 1, leaf_hash(entries[1]), tree.inclusion(1, 2))
    path = tree.consistency(1, 2)
    other.verify_consistency(1, 2, path, old.root, new.root)

    with pytest.raises(other.VerifyError):  # a head that the log did not sign
        other.checkpoint_verify(str(replace(new, root=old.root)), [key])
    with pytest.raises(other.VerifyError):  # another log's key
        stranger = SigningKey(b"\x23" * 32).public
        other.checkpoint_verify(after, [str(VerifierKey(new.origin, LOG_SIGNATURE, stranger))])
    with pytest.raises(other.VerifyError):  # a task that was put in the place of the first one
        other.verify_consistency(1, 2, path, leaf_hash(entries[1]), new.root)
    with pytest.raises(other.VerifyError):  # a task that is not in the log
        other.checkpoint_verify_inclusion(
            after, [key], 1, leaf_hash(entries[0]), tree.inclusion(1, 2)
        )
