"""Opens a batch on all cores and tallies its messages."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.tasks.encryption import open_all
from shuffledp.tasks.ordering import Rows
from shuffledp.tasks.processes import quick_start
from shuffledp.tasks.wire import DUMMY_NUMBER, MESSAGE_BYTES

CHUNK_MESSAGES = 2048
"""Messages that one worker opens at a time."""
BAD_MESSAGES = ("replayed", "unopened", "malformed")
"""Dropped messages that may have been somebody's noise; dummies never are."""


@dataclass(frozen=True)
class AllowedNumbers:
    """Which numbers a protocol's honest users send: +1 for every cell, −1 only for some; +1 for the
    public counters."""

    cells: int
    """The number of counters, including the public ones."""
    only_plus: tuple[tuple[int, int], ...]
    """Ranges (first, end) of cells that send no −1."""

    @classmethod
    def of(cls, protocol: Protocol[Result]) -> AllowedNumbers:
        """The numbers of a protocol."""
        ranges, end = [], 0
        for member in protocol.members:
            first, end = end, end + member.copies
            if not member.cell.sends_minus:
                ranges.append((first, end))
        first, end = end, end + protocol.public_counters
        return cls(end, (*ranges, (first, end)))

    def among(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these numbers are allowed."""
        allowed: NDArray[np.bool_] = numbers < 2 * self.cells
        for first, end in self.only_plus:
            inside = (numbers >= 2 * first) & (numbers < 2 * end)
            allowed &= ~(inside & (numbers % 2 == 0))
        return allowed


@dataclass
class Tally:
    """How many messages of each kind a batch has, and how many were dropped."""

    plus: NDArray[np.int64]
    minus: NDArray[np.int64]
    dropped: dict[str, int] = field(
        default_factory=lambda: {"dummies": 0, "replayed": 0, "unopened": 0, "malformed": 0}
    )

    @classmethod
    def empty(cls, cells: int) -> Tally:
        """The tally of no messages, for a protocol with this many cells."""
        return cls(np.zeros(cells, np.int64), np.zeros(cells, np.int64))

    def add(self, part: Opened) -> None:
        """Adds what one worker found."""
        numbers = np.frombuffer(part.numbers, np.int64)
        counts = np.frombuffer(part.counts, np.int64)
        up = numbers % 2 == 1
        np.add.at(self.plus, numbers[up] // 2, counts[up])
        np.add.at(self.minus, numbers[~up] // 2, counts[~up])
        self.dropped["dummies"] += part.dummies
        self.dropped["unopened"] += part.unopened
        self.dropped["malformed"] += part.malformed

    @property
    def bad(self) -> int:
        """How many messages did not open, were malformed or were copies."""
        return sum(self.dropped[name] for name in BAD_MESSAGES)

    def report(self, noise_shares: int) -> Report:
        """The tally as the report of a batch, which `Protocol.release` accepts or refuses."""
        return Report(users=noise_shares, plus=self.plus, minus=self.minus)

    def to_json(self) -> str:
        """The tally as JSON, for the store."""
        return json.dumps(
            {"plus": self.plus.tolist(), "minus": self.minus.tolist(), "dropped": self.dropped}
        )

    @classmethod
    def from_json(cls, text: str) -> Tally:
        """The tally from `to_json`."""
        data = json.loads(text)
        return cls(
            np.array(data["plus"], np.int64), np.array(data["minus"], np.int64), data["dropped"]
        )


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What a worker found: which numbers, how often each, and how many messages contained none."""

    numbers: bytes
    counts: bytes
    dummies: int
    unopened: int
    malformed: int


def open_chunk(data: bytes, secret: bytes, info: bytes, allowed: AllowedNumbers) -> Opened:
    """What is inside the messages in `data`; run by a worker process."""
    messages = (data[start : start + MESSAGE_BYTES] for start in range(0, len(data), MESSAGE_BYTES))
    found, unopened = open_all(messages, secret, info)
    plain = np.array(found, np.int64)
    dummy, known = plain == DUMMY_NUMBER, allowed.among(plain)
    numbers, counts = np.unique(plain[known], return_counts=True)
    return Opened(
        numbers=numbers.tobytes(),
        counts=counts.astype(np.int64).tobytes(),
        dummies=int(dummy.sum()),
        unopened=unopened,
        malformed=int((~dummy & ~known).sum()),
    )


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of `workers` processes; 0 means one per core."""
    return ProcessPoolExecutor(
        workers or None, mp_context=quick_start(), initializer=_end_with_parent
    )


def _end_with_parent() -> None:
    """Makes a worker end when its analyzer is killed; otherwise it would wait forever."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def count_messages(
    pages: Iterable[tuple[Rows, int]],
    secret: bytes,
    info: bytes,
    allowed: AllowedNumbers,
    *,
    pool: Executor,
    stop: threading.Event,
    ahead: int = 8,
) -> Tally:
    """The tally of all pages of (new rows, number of copies); at most `ahead` chunks are in memory.

    Ensures: raises `InterruptedError` soon after `stop` is set.
    """
    tally = Tally.empty(allowed.cells)
    pending: deque[Future[Opened]] = deque()
    for rows, replayed in pages:
        tally.dropped["replayed"] += replayed
        for chunk in _chunks(rows):
            if stop.is_set():
                raise InterruptedError
            pending.append(pool.submit(open_chunk, chunk, secret, info, allowed))
            if len(pending) >= ahead:
                tally.add(pending.popleft().result())
    while pending:
        tally.add(pending.popleft().result())
    return tally


def _chunks(rows: Rows) -> Iterator[bytes]:
    for start in range(0, len(rows), CHUNK_MESSAGES):
        yield rows[start : start + CHUNK_MESSAGES].tobytes()
