"""Proofs of tasks, made and checked as docs/protocol.md §16 says, in the plainest way.

Shares no code with the package: the tree is the recursive definition of RFC 9162, 2.1.1, and
Ed25519 comes from `cryptography`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Data = dict[str, Any]
ROLES = ("collector", "shuffler", "analyzer")
HASH, SIGNATURE = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{128}")


def secret_of(name: str) -> Ed25519PrivateKey:
    """A signing key that only depends on a name; never use it for anything real."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"signer {name}".encode()).digest())


def public_of(name: str) -> bytes:
    return secret_of(name).public_key().public_bytes_raw()


def root_of(entries: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return hashlib.sha256(b"\x01" + root_of(entries[:k]) + root_of(entries[k:])).digest()


def split(size: int) -> int:
    k = 1
    while 2 * k < size:
        k *= 2
    return k


def path_of(index: int, entries: list[bytes]) -> list[bytes]:
    """RFC 9162, 2.1.3.1."""
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if index < k:
        return [*path_of(index, entries[:k]), root_of(entries[k:])]
    return [*path_of(index - k, entries[k:]), root_of(entries[:k])]


def root_by(entry: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """The root that a path leads to; None if it is too long or too short."""
    if size == 1:
        return None if path else hashlib.sha256(b"\x00" + entry).digest()
    if not path:
        return None
    k = split(size)
    left: bytes | None
    right: bytes | None
    if index < k:
        left, right = root_by(entry, index, k, path[:-1]), path[-1]
    else:
        left, right = path[-1], root_by(entry, index - k, size - k, path[:-1])
    if left is None or right is None:
        return None
    return hashlib.sha256(b"\x01" + left + right).digest()


def task_text(role: str, task: bytes) -> bytes:
    return b"shuffledp/v1 task " + role.encode("ascii") + b" " + task


def head_text(role: str, log: bytes, size: int, root: bytes) -> bytes:
    return (
        b"shuffledp/v1 head " + role.encode("ascii") + b" " + log + size.to_bytes(8, "big") + root
    )


def made(task: bytes, index: int, others: list[bytes], names: dict[str, str] | None = None) -> Data:
    """The honest proof of a task among other entries; `names` replaces signers."""
    who = {role: role for role in ROLES} | (names or {})
    signatures = {role: secret_of(who[role]).sign(task_text(role, task)) for role in ROLES}
    entries = list(others)
    entries.insert(index, task + public_of(who["collector"]) + signatures["collector"])
    root, size, log = root_of(entries), len(entries), public_of(who["analyzer"])
    heads = {
        role: secret_of(who[role]).sign(head_text(role, log, size, root)).hex()
        for role in ("analyzer", "shuffler")
    }
    return {
        "format": "shuffledp task proof 1",
        "task": task.hex(),
        "keys": {role: public_of(who[role]).hex() for role in ROLES},
        "signatures": {role: signatures[role].hex() for role in ROLES},
        "log": {
            "index": index,
            "size": size,
            "root": root.hex(),
            "path": [one.hex() for one in path_of(index, entries)],
            "analyzer_signature": heads["analyzer"],
            "shuffler_signature": heads["shuffler"],
        },
    }


def accepted(proof: Data, task: bytes, pinned: Data) -> bool:
    """Whether a device that pins these keys answers the task."""
    if not well_formed(proof) or proof["task"] != task.hex() or proof["keys"] != pinned:
        return False
    keys = {role: bytes.fromhex(key) for role, key in proof["keys"].items()}
    given = {role: bytes.fromhex(one) for role, one in proof["signatures"].items()}
    log = proof["log"]
    root, size = bytes.fromhex(log["root"]), log["size"]
    if not all(signed(keys[role], given[role], task_text(role, task)) for role in ROLES):
        return False
    for role in ("analyzer", "shuffler"):
        text = head_text(role, keys["analyzer"], size, root)
        if not signed(keys[role], bytes.fromhex(log[f"{role}_signature"]), text):
            return False
    entry = task + keys["collector"] + given["collector"]
    path = [bytes.fromhex(one) for one in log["path"]]
    return log["index"] < size and root_by(entry, log["index"], size, path) == root


def signed(key: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def well_formed(proof: Data) -> bool:
    """Whether a proof holds exactly what docs/schema/proof.json names."""
    fields = {"format", "task", "keys", "signatures", "log"}
    places = {"index", "size", "root", "path", "analyzer_signature", "shuffler_signature"}
    if set(proof) != fields or proof["format"] != "shuffledp task proof 1":
        return False
    log = proof["log"]
    if set(log) != places or set(proof["keys"]) != set(ROLES):
        return False
    if set(proof["signatures"]) != set(ROLES) or len(log["path"]) > 64:
        return False
    hashes = [proof["task"], *proof["keys"].values(), log["root"], *log["path"]]
    names = ("analyzer_signature", "shuffler_signature")
    signatures = [*proof["signatures"].values(), *(log[name] for name in names)]
    numbers = (log["index"], log["size"])
    return (
        all(HASH.fullmatch(one) for one in hashes)
        and all(SIGNATURE.fullmatch(one) for one in signatures)
        and all(type(one) is int and 0 <= one < 2**53 for one in numbers)
        and log["size"] >= 1
    )
