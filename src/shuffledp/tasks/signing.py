"""Ed25519 signatures of the three roles: over tasks, and over heads of the log of tasks.

Every signed text begins with its purpose and the signer's role, so that no signature can be used as
another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shuffledp.documents.files import check_writable, write_whole
from shuffledp.documents.json_text import read_json_file
from shuffledp.errors import ParameterError
from shuffledp.tasks.errors import TaskError

COLLECTOR, SHUFFLER, ANALYZER = SIGNERS = ("collector", "shuffler", "analyzer")
SIGNING_KEY_FORMAT = "shuffledp signing key 1"
KEY_BYTES, SIGNATURE_BYTES = 32, 64
MOST_KEY_FILE_BYTES = 4096


def task_text(role: str, task_id: bytes) -> bytes:
    """What a role signs to accept a task."""
    return f"shuffledp/v1 task {role} ".encode() + task_id


def head_text(role: str, log_key: bytes, size: int, root: bytes) -> bytes:
    """What the analyzer, which keeps the log of this key, and the shuffler, which watches it, sign
    for its head."""
    return f"shuffledp/v1 head {role} ".encode() + log_key + size.to_bytes(8, "big") + root


def signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether this is the key's signature of the text."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


class TaskSignature(NamedTuple):
    """The collector's signature of a task, and its public key."""

    key: bytes
    signature: bytes

    def holds(self, task_id: bytes) -> bool:
        """Whether the collector of this key has signed this task."""
        return signed(self.key, self.signature, task_text(COLLECTOR, task_id))


@dataclass(frozen=True)
class SigningKey:
    """The key with which a role signs. Secret: it prints only its public half."""

    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.public.hex()})"

    @property
    def public(self) -> bytes:
        """The public half, which devices pin."""
        return self._key().public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """The signature over a text; the same one every time."""
        return self._key().sign(text)

    def sign_task(self, task_id: bytes) -> TaskSignature:
        """The signature of a collector who asks this task."""
        return TaskSignature(self.public, self.sign(task_text(COLLECTOR, task_id)))

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def create(cls, path: str | Path) -> SigningKey:
        """A fresh key, in a new file that only its owner can read; refuses an existing file."""
        if Path(path).exists():
            raise ParameterError(
                f"{path} exists and is not overwritten, because a lost signing key cannot be "
                "replaced; choose another name."
            )
        check_writable(path)
        key = cls.generate()
        data = {"format": SIGNING_KEY_FORMAT, "secret": key.secret.hex()}
        write_whole(path, json.dumps(data), durable=True, secret=True)
        return key

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """The key in a file."""
        try:
            data = read_json_file(Path(path), MOST_KEY_FILE_BYTES)
            secret = bytes.fromhex(data["secret"])
            if data["format"] != SIGNING_KEY_FORMAT or len(secret) != KEY_BYTES:
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            raise TaskError(
                f"The signing key {path} cannot be read; restore the file, or create a key with "
                f"`shuffledp keys signing {path}`."
            ) from None
        return cls(secret)
