"""The public log of tasks: every task that was ever registered here, in order.

An entry is stored in the transaction that registers its task, and never changed or deleted. The
tree over all entries is kept in memory, and grows from what is stored.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.service.analyzer import operations
from shuffledp.service.analyzer.witnesses import Witnesses
from shuffledp.service.http.operations import Served
from shuffledp.service.http.problems import Problem
from shuffledp.service.store.database import Database, Transaction
from shuffledp.tasks.log import Head, log_entry
from shuffledp.tasks.merkle import MerkleTree
from shuffledp.tasks.notes import Checkpoint, Signature, tile
from shuffledp.tasks.signing import ANALYZER, KEY_BYTES, SigningKey, TaskSignature, task_text

MOST_ENTRIES = 1_000
"""Of one answer."""
RETRY_SECONDS = 60.0
PLACE = re.compile("[0-9]{1,16}", re.ASCII)


class TaskLog:
    """The log in a database, and its routes."""

    _database: Database
    _key: SigningKey

    def __init__(self, origin: str = "", witnesses: tuple[str, ...] = ()) -> None:
        """`origin` names the log in checkpoints, which the witnesses are asked to cosign."""
        self._origin, self._witnesses = origin, Witnesses(witnesses)
        self._cosigning = asyncio.Lock()
        self._cosigned: tuple[int, float, list[Signature]] = (-1, 0.0, [])
        """Size of the last checkpoint that witnesses were asked about, when, and their answers."""
        self._tree = MerkleTree()
        self._entries: list[bytes] = []
        self._places: dict[bytes, int] = {}

    def open(self, database: Database, key: SigningKey) -> None:
        """Sets the log's store and the key that signs it."""
        self._database, self._key = database, key

    async def append(
        self, transaction: Transaction, task_id: bytes, signature: TaskSignature
    ) -> None:
        """Adds a task's entry at the end, in the transaction that registers the task."""
        top = await transaction.rows("SELECT COALESCE(MAX(place) + 1, 0) FROM task_log")
        await transaction.run(
            "INSERT INTO task_log (place, task, entry) VALUES ($1, $2, $3)",
            int(top[0][0]),
            task_id,
            log_entry(task_id, *signature),
        )

    async def head(self) -> Head:
        """The current head of the log, signed."""
        await self._grow()
        size = len(self._tree)
        return Head.sign(self._key, size, self._tree.root(size))

    async def checkpoint(self) -> Checkpoint:
        """The current head of the log as a note that the log and its witnesses have signed.
        Witnesses are asked once per size, and again after a minute if one of them did not
        answer."""
        async with self._cosigning:
            await self._grow()
            size = len(self._tree)
            plain = Checkpoint(
                origin=self._origin or f"shuffledp/log/{self._key.public.hex()}",
                size=size,
                root=self._tree.root(size),
            ).signed_by(self._key)
            asked, when, lines = self._cosigned
            late = len(lines) < len(self._witnesses) and time.monotonic() > when + RETRY_SECONDS
            if asked != size or late:
                lines = await self._witnesses.cosign(plain, self._tree)
                self._cosigned = size, time.monotonic(), lines
            return plain.with_signatures(lines)

    async def _grow(self) -> None:
        """Adds newly stored entries to the tree."""
        rows = await self._database.rows(
            "SELECT place, task, entry FROM task_log WHERE place >= $1 ORDER BY place",
            len(self._tree),
        )
        for place, task, entry in rows:
            if place == len(self._tree):  # another request may have added it meanwhile
                self._tree.append(bytes(entry))
                self._entries.append(bytes(entry))
                self._places[bytes(task)] = place

    # routes

    def routes(self) -> list[Served]:
        """The public routes."""
        return [
            Served(operations.LOG_HEAD, self.answer_head),
            Served(operations.LOG_CHECKPOINT, self.answer_checkpoint),
            Served(operations.LOG_TILE, self.answer_tile),
            Served(operations.LOG_CONSISTENCY, self.answer_consistency),
            Served(operations.LOG_INCLUSION, self.answer_inclusion),
            Served(operations.LOG_ENTRIES, self.answer_entries),
        ]

    async def answer_head(self, _: Request) -> Response:
        """The log's head as it is now."""
        return JSONResponse((await self.head()).to_dict())

    async def answer_checkpoint(self, _: Request) -> Response:
        """The head as a signed note."""
        note = str(await self.checkpoint())
        return Response(note, headers={"Cache-Control": "no-cache"}, media_type="text/plain")

    async def answer_tile(self, request: Request) -> Response:
        """A tile of the tree, or a bundle of entries; neither ever changes."""
        await self._grow()
        found = tile(request.path_params["tile"], self._tree, self._entries)
        if found is None:
            raise Problem(404, "log-place", "The log has no such tile; read its checkpoint first.")
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(found, headers=headers, media_type="application/octet-stream")

    async def answer_consistency(self, request: Request) -> Response:
        """The head, and the path that proves that the log extends an earlier one."""
        head = await self.head()
        first = self._place(request, "first", head.size)
        path = self._tree.consistency(first, head.size)
        return JSONResponse({"head": head.to_dict(), "path": _hexes(path)})

    async def answer_inclusion(self, request: Request) -> Response:
        """The position of a task in the log of a given size, with its inclusion path."""
        size = self._place(request, "size", (await self.head()).size)
        try:
            task = bytes.fromhex(request.path_params["task"])
            index = self._places[task]
        except (KeyError, ValueError):
            index = size
        if index >= size:
            raise Problem(
                404,
                "task-unlogged",
                "The log of this size does not contain this task; register it first.",
            )
        entry = self._shown(index)
        answer: dict[str, Any] = {
            "index": index,
            "path": _hexes(self._tree.inclusion(index, size)),
            "collector_key": entry["collector_key"],
            "collector_signature": entry["collector_signature"],
            "analyzer_signature": self._key.sign(task_text(ANALYZER, task)).hex(),
        }
        return JSONResponse(answer)

    async def answer_entries(self, request: Request) -> Response:
        """Entries starting at a position: ids of tasks, with the collector's keys and
        signatures."""
        first = self._place(request, "first", (await self.head()).size)
        last = min(first + MOST_ENTRIES, len(self._entries))
        return JSONResponse({"entries": [self._shown(index) for index in range(first, last)]})

    def _shown(self, index: int) -> dict[str, str]:
        """An entry as JSON."""
        entry = self._entries[index]
        return {
            "task": entry[:KEY_BYTES].hex(),
            "collector_key": entry[KEY_BYTES : 2 * KEY_BYTES].hex(),
            "collector_signature": entry[2 * KEY_BYTES :].hex(),
        }

    @staticmethod
    def _place(request: Request, name: str, size: int) -> int:
        """The number in a path; a 404 if the log has fewer entries."""
        text = request.path_params[name]
        if not PLACE.fullmatch(text) or int(text) > size:
            raise Problem(
                404, "log-place", "The log has fewer entries; ask for its head first.", have=size
            )
        return int(text)


def _hexes(path: list[bytes]) -> list[str]:
    return [one.hex() for one in path]
