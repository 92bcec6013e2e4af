"""The public log of tasks, and the proof that a task is in it and signed by all three roles.

A collector could give one person a separate task and fill its batch with fake clients. So devices
answer only tasks in a public log, which the analyzer keeps and the shuffler watches: anyone who
reads the log sees every task that devices can be asked to answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shuffledp.documents.json_text import read_json
from shuffledp.documents.schema import HASH_TEXT, Listing, OneOf, Record, Text, Whole, hex_text
from shuffledp.errors import ParameterError
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.merkle import extends, includes
from shuffledp.tasks.notes import LOG_SIGNATURE, MOST_NOTE_BYTES, Checkpoint, VerifierKey
from shuffledp.tasks.signing import (
    ANALYZER,
    COLLECTOR,
    SHUFFLER,
    SIGNERS,
    SigningKey,
    head_text,
    signed,
    task_text,
)

PROOF_FORMAT = "shuffledp task proof 1"
MOST_PROOF_BYTES = 48 << 10
MOST_LOG_SIZE = (1 << 53) - 1
LONGEST_PATH = 64
SIGNATURE_TEXT = hex_text(64)
PATH = Listing(HASH_TEXT, 0, LONGEST_PATH)
HEAD = Record(
    {
        "size": Whole(0, MOST_LOG_SIZE),
        "root": HASH_TEXT,
        "analyzer_key": HASH_TEXT,
        "analyzer_signature": SIGNATURE_TEXT,
    }
)
TASK_PROOF = Record(
    {
        "format": OneOf((PROOF_FORMAT,)),
        "task": HASH_TEXT,
        "keys": Record(dict.fromkeys(SIGNERS, HASH_TEXT)),
        "signatures": Record(dict.fromkeys(SIGNERS, SIGNATURE_TEXT)),
        "log": Record(
            {
                "index": Whole(0, MOST_LOG_SIZE),
                "size": Whole(1, MOST_LOG_SIZE),
                "root": HASH_TEXT,
                "path": PATH,
                "analyzer_signature": SIGNATURE_TEXT,
                "shuffler_signature": SIGNATURE_TEXT,
            },
            {"checkpoint": Text(MOST_NOTE_BYTES, 1)},
        ),
    }
)


def log_entry(task_id: bytes, collector_key: bytes, signature: bytes) -> bytes:
    """An entry of the log: a task's id, and the collector's key and signature."""
    return task_id + collector_key + signature


@dataclass(frozen=True, kw_only=True)
class Head:
    """The state of the log at one moment, signed by the analyzer."""

    size: int
    root: bytes
    log_key: bytes
    """The analyzer's key, which identifies the log."""
    signature: bytes

    @classmethod
    def sign(cls, key: SigningKey, size: int, root: bytes) -> Head:
        """The head of the log of this key."""
        signature = key.sign(head_text(ANALYZER, key.public, size, root))
        return cls(size=size, root=root, log_key=key.public, signature=signature)

    def check(self) -> None:
        """Raises `ProofError` unless the analyzer has signed this head."""
        text = head_text(ANALYZER, self.log_key, self.size, self.root)
        if not signed(self.log_key, self.signature, text):
            raise ProofError("head", f"The head of the log of tasks is not signed; {_REPORT}")

    def check_extends(self, size: int, root: bytes, path: tuple[bytes, ...]) -> None:
        """Raises `ProofError` unless this log extends an earlier one."""
        if not extends(size, root, self.size, self.root, path):
            raise ProofError(
                "log-forked",
                "The analyzer's log of tasks does not continue the one seen before, so people "
                "could be shown different tasks; tell both operators.",
            )

    def to_dict(self) -> dict[str, Any]:
        """The head as a JSON object."""
        return {
            "size": self.size,
            "root": self.root.hex(),
            "analyzer_key": self.log_key.hex(),
            "analyzer_signature": self.signature.hex(),
        }

    @classmethod
    def from_dict(cls, data: object) -> Head:
        """The head in a response of the analyzer."""
        checked = _checked(HEAD, data, "head")
        return cls(
            size=checked["size"],
            root=bytes.fromhex(checked["root"]),
            log_key=bytes.fromhex(checked["analyzer_key"]),
            signature=bytes.fromhex(checked["analyzer_signature"]),
        )


_REPORT = "do not answer this task, and tell the collector."


@dataclass(frozen=True, kw_only=True)
class TaskProof:
    """Who signed a task, and where it is in the log."""

    task_id: bytes
    keys: Mapping[str, bytes]
    """The public signing key of each role."""
    signatures: Mapping[str, bytes]
    """Each role's signature over the task."""
    index: int
    path: tuple[bytes, ...]
    head: Head
    witness: bytes
    """The shuffler's signature over the head."""
    checkpoint: str = ""
    """The head as a signed note, with the cosignatures of witnesses; empty if there is none."""

    def check(self, task_id: bytes) -> None:
        """Raises `ProofError` unless the three roles have signed this task and it is in the log
        whose head the analyzer has signed and the shuffler has witnessed.

        Ensures: if you trust `keys`, the task is in the one log of the analyzer's key.
        """
        if self.task_id != task_id or self.head.log_key != self.keys[ANALYZER]:
            raise ProofError("task", f"The proof belongs to another task or log; {_REPORT}")
        for role in SIGNERS:
            if not signed(self.keys[role], self.signatures[role], task_text(role, task_id)):
                raise ProofError("signature", f"The {role} has not signed this task; {_REPORT}")
        self.head.check()
        text = head_text(SHUFFLER, self.head.log_key, self.head.size, self.head.root)
        if not signed(self.keys[SHUFFLER], self.witness, text):
            raise ProofError(
                "witness", f"The shuffler has not witnessed the log of this task; {_REPORT}"
            )
        self._check_checkpoint()
        entry = log_entry(task_id, self.keys[COLLECTOR], self.signatures[COLLECTOR])
        if not includes(entry, self.index, self.head.size, self.path, self.head.root):
            raise ProofError(
                "unlogged", f"The public log of tasks does not contain this task; {_REPORT}"
            )

    def _check_checkpoint(self) -> None:
        """Raises `ProofError` if the checkpoint is not the head, or not signed by the log."""
        if self.checkpoint:
            note = Checkpoint.parse(self.checkpoint)
            log = VerifierKey(note.origin, LOG_SIGNATURE, self.head.log_key)
            same = (note.size, note.root) == (self.head.size, self.head.root)
            if not (same and note.holds(log)):
                raise ProofError(
                    "checkpoint", f"The checkpoint is not the head of the log of tasks; {_REPORT}"
                )

    def check_witnesses(self, witnesses: Sequence[VerifierKey], least: int) -> None:
        """Raises `ProofError` unless at least `least` of these witnesses have cosigned the log.

        Requires: `check` has passed.
        """
        if least and not self.checkpoint:
            raise ProofError(
                "witnesses", f"No witness has cosigned the log, but this device requires {least}."
            )
        if least:
            Checkpoint.parse(self.checkpoint).check_witnesses(witnesses, least)

    def to_dict(self) -> dict[str, Any]:
        """The proof as a JSON object."""
        noted = {"checkpoint": self.checkpoint} if self.checkpoint else {}
        return {
            "format": PROOF_FORMAT,
            "task": self.task_id.hex(),
            "keys": {role: self.keys[role].hex() for role in SIGNERS},
            "signatures": {role: self.signatures[role].hex() for role in SIGNERS},
            "log": {
                "index": self.index,
                "size": self.head.size,
                "root": self.head.root.hex(),
                "path": [one.hex() for one in self.path],
                "analyzer_signature": self.head.signature.hex(),
                "shuffler_signature": self.witness.hex(),
                **noted,
            },
        }

    def to_json(self) -> str:
        """The proof's text."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> TaskProof:
        """The proof in a text; only its form is checked."""
        try:
            data = read_json(text, "The proof", MOST_PROOF_BYTES)
        except ParameterError as error:
            raise ProofError("form", str(error)) from None
        checked = _checked(TASK_PROOF, data, "proof")
        log = checked["log"]
        keys = {role: bytes.fromhex(checked["keys"][role]) for role in SIGNERS}
        return cls(
            task_id=bytes.fromhex(checked["task"]),
            keys=keys,
            signatures={role: bytes.fromhex(checked["signatures"][role]) for role in SIGNERS},
            index=log["index"],
            path=read_path(log["path"]),
            head=Head(
                size=log["size"],
                root=bytes.fromhex(log["root"]),
                log_key=keys[ANALYZER],
                signature=bytes.fromhex(log["analyzer_signature"]),
            ),
            witness=bytes.fromhex(log["shuffler_signature"]),
            checkpoint=log.get("checkpoint", ""),
        )


def read_path(data: object) -> tuple[bytes, ...]:
    """The hashes of a path in JSON."""
    return tuple(bytes.fromhex(one) for one in _checked(PATH, data, "path"))


def _checked(schema: Record | Listing, data: Any, name: str) -> Any:
    try:
        schema.check(data, name)
    except ParameterError as error:
        raise ProofError("form", str(error)) from None
    return data
