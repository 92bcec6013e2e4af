"""What is kept of all counted messages of a key: a few sorted files, merged as they grow.

A folder holds `memory.json`, which names the sorted files ("runs") and says of how many batches
they are, and the runs. A counted batch leaves a run of its own; `MERGED_RUNS` runs of one level
become one run of the next, so that b batches are in about 8·log₈ b files, whatever b is. Files that
`memory.json` does not name do not count: a crash at any moment leaves the old or the new state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from shuffledp.documents.files import sync, write_whole
from shuffledp.tasks.errors import StateLost
from shuffledp.tasks.replays import KEPT_KEY_BYTES, Texts

MEMORY_FORMAT = "shuffledp replay memory 1"
MEMORY_FILE = "memory.json"
RUN_ENDING = ".enc"
MERGED_RUNS = 8
"""So many runs of a level become one run of the next."""
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
        self._batches = 0
        self._runs: list[Run] = []
        self._merged: list[str] = []
        """Runs whose content is in another one already; they may still have to be deleted."""
        self._read()

    @property
    def batches(self) -> int:
        """Of how many batches the messages are remembered."""
        return self._batches

    def run_of(self, batch: str) -> Path:
        """Where the run of a batch is written, before `add` makes it count."""
        return self.folder / f"{batch}{RUN_ENDING}"

    def files(self) -> list[Path]:
        """The runs that count; raises `StateLost` if one is missing or has another length."""
        for run in self._runs:
            file = self.folder / run.name
            if not file.is_file() or file.stat().st_size != run.entries * KEPT_KEY_BYTES:
                raise StateLost(
                    f"The replay memory in {self.folder.name} is damaged, so that copies of counted"
                    " messages cannot be told; restore the folder, or make a new key and new tasks."
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
            self._batches += 1
            inputs = self._merge_where_many()
            self._write()
            self._delete(inputs)

    def _merge_where_many(self) -> list[str]:
        """Merges the runs of every level that has many; gives the names that no longer count."""
        gone: list[str] = []
        level = 0
        while len(same := [run for run in self._runs if run.level == level]) >= MERGED_RUNS:
            name = f"merged-{level + 1}-{self._batches}{RUN_ENDING}"
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
            self._batches = int(data["batches"])
            self._runs = [Run(**run) for run in data["runs"]]
            self._merged = list(data["merged"])
        except (OSError, ValueError, KeyError, TypeError):
            raise StateLost(
                f"The replay memory in {self.folder.name} cannot be read; restore the folder, or "
                "make a new key and new tasks."
            ) from None
        self._delete(self._merged)

    def _write(self) -> None:
        data = {
            "format": MEMORY_FORMAT,
            "batches": self._batches,
            "runs": [asdict(run) for run in self._runs],
            "merged": self._merged,
        }
        write_whole(self.folder / MEMORY_FILE, json.dumps(data), durable=True)


def merge_runs(runs: list[Path], target: Path, page: int = MERGE_PAGE) -> int:
    """Writes the entries of sorted files, sorted, to one file that is on disk on return; gives how
    many there are. About `page` entries of each file are in memory at a time."""
    total = 0
    with open(target, "wb") as out:
        for entries in _merged(runs, page):
            out.write(entries.tobytes())
            total += len(entries)
    sync(target)
    return total


def _merged(runs: list[Path], page: int) -> Iterator[Texts]:
    """The entries of sorted files in order, in pieces: all up to the least page's last entry."""
    files = [np.memmap(path, f"S{KEPT_KEY_BYTES}", "r") for path in runs if path.stat().st_size]
    starts = [0] * len(files)
    while rest := [at for at, file in enumerate(files) if starts[at] < len(file)]:
        pages = {at: files[at][starts[at] : starts[at] + page] for at in rest}
        limit = min(entries[-1] for entries in pages.values())
        pieces = []
        for at, entries in pages.items():
            taken = int(np.searchsorted(entries, limit, "right"))
            pieces.append(entries[:taken])
            starts[at] += taken
        yield np.sort(np.concatenate(pieces))
