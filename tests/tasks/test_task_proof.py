"""The proof of a task: every part of it is needed, and no part can stand for another."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logged_tasks import KEYS, OTHER_ENTRIES, proof_of
from service_trio import Trio

from shuffledp.errors import ParameterError
from shuffledp.tasks.errors import ProofError, TaskError
from shuffledp.tasks.log import Head, TaskProof
from shuffledp.tasks.merkle import MerkleTree
from shuffledp.tasks.signing import SIGNERS, SigningKey, head_text, signed, task_text
from shuffledp.tasks.task import Task


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Trio(tmp_path).task()


def test_an_honest_proof_is_valid_and_survives_a_round_trip(task: Task) -> None:
    for others in ((), OTHER_ENTRIES, [bytes([number]) for number in range(100)]):
        proof = proof_of(task, entries=others)
        proof.check(task.id)
        read = TaskProof.from_json(proof.to_json())
        read.check(task.id)
        assert read.to_dict() == proof.to_dict()


def head_without_the_task(proof: TaskProof) -> TaskProof:
    """A head that both servers have signed, of a log that does not hold the task."""
    tree = MerkleTree(OTHER_ENTRIES)
    head = Head.sign(KEYS["analyzer"], len(tree), tree.root(len(tree)))
    text = head_text("shuffler", head.log_key, head.size, head.root)
    return replace(proof, head=head, witness=KEYS["shuffler"].sign(text))


CHANGES: dict[str, Callable[[TaskProof], TaskProof]] = {
    "task": lambda proof: replace(proof, task_id=bytes(32)),
    "collector": lambda proof: _signed_by(proof, "collector"),
    "shuffler": lambda proof: _signed_by(proof, "shuffler"),
    "analyzer": lambda proof: _signed_by(proof, "analyzer"),
    "head": lambda proof: replace(proof, head=replace(proof.head, root=bytes(32))),
    "size": lambda proof: replace(proof, head=replace(proof.head, size=proof.head.size + 1)),
    "log": lambda proof: replace(proof, head=replace(proof.head, log_key=bytes(32))),
    "witness": lambda proof: replace(proof, witness=proof.head.signature),
    "index": lambda proof: replace(proof, index=0),
    "path": lambda proof: replace(proof, path=proof.path[:-1]),
    "unlogged": head_without_the_task,
}
CODES = {
    "task": "task",
    "collector": "signature",
    "shuffler": "signature",
    "analyzer": "signature",
    "head": "head",
    "size": "head",
    "log": "task",
    "witness": "witness",
    "index": "unlogged",
    "path": "unlogged",
    "unlogged": "unlogged",
}


def _signed_by(proof: TaskProof, role: str) -> TaskProof:
    """The proof with another role's signature, or a stranger's, in place of this role's."""
    stranger = SigningKey.generate().sign(task_text(role, proof.task_id))
    return replace(proof, signatures={**proof.signatures, role: stranger})


@pytest.mark.parametrize("change", CHANGES)
def test_every_part_is_needed(task: Task, change: str) -> None:
    with pytest.raises(ProofError) as caught:
        CHANGES[change](proof_of(task)).check(task.id)
    assert caught.value.code == CODES[change]


def test_a_signature_stands_for_one_thing_alone() -> None:
    texts = {task_text(role, bytes(32)) for role in SIGNERS}
    texts |= {head_text(role, bytes(32), size, bytes(32)) for role in SIGNERS for size in (0, 1)}
    assert len(texts) == 9
    key = SigningKey.generate()
    signature = key.sign(task_text("shuffler", bytes(32)))
    assert [signed(key.public, signature, text) for text in texts].count(True) == 1
    assert not signed(b"short", signature, b"") and not signed(key.public, b"short", b"")


def test_odd_texts_are_no_proofs(task: Task) -> None:
    data = proof_of(task).to_dict()
    log: dict[str, Any] = data["log"]
    odd: list[object] = [
        [],
        {},
        data | {"more": 1},
        data | {"task": "x"},
        data | {"log": log | {"size": -1}},
        data | {"log": log | {"index": 1 << 60}},
        data | {"log": log | {"path": ["0" * 64] * 65}},
        data | {"keys": {}},
    ]
    for one in odd:
        with pytest.raises(ProofError) as caught:
            TaskProof.from_json(json.dumps(one))
        assert caught.value.code == "form"
    for text in ("", "{", "[" * 100, '{"a": 1e999}', " " * 20_000):
        with pytest.raises(ProofError):
            TaskProof.from_json(text)


def test_signing_keys_stay_in_their_files(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    key = SigningKey.create(file)
    assert SigningKey.load(file) == key and key.secret.hex() not in repr(key)
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(ParameterError, match="exists"):
        SigningKey.create(file)
    for text in ("", "{}", '{"format": "shuffledp signing key 1", "secret": "00"}'):
        file.write_text(text)
        with pytest.raises(TaskError, match="keys signing"):
            SigningKey.load(file)
