"""The analyzer's keys: public halves that tasks carry, private ones in a folder."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from shuffledp.documents.files import overwrite, sync, write_whole
from shuffledp.documents.json_text import read_json_file
from shuffledp.documents.schema import HASH_TEXT, Record, Whole
from shuffledp.errors import ParameterError
from shuffledp.tasks.errors import TaskError

KEY_FORMAT = "shuffledp analyzer key 2"
NOISE_SECRET_BYTES = 32
MOST_KEY_BYTES = 4096
KEY_STATES = ("active", "retired")
PUBLIC_KEY = Record(
    {"key_id": Whole(1, (1 << 16) - 1), "epoch": Whole(1, (1 << 32) - 1), "public": HASH_TEXT}
)


@dataclass(frozen=True)
class PublicKey:
    """The public half of an analyzer's key, as it appears in a task."""

    key_id: int
    epoch: int
    raw: bytes

    def info(self, task_id: bytes) -> bytes:
        """HPKE's `info`: binds a ciphertext to its task and to this key."""
        return b"shuffledp/v1 msg" + task_id + struct.pack(">IH", self.epoch, self.key_id)

    def to_dict(self) -> dict[str, Any]:
        """The key as a JSON object."""
        return {"key_id": self.key_id, "epoch": self.epoch, "public": self.raw.hex()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PublicKey:
        """The key in a task, a key file or an analyzer's answer; raises `TaskError` if it is
        malformed."""
        try:
            given = {name: data[name] for name in PUBLIC_KEY.fields}  # a response has more fields
            PUBLIC_KEY.check(given, "key")
            return cls(given["key_id"], given["epoch"], bytes.fromhex(given["public"]))
        except (KeyError, TypeError, ParameterError):
            raise TaskError(
                "The analyzer's key is malformed; use the file that `shuffledp keys show` prints."
            ) from None


@dataclass(frozen=True, kw_only=True)
class PrivateKey:
    """A key of the analyzer. Secret: it prints only its number and state."""

    key_id: int
    epoch: int
    state: str
    """active; or retired: it still opens batches, but shufflers accept no more reports for it."""
    secret: bytes
    noise_secret: bytes
    """What the publish noise of the key's batches is derived from. Unlike `secret`, it cannot be
    computed from the public key, even by a quantum computer."""

    def __repr__(self) -> str:
        return f"PrivateKey({self.key_id}, {self.state})"

    @property
    def public(self) -> PublicKey:
        """The public half."""
        key = X25519PrivateKey.from_private_bytes(self.secret).public_key()
        return PublicKey(self.key_id, self.epoch, key.public_bytes_raw())


class KeyFolder:
    """The analyzer's keys, one file each. Files are read at every call, so that keys may be added,
    retired or destroyed while the analyzer runs."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def all(self) -> list[PrivateKey]:
        """All keys that were not destroyed, oldest first."""
        files = self.path.glob("key-*.json") if self.path.is_dir() else ()
        return sorted((self._read(file) for file in files), key=lambda key: key.key_id)

    def find(self, key_id: int, epoch: int) -> PrivateKey | None:
        """The key of this number and epoch; None if there is none, or it was destroyed."""
        return next((k for k in self.all() if (k.key_id, k.epoch) == (key_id, epoch)), None)

    def holds(self, key: PublicKey) -> PrivateKey | None:
        """The private half of exactly this key; None if its number or its bytes are unknown
        here."""
        found = self.find(key.key_id, key.epoch)
        return found if found is not None and found.public == key else None

    def destroyed(self, key_id: int) -> bool:
        """Whether the key with this number was destroyed, as opposed to its file being lost."""
        return self._file(key_id).with_suffix(".destroyed").exists()

    def new(self) -> PrivateKey:
        """A fresh key with the next number, which is also its epoch."""
        number = 1 + max((self._number(file) for file in self.path.glob("key-*")), default=0)
        secret = X25519PrivateKey.generate().private_bytes_raw()
        key = PrivateKey(
            key_id=number,
            epoch=number,
            state="active",
            secret=secret,
            noise_secret=os.urandom(NOISE_SECRET_BYTES),
        )
        self.write(key)
        return key

    def retire(self, key_id: int) -> PrivateKey:
        """Marks a key as retired: it still opens batches, but its tasks take no new reports."""
        key = replace(self.known(key_id), state="retired")
        self.write(key)
        return key

    def destroy(self, key_id: int) -> None:
        """Erases the key: what was encrypted for it can never be opened again. It can be repeated
        after a crash.

        Ensures: its bytes are overwritten in place, and that is on disk, before the file is
        renamed; so are those that a killed `write` has left. (A copy-on-write file system or a
        backup may keep older copies.)
        """
        self.check(key_id)
        file = self._file(key_id)
        names = f"key-{key_id}.old", f"key-{key_id}.part", f".key-{key_id}.json.*"  # .part: of 0.3
        left = [copy for name in names for copy in self.path.glob(name)]
        for copy in (*left, file):
            overwrite(copy)
        for copy in left:
            copy.unlink()
        file.rename(file.with_suffix(".destroyed"))  # its number is never used again
        sync(self.path)

    def write(self, key: PrivateKey) -> None:
        """Stores a key durably, in a file that only its owner may read."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = {
            "format": KEY_FORMAT,
            "key_id": key.key_id,
            "epoch": key.epoch,
            "state": key.state,
            "secret": key.secret.hex(),
            "noise_secret": key.noise_secret.hex(),
        }
        file = self._file(key.key_id)
        old = file.with_suffix(".old")  # the secret must not survive in the old file
        if old.exists() and not old.samefile(file):  # of a write that was killed
            overwrite(old)
        old.unlink(missing_ok=True)
        if file.exists():
            os.link(file, old)
        write_whole(file, json.dumps(data), durable=True, secret=True)
        if old.exists():
            overwrite(old)
            old.unlink()

    def check(self, key_id: int) -> None:
        """Raises `TaskError` unless there is a key of this number to destroy, readable or not: its
        destruction may have been killed."""
        if not self._file(key_id).exists():
            raise self._unknown(key_id)

    def known(self, key_id: int) -> PrivateKey:
        """The key of this number; raises `TaskError` if there is none."""
        key = next((key for key in self.all() if key.key_id == key_id), None)
        if key is None:
            raise self._unknown(key_id)
        return key

    def _unknown(self, key_id: int) -> TaskError:
        return TaskError(f"There is no key {key_id} in {self.path}; see `shuffledp keys show`.")

    @staticmethod
    def _number(file: Path) -> int:
        found = re.match(r"key-(\d+)", file.name)
        return int(found.group(1)) if found else 0

    def _file(self, key_id: int) -> Path:
        return self.path / f"key-{key_id}.json"

    @staticmethod
    def _read(file: Path) -> PrivateKey:
        try:
            data = read_json_file(file, MOST_KEY_BYTES)
            noise_secret = bytes.fromhex(data["noise_secret"])
            if data["format"] != KEY_FORMAT or len(noise_secret) != NOISE_SECRET_BYTES:
                raise ValueError
            return PrivateKey(
                key_id=data["key_id"],
                epoch=data["epoch"],
                state=data["state"],
                secret=bytes.fromhex(data["secret"]),
                noise_secret=noise_secret,
            )
        except (OSError, ValueError, KeyError, TypeError):
            raise TaskError(
                f"The key file {file.name} cannot be read, or is from an earlier version; restore "
                "or remove it."
            ) from None
