"""Signed and logged tasks without servers: what a device needs before it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from shuffledp.tasks.log import Head, TaskProof, log_entry
from shuffledp.tasks.merkle import MerkleTree
from shuffledp.tasks.signing import (
    ANALYZER,
    COLLECTOR,
    SHUFFLER,
    SIGNERS,
    SigningKey,
    head_text,
    task_text,
)
from shuffledp.tasks.task import Task

KEYS = {role: SigningKey(hashlib.sha256(f"test {role}".encode()).digest()) for role in SIGNERS}
"""The signing keys of everybody in the tests."""
OTHER_ENTRIES = (b"an entry", b"another entry", b"a third one")


def proof_of(
    task: Task,
    keys: dict[str, SigningKey] | None = None,
    entries: Sequence[bytes] = OTHER_ENTRIES,
) -> TaskProof:
    """The proof of a task that stands in a log behind other entries."""
    keys = keys or KEYS
    signatures = {role: key.sign(task_text(role, task.id)) for role, key in keys.items()}
    entry = log_entry(task.id, keys[COLLECTOR].public, signatures[COLLECTOR])
    tree = MerkleTree([*entries, entry])
    size = len(tree)
    head = Head.sign(keys[ANALYZER], size, tree.root(size))
    return TaskProof(
        task_id=task.id,
        keys={role: key.public for role, key in keys.items()},
        signatures=signatures,
        index=size - 1,
        path=tuple(tree.inclusion(size - 1, size)),
        head=head,
        witness=keys[SHUFFLER].sign(head_text(SHUFFLER, head.log_key, head.size, head.root)),
    )
