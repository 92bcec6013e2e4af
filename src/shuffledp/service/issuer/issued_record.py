"""How many tokens were signed with each of the issuer's keys, recorded outside the store.

The store knows who has a token for a task. A store restored from an older copy has forgotten some
of these people and would give them a second token. So the number of tokens is also recorded in the
folder of the issuer's keys, which is not part of the store or its copies: a store that counts fewer
tokens than this record is older than a response that was sent. The number is the length of a file.
The file system changes it in one step, so it is never half written, even if the process is killed.
Files are named by keys, not by tasks: a key belongs to one task, and if the store has forgotten
that, the record still knows that the key was used.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

from filelock import BaseFileLock

from shuffledp.documents.files import private, sync
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.store.private import lock_file, private_folder

LOCK_SECONDS = 10.0
"""How long to wait for a predecessor that is still ending."""


class IssuedRecord:
    """A folder of numbers by the ids of keys, used by one program at a time; none ever decreases,
    and none is ever removed."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[bytes, int] = {}
        self._raising = Lock()
        self._lock: BaseFileLock | None = None

    def open(self, seconds: float = LOCK_SECONDS) -> None:
        """Locks the folder and creates it if necessary."""
        try:
            private_folder(self.path.parent)
            private_folder(self.path)
            self._lock = lock_file(self.path / "lock", seconds)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.path} cannot be used ({error.strerror}); the issuer must be "
                "able to write to the folder of its keys."
            ) from None
        if self._lock is None:
            raise ConfigError(
                f"Another program uses the record of issued tokens in {self.path}; stop the other "
                "issuer, or use a separate folder of keys for every issuer."
            )

    def close(self) -> None:
        """Releases the folder; nothing more is written to it."""
        with self._raising:
            self._known.clear()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _file(self, key_id: bytes) -> Path:
        return self.path / key_id.hex()

    def count(self, key_id: bytes) -> int | None:
        """How many tokens were signed with a key, at least; None if its record is missing."""
        if key_id not in self._known:
            try:
                self._known[key_id] = self._file(key_id).stat().st_size
            except FileNotFoundError:
                return None
            except OSError:
                raise _unavailable() from None
        return self._known[key_id]

    def begin(self, key_id: bytes) -> None:
        """Makes the record of a key, durably, unless there is one."""
        try:
            with open(self._file(key_id), "ab", opener=private) as file:
                os.fsync(file.fileno())
            sync(self.path)
        except OSError:
            raise _unavailable() from None

    def raise_to(self, key_id: bytes, tokens: int) -> None:
        """Records durably how many tokens were signed with a key, unless it is known.

        A record that has disappeared is not recreated: it would count fewer tokens than the lost
        one. A call whose request was cancelled may still run in its thread when the next one
        begins, or after the folder was released: it never lowers the record.
        """
        with self._raising:
            known = self.count(key_id)
            if known is not None and tokens <= known:
                return
            if self._lock is None:
                raise _unavailable()
            try:
                with open(self._file(key_id), "r+b", buffering=0) as file:
                    file.truncate(tokens)
                    os.fsync(file.fileno())
            except OSError:
                raise _unavailable() from None
            self._known[key_id] = tokens


def _unavailable() -> StorageUnavailable:
    return StorageUnavailable(
        "The record of issued tokens in the folder of keys cannot be read or written; free space "
        "on its disk, or bring it back."
    )
