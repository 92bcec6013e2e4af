"""The analyzer's ledger, compared with what its store remembers: a lost ledger never starts
over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fractions import Fraction

from shuffledp.errors import LedgerBroken, ParameterError, ShuffleDPError
from shuffledp.release.ledger import START, Entry, Ledger, ledger_time
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.store import AnalyzerStore
from shuffledp.service.http.tasks import TaskRegistry
from shuffledp.tasks.errors import StateLost
from shuffledp.tasks.results import ledger_line


class Budget:
    """The configured ledger, which is created at the first release and never silently recreated."""

    def __init__(self, config: AnalyzerConfig, store: AnalyzerStore, tasks: TaskRegistry) -> None:
        self._ledger, self._amount = Ledger(config.ledger, keep=True), config.budget
        self._store, self._tasks = store, tasks
        self._turn = asyncio.Lock()

    async def ledger(self) -> Ledger:
        """The ledger to which releases are charged.

        Ensures: raises `StateLost` if a ledger was used before and is missing now, has spent less
        than it had, lacks the line of a published batch, or has entries that were edited or
        removed, even if all hashes were recomputed.
        """
        async with self._turn:
            before, lines = await self._store.ledger_facts(), await self._lines()
            if not self._ledger.path.exists():
                if before.head is not None or lines:
                    raise StateLost(_lost("is missing"))
                await asyncio.to_thread(Ledger.create, self._ledger.path, self._amount)
            try:
                book = await asyncio.to_thread(self._ledger.read)
            except LedgerBroken:
                raise StateLost(_lost("was changed by hand", MOVE_IT)) from None
            except ParameterError:
                raise StateLost(_lost("cannot be read by this version", MOVE_IT)) from None
            if book.spent < before.spent:
                raise StateLost(_lost("has spent less than it had"))
            if not lines.keys() <= {entry.what for entry in book.entries}:
                raise StateLost(_lost("lacks the lines of published batches"))
            if before.head not in {None, START, *(entry.hash for entry in book.entries)}:
                raise StateLost(_lost("was rewritten", MOVE_IT))
            if (book.spent, book.last) != (before.spent, before.head):
                await self._store.note_ledger(book.spent, book.last)
            return self._ledger

    async def left(self) -> Fraction | None:
        """The remaining budget; None if there is no ledger."""
        if not self._ledger.path.exists():
            return None
        try:
            return await asyncio.to_thread(self._ledger.remaining)
        except ShuffleDPError:
            return None

    async def note(self) -> None:
        """Remembers what the ledger has spent now."""
        async with self._turn:
            await self._note()

    async def _note(self) -> None:
        book = await asyncio.to_thread(self._ledger.read)
        await self._store.note_ledger(book.spent, book.last)

    async def restore(self) -> int:
        """Rewrites every entry that the ledger lacks, after a loss; returns how many."""
        async with self._turn:
            before, lines = await self._store.ledger_facts(), await self._lines()
            results, now = await self._store.results_by_id(), ledger_time()
            missing = [
                Entry(epsilon=epsilon, what=what, when=now, result=results.get(batch))
                for what, (batch, epsilon) in lines.items()
            ]
            added = await asyncio.to_thread(
                self._ledger.restore, self._amount, missing, before.spent
            )
            await self._note()
            return added

    async def forget(self, batches: Sequence[tuple[bytes, int]]) -> None:
        """Deletes the results of these batches (id, number of the task) from the ledger."""
        async with self._turn:
            if self._ledger.path.exists():
                lines = {
                    ledger_line(self._tasks.numbered(number).task, batch)
                    for batch, number in batches
                }
                await asyncio.to_thread(self._ledger.forget, lines)

    async def _lines(self) -> dict[str, tuple[bytes, Fraction]]:
        """(id, ε) of every published batch, by its line in the ledger."""
        found = {}
        for batch, number in await self._store.published_ids():
            task = self._tasks.numbered(number).task
            found[ledger_line(task, batch)] = batch, task.protocol.epsilon
        return found


BRING_IT = "restore the file, or write its lines again with `shuffledp analyzer restore-ledger`"
MOVE_IT = (
    "restore the file as the analyzer wrote it, or move it away and write its lines again with "
    "`shuffledp analyzer restore-ledger`"
)


def _lost(how: str, remedy: str = BRING_IT) -> str:
    return (
        f"The ledger {how}, so the remaining budget is not known; nothing is published: {remedy}."
    )
