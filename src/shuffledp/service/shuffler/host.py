"""The host, the process that hands out places and closes batches, as a door sees it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.shuffler.arrivals import Verdict
from shuffledp.service.shuffler.frames import Frames, Kind
from shuffledp.service.shuffler.insisting import insist
from shuffledp.service.shuffler.places import Grant, Piece, Taken
from shuffledp.service.shuffler.report_keys import BatchKey
from shuffledp.service.store.database import Transaction


def grant_to_list(grant: Grant) -> list[Any]:
    """Places as they stand in a frame."""
    pieces = [
        [piece.first, piece.length, piece.batch, piece.key.secret.hex()] for piece in grant.pieces
    ]
    return [grant.number, pieces]


def grant_from_list(task: int, given: list[Any]) -> Grant:
    """The places in a frame."""
    number, pieces = given
    return Grant(
        number,
        task,
        tuple(
            Piece(first, length, batch, BatchKey(bytes.fromhex(secret)))
            for first, length, batch, secret in pieces
        ),
    )


class Host:
    """Asks the host for places, and tells it what it must know."""

    def __init__(self, task_changed: Callable[[bytes], Awaitable[None]]) -> None:
        self._task_changed = task_changed
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._figures: list[list[Any]] = []
        self._noting: set[asyncio.Task[None]] = set()
        self.stores: set[str] = set()
        """The further stores that the host has opened."""
        self.lost = asyncio.Event()

    async def connect(self, path: str) -> None:
        """Connects to the host's socket. Ensures: the host tells of every change of a task from now
        on."""
        _, self._frames = await asyncio.get_running_loop().create_unix_connection(
            lambda: Frames(self._received, self._gone), path
        )
        self.stores.update(await self._ask(Kind.HELLO, None))

    def _received(self, _: Frames, kind: Kind, number: int, content: Any) -> None:
        if kind is Kind.TASK:
            noting = asyncio.create_task(self._note(number, bytes.fromhex(content)))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)
            return
        if kind is Kind.STORE:
            self.stores.add(content)
            return
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result(content)
        elif kind is Kind.TAKEN:
            self._give_back(content)

    async def _note(self, number: int, task_id: bytes) -> None:
        """Reads a task; until it is known here, the host answers for it."""
        await insist(lambda: self._task_changed(task_id), "reading a task failed", self.lost.is_set)
        self._frames.send(Kind.NOTED, number)

    def _gone(self, _: Frames) -> None:
        self.lost.set()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(_ended())

    def opened(self, store: str) -> None:
        """Says that a store is open."""
        self._frames.send(Kind.OPENED, 0, store)

    # places, as a lane takes them

    async def take(self, transaction: Transaction, counts: Mapping[int, int]) -> Taken:
        """So many places for reports of each task."""
        return await transaction.outside(self._take(counts)) if counts else {}

    async def _take(self, counts: Mapping[int, int]) -> Taken:
        asked = self._ask(Kind.TAKE, list(counts.items()))
        try:
            return _taken(await asked)
        except asyncio.CancelledError:
            if asked.done() and not asked.cancelled() and asked.exception() is None:
                self._give_back(asked.result())  # the answer came in the same moment
            raise

    def _ask(self, kind: Kind, content: Any) -> asyncio.Future[Any]:
        if self.lost.is_set():
            raise _ended()
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        self._frames.send(kind, number, content)
        return asked

    def _give_back(self, content: list[Any]) -> None:
        """Gives places back for which nobody waits any more."""
        taken = _taken(content).values()
        self.settle([one for one in taken if isinstance(one, Grant)], stored=False)

    def settle(self, grants: Sequence[Grant], *, stored: bool) -> None:
        """Says whether places were filled."""
        for grant in grants:
            self._frames.send(Kind.SETTLE, 0, [grant.task, grant.number, stored])

    def expected(self, task: int, count: int) -> list[int]:
        """Not asked here: tasks whose tokens count anew in every batch are passed on."""
        raise StorageUnavailable("Reports of this task are stored by another process.")

    # figures

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds an amount to a counter of the other process, which shows all metrics."""
        self._tell([name, amount, labels])

    def time(self, name: str, seconds: float) -> None:
        """Adds a duration to a histogram of the other process."""
        self._tell([name, seconds, None])

    def _tell(self, figure: list[Any]) -> None:
        if not self._figures:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._figures.append(figure)

    def _tell_all(self) -> None:
        figures, self._figures = self._figures, []
        self._frames.send(Kind.FIGURES, 0, figures)


def _taken(content: list[Any]) -> Taken:
    return {
        task: Verdict(given) if isinstance(given, str) else grant_from_list(task, given)
        for task, given in content
    }


def _ended() -> StorageUnavailable:
    return StorageUnavailable("The process that hands out places has ended.")
