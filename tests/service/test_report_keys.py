"""Batch keys: one for all processes, durable, and destroyed for good."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.shuffler import report_keys
from shuffledp.service.shuffler.report_keys import (
    CommandKeys,
    FolderKeys,
    KeyDestroyed,
    ReportKeys,
)

TASK, STORE = b"t" * 32, b"s" * 16
PROGRAM = """#!{python}
import fcntl, os, pathlib, sys
what, task, number, *reason = sys.argv[1:]
folder = pathlib.Path({folder!r})
with open(folder / "lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    key, gone = folder / f"{{task}}-{{number}}", folder / f"{{task}}-{{number}}.gone"
    if what == "key":
        if gone.exists():
            sys.exit(3)
        if not key.exists():
            key.write_text(os.urandom(32).hex())
        print(key.read_text())
    elif what == "destroy":
        gone.write_text(reason[0])
        key.unlink(missing_ok=True)
    elif what == "ended":
        print(gone.read_text() if gone.exists() else "")
    else:
        print("yes" if key.exists() else "no")
"""


@pytest.fixture(params=["folder", "program"])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ReportKeys, ReportKeys]:
    """The same keys, as two processes see them."""
    found: tuple[ReportKeys, ReportKeys]
    if request.param == "folder":
        found = FolderKeys(tmp_path / "keys"), FolderKeys(tmp_path / "keys")
    else:
        program = tmp_path / "program"
        program.write_text(PROGRAM.format(python=sys.executable, folder=str(tmp_path)))
        program.chmod(0o700)
        found = CommandKeys(str(program)), CommandKeys(str(program))
    for one in found:
        one.open(STORE)
    return found


def test_all_processes_have_the_same_keys(two: tuple[ReportKeys, ReportKeys]) -> None:
    first, second = two
    assert first.key(TASK, 1).secret == second.key(TASK, 1).secret
    assert first.key(TASK, 2).secret != first.key(TASK, 1).secret
    assert first.missing(TASK, [1, 2, 3]) == [3]


def test_a_destroyed_key_is_gone_for_everybody(two: tuple[ReportKeys, ReportKeys]) -> None:
    first, second = two
    first.key(TASK, 1)
    first.destroy(TASK, 1)
    first.destroy(TASK, 1)
    assert second.ended(TASK, 1) == "delivered" and second.ended(TASK, 2) == ""
    assert second.missing(TASK, [1]) == []
    for one in two:
        with pytest.raises(KeyDestroyed):
            one.key(TASK, 1)


def test_processes_that_ask_at_once_get_one_key(tmp_path: Path) -> None:
    found: list[bytes] = []

    def ask() -> None:
        keys = FolderKeys(tmp_path)
        keys.open(STORE)
        found.extend(keys.key(TASK, number).secret for number in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and len(set(found)) == 20


def test_a_folder_belongs_to_one_store_and_is_discarded_alone(tmp_path: Path) -> None:
    keys = FolderKeys(tmp_path)
    keys.open(STORE)
    with pytest.raises(ConfigError, match="another store"):
        FolderKeys(tmp_path).open(bytes(16))
    with pytest.raises(ConfigError, match="stop the shuffler first"):
        FolderKeys(tmp_path).open_alone()
    keys.close()
    FolderKeys(tmp_path).open_alone()


def test_a_program_that_fails_stores_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n[ $1 = ended ] || exit 1\n")
    program.chmod(0o700)
    keys = CommandKeys(str(program))
    keys.open(STORE)
    with pytest.raises(StorageUnavailable, match="failed"):
        keys.key(TASK, 1)
    program.write_text("#!/bin/sh\necho no key\n")
    with pytest.raises(StorageUnavailable, match="printed no key"):
        keys.key(TASK, 1)


def test_a_key_that_another_process_destroyed_is_forgotten_in_memory(tmp_path: Path) -> None:
    """Twin: the key of another batch is still known."""
    first, second = FolderKeys(tmp_path / "keys"), FolderKeys(tmp_path / "keys")
    for keys in (first, second):
        keys.open(b"s" * 16)
        keys.key(TASK, 1)
        keys.key(TASK, 2)
    first.destroy(TASK, 1)
    assert second.known(TASK, 1) is None and second.known(TASK, 2) is not None
    with pytest.raises(KeyDestroyed):
        second.key(TASK, 1)


def test_no_line_of_the_list_is_skipped(tmp_path: Path) -> None:
    """Two threads read the list at the same time: neither may count what the other has read."""

    both = threading.Barrier(2, timeout=2)

    class Slow(dict[tuple[bytes, int], str]):
        def __setitem__(self, name: tuple[bytes, int], reason: str) -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait()  # until the other one has read the list, too, if it can
            super().__setitem__(name, reason)

    first, second = FolderKeys(tmp_path / "keys"), FolderKeys(tmp_path / "keys")
    first.open(b"s" * 16)
    second.open(b"s" * 16)
    first.destroy(TASK, 1)
    second._ended = Slow()
    readers = [threading.Thread(target=second.ended, args=(TASK, 1)) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    first.destroy(TASK, 2)
    assert second.ended(TASK, 2) == "delivered"


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_program_is_asked_again_after_keys_are_forgotten(tmp_path: Path, forgotten: bool) -> None:
    """Twin: a key in memory is used without asking."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n[ $1 = key ] && echo {'ab' * 32}\ntrue\n")
    program.chmod(0o755)
    keys = CommandKeys(str(program))
    keys.open(b"s" * 16)
    keys.key(TASK, 1)
    program.write_text("#!/bin/sh\nexit 3\n")
    if forgotten:
        keys.forget()
        with pytest.raises(KeyDestroyed):
            keys.key(TASK, 1)
    else:
        keys.key(TASK, 1)


def test_keys_in_memory_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_keys, "MOST_KNOWN", 3)
    keys = FolderKeys(tmp_path / "keys")
    keys.open(b"s" * 16)
    made = [keys.key(TASK, number).batch_id for number in range(6)]
    assert [keys.known(TASK, number) is not None for number in range(6)] == [False] * 3 + [True] * 3
    assert [keys.key(TASK, number).batch_id for number in range(6)] == made


def test_a_destruction_that_cannot_be_recorded_does_not_take_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: nothing of the line is left, and the key is still there."""
    keys = FolderKeys(tmp_path / "keys")
    keys.open(b"s" * 16)
    made = keys.key(TASK, 1).batch_id
    with monkeypatch.context() as patch:

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageUnavailable):
            keys.destroy(TASK, 1)
    assert (tmp_path / "keys" / "destroyed").read_bytes() == b""
    assert keys.ended(TASK, 1) == "" and keys.key(TASK, 1).batch_id == made
    keys.destroy(TASK, 1)
    assert keys.ended(TASK, 1) == "delivered"


def test_a_process_that_was_killed_while_it_made_a_key_harms_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed before any of its system calls, and another process has the key by then if there
    is one. The next start changes no key, and erases what was never used."""
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace", "unlink")}

    class KilledError(BaseException):
        pass

    for calls in range(12):
        folder = tmp_path / str(calls)
        keys = FolderKeys(folder)
        keys.open(STORE)
        left = [calls]

        def counted(name: str, *words: object, left: list[int] = left) -> object:
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
            return real[name](*words)

        with monkeypatch.context() as patch, contextlib.suppress(KilledError):
            for name in real:
                patch.setattr(os, name, partial(counted, name))
            keys.key(TASK, 1)
        made = [file.read_bytes() for file in folder.glob("*.key")]
        again = FolderKeys(folder)
        again.open(STORE)
        assert {file.name for file in folder.iterdir()} - {f"{TASK.hex()}-1.key"} == {
            "lock",
            "running",
            "store",
        }
        assert made in ([], [again.key(TASK, 1).secret])
        assert again.key(TASK, 1).secret != bytes(32)


def test_a_line_that_was_not_written_completely_spoils_no_other(tmp_path: Path) -> None:
    """The machine failed while a destruction was recorded; the next one is still recorded."""
    keys = FolderKeys(tmp_path / "keys")
    keys.open(STORE)
    keys.destroy(TASK, 1)
    with open(tmp_path / "keys" / "destroyed", "ab") as file:
        file.write(TASK.hex().encode()[:40])
    keys.key(TASK, 2)
    keys.destroy(TASK, 2)
    again = FolderKeys(tmp_path / "keys")
    again.open(STORE)
    assert [again.ended(TASK, number) for number in (1, 2)] == ["delivered"] * 2
    with pytest.raises(KeyDestroyed):
        again.key(TASK, 2)


def opened(folder: Path) -> FolderKeys:
    """The folder of keys as another process or machine opens it."""
    keys = FolderKeys(folder / "keys")
    keys.open(STORE)
    return keys


def test_what_another_machine_recorded_is_never_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared volume, a file may look shorter for some seconds than it is."""
    ours, theirs = opened(tmp_path), opened(tmp_path)
    ours.destroy(TASK, 1)
    with monkeypatch.context() as patch:
        patch.setattr(ours, "_read_ended", lambda: None)
        theirs.destroy(TASK, 2)
        ours.destroy(TASK, 3)
    again = opened(tmp_path)
    assert [again.ended(TASK, number) for number in (1, 2, 3)] == ["delivered"] * 3


def test_two_machines_never_make_two_keys_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared volume, one may not see yet what the other one has made."""
    ours, theirs = opened(tmp_path), opened(tmp_path)
    made = theirs.key(TASK, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda *_: False)
        with pytest.raises(StorageUnavailable):
            ours.key(TASK, 1)
    assert ours.key(TASK, 1).batch_id == made.batch_id
