"""Backups of an SQLite store: taken while its service runs, restored while it does not."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import apsw

from shuffledp.documents.files import sync
from shuffledp.errors import ParameterError
from shuffledp.service.store.private import PRIVATE_FILE
from shuffledp.service.store.sqlite import BUSY_MILLISECONDS, lock_store, reason


def sqlite_path(store: str) -> Path:
    """The file of `sqlite:path`; says what to use for PostgreSQL instead."""
    if store.startswith(("postgresql://", "postgres://")):
        raise ParameterError(
            "A PostgreSQL store is backed up with its own tools; use pg_dump and pg_restore."
        )
    if not store.startswith("sqlite:"):
        raise ParameterError("A store is sqlite:<path> or postgresql://<user>@<host>/<database>.")
    return Path(store.removeprefix("sqlite:"))


def back_up(store: str, output: str | Path) -> int:
    """Durably copies a snapshot of a store into a new file; returns its size in bytes. The service
    keeps running, and the copy is consistent however much it writes."""
    source, target = sqlite_path(store), Path(output)
    if not source.exists():
        raise ParameterError(f"There is no store {source}; check the path.")
    if target.exists():
        raise ParameterError(f"{target} exists; choose another name.")
    part = _part(target)
    try:
        _copy(source, part)
        os.link(part, target)
        sync(target.parent)
    except FileExistsError:
        raise ParameterError(f"{target} exists; choose another name.") from None
    except (apsw.Error, OSError) as error:
        raise ParameterError(
            f"The backup could not be made ({reason(error)}) and was removed: check that "
            "the store is an SQLite database and that the disk of the backup has free space."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def restore(backup: str | Path, store: str) -> None:
    """Replaces a store with a backup in one step; refuses while a service uses the store, and a
    backup of another role's store."""
    target, source = sqlite_path(store), Path(backup)
    if not source.exists():
        raise ParameterError(f"There is no backup {source}; check the path.")
    lock = lock_store(str(target), 0)
    part = _part(target)
    try:
        _check_role(_copy(source, part), target)
        for suffix in ("-wal", "-shm"):  # the log of what is replaced must not be read into it
            Path(f"{target}{suffix}").unlink(missing_ok=True)
        os.replace(part, target)
        sync(target.parent)
    except (apsw.Error, OSError) as error:
        raise ParameterError(
            f"The backup could not be restored ({reason(error)}); check that it is an SQLite "
            "database and that the disk has free space."
        ) from None
    finally:
        part.unlink(missing_ok=True)
        lock.release()


def _part(target: Path) -> Path:
    """A fresh file, in the folder where the copy will be, that only its owner may read."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ParameterError(
            f"{target} cannot be written ({error.strerror}); choose a folder you may write to."
        ) from None
    os.close(handle)
    return Path(name)


def _copy(source: Path, target: Path) -> str:
    """Copies a store in one step, as a consistent snapshot, and checks it; returns its role."""
    given = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    made = apsw.Connection(str(target))
    try:
        given.set_busy_timeout(BUSY_MILLISECONDS)
        with made.backup("main", given, "main") as copying:
            copying.step(-1)
        found = next(iter(made.execute("PRAGMA quick_check")))[0]
        made.execute("PRAGMA journal_mode=DELETE")
        if found != "ok":
            raise OSError("the copy is damaged")
        role = _role(made)
        if not role:
            raise ParameterError(
                f"{source} is not the store of a shuffledp server, and nothing was copied; check "
                "the path."
            )
    finally:
        made.close()
        given.close()
    target.chmod(PRIVATE_FILE)
    sync(target)
    return role


def _role(database: apsw.Connection) -> str:
    """The role whose store this is; empty if it is something else."""
    try:
        return str(next(iter(database.execute("SELECT role FROM schema_version")))[0])
    except (apsw.SQLError, StopIteration):  # also for an empty file, which is a database
        return ""


def _check_role(role: str, target: Path) -> None:
    """Refuses to replace the store of another role."""
    try:
        database = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            theirs = _role(database)
        finally:
            database.close()
    except apsw.Error:  # there is no store yet, or it is damaged
        return
    if theirs not in ("", role):
        raise ParameterError(
            f"This is a backup of the {role}'s store, and {target} is the {theirs}'s; nothing was "
            "replaced: name the right backup."
        )
