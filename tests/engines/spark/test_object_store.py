"""Batches in an object store: a real S3 protocol, served on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector, FileSystem

from shuffledp.data.sources import file_system, shown
from shuffledp.engines.spark import batch_files as files
from shuffledp.engines.spark import batch_parts as batches
from shuffledp.engines.spark.batch_jobs import open_batch, shuffle_batch
from shuffledp.queries.count.planner import plan_count
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task

USERS = 40
NAME = bytes(range(16))


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """What a URI needs after `?` to reach an empty store, with a bucket `sealed`."""
    from moto.server import ThreadedMotoServer  # slow to import

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = f"region=us-east-1&scheme=http&endpoint_override={host}:{port}"
    system, _ = FileSystem.from_uri(f"s3://me:secret@sealed?{settings}&allow_bucket_creation=true")
    system.create_dir("sealed")
    yield settings
    server.stop()


def test_a_batch_in_a_bucket_has_the_same_bytes_and_result(
    spark: Any, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SLICE_BYTES", 16 << 10)
    monkeypatch.setattr(batches, "ORDER_PART_BYTES", 40 << 10)
    key = KeyFolder(tmp_path / "keys").new()
    plan = plan_count(USERS, 2, mse_overhead=2, padded=True).to_dict()
    task = Task.create(plan, key.public, "dark mode", BatchRule(USERS), publish_noise="none")
    encrypted = [encrypt_report(task, user % 2) for user in range(USERS)]
    halves = [b"".join(encrypted[:15]), b"".join(encrypted[10:])]  # five reports came twice
    uris = [f"s3://me:secret@sealed/in/{number}?{store}" for number in (0, 1)]
    for number, half in enumerate(halves):
        (tmp_path / str(number)).write_bytes(half)
        system, inside = file_system(uris[number])
        with system.open_output_stream(inside) as out:
            out.write(half)
    target = f"s3://me:secret@sealed/out/batch?{store}"
    far = shuffle_batch(spark, uris, target, task, batch_id=NAME)
    near = shuffle_batch(
        spark, [str(tmp_path / n) for n in "01"], str(tmp_path / "batch"), task, batch_id=NAME
    )
    assert far == near and far["copies_dropped"] == 5
    system, inside = file_system(target)
    with system.open_input_stream(inside) as batch:
        assert batch.read() == (tmp_path / "batch").read_bytes()
    left = system.get_file_info(FileSelector("sealed/out", recursive=True))
    assert [entry.path for entry in left] == ["sealed/out/batch"]  # no parts
    assert (
        open_batch(spark, target, task, key)["result"]
        == open_batch(spark, str(tmp_path / "batch"), task, key)["result"]
    )


def test_a_missing_object_is_named_without_credentials(
    spark: Any, store: str, tmp_path: Path
) -> None:
    key = KeyFolder(tmp_path / "keys").new()
    task = Task.create(plan_count(USERS, 2).to_dict(), key.public, "dark mode", BatchRule(USERS))
    with pytest.raises(TaskError, match="s3://sealed/nothing cannot be read") as refusal:
        open_batch(spark, f"s3://me:secret@sealed/nothing?{store}", task, key)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "said", "parts"),
    [
        ("/data/a?b@c", "/data/a?b@c", "/data/a?b@c.parts"),
        ("s3://bucket/a/b", "s3://bucket/a/b", "s3://bucket/a/b.parts"),
        ("s3://k:s@bucket/a?x=1&y=2", "s3://bucket/a", "s3://k:s@bucket/a.parts?x=1&y=2"),
    ],
)
def test_what_errors_show_of_a_path_and_of_its_folder(path: str, said: str, parts: str) -> None:
    assert shown(path) == said
    assert files.beside(path, ".parts") == parts
