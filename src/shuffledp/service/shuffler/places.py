"""The places of reports: one process hands them out, and several may fill them at the same time.

The reports of a task have the places 0, 1, 2, …; a batch is so many of them in a row, and a report
is stored under the key of the batch that its place is in. Whoever stores reports takes places for
them first, in the transaction that stores them, and says afterwards whether they were filled: a
transaction fills all of its places or none. Places that were not filled are holes. They are handed
out again before others; if nobody comes, later reports are moved into them
(`ShufflerStore.line_up`), so that no full batch ever waits for a hole.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.arrivals import Verdict
from shuffledp.service.shuffler.batches import StoredProgress
from shuffledp.service.shuffler.report_keys import BatchKey, ReportKeys
from shuffledp.service.store.database import Transaction

OWN_LANE = 0
"""The lane of the process that hands out places; its further processes have 1, 2, …"""


class Piece(NamedTuple):
    """Places of one batch that follow each other."""

    first: int
    length: int
    batch: int
    key: BatchKey


class Grant(NamedTuple):
    """Places that were taken for reports of one task, until it is known whether they were
    filled."""

    number: int
    task: int
    pieces: tuple[Piece, ...]

    @property
    def first(self) -> int:
        """One of the places; all are filled or none."""
        return self.pieces[0].first


Taken = dict[int, Grant | Verdict]
"""For each task the places that were given, or why none were."""


class PlaceSource(Protocol):
    """Where a process that stores reports takes places from."""

    async def take(self, transaction: Transaction, counts: Mapping[int, int]) -> Taken:
        """So many places for reports of each task, in a transaction that will fill them."""

    def settle(self, grants: Sequence[Grant], *, stored: bool) -> None:
        """Says whether places were filled."""

    def expected(self, task: int, count: int) -> list[int]:
        """The batches of the places that would be taken next."""


@dataclass(kw_only=True)
class Progress:
    """How far a task is."""

    size: int
    """How many reports a full batch holds."""
    closed: int = 0
    """How many places are in closed batches."""
    batches: int = 0
    """How many batches are closed."""
    next: int = 0
    """The first place that was never taken."""
    holes: list[int] = field(default_factory=list)
    """Places below `next` that are neither filled nor taken, in their order."""
    taken: dict[int, tuple[int, list[int], Grant]] = field(default_factory=dict)
    """By the number of the grant: its lane, its places, and the grant."""
    paused: bool = False

    def batch_of(self, place: int) -> int:
        """The number of the batch that a place is in. It does not change when a full batch is
        closed; a batch that leaves early is closed while no places are taken."""
        return self.batches + 1 + (place - self.closed) // self.size

    def waiting(self) -> int:
        """How many reports are stored and in no batch."""
        out = sum(len(places) for _, places, _ in self.taken.values())
        return self.next - self.closed - len(self.holes) - out

    def in_row(self) -> int:
        """How many reports are stored in the first places without a hole between them."""
        firsts = [places[0] for _, places, _ in self.taken.values()]
        return min([self.next, *self.holes[:1], *firsts]) - self.closed

    def upcoming(self, count: int) -> list[int]:
        """The places that are taken next."""
        again = self.holes[:count]
        return [*again, *range(self.next, self.next + count - len(again))]


class Places:
    """All tasks' places. The store's thread takes some too, so a lock guards them."""

    def __init__(self, keys: ReportKeys) -> None:
        self._keys = keys
        self._lock = threading.RLock()
        self._progress: dict[int, Progress] = {}
        self._tasks: dict[int, RegisteredTask] = {}
        self._numbers = itertools.count(1)
        self.late: Callable[[RegisteredTask], Verdict | None] = lambda _: None
        """Why a task takes no more reports."""
        self.filled: Callable[[RegisteredTask], None] = lambda _: None
        """Called when reports of a task were stored."""

    def of(self, task: int) -> Progress:
        """How far a task is at this moment: a copy."""
        with self._lock:
            found = self._progress[task]
            return replace(found, holes=list(found.holes), taken=dict(found.taken))

    def add(self, entry: RegisteredTask) -> None:
        """Lets a new task begin."""
        with self._lock:
            self._tasks[entry.number] = entry
            self._progress.setdefault(entry.number, Progress(size=entry.task.batch.reports))

    def load(self, entry: RegisteredTask, stored: StoredProgress) -> None:
        """Sets how far a task is to what its store says. Places that may be taken meanwhile are
        left as they are: only of a new task, or one that is paused, the store says all."""
        with self._lock:
            fresh = entry.number not in self._progress
            self.add(entry)
            found = self._progress[entry.number]
            if fresh or (found.paused and not found.taken):
                found.next, found.holes = stored.following, stored.holes
            _set_closed(found, stored.closed, stored.batches)

    def close(self, task: int, reports: int) -> None:
        """Notes that a batch of so many reports was closed."""
        with self._lock:
            found = self._progress[task]
            _set_closed(found, found.closed + reports, found.batches + 1)

    def forget(self, entry: RegisteredTask) -> None:
        """Forgets a task that was deleted."""
        with self._lock:
            self._progress.pop(entry.number, None)
            self._tasks.pop(entry.number, None)

    def take(self, lane: int, counts: Mapping[int, int]) -> Taken:
        """So many places of each task, for a process that will fill them all at once.

        Ensures: no place is given twice before it is known that it was not filled; every batch has
        a durable key.
        """
        with self._lock:
            return {task: self._take(lane, task, count) for task, count in counts.items()}

    def _take(self, lane: int, task: int, count: int) -> Grant | Verdict:
        found, entry = self._progress.get(task), self._tasks.get(task)
        if found is None or entry is None:  # of a store that is away
            return Verdict.BUSY
        late = self.late(entry)
        # Tokens that count anew in every batch are judged for the batch of their place, so their
        # reports must never be moved: one commit at a time leaves no holes.
        alone = entry.task.repeat and bool(found.taken)
        if late is not None or found.paused or alone:
            return late or Verdict.BUSY
        places = found.upcoming(count)
        try:
            grant = Grant(next(self._numbers), task, self._pieces(entry, found, places))
        except StorageUnavailable:  # no room for a key
            return Verdict.BUSY
        del found.holes[:count]
        found.next = max(found.next, places[-1] + 1)
        found.taken[grant.number] = lane, places, grant
        return grant

    def _pieces(
        self, entry: RegisteredTask, found: Progress, places: list[int]
    ) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        at = 0
        while at < len(places):
            first, length = places[at], 1
            batch = found.batch_of(first)
            last = found.closed + (batch - found.batches) * found.size - 1
            while at + length < len(places) and places[at + length] == first + length <= last:
                length += 1
            pieces.append(Piece(first, length, batch, self._keys.key(entry.task.id, batch)))
            at += length
        return tuple(pieces)

    def expected(self, task: int, count: int) -> list[int]:
        """The batches of the places that are taken next."""
        with self._lock:
            found = self._progress[task]
            return [found.batch_of(place) for place in found.upcoming(count)]

    def settle(self, task: int, grant: int, *, stored: bool) -> None:
        """Notes whether places were filled."""
        with self._lock:
            found = self._progress.get(task)
            if found is None or grant not in found.taken:
                return
            _, places, _ = found.taken.pop(grant)
            if not stored:
                found.holes = sorted(found.holes + places)
                while found.holes and found.holes[-1] == found.next - 1:
                    found.next = found.holes.pop()
            entry = self._tasks[task]
        self.filled(entry)

    def taken_by(self, lane: int) -> list[Grant]:
        """What a process has taken of which nobody knows yet whether it was filled."""
        with self._lock:
            return [
                grant
                for found in self._progress.values()
                for owner, _, grant in found.taken.values()
                if owner == lane
            ]

    def is_settled(self, task: int) -> bool:
        """Whether it is known of all places of a task whether they are filled."""
        with self._lock:
            found = self._progress.get(task)
            return found is None or not found.taken

    def pause(self, task: int) -> bool:
        """Gives no more places of a task until `resume`; whether none are taken any more."""
        with self._lock:
            self._progress[task].paused = True
            return not self._progress[task].taken

    def resume(self, task: int) -> None:
        """Gives places of a task again."""
        with self._lock:
            if task in self._progress:
                self._progress[task].paused = False


def _set_closed(found: Progress, closed: int, batches: int) -> None:
    found.closed, found.batches = closed, batches
    found.next = max(found.next, closed)
    found.holes = [place for place in found.holes if place >= closed]


class OwnPlaces:
    """The places for the process that hands them out."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.expected = places.expected

    async def take(self, transaction: Transaction, counts: Mapping[int, int]) -> Taken:
        """Without waiting for anybody."""
        return self._places.take(OWN_LANE, counts)

    def settle(self, grants: Sequence[Grant], *, stored: bool) -> None:
        """Says whether places were filled."""
        for grant in grants:
            self._places.settle(grant.task, grant.number, stored=stored)
