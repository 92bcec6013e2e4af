"""The keys under which the shuffler stores reports: one per batch, destroyed after its delivery.

A database keeps copies of what was deleted: in its log, in free pages, in backups. So every report
is stored encrypted (AES-GCM) under the key of the batch that it will be in, and the keys are files
of their own, outside the database and its backups. When a batch was delivered, its key is
overwritten and removed: every copy of its reports is then unreadable, wherever it is.

Which keys were destroyed is recorded, so that a store restored from a backup can tell reports that
were delivered since from reports whose key was lost.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from filelock import BaseFileLock

from shuffledp.documents.files import private, sync
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.store.private import erase, lock_file, private_folder

KEY_BYTES = 32
NONCE_BYTES = 12
LOCK_SECONDS = 10.0
"""How long to wait for a predecessor that is still ending."""
DELIVERED = "delivered"


class BatchKey:
    """The secret of one batch, and what is derived from it."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._cipher = AESGCM(self._derived(b"reports"))

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, b"shuffledp/v1 batch " + purpose, "sha256")

    @property
    def batch_id(self) -> bytes:
        """The batch's id: the same whenever the batch is closed again, after a restore for example,
        so that the analyzer takes it once."""
        return self._derived(b"id")[:16]

    @property
    def order_secret(self) -> bytes:
        """The secret of a uniform order."""
        return self._derived(b"order")

    def encrypt(self, messages: bytes, place: int) -> bytes:
        """Messages as they are stored; `place` is the number under which they are."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, messages, place.to_bytes(8, "big"))

    def decrypt(self, stored: bytes, place: int) -> bytes:
        """The messages that were stored under this number."""
        nonce, body = stored[:NONCE_BYTES], stored[NONCE_BYTES:]
        return self._cipher.decrypt(nonce, body, place.to_bytes(8, "big"))

    def decrypt_page(self, stored: bytes, places: range) -> bytes:
        """The messages of reports that follow each other and have one size."""
        size = len(stored) // len(places)
        return b"".join(
            self.decrypt(stored[at * size : (at + 1) * size], place)
            for at, place in enumerate(places)
        )


class ReportKeys:
    """A folder of batch keys, by task and number of the batch, used by one program at a time."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[tuple[bytes, int], BatchKey] = {}
        self._ended: dict[tuple[bytes, int], str] = {}
        self._lock: BaseFileLock | None = None

    def open(self, seconds: float = LOCK_SECONDS) -> None:
        """Locks the folder, reads which keys were destroyed, and finishes what a crash left."""
        private_folder(self.path)
        self._lock = lock_file(self.path / "lock", seconds)
        if self._lock is None:
            raise ConfigError(
                f"Another program uses the report keys in {self.path}; stop the other shuffler, or "
                "give every shuffler a folder of its own."
            )
        for line in self._list.read_text().splitlines() if self._list.exists() else ():
            task, number, reason = line.split(" ", 2)
            self._ended[bytes.fromhex(task), int(number)] = reason
        for left in self.path.glob("*.part"):
            erase(left)
        for name in self._ended:
            erase(self._file(*name))

    def close(self) -> None:
        """Gives the folder free."""
        self._known.clear()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def _list(self) -> Path:
        return self.path / "destroyed"

    def _file(self, task: bytes, number: int) -> Path:
        return self.path / f"{task.hex()}-{number}.key"

    def key(self, task: bytes, number: int) -> BatchKey:
        """The key of a task's batch, which is made, durably, if there is none yet."""
        name = task, number
        if name not in self._known:
            if name in self._ended:
                raise StorageUnavailable("The key of this batch was destroyed; restart the server.")
            file = self._file(task, number)
            try:
                secret = file.read_bytes() if file.exists() else self._make(file)
            except OSError:
                raise StorageUnavailable(
                    "The folder of report keys cannot be written; make room on its disk."
                ) from None
            self._known[name] = BatchKey(secret)
        return self._known[name]

    @staticmethod
    def _make(file: Path) -> bytes:
        secret = os.urandom(KEY_BYTES)
        part = file.with_suffix(".part")
        with open(part, "wb", opener=private) as out:
            out.write(secret)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
        sync(file.parent)
        return secret

    def ended(self, task: bytes, number: int) -> str:
        """Why the key of a batch was destroyed: `delivered`, or the reason that an operator gave;
        empty if it was not."""
        return self._ended.get((task, number), "")

    def missing(self, task: bytes, numbers: Iterable[int]) -> list[int]:
        """Those of a task's batches whose key is neither there nor destroyed on purpose."""
        return [
            number
            for number in numbers
            if (task, number) not in self._ended and not self._file(task, number).exists()
        ]

    def destroy(self, task: bytes, number: int, reason: str = DELIVERED) -> None:
        """Destroys the key of a batch for good, and records why."""
        if (task, number) not in self._ended:
            with open(self._list, "ab", buffering=0, opener=private) as out:
                out.write(f"{task.hex()} {number} {reason}\n".encode())
                os.fsync(out.fileno())
            sync(self.path)
            self._ended[task, number] = reason
        self._known.pop((task, number), None)
        erase(self._file(task, number))
