"""Batches on their way: closing → ordered → delivered → deleted, each state durable.

Every process does this for any batch that it can lease. Parts are sent one by one; the analyzer
says which it still needs, so any process can continue an interrupted delivery.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import httpx2

from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.service.answers import MOST_SHORT_ANSWER_BYTES, answer_json, bounded_request_async
from shuffledp.service.errors import StorageUnavailable, untrusted_certificate
from shuffledp.service.http.logs import log
from shuffledp.service.http.metrics import Counts, Metrics
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.filling import Filling
from shuffledp.service.shuffler.report_keys import BatchKey, KeyDestroyed
from shuffledp.service.shuffler.store import LEASE_SECONDS, Batch, LeaseLost, ShufflerStore
from shuffledp.service.store.private import scratch_folder, sweep_scratch
from shuffledp.service.store.spool import Spool, is_bucket, open_spool
from shuffledp.tasks.clock import Clock
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.parts import (
    MANIFEST_NAME,
    MOST_PART_BYTES,
    Manifest,
    PartFacts,
    Sorter,
    check_part,
    open_part,
    part_name,
    seal_part,
)
from shuffledp.tasks.reports import encrypted_top_up
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import BatchHeader

LOOK_AGAIN_SECONDS = 1.0
DRAFT_NAME = "draft.json"
"""The manifest of an export before it is published."""
MOST_TIMES = 2
"""How often one delivery sends each part, on average, before it gives up for now."""
SCRATCH_PREFIX = "shuffledp-sorting-"
DELIVERY_FIGURES = (
    Counts("batches", "Batches that reached a state", ("state",)),
    Counts("delivery_failures", "Tries to deliver a batch that failed", ("reason",)),
)


class NotDelivered(Exception):
    """The analyzer did not accept a batch; the text says why."""


class PartLost(NotDelivered):
    """A part of a batch is missing or damaged in the spool, and is needed."""

    def __init__(self) -> None:
        super().__init__("a part is missing or damaged in the spool")


class TopUpLost(NotDelivered):
    """The same of a batch with a top-up. Another draw of it would show the analyzer which messages
    of the first one are noise: those that the two do not share."""

    def __init__(self) -> None:
        super().__init__("a part of a batch with a top-up is lost; discard the batch")


class Delivery:
    """Closes batches early where a task's rule says so, and delivers closed ones."""

    def __init__(
        self,
        config: ShufflerConfig,
        store: ShufflerStore,
        spool: Spool,
        metrics: Metrics,
        analyzer: httpx2.AsyncClient,
        clock: Clock,
    ) -> None:
        self._config, self._store, self._spool = config, store, spool
        self._metrics, self._analyzer, self._clock = metrics, analyzer, clock
        self.batch_closed = asyncio.Event()
        self._exports = open_spool(config.exports) if config.exports else None

    # closing

    async def close_due(self) -> None:
        """Closes the batches of all tasks that may leave now although they are not full.

        Ensures: no batch without a top-up has fewer reports than the rule says.
        """
        timed = {
            entry.number: entry
            for entry in list(self._store.tasks.by_id.values())
            if entry.task.batch.top_up != "none"
        }
        states = await self._store.all_filling() if timed else {}
        for number, entry in timed.items():
            state = states.get(number)
            if state is None or not state.reports:
                continue
            try:
                await self._close_if_due(entry, state)
            except Exception as error:  # the other tasks continue
                log("closing a batch failed", level="error", error=type(error).__name__)

    async def _close_if_due(self, entry: RegisteredTask, state: Filling) -> None:
        waited = self._clock() - state.since
        if entry.task.batch.leaving(state.reports, waited) == state.reports and (
            await self._store.close_early(entry, state)
        ):
            self.batch_closed.set()

    # delivery

    async def run(self) -> None:
        """Delivers closed batches, until it is cancelled."""
        while True:
            try:
                while await self.deliver_next():
                    pass
            except Exception as error:  # retried later in any case
                log("delivery failed", level="error", error=type(error).__name__)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.batch_closed.wait(), LOOK_AGAIN_SECONDS)
            self.batch_closed.clear()

    async def deliver_next(self) -> bool:
        """Takes one batch through its remaining states; False if there is none to work on."""
        batch = await self._store.lease()
        if batch is None:
            return False
        try:
            entry = self._store.tasks.numbered(batch.task)
        except KeyError:  # registered a moment ago, by another process
            await self._store.tasks.refresh()
            entry = self._store.tasks.numbered(batch.task)
        try:
            await self._try(batch, entry)
        except asyncio.CancelledError:
            with contextlib.suppress(StorageUnavailable):
                await self._store.give_back(batch, "", 0)
            raise
        return True

    async def _try(self, batch: Batch, entry: RegisteredTask) -> None:
        """Works on a leased batch, and records a failure."""
        try:
            await self._while_leased(batch, self.advance(batch, entry))
        except LeaseLost:
            log("lease lost", level="warning", batch=batch.id.hex())
        except KeyDestroyed:
            await self._store.reconcile(entry)
        except NotDelivered as error:
            await self._failed(batch, str(error))
        except Exception as error:  # the others continue
            log("delivery failed", level="error", error=type(error).__name__)
            await self._failed(batch, type(error).__name__)

    async def _while_leased(self, batch: Batch, work: Coroutine[Any, Any, None]) -> None:
        """Does some work while the lease is renewed; ends it when the lease is lost."""
        working = asyncio.create_task(work)
        try:
            while True:
                done, _ = await asyncio.wait([working], timeout=LEASE_SECONDS / 3)
                if done:
                    return working.result()
                await self._store.renew(batch)
        finally:
            working.cancel()
            with contextlib.suppress(BaseException):
                await working

    async def _failed(self, batch: Batch, reason: str) -> None:
        self._metrics.count("delivery_failures", reason=reason)
        log("delivery failed", level="warning", batch=batch.id.hex(), reason=reason)
        with contextlib.suppress(LeaseLost):
            await self._store.give_back(batch, reason, self.pause(batch.tries))

    def pause(self, tries: int) -> int:
        """Seconds until the next attempt after `tries` failures, growing up to `retry_seconds`."""
        longest = min(self._config.retry_seconds, 2 ** min(tries, 12))
        return int(longest * (0.5 + SYSTEM.below(512) / 1024) + 0.5)

    async def advance(self, batch: Batch, entry: RegisteredTask) -> None:
        """Takes a batch through its remaining states; raises `NotDelivered` if the analyzer does
        not take it."""
        if batch.state != "delivered":
            if self._exports is not None:
                await self._exported(batch, entry, self._exports)
            elif (manifest := await self._ordered(batch, entry)) is not None:
                try:
                    await self._deliver(batch, manifest)
                except PartLost as error:  # the reports and the key are still there
                    if batch.top_up_messages:
                        raise TopUpLost from None
                    log("ordered again", level="warning", batch=batch.id.hex(), reason=str(error))
                    await self._deliver(batch, await self._order(batch, entry))
            await self._store.delivered(batch)
            self._note(batch)
        await self._store.destroy_key(batch)
        if not self._shares:  # otherwise the analyzer removes them
            await asyncio.to_thread(self._spool.remove, batch.id.hex())
        await self._store.delete(batch)
        self._note(batch)

    @property
    def _shares(self) -> bool:
        """Whether the analyzer reads the parts from the bucket itself."""
        return self._config.deliver == "manifest"

    async def _ordered(self, batch: Batch, entry: RegisteredTask) -> Manifest | None:
        """The manifest of a batch's parts, which are made if they are missing; None if the analyzer
        already has the whole batch."""
        if batch.state == "ordered":
            data = await asyncio.to_thread(self._spool.read, batch.folder, MANIFEST_NAME)
            if data is not None and hashlib.sha256(data).digest() == batch.digest:
                return Manifest.from_bytes(data)
            # the parts were on a machine that is gone
            known = await self._ask("GET", f"/batches/{batch.id.hex()}")
            complete = known.get("state") not in (None, "receiving")
            if complete and known.get("sha256") == (batch.digest or b"").hex():
                return None
            if batch.top_up_messages and (known or self._shares):  # it may have seen the first one
                raise TopUpLost
        return await self._order(batch, entry)

    async def _begin(self, batch: Batch, task: Task) -> tuple[BatchKey, int]:
        """(the key of a batch, the shares of noise to top up); records the batch's contents."""
        key = await asyncio.to_thread(self._store.key, batch)
        batch.id = key.batch_id
        shares = task.batch.top_up_shares(batch.reports, task.protocol.users)
        batch.top_up_messages = task.top_up_size(shares)
        batch.noise_shares = batch.reports + shares
        return key, shares

    async def _messages(self, batch: Batch, task: Task, shares: int) -> AsyncIterator[bytes]:
        """The encrypted messages of a batch's reports, then of its top-up, page by page."""
        async for page in self._store.messages(batch):
            yield page
        top_up = encrypted_top_up(task, shares)
        while (added := await asyncio.to_thread(next, top_up, None)) is not None:
            yield added

    async def _exported(self, batch: Batch, entry: RegisteredTask, exports: Spool) -> None:
        """Writes a batch for `shuffledp shuffle-batch`. Every attempt has a separate folder; the
        store decides under the lease which one gets its manifest, so a process that hangs and
        continues later changes nothing that was published."""
        data = None
        if batch.state == "ordered":
            data = await asyncio.to_thread(exports.read, batch.folder, DRAFT_NAME)
        if data is None or hashlib.sha256(data).digest() != batch.digest:
            folder = f"{batch.id.hex()}-{os.urandom(8).hex()}"
            try:
                manifest = await self._export(batch, entry, exports, folder)
                data = manifest.to_bytes()
                await asyncio.to_thread(exports.write, folder, DRAFT_NAME, data)
                await self._store.ordered(batch, manifest.digest, folder)
            except BaseException:
                await asyncio.to_thread(exports.remove, folder)
                raise
            self._note(batch)
        await asyncio.to_thread(exports.write, batch.folder, MANIFEST_NAME, data)

    async def _export(
        self, batch: Batch, entry: RegisteredTask, exports: Spool, folder: str
    ) -> Manifest:
        """Writes the messages of a batch as they are stored, in parts."""
        _, shares = await self._begin(batch, entry.task)
        facts, rest = list[PartFacts](), bytearray()

        async def write() -> None:
            part = bytes(rest[:MOST_PART_BYTES])
            del rest[:MOST_PART_BYTES]
            await asyncio.to_thread(exports.write, folder, part_name(len(facts)), part)
            facts.append(PartFacts.of(part))

        async for page in self._messages(batch, entry.task, shares):
            rest += page
            while len(rest) >= MOST_PART_BYTES:
                await write()
        if rest:
            await write()
        return Manifest(header=_header(batch, entry.task.id), parts=tuple(facts))

    async def _order(self, batch: Batch, entry: RegisteredTask) -> Manifest:
        """Writes the parts of a batch into a fresh folder of the spool, and records them."""
        task = entry.task
        key, shares = await self._begin(batch, task)
        folder = f"{batch.id.hex()}/{os.urandom(8).hex()}"
        secret = key.order_secret if task.order == "uniform" else None
        with scratch_folder(self._scratch, SCRATCH_PREFIX) as scratch:
            sorter = Sorter(scratch, self._config.memory_mb << 20, secret)
            async for page in self._messages(batch, task, shares):
                await asyncio.to_thread(sorter.add, page)
            facts: list[PartFacts] = []
            parts = sorter.parts()
            try:
                while (part := await asyncio.to_thread(next, parts, None)) is not None:
                    facts.append(
                        await asyncio.to_thread(
                            self._write, key.parts_secret(folder), batch, folder, part, len(facts)
                        )
                    )
            finally:
                parts.close()
        manifest = Manifest(header=_header(batch, task.id), parts=tuple(facts))
        await asyncio.to_thread(self._spool.write, folder, MANIFEST_NAME, manifest.to_bytes())
        await self._store.ordered(batch, manifest.digest, folder)
        self._note(batch)
        return manifest

    @property
    def _scratch(self) -> Path:
        """The folder for sorting batches that do not fit into memory."""
        spool = self._config.spool
        return Path(tempfile.gettempdir() if is_bucket(spool) else spool)

    def sweep(self) -> None:
        """Removes what killed processes left behind while sorting batches."""
        sweep_scratch(self._scratch, SCRATCH_PREFIX)

    def _write(
        self, secret: bytes, batch: Batch, folder: str, part: bytes, number: int
    ) -> PartFacts:
        sealed = seal_part(part, secret, batch.id, number)
        self._spool.write(folder, part_name(number), sealed)
        return PartFacts.of(part)

    async def _deliver(self, batch: Batch, manifest: Manifest) -> None:
        """Sends the manifest, and the parts that the analyzer asks for, until it has all."""
        text, path = manifest.to_bytes(), f"/batches/{batch.id.hex()}"
        headers = {"X-Content-SHA256": manifest.digest.hex()}
        if self._shares:
            key = await asyncio.to_thread(self._store.key, batch)
            secret = key.parts_secret(batch.folder).hex()
            headers |= {"X-Parts-Folder": batch.folder, "X-Parts-Key": secret}
        sent, most = 0, MOST_TIMES * len(manifest.parts)
        for _ in range(2 + most):  # the analyzer gets or checks at least one part each time
            try:
                answer = await self._ask("PUT", path, content=text, headers=headers)
            except NotDelivered as error:
                if self._shares and str(error) == "HTTP 422":  # is a part in the bucket damaged?
                    for number in range(len(manifest.parts)):
                        await asyncio.to_thread(self._read, batch, manifest, number)
                raise
            if answer.get("state") != "receiving":
                return
            missing = answer.get("missing")
            if not isinstance(missing, list) or not all(
                type(one) is int and 0 <= one < len(manifest.parts) for one in missing
            ):
                raise NotDelivered("the analyzer's response is not valid")
            sent += len(missing)
            if sent > most:
                break
            for number in missing:
                await self._send(batch, manifest, number)
        raise NotDelivered("the analyzer keeps asking for the same parts")

    async def _send(self, batch: Batch, manifest: Manifest, number: int) -> None:
        data = await asyncio.to_thread(self._read, batch, manifest, number)
        await self._ask(
            "PUT",
            f"/batches/{batch.id.hex()}/{manifest.digest.hex()}/parts/{number}",
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )

    def _read(self, batch: Batch, manifest: Manifest, number: int) -> bytes:
        sealed = self._spool.read(batch.folder, part_name(number))
        if sealed is None:
            raise PartLost
        try:
            secret = self._store.key(batch).parts_secret(batch.folder)
            data = open_part(sealed, secret, batch.id, number)
            check_part(data, manifest.parts[number])
        except (TaskError, ValueError):  # or too short for a nonce
            raise PartLost from None
        return data

    async def _ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """The JSON of the analyzer's answer; empty for a 404; raises `NotDelivered` for any other
        refusal."""
        headers = {"Authorization": f"Bearer {self._config.deliver_token}"}
        headers |= content.pop("headers", {})
        try:
            answer = await bounded_request_async(
                self._analyzer, method, path, MOST_SHORT_ANSWER_BYTES, headers=headers, **content
            )
        except httpx2.HTTPError as error:
            untrusted = untrusted_certificate(error)
            raise NotDelivered(
                "certificate not trusted" if untrusted else type(error).__name__
            ) from None
        if method == "GET" and answer.status_code == 404:
            return {}
        if answer.status_code not in (200, 201, 202):
            raise NotDelivered(f"HTTP {answer.status_code}")
        try:
            return answer_json(answer)
        except ParameterError:
            raise NotDelivered("the analyzer's response is not valid") from None

    def _note(self, batch: Batch) -> None:
        self._metrics.count("batches", state=batch.state)
        log("batch", batch=batch.id.hex(), state=batch.state, reports=batch.reports)


def _header(batch: Batch, task_id: bytes) -> BatchHeader:
    return BatchHeader(
        task_id=task_id,
        batch_id=batch.id,
        reports=batch.reports,
        top_up_messages=batch.top_up_messages,
        noise_shares=batch.noise_shares,
    )
