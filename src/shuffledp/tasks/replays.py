"""Drops messages that were seen before, within a batch and across all batches of a key.

If a shuffler could repeat one user's ciphertexts c times, the published result would reveal that
user's value. Every message begins with its own encapsulated key, so equal keys are copies (and a
message with an altered one no longer opens). Of every counted batch the first 16 bytes of each
encapsulated key are kept, sorted, until the analyzer's key is destroyed. A batch in canonical order
is compared with them page by page, so memory does not grow with the batch.

`ReplayMemory` is a folder of sorted files ("runs") and `memory.json`, which names the runs and
counts their batches. A counted batch leaves one run; `MERGED_RUNS` runs of one level become one run
of the next, so b batches take about 8·log₈ b files. Files that `memory.json` does not name do not
count: a crash at any moment leaves the old or the new state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.documents.files import sync, write_whole
from shuffledp.tasks.errors import StateLost
from shuffledp.tasks.ordering import PAGE_ROWS, Rows
from shuffledp.tasks.parts import Sorter, as_rows, merged
from shuffledp.tasks.wire import ENCAPSULATED_KEY_BYTES, MESSAGE_BYTES

KEPT_KEY_BYTES = 16
"""Bytes of each encapsulated key that are kept to recognise a copy."""
Texts = NDArray[np.bytes_]


def texts(rows: Rows, width: int) -> Texts:
    """The rows' first bytes as texts, which NumPy compares byte by byte."""
    found: Texts = np.ascontiguousarray(rows[:, :width]).view(f"S{width}")[:, 0]
    return found


def in_canonical_order(parts: Iterable[bytes]) -> bool:
    """Whether the messages in these parts are in canonical order."""
    last: Any = None
    for data in parts:
        names = texts(as_rows(data), MESSAGE_BYTES)
        if (last is not None and names[0] < last) or (names[1:] < names[:-1]).any():
            return False
        last = names[-1]
    return True


def in_order(parts: Callable[[], Iterable[bytes]], folder: Path, memory: int) -> Iterator[Rows]:
    """The messages of a batch in canonical order, page by page; `parts` returns its parts, in any
    order, each time it is called. Sorting uses `folder` on disk and about `memory` bytes in
    memory."""
    if in_canonical_order(parts()):
        found: Iterable[bytes] = parts()
    else:
        sorter = Sorter(folder, memory)
        for data in parts():
            sorter.add(data)
        found = sorter.parts()
    for data in found:
        rows = as_rows(data)
        for start in range(0, len(rows), PAGE_ROWS):
            yield rows[start : start + PAGE_ROWS]


def first_seen(
    pages: Iterable[Rows], earlier: Iterable[Path], remember: Path
) -> Iterator[tuple[Rows, int]]:
    """(new rows, number of copies) of each page of a batch in canonical order.

    Ensures: after the last page, `remember` has the beginnings of all encapsulated keys of the
    batch, on disk.
    """
    known = [np.memmap(path, f"S{KEPT_KEY_BYTES}", "r") for path in earlier if path.stat().st_size]
    part = remember.with_suffix(".part")
    last: Any = None
    with open(part, "wb") as out:
        for rows in pages:
            names = texts(rows, ENCAPSULATED_KEY_BYTES)
            fresh = np.ones(len(rows), bool)
            fresh[1:] = names[1:] != names[:-1]
            fresh[0] = last is None or names[0] != last
            last = names[-1]
            fresh &= ~_among(texts(rows, KEPT_KEY_BYTES), known)
            out.write(np.ascontiguousarray(rows[:, :KEPT_KEY_BYTES]).tobytes())
            yield rows[fresh], int(len(rows) - fresh.sum())
        out.flush()
        os.fsync(out.fileno())
    part.replace(remember)
    sync(remember.parent)


def _among(names: Texts, known: list[Any]) -> NDArray[np.bool_]:
    """Which of these ascending names are in one of the sorted files."""
    found = np.zeros(len(names), bool)
    for file in known:
        low = int(np.searchsorted(file, names[:1], "left")[0])
        high = int(np.searchsorted(file, names[-1:], "right")[0])
        if high > low:
            found |= np.isin(names, file[low:high])
    return found


MEMORY_FORMAT = "shuffledp replay memory 1"
MEMORY_FILE = "memory.json"
RUN_ENDING = ".enc"
MERGED_RUNS = 8
"""How many runs of a level are merged into one run of the next."""
MERGE_PAGE = 1 << 16
"""Entries of each run that are in memory while runs are merged."""


@dataclass(frozen=True)
class Run:
    """A sorted file of beginnings of encapsulated keys."""

    name: str
    entries: int
    level: int


class ReplayMemory:
    """The counted messages of one key, in a folder. One process at a time may change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches = 0
        """How many batches are remembered."""
        self._runs: list[Run] = []
        self._merged: list[str] = []
        """Runs that were merged into another one but may not be deleted yet."""
        self._read()

    def run_of(self, batch: str) -> Path:
        """Where the run of a batch is written, before `add` makes it count."""
        return self.folder / f"{batch}{RUN_ENDING}"

    def files(self) -> list[Path]:
        """The runs that count; raises `StateLost` if one is missing or has another length."""
        for run in self._runs:
            file = self.folder / run.name
            if not file.is_file() or file.stat().st_size != run.entries * KEPT_KEY_BYTES:
                raise StateLost(
                    f"The replay memory in {self.folder.name} is damaged, so copies of counted "
                    "messages cannot be recognised; restore the folder, or create a new key and "
                    "new tasks."
                )
        return [self.folder / run.name for run in self._runs]

    def waiting(self) -> list[str]:
        """The batches whose runs are written but do not count yet."""
        named = {run.name for run in self._runs} | set(self._merged)
        files = self.folder.glob(f"*{RUN_ENDING}") if self.folder.is_dir() else ()
        return sorted(
            file.stem
            for file in files
            if file.name not in named and not file.name.startswith("merged-")
        )

    def add(self, batches: Iterable[str]) -> None:
        """Makes the runs of these batches count, and merges runs where there are many.

        Requires: the runs are on disk (`first_seen`). Ensures: durable on return.
        """
        for batch in batches:
            file = self.run_of(batch)
            size = file.stat().st_size
            self._runs.append(Run(file.name, size // KEPT_KEY_BYTES, 0))
            self.batches += 1
            inputs = self._merge_where_many()
            self._write()
            self._delete(inputs)

    def _merge_where_many(self) -> list[str]:
        """Merges the runs of every level that has many; returns the names that no longer count."""
        gone: list[str] = []
        level = 0
        while len(same := [run for run in self._runs if run.level == level]) >= MERGED_RUNS:
            name = f"merged-{level + 1}-{self.batches}{RUN_ENDING}"
            entries = merge_runs([self.folder / run.name for run in same], self.folder / name)
            gone += [run.name for run in same]
            self._runs = [run for run in self._runs if run.level != level]
            self._runs.append(Run(name, entries, level + 1))
            level += 1
        self._merged = gone
        return gone

    def _delete(self, names: list[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def _read(self) -> None:
        file = self.folder / MEMORY_FILE
        if not file.exists():
            return
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            if data["format"] != MEMORY_FORMAT:
                raise ValueError
            self.batches = int(data["batches"])
            self._runs = [Run(**run) for run in data["runs"]]
            self._merged = list(data["merged"])
        except (OSError, ValueError, KeyError, TypeError):
            raise StateLost(
                f"The replay memory in {self.folder.name} cannot be read; restore the folder, or "
                "create a new key and new tasks."
            ) from None
        self._delete(self._merged)

    def _write(self) -> None:
        data = {
            "format": MEMORY_FORMAT,
            "batches": self.batches,
            "runs": [asdict(run) for run in self._runs],
            "merged": self._merged,
        }
        write_whole(self.folder / MEMORY_FILE, json.dumps(data), durable=True)


def merge_runs(runs: list[Path], target: Path) -> int:
    """Writes the entries of sorted files, sorted, to one file that is on disk on return; returns
    how many there are."""
    total = 0
    with open(target, "wb") as out:
        for entries in merged([_pages(run) for run in runs], lambda entries: entries):
            out.write(np.sort(entries).tobytes())
            total += len(entries)
    sync(target)
    return total


def _pages(run: Path) -> Iterator[Texts]:
    """The entries of a file, `MERGE_PAGE` at a time."""
    if run.stat().st_size:
        file = np.memmap(run, f"S{KEPT_KEY_BYTES}", "r")
        for start in range(0, len(file), MERGE_PAGE):
            yield file[start : start + MERGE_PAGE]
