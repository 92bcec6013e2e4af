"""The keys that encrypt stored reports: one per batch, destroyed after its delivery.

A database keeps copies of deleted data in its log, in free pages and in backups. So every report is
stored encrypted (AES-GCM) with the key of its batch, and the keys are kept outside the database and
its backups. After a batch is delivered, its key is destroyed, and every copy of its reports becomes
unreadable.

Which keys were destroyed is recorded, so that a store restored from a backup can tell reports that
were delivered since from reports whose key was lost.

`FolderKeys` keeps keys as files in a folder that all processes share, on one machine or on a volume
of several. It promises that a destroyed key was overwritten and that its removal is on disk; it
cannot know whether a disk or a snapshot keeps overwritten blocks. `CommandKeys` asks an operator's
program, which may keep them in a KMS; that program then determines what destroying a key means.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from filelock import BaseFileLock, Timeout

from shuffledp.documents.files import lock, private, sync, write_whole
from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.store.private import erase, private_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

KEY_BYTES, NONCE_BYTES = 32, 12
LOCK_SECONDS = 10.0
COMMAND_SECONDS, DESTROYED_CODE, MOST_ANSWER = 30.0, 3, 4096
MOST_KNOWN = 1024
"""The most keys that a process keeps in memory; older ones are read again."""
DELIVERED = "delivered"
Name = tuple[bytes, int]
"""A task's id and the number of its batch."""


class BatchKey:
    """The secret of one batch: reports are stored under it, and it is destroyed after delivery."""

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

    def parts_secret(self, folder: str) -> bytes:
        """The secret under which the ordered parts in a folder wait for their delivery. It opens no
        other folder, where the same batch may be with another top-up."""
        return self._derived(b"parts " + folder.encode())

    def encrypt(self, messages: bytes, name: bytes) -> bytes:
        """Messages as they are stored under a name."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, messages, name)

    def decrypt(self, stored: bytes, name: bytes) -> bytes:
        """The messages that were stored under this name."""
        return self._cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], name)


class KeyDestroyed(StorageUnavailable):
    """The key of this batch was destroyed: the store is older than its delivery."""

    def __init__(self) -> None:
        super().__init__("The key of this batch was destroyed; the store is older than that.")


class ReportKeys(ABC):
    """Batch keys by task and number of the batch, shared by all processes of a shuffler."""

    place: str
    """Where the keys are, for errors."""

    def __init__(self) -> None:
        self._known: dict[Name, BatchKey] = {}

    @abstractmethod
    def open(self, identity: bytes) -> None:
        """Prepares the keys of the store with this identity; refuses those of another store."""

    def key(self, task: bytes, number: int) -> BatchKey:
        """The key of a task's batch, which is made, durably, if there is none yet. Raises
        `KeyDestroyed` if there was one."""
        name = task, number
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = BatchKey(self._secret(name))
            if len(self._known) > MOST_KNOWN:
                oldest, *_ = list(self._known)
                self._known.pop(oldest, None)
        return found

    def forget(self) -> None:
        """Forgets the keys in memory, so that each is read again: another process may have
        destroyed it."""
        self._known.clear()

    def close(self) -> None:
        """Ends the use of the keys."""
        self.forget()

    def destroy(self, task: bytes, number: int, reason: str = DELIVERED) -> None:
        """Destroys the key of a batch permanently, and records why."""
        self._known.pop((task, number), None)
        self._destroy((task, number), reason)

    def known(self, task: bytes, number: int) -> BatchKey | None:
        """The key of a batch, if this process has asked for it before."""
        return self._known.get((task, number))

    @abstractmethod
    def _secret(self, name: Name) -> bytes:
        """The secret of a batch: the first one that any process has made."""

    @abstractmethod
    def _destroy(self, name: Name, reason: str) -> None:
        """Destroys a secret, durably, and records why; does nothing if that was done."""

    @abstractmethod
    def ended(self, task: bytes, number: int) -> str:
        """Why the key of a batch was destroyed: `delivered`, or the reason that an operator gave;
        empty if it was not."""

    @abstractmethod
    def missing(self, task: bytes, numbers: Iterable[int]) -> list[int]:
        """The batches of a task whose key is missing but was not destroyed deliberately."""


class FolderKeys(ReportKeys):
    """A folder of key files."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path, self.place = Path(path), str(path)
        self._running = -1
        self._ended: dict[Name, str] = {}
        self._read_bytes = 0
        self._reading = threading.Lock()

    def open(self, identity: bytes) -> None:
        self._join(exclusive=False)
        try:
            with self._locked():
                owner = self.path / "store"
                if not owner.exists():
                    self._create(owner, identity)
                if owner.read_bytes() != identity:
                    raise ConfigError(
                        f"The report keys in {self.path} belong to another store; use a separate "
                        "folder for every shuffler, or bring back the store that they belong to."
                    )
                self._read_ended()
                for left in self.path.glob(".*.new*"):  # of `_create`, in a killed process
                    if left.stat().st_nlink == 1:
                        erase(left)
                    else:  # another name of a key that is in use
                        left.unlink()
                for name in self._ended:
                    erase(self._file(name))
        except ShuffleDPError:
            self.close()
            raise
        except OSError as error:
            raise ConfigError(
                f"The folder of report keys {self.path} cannot be used ({error.strerror}); give "
                "the server's user the right to write there."
            ) from None

    def open_alone(self) -> None:
        """Prepares the folder for a program that must be the only one to use it."""
        self._join(exclusive=True)

    def _join(self, *, exclusive: bool) -> None:
        private_folder(self.path)
        self._running = os.open(self.path / "running", os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is None:  # Windows has one process only
            return
        try:
            fcntl.flock(
                self._running, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
            )
        except BlockingIOError:
            self.close()
            raise ConfigError(
                f"Another program uses the report keys in {self.path}; stop the shuffler first."
            ) from None

    def close(self) -> None:
        self.forget()
        if self._running >= 0:
            os.close(self._running)
            self._running = -1

    def _locked(self) -> BaseFileLock:
        return lock(self.path / "lock", LOCK_SECONDS, secret=True)

    @property
    def _list(self) -> Path:
        return self.path / "destroyed"

    def _file(self, name: Name) -> Path:
        return self.path / f"{name[0].hex()}-{name[1]}.key"

    def _read_ended(self) -> None:
        """Reads which keys any process has destroyed since the last call, and forgets them."""
        with self._reading:
            if not self._list.exists() or self._list.stat().st_size == self._read_bytes:
                return
            with open(self._list, "rb") as file:
                file.seek(self._read_bytes)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.decode().splitlines():
                task, number, reason = line.split(" ", 2)
                name = bytes.fromhex(task), int(number)
                self._ended[name] = reason
                self._known.pop(name, None)
            self._read_bytes += len(whole)

    def known(self, task: bytes, number: int) -> BatchKey | None:
        self._read_ended()
        return super().known(task, number)

    def key(self, task: bytes, number: int) -> BatchKey:
        self._read_ended()
        return super().key(task, number)

    def _secret(self, name: Name) -> bytes:
        file = self._file(name)
        try:
            with self._locked():
                self._read_ended()
                if name in self._ended:
                    raise KeyDestroyed
                if not file.exists():
                    self._create(file, os.urandom(KEY_BYTES))
                return file.read_bytes()
        except (OSError, ParameterError, Timeout):
            raise StorageUnavailable(
                "The folder of report keys cannot be written; free space on its disk."
            ) from None

    def _create(self, file: Path, data: bytes) -> None:
        """Makes a new file, complete and durable; fails if there is one, which another machine may
        have made although this one does not see it yet."""
        part = file.with_name(f".{file.name}.{os.urandom(8).hex()}.new")
        write_whole(part, data, durable=True, secret=True)
        try:
            os.link(part, file)
        finally:
            part.unlink()
        sync(self.path)

    def _destroy(self, name: Name, reason: str) -> None:
        with self._locked():
            self._read_ended()
            if name not in self._ended:
                self._record(f"{name[0].hex()} {name[1]} {reason}\n".encode())
                self._read_ended()
            erase(self._file(name))

    def _record(self, line: bytes) -> None:
        """Durably adds a line to the list of destroyed keys; adds nothing if the disk is full."""
        with open(self._list, "a+b", buffering=0, opener=private) as out:
            begin = out.seek(min(out.seek(0, os.SEEK_END), self._read_bytes))
            begin += out.read().rfind(b"\n") + 1  # others' lines stay, read or not
            out.truncate(begin)  # a process that was killed may have left the beginning of a line
            try:
                if out.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(out.fileno())
            except OSError:
                out.truncate(begin)
                raise StorageUnavailable(
                    "The folder of report keys cannot be written; free space on its disk."
                ) from None
        sync(self.path)

    def ended(self, task: bytes, number: int) -> str:
        self._read_ended()
        return self._ended.get((task, number), "")

    def missing(self, task: bytes, numbers: Iterable[int]) -> list[int]:
        self._read_ended()
        return [
            number
            for number in numbers
            if (task, number) not in self._ended and not self._file((task, number)).exists()
        ]


class CommandKeys(ReportKeys):
    """Keys that an operator's program keeps, for processes on several machines.

    The program is called as `program key TASK NUMBER`, which prints the key of a batch as 64
    hexadecimal digits: for every caller the same, made by the first; as `program destroy TASK
    NUMBER REASON`; as `program ended TASK NUMBER`, which prints the reason or nothing; and as
    `program exists TASK NUMBER`, which prints yes or no. `key` of a destroyed one ends with exit
    code 3.
    """

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program, self.place = program, "the keys_command"

    def open(self, identity: bytes) -> None:
        self._identity = identity.hex()
        self._run("ended", bytes(32), 0)

    def _run(self, what: str, task: bytes, number: int, *more: str) -> str:
        words = [self._program, what, task.hex(), str(number), *more]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
                env=os.environ | {"SHUFFLEDP_STORE": self._identity},
            )
        except (OSError, subprocess.TimeoutExpired):
            raise StorageUnavailable("The program that keeps batch keys does not answer.") from None
        if what == "key" and done.returncode == DESTROYED_CODE:
            raise KeyDestroyed
        if done.returncode != 0 or len(done.stdout) > MOST_ANSWER:
            raise StorageUnavailable("The program that keeps batch keys failed; see its own log.")
        return done.stdout.strip()

    def _secret(self, name: Name) -> bytes:
        said = self._run("key", *name)
        if not re.fullmatch(f"[0-9a-f]{{{2 * KEY_BYTES}}}", said):
            raise StorageUnavailable("The program that keeps batch keys printed no key.")
        return bytes.fromhex(said)

    def _destroy(self, name: Name, reason: str) -> None:
        self._run("destroy", *name, reason)

    def ended(self, task: bytes, number: int) -> str:
        return self._run("ended", task, number)

    def missing(self, task: bytes, numbers: Iterable[int]) -> list[int]:
        return [
            number
            for number in numbers
            if self._run("exists", task, number) != "yes" and not self.ended(task, number)
        ]


def open_keys(folder: str, program: str) -> ReportKeys:
    """The keys in a folder, or those that a program keeps if one is named."""
    return CommandKeys(program) if program else FolderKeys(folder)
