"""A ledger that keeps what it has read sees every change of its file."""

from __future__ import annotations

import os
import time
from fractions import Fraction
from pathlib import Path

import pytest

from shuffledp.errors import BudgetExceeded, LedgerBroken
from shuffledp.release import ledger as ledgers
from shuffledp.release.ledger import Book, Ledger


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of entries at every reading of a file."""
    found: list[int] = []
    real = Book.from_dict

    def counted(data: dict[str, list[object]]) -> Book:
        found.append(len(data["entries"]))
        return real(data)

    monkeypatch.setattr(Book, "from_dict", counted)
    return found


def test_an_unchanged_file_is_read_once(tmp_path: Path, read: list[int]) -> None:
    """Twins: a ledger that keeps nothing reads it every time, as does one whose file is long."""
    Ledger.create(tmp_path / "l.json", 5)
    kept, plain = Ledger(tmp_path / "l.json", keep=True), Ledger(tmp_path / "l.json")
    for _ in range(3):
        assert kept.spent() == 0
    kept.spend(1, "first", result={"epsilon": 1})
    kept.spend_once(Fraction(1), "second", {"epsilon": 1})
    assert kept.spent() == 2 and [entry.what for entry in kept.entries()] == ["first", "second"]
    assert read == [0]
    for _ in range(3):
        assert plain.read() == kept.read()
    assert read == [0, 2, 2, 2]


def test_a_long_file_is_not_kept(
    tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(tmp_path / "l.json", 5)
    monkeypatch.setattr(ledgers, "MOST_KEPT_BYTES", 10)
    kept = Ledger(tmp_path / "l.json", keep=True)
    assert [kept.spent(), kept.spent()] == [0, 0] and read == [0, 0]


def test_what_others_spend_is_seen(tmp_path: Path) -> None:
    first = Ledger.create(tmp_path / "l.json", 3)
    kept = [Ledger(first.path, keep=True) for _ in range(2)]
    for turn in range(3):
        kept[turn % 2].spend(1, f"line {turn}")
    for one in kept:
        assert one.spent() == 3
        with pytest.raises(BudgetExceeded):
            one.spend(1, "too much")
    first.raise_budget(4)
    assert [one.remaining() for one in kept] == [1, 1]
    first.path.unlink()
    for one in kept:
        with pytest.raises(Exception, match="There is no ledger"):
            one.spent()


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_an_edit_that_keeps_size_and_time_is_refused(tmp_path: Path, how: str) -> None:
    kept = Ledger(Ledger.create(tmp_path / "l.json", 9).path, keep=True)
    kept.spend(1, "a release")
    before = kept.path.stat()
    edited = kept.path.read_bytes().replace(b"a release", b"A release")
    time.sleep(0.02)  # clocks of file systems may have steps of 10 ms
    if how == "in place":
        kept.path.write_bytes(edited)
    else:
        (tmp_path / "other").write_bytes(edited)
        (tmp_path / "other").replace(kept.path)
    os.utime(kept.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kept.path.stat().st_size == before.st_size
    with pytest.raises(LedgerBroken, match="line 1 was edited"):
        kept.read()
