"""Deliveries from the shuffler: a manifest, then its parts, in any order and as often as needed.

The shuffler sends the manifest repeatedly; the response says which parts are still missing, until
the batch is complete. A batch that is not complete may be replaced by another manifest, because the
shuffler may have had to order it again; a complete one is never replaced. Every batch has a folder
in the spool with its manifest and its parts. If shuffler and analyzer share a bucket, the folder
instead records where the parts are and the key that opens them, which is overwritten once the batch
is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.documents.files import sync, write_whole
from shuffledp.errors import ParameterError
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.store import AnalyzerStore, StoredBatch
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.bodies import read_body
from shuffledp.service.http.logs import log
from shuffledp.service.http.problems import Problem
from shuffledp.service.store.private import erase, private_folder
from shuffledp.service.store.spool import Spool, inside, open_spool
from shuffledp.tasks.errors import BatchRefused, StateLost, TaskError
from shuffledp.tasks.parts import (
    MANIFEST_NAME,
    MOST_MANIFEST_BYTES,
    MOST_PART_BYTES,
    RUN_PREFIX,
    Manifest,
    check_part,
    open_part,
    part_name,
)
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import BATCH_HEADER_BYTES, MESSAGE_BYTES

REFUSAL_STATUS = {"batch-size": 413}
"""HTTP statuses of refused batches; 422 for all others."""
MOST_ASKED = 4096
"""The most parts that one response asks for."""
CHECK_SECONDS = 20.0
"""How many seconds one request may check parts in a bucket; it checks at least one."""
KEY_FILE, FOLDER_FILE, CHECKED_FILE = "key", "folder", "checked"
FOLDER = re.compile(r"[0-9a-f]{32}/[0-9a-f]{16}", re.ASCII)
KEPT = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})", re.ASCII)


class Inbox:
    """The folders of the batches that are being received or opened."""

    def __init__(self, config: AnalyzerConfig) -> None:
        self._spool, self._most = Path(config.spool), config.most_batch_mb << 20
        self._parts = config.parts
        self._bucket: Spool | None = open_spool(config.parts) if config.parts else None

    def folder(self, batch_id: bytes, digest: bytes) -> Path:
        """The folder of a batch until it is counted."""
        return self._spool / f"{batch_id.hex()}-{digest.hex()[:16]}"

    def begin(self, manifest: Manifest, shared: tuple[str, bytes] | None) -> None:
        """Makes the folder of a batch; `shared` says where in the bucket its parts are, and their
        key."""
        folder = self.folder(manifest.header.batch_id, manifest.digest)
        with _writing():
            private_folder(folder)
            if shared is not None:
                (folder / CHECKED_FILE).unlink(missing_ok=True)
                write_whole(folder / FOLDER_FILE, shared[0], durable=True, secret=True)
                write_whole(folder / KEY_FILE, shared[1], durable=True, secret=True)
            write_whole(folder / MANIFEST_NAME, manifest.to_bytes(), durable=True, secret=True)
            sync(self._spool)

    def current(self, manifest: Manifest, shared: tuple[str, bytes] | None) -> bool:
        """Whether the folder of a batch is there, and its parts in the bucket have not moved."""
        folder = self.folder(manifest.header.batch_id, manifest.digest)
        if not (folder / MANIFEST_NAME).exists():
            return False
        place = folder / FOLDER_FILE
        return shared is None or not place.exists() or place.read_text() == shared[0]

    def missing(self, manifest: Manifest) -> list[int]:
        """The first missing parts."""
        folder = self.folder(manifest.header.batch_id, manifest.digest)
        found: list[int] = []
        for number in range(len(manifest.parts)):
            if not (folder / part_name(number)).exists():
                found.append(number)
                if len(found) == MOST_ASKED:
                    break
        return found

    def check_shared(self, manifest: Manifest) -> bool:
        """Checks the next parts in the bucket; whether all were checked."""
        folder = self.folder(manifest.header.batch_id, manifest.digest)
        file = folder / CHECKED_FILE
        done = int(file.read_text()) if file.exists() else 0
        end = time.monotonic() + CHECK_SECONDS
        for number in range(done, len(manifest.parts)):
            check_part(self._read(folder, manifest, number), manifest.parts[number])
            done = number + 1
            if time.monotonic() > end:
                break
        with _writing():
            write_whole(file, str(done), durable=True, secret=True)
        return done == len(manifest.parts)

    def write(self, manifest: Manifest, number: int, data: bytes) -> None:
        """Stores a part, durably."""
        check_part(data, manifest.parts[number])
        folder = self.folder(manifest.header.batch_id, manifest.digest)
        with _writing():
            write_whole(folder / part_name(number), data, durable=True, secret=True)

    def parts(self, batch_id: bytes, digest: bytes) -> Iterator[bytes]:
        """The messages of all parts, in order."""
        folder = self.folder(batch_id, digest)
        manifest = self._known_manifest(batch_id, digest)
        for number, facts in enumerate(manifest.parts):
            try:
                data = self._read(folder, manifest, number)
                check_part(data, facts)
            except (FileNotFoundError, TaskError):
                raise StateLost(
                    "A part of this batch is missing or damaged in the spool; bring it back, or "
                    "discard the batch."
                ) from None
            yield data

    def where(self, batch_id: bytes, digest: bytes) -> tuple[Manifest, str, bytes | None]:
        """(manifest, folder or URI of the parts, key that encrypts them) of a batch."""
        folder = self.folder(batch_id, digest)
        manifest, place = self._known_manifest(batch_id, digest), folder / FOLDER_FILE
        if not place.exists():
            return manifest, str(folder), None
        return manifest, inside(self._parts, place.read_text()), (folder / KEY_FILE).read_bytes()

    def _known_manifest(self, batch_id: bytes, digest: bytes) -> Manifest:
        manifest = self.manifest(batch_id, digest)
        if manifest is None:
            raise StateLost(
                "The parts of this batch are missing in the spool; bring the folder back, or "
                "discard the batch."
            )
        return manifest

    def _read(self, folder: Path, manifest: Manifest, number: int) -> bytes:
        place = folder / FOLDER_FILE
        if not place.exists():
            return (folder / part_name(number)).read_bytes()
        sealed = None
        if self._bucket is not None:
            sealed = self._bucket.read(place.read_text(), part_name(number))
        if sealed is None:
            raise TaskError("A part is missing in the bucket; deliver the batch again.")
        key = (folder / KEY_FILE).read_bytes()
        return open_part(sealed, key, manifest.header.batch_id, number)

    def manifest(self, batch_id: bytes, digest: bytes) -> Manifest | None:
        """The manifest of a stored batch."""
        file = self.folder(batch_id, digest) / MANIFEST_NAME
        return Manifest.from_bytes(file.read_bytes()) if file.exists() else None

    def remove(self, batch_id: bytes, digest: bytes) -> None:
        """Removes a batch that was counted or discarded, its key first."""
        folder = self.folder(batch_id, digest)
        erase(folder / KEY_FILE)
        place = folder / FOLDER_FILE
        if place.exists() and self._bucket is not None:
            self._bucket.remove(place.read_text().partition("/")[0])
        shutil.rmtree(folder, ignore_errors=True)

    def forget(self, batch_id: bytes, digest: bytes) -> None:
        """Removes the files of a replaced manifest. In a bucket, the parts of both
        manifests are removed with the batch."""
        folder = self.folder(batch_id, digest)
        erase(folder / KEY_FILE)
        shutil.rmtree(folder, ignore_errors=True)

    def kept(self) -> list[tuple[bytes, bytes]]:
        """(batch id, beginning of the digest) of every folder."""
        names = [KEPT.fullmatch(folder.name) for folder in self._spool.iterdir()]
        return [(bytes.fromhex(name[1]), bytes.fromhex(name[2])) for name in names if name]

    def clear_runs(self) -> None:
        """Removes what a killed process left behind while sorting a batch."""
        for run in self._spool.glob(f"{RUN_PREFIX}*"):
            run.unlink(missing_ok=True)

    def shared(self, request: Request) -> tuple[str, bytes] | None:
        """(folder, key) of a batch in the bucket, if a request says so."""
        folder, key = request.headers.get("x-parts-folder"), request.headers.get("x-parts-key", "")
        if folder is None:
            return None
        if not FOLDER.fullmatch(folder) or not re.fullmatch("[0-9a-f]{64}", key):
            raise Problem(400, "batch-name", "Name the batch's folder, and its key of 64 digits.")
        if self._bucket is None:
            raise Problem(
                422, "bucket", "No bucket is shared here; set parts, or deliver parts by HTTP."
            )
        return folder, bytes.fromhex(key)

    def check_room(self, manifest: Manifest, *, shared: bool) -> None:
        """Refuses a batch that is larger than the limit, or than the free space on the disk."""
        size = manifest.messages * MESSAGE_BYTES
        room = self._most
        if not shared:
            room = min(room, shutil.disk_usage(self._spool).free - (64 << 20))
        if size > room:
            raise Problem(
                413,
                "batch-size",
                "The batch is too large; free space on the disk, or raise most_batch_mb.",
                have=size,
                need=max(room, 0),
            )


async def read_manifest(request: Request) -> Manifest:
    """The manifest in a request; refuses one that does not match the path and the digest."""
    batch, digest = request.path_params["batch"], request.headers.get("x-content-sha256", "")
    if not re.fullmatch("[0-9a-f]{32}", batch) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise Problem(
            400,
            "batch-name",
            "Name the batch by 32 hexadecimal digits and send its SHA-256 as X-Content-SHA256.",
        )
    body = await read_body(request, MOST_MANIFEST_BYTES)
    if hashlib.sha256(body).hexdigest() != digest:
        raise Problem(422, "digest", "The manifest was damaged in transit; deliver it again.")
    try:
        manifest = await asyncio.to_thread(Manifest.from_bytes, body)
    except TaskError as error:
        raise Problem(400, "malformed", str(error)) from None
    if manifest.header.batch_id.hex() != batch:
        raise Problem(400, "batch-name", "The batch's manifest names another batch.")
    return manifest


def check_delivery(manifest: Manifest, task: Task) -> None:
    """Raises a `Problem` unless a batch follows its task's rule."""
    try:
        task.check_batch(manifest.header, BATCH_HEADER_BYTES + manifest.messages * MESSAGE_BYTES)
    except BatchRefused as refused:
        status = REFUSAL_STATUS.get(refused.code, 422)
        raise Problem(
            status, refused.code, str(refused), have=refused.have, need=refused.need
        ) from None


class Receiving:
    """Accepts manifests and parts, and records when a batch is complete."""

    def __init__(self, inbox: Inbox, store: AnalyzerStore) -> None:
        self._inbox, self._store = inbox, store
        self._lock = asyncio.Lock()

    async def begin(
        self, manifest: Manifest, task: int, shared: tuple[str, bytes] | None
    ) -> StoredBatch:
        """The stored batch of a manifest: a new one, or the one that is being received."""
        digest = manifest.digest
        async with self._lock:
            known = await self._store.find(manifest.header.batch_id)
            if known is not None and known.digest == digest:
                if known.state == "receiving" and not self._inbox.current(manifest, shared):
                    await asyncio.to_thread(self._inbox.begin, manifest, shared)
                return known
            if known is not None and known.state != "receiving":
                raise _differs()
            self._inbox.check_room(manifest, shared=shared is not None)
            await asyncio.to_thread(self._inbox.begin, manifest, shared)
            if known is not None:
                await self._store.replace(manifest.header, digest)
                await asyncio.to_thread(self._inbox.forget, known.id, known.digest)
            else:
                await self._store.receive(manifest.header, task, digest)
            found = await self._store.find(manifest.header.batch_id)
            assert found is not None
            return found

    async def advance(self, batch: StoredBatch, manifest: Manifest) -> list[int]:
        """The parts that a batch still needs; records that it is complete if there are none. A
        batch in a bucket is checked part by part, and may need no parts while it is not complete
        yet."""
        folder = self._inbox.folder(batch.id, batch.digest)
        if (folder / FOLDER_FILE).exists():
            try:
                whole = await asyncio.to_thread(self._inbox.check_shared, manifest)
            except TaskError as error:
                raise Problem(422, "digest", str(error)) from None
            if not whole:
                return []
            missing: list[int] = []
        else:
            missing = await asyncio.to_thread(self._inbox.missing, manifest)
        if not missing:
            await self._complete(batch)
        return missing

    async def _complete(self, batch: StoredBatch) -> None:
        """Records that a batch is complete, unless another manifest has replaced it in the
        meantime."""
        async with self._lock:  # `begin` removes what it replaces
            if await self._store.complete(batch):
                return
            known = await self._store.find(batch.id)
            if known is None or known.digest != batch.digest:
                raise _differs()
            batch.state = known.state

    async def sweep(self) -> None:
        """Removes what a killed process left behind: parts and keys of finished batches and of
        replaced manifests. A folder of an unknown batch stays: an older store may have been
        restored, and these may be the only copies."""
        await asyncio.to_thread(self._inbox.clear_runs)
        for batch_id, digest in await asyncio.to_thread(self._inbox.kept):
            batch = await self._store.find(batch_id)
            try:
                if batch is None:
                    log("parts of an unknown batch", level="warning", batch=batch_id.hex())
                elif batch.state not in ("receiving", "received"):
                    await asyncio.to_thread(self._inbox.remove, batch_id, digest)
                elif not batch.digest.startswith(digest):
                    await asyncio.to_thread(self._inbox.forget, batch_id, digest)
            except StorageUnavailable:
                log("parts not removed", level="warning", batch=batch_id.hex())

    async def take_part(self, request: Request) -> Response:
        """Stores one part of a batch that is being received."""
        params = request.path_params
        try:
            batch_id, digest = bytes.fromhex(params["batch"]), bytes.fromhex(params["digest"])
            number = int(params["part"]) if re.fullmatch("[0-9]{1,9}", params["part"]) else -1
        except ValueError:
            raise Problem(400, "batch-name", "Name the batch, its digest and the part.") from None
        known = await self._store.find(batch_id)
        if known is None or known.digest != digest:
            raise Problem(409, "batch-differs", "Send the batch's manifest before its parts.")
        if known.state != "receiving":
            return JSONResponse({"state": known.state})
        manifest = await asyncio.to_thread(self._inbox.manifest, batch_id, digest)
        if manifest is None or not 0 <= number < len(manifest.parts):
            raise Problem(400, "batch-name", "The manifest of this batch has no such part.")
        body = await read_body(request, MOST_PART_BYTES)
        try:
            await asyncio.to_thread(self._inbox.write, manifest, number, body)
        except TaskError as error:
            raise Problem(422, "digest", str(error)) from None
        return JSONResponse({"state": "receiving"}, 201)


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Turns a full disk into `StorageUnavailable`, whose response names no path of this machine."""
    try:
        yield
    except (OSError, ParameterError):
        raise StorageUnavailable("The spool cannot be written; free space on its disk.") from None


def _differs() -> Problem:
    return Problem(409, "batch-differs", "Another batch has this id; deliver each once.")
