"""Batches of the service on Spark: the analyzer opens its manifests there, and `shuffle_batch`
reads what the shuffler exports."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from service_deliveries import batch_of, deliver, made_reports, send_manifest, stored_tallies
from service_states import settled
from service_trio import USERS, Trio, known_report

from shuffledp.engines.spark import batch_parts
from shuffledp.engines.spark.batch_files import PartFile, part_files
from shuffledp.engines.spark.batch_jobs import open_batch, shuffle_batch
from shuffledp.service.analyzer.spark_opening import SparkOpening
from shuffledp.service.store.spool import FolderSpool
from shuffledp.tasks import parts
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.ordering import ordered
from shuffledp.tasks.parts import Manifest, as_rows, part_name, seal_part
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import BATCH_HEADER_BYTES, MESSAGE_BYTES, REPORT_HEADER_BYTES


def put_into_bucket(folder: Path, delivered: Any) -> dict[str, str]:
    """Seals the parts of a batch into a folder that stands for a bucket; gives the headers that
    name it."""
    batch, secret = delivered.manifest.header.batch_id, os.urandom(32)
    place = f"{batch.hex()}/{os.urandom(8).hex()}"
    for number, part in enumerate(delivered.parts):
        sealed = seal_part(part, secret, batch, number)
        FolderSpool(str(folder)).write(place, part_name(number), sealed)
    return {"X-Parts-Folder": place, "X-Parts-Key": secret.hex()}


async def opened_by(folder: Path, engine: str, batches: list[Any], task: Task) -> list[Any]:
    """(states, tallies) after an analyzer has got the same batches: the first in parts, the others
    through a bucket."""
    (folder / "bucket").mkdir(parents=True)
    trio = Trio(folder)
    trio.analyzer_config = replace(
        trio.analyzer_config, engine=engine, parts=f"{folder}/bucket", keys=f"{folder.parent}/keys"
    )
    assert trio.analyzer_config.problems() == []
    async with trio.running():
        await trio.register(task)
        for number, (batch, delivered) in enumerate(batches):
            if number == 0:
                assert (await deliver(trio, batch, delivered)).status_code == 201
            else:
                said = put_into_bucket(folder / "bucket", delivered)
                answer = await send_manifest(trio, batch, delivered.manifest.to_bytes(), **said)
                assert answer.status_code == 201, answer.text
            found = await settled(trio, task, number + 1, 300)
            states = [one["state"] for one in found]
        for _ in range(1200):
            if not list((folder / "bucket").rglob("part-*")):
                break
            await asyncio.sleep(0.05)
        assert not list((folder / "bucket").rglob("part-*"))
        return [states, *await stored_tallies(trio)]


def test_spark_opens_manifests_as_worker_processes_do(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tallies and states, for parts in the spool and sealed parts in a bucket, with copies
    in a batch and of an earlier batch."""
    used: list[Manifest] = []
    real = SparkOpening.open

    def noted(self: SparkOpening, manifest: Manifest, *words: Any) -> Any:
        used.append(manifest)
        return real(self, manifest, *words)

    monkeypatch.setattr(SparkOpening, "open", noted)
    monkeypatch.setattr(batch_parts, "OPEN_PART_MESSAGES", 200)
    task = Trio(tmp_path).task()
    messages, plus, _ = made_reports(task)
    second, _, _ = made_reports(task)
    third, _, _ = made_reports(task, 1)
    batches = [
        batch_of(task, b"".join(messages)),
        batch_of(task, b"".join([messages[0], *second[1:]]), sort=False),
        batch_of(task, third[0] * USERS),
    ]

    async def walk() -> None:
        here = await opened_by(tmp_path / "processes", "processes", batches, task)
        assert not used
        there = await opened_by(tmp_path / "spark", "spark", batches, task)
        assert here == there and len(used) == 3
        assert here[0] == ["published", "held", "held"] and here[1]["plus"] == [plus]
        assert here[2]["dropped"]["replayed"] == task.report_size
        assert here[3]["dropped"]["replayed"] == (USERS - 1) * task.report_size

    asyncio.run(walk())


def test_an_exported_batch_is_ordered_and_opened_on_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From uploads to a result without the analyzer's server. After the export the shuffler keeps
    nothing that can be read."""
    size = 300 * MESSAGE_BYTES
    for module in ("shuffledp.service.shuffler.delivery", "shuffledp.tasks.parts"):
        monkeypatch.setattr(f"{module}.MOST_PART_BYTES", size)
    monkeypatch.setattr(parts, "PART_ROWS", 300)
    made: list[tuple[bytes, int, int]] = []

    async def walk(trio: Trio, task: Task) -> None:
        async with trio.running():
            await trio.register(task)
            made.extend(known_report(task, 1) for _ in range(USERS))
            tokens = await trio.enrol(USERS)
            for (body, _, _), token in zip(made, tokens, strict=True):
                assert (await trio.post(task, body, token)).status_code == 201
            assert (await trio.deleted(task))["batches"][0]["state"] == "deleted"
            assert trio.shuffler.report_keys.ended(task.id, 1) == "delivered"

    trio = Trio(tmp_path, deliver="export", exports=f"{tmp_path}/exports")
    assert trio.shuffler_config.problems() == []
    task = trio.task(publish_noise="none")
    asyncio.run(walk(trio, task))
    (manifest,) = (tmp_path / "exports").glob("*/manifest.json")
    known = Manifest.from_bytes(manifest.read_bytes())
    assert len(known.parts) > 2 and known.header.reports == USERS
    target = tmp_path / "day.batch"
    done = shuffle_batch(spark, [str(manifest)], str(target), task)
    rows = as_rows(b"".join(body[REPORT_HEADER_BYTES:] for body, _, _ in made))
    assert target.read_bytes()[BATCH_HEADER_BYTES:] == ordered(rows).tobytes()
    assert done["batch"] == manifest.parent.name.partition("-")[0] and done["reports"] == USERS
    key = trio.keys.all()[-1]
    results = [
        open_batch(spark, str(path), task, key, seen=f"{tmp_path}/seen-{number}")
        for number, path in enumerate((target, manifest))
    ]
    assert json.dumps(results[0]) == json.dumps(results[1])
    assert results[0]["dropped"]["unopened"] == 0

    part = manifest.parent / part_name(1)
    part.write_bytes(part.read_bytes()[::-1])
    with pytest.raises(TaskError, match="manifest"):
        part_files(known, str(manifest.parent))[1].read(0, 1)
    assert "secret" not in repr(
        PartFile(path="x", number=1, facts=known.parts[0], batch_id=b"b", secret=b"secret")
    )
