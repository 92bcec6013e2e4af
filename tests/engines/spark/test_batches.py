"""Batches on a cluster: the bytes and the result of one machine."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp.cli.main import Parser
from shuffledp.engines.spark import batch_files as files
from shuffledp.engines.spark import batch_parts as batches
from shuffledp.engines.spark.batch_jobs import _opening, open_batch, shuffle_batch
from shuffledp.errors import BudgetExceeded
from shuffledp.queries.count.planner import plan_count
from shuffledp.tasks.errors import BatchHeld, TaskError
from shuffledp.tasks.keys import KeyFolder, PrivateKey
from shuffledp.tasks.opening import AllowedNumbers, Tally, count_messages
from shuffledp.tasks.ordering import ORDER_SECRET_BYTES, ordered
from shuffledp.tasks.parts import as_rows
from shuffledp.tasks.replays import first_seen, in_order
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.results import OpenedBatch, publish_batch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import BATCH_HEADER_BYTES, MESSAGE_BYTES, REPORT_HEADER_BYTES, BatchHeader

USERS = 40


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> PrivateKey:
    return KeyFolder(tmp_path_factory.mktemp("keys")).new()


@pytest.fixture(scope="module")
def task(key: PrivateKey) -> Task:
    plan = plan_count(USERS, 2, mse_overhead=2).to_dict()
    rule = BatchRule(USERS)
    return Task.create(plan, key.public, "dark mode", rule, publish_noise="none")


@pytest.fixture(scope="module")
def reports(task: Task) -> list[bytes]:
    """Everybody's report, as posted."""
    return [encrypt_report(task, user % 2) for user in range(USERS)]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several slices and parts, though there are few messages."""
    monkeypatch.setattr(files, "SLICE_BYTES", 16 << 10)
    monkeypatch.setattr(batches, "ORDER_PART_BYTES", 40 << 10)
    monkeypatch.setattr(batches, "OPEN_PART_MESSAGES", 400)


@pytest.fixture
def inputs(tmp_path: Path, reports: list[bytes]) -> list[str]:
    """Two files of reports; three reports came twice, once in the other file."""
    (tmp_path / "a.reports").write_bytes(b"".join(reports[:25] + reports[3:5]))
    (tmp_path / "b.reports").write_bytes(b"".join([reports[7], *reports[25:]]))
    return [str(tmp_path / "a.reports"), str(tmp_path / "b.reports")]


def header_of(task: Task, batch: bytes, reports: int = USERS) -> BatchHeader:
    return BatchHeader(
        task_id=task.id, batch_id=batch, reports=reports, top_up_messages=0, noise_shares=reports
    )


def on_one_machine(
    reports: list[bytes], task: Task, batch: bytes, secret: bytes | None = None
) -> bytes:
    rows = as_rows(b"".join(report[REPORT_HEADER_BYTES:] for report in reports))
    header = header_of(task, batch, len(reports)).to_bytes()
    return header + ordered(rows, secret).tobytes()


def test_canonical_order_byte_for_byte(
    spark: Any, tmp_path: Path, inputs: list[str], reports: list[bytes], task: Task
) -> None:
    name = os.urandom(16)
    done = shuffle_batch(spark, inputs, str(tmp_path / "out"), task, batch_id=name)
    there = (tmp_path / "out").read_bytes()
    assert there == on_one_machine(reports, task, name)
    assert done["sha256"] == hashlib.sha256(there).hexdigest()
    assert done["reports"] == USERS and done["copies_dropped"] == 3
    assert not (tmp_path / "out.parts").exists()
    again = shuffle_batch(spark, [str(tmp_path / "out")], str(tmp_path / "again"), task)
    assert (tmp_path / "again").read_bytes() == there and again["sha256"] == done["sha256"]


def test_uniform_order_is_that_of_one_machine_under_the_same_secret(
    spark: Any,
    tmp_path: Path,
    inputs: list[str],
    reports: list[bytes],
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[bytes] = []

    class Recording(shuffledp.engines.spark.batch_jobs.SYSTEM.__class__):  # type: ignore[name-defined,misc]
        def words(self, count: int, dtype: Any) -> Any:
            words = super().words(count, dtype)
            drawn.append(words.tobytes())
            return words

    monkeypatch.setattr("shuffledp.engines.spark.batch_jobs.SYSTEM", Recording())
    name = os.urandom(16)
    target = str(tmp_path / "out")
    shuffle_batch(spark, inputs, target, task, order="uniform", batch_id=name)
    there = (tmp_path / "out").read_bytes()
    assert [len(secret) for secret in drawn] == [ORDER_SECRET_BYTES]
    assert there == on_one_machine(reports, task, name, drawn[0])
    assert there != on_one_machine(reports, task, name)
    shuffle_batch(spark, inputs, target, task, order="uniform", batch_id=name)
    assert (tmp_path / "out").read_bytes() != there


def opened_on_one_machine(file: Path, task: Task, key: PrivateKey, earlier: list[Path]) -> Tally:
    messages = file.read_bytes()[BATCH_HEADER_BYTES:]
    rows = in_order(lambda: [messages], file.parent, 1 << 20)
    pages = first_seen(rows, earlier, file.with_suffix(".kept"))
    with ThreadPoolExecutor(2) as pool:
        return count_messages(
            pages,
            key.secret,
            key.public.info(task.id),
            AllowedNumbers.of(task.protocol),
            pool=pool,
            stop=threading.Event(),
        )


def spoilt_batch(path: Path, reports: list[bytes], task: Task) -> None:
    """A full batch in which some messages are copies, some noise, and one was altered."""
    rows = (
        np.frombuffer(b"".join(report[REPORT_HEADER_BYTES:] for report in reports), np.uint8)
        .reshape(-1, MESSAGE_BYTES)
        .copy()
    )
    rows[10:14] = rows[0]
    rows[20] = np.frombuffer(os.urandom(MESSAGE_BYTES), np.uint8)
    rows[30, 40] ^= 1
    rows[31, :32] = rows[32, :32]
    header = header_of(task, os.urandom(16))
    path.write_bytes(header.to_bytes() + rows.tobytes())


def test_opening_matches_the_result_of_one_machine(
    spark: Any, tmp_path: Path, reports: list[bytes], task: Task, key: PrivateKey
) -> None:
    file = tmp_path / "spoilt"
    spoilt_batch(file, reports, task)
    tally = opened_on_one_machine(file, task, key, [])
    work = _opening(task, key, ())
    there = batches.open_parts(spark, [files.look_at(str(file), 0, task.report_size)], work)
    assert there.to_json() == tally.to_json()
    # of the two with one encapsulated key the first in order is kept; it may be the one that opens
    assert tally.dropped["replayed"] == 5 and tally.dropped["unopened"] in (2, 3)
    ledger = shuffledp.Ledger.create(tmp_path / "budget.json", 3)
    with pytest.raises(BatchHeld, match="shares of noise"):  # there is no slack
        open_batch(spark, str(file), task, key, ledger=str(ledger.path))
    assert ledger.spent() == 0


def test_a_result_is_that_of_one_machine(
    spark: Any, tmp_path: Path, inputs: list[str], task: Task, key: PrivateKey
) -> None:
    file = tmp_path / "whole"
    shuffle_batch(spark, inputs, str(file), task)
    there = open_batch(spark, str(file), task, key)
    header = files.batch_header(files.look_at(str(file), 0, task.report_size))
    assert header is not None
    tally = opened_on_one_machine(file, task, key, [])
    batch = OpenedBatch(
        id=header.batch_id, number=1, reports=USERS, noise_shares=USERS, tally=tally
    )
    assert there == publish_batch(task, batch, key=lambda: key, ledger=None, confidence=0.95)


def test_what_was_seen_before_is_dropped_and_remembered(
    spark: Any, tmp_path: Path, inputs: list[str], task: Task, key: PrivateKey
) -> None:
    one, two, seen = (str(tmp_path / name) for name in ("one", "two", "seen"))
    shuffle_batch(spark, inputs, one, task)
    shuffle_batch(spark, inputs, two, task)  # another id, the same messages
    first = open_batch(spark, one, task, key, seen=seen)
    assert first["dropped"]["replayed"] == 0
    assert open_batch(spark, one, task, key, seen=seen) == first  # run again: the same answer
    kept = sorted(Path(seen).glob("*.enc"))
    tally = opened_on_one_machine(Path(two), task, key, kept)
    assert tally.dropped["replayed"] == USERS * task.report_size
    with pytest.raises(BatchHeld, match="copies"):
        open_batch(spark, two, task, key, seen=seen)
    assert len(list(Path(seen).glob("*.enc"))) == 2
    assert Path(two).with_suffix(".kept").read_bytes() == kept[0].read_bytes()


def test_a_ledger_is_charged_once_per_batch(
    spark: Any, tmp_path: Path, inputs: list[str], task: Task, key: PrivateKey
) -> None:
    ledger = shuffledp.Ledger.create(tmp_path / "budget.json", 3)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    for out in (one, two):
        shuffle_batch(spark, inputs, out, task)
    found = [open_batch(spark, one, task, key, ledger=str(ledger.path)) for _ in range(2)]
    assert ledger.spent() == 2 and found[0] == found[1]
    with pytest.raises(BudgetExceeded):
        open_batch(spark, two, task, key, ledger=str(ledger.path))


def test_publish_noise_is_drawn_once_per_batch(spark: Any, tmp_path: Path, key: PrivateKey) -> None:
    """Several results of one batch with different noise would average the noise away."""
    plan = plan_count(USERS, 2, mse_overhead=2).to_dict()
    task = Task.create(plan, key.public, "full", BatchRule(USERS))
    (tmp_path / "reports").write_bytes(
        b"".join(encrypt_report(task, user % 2) for user in range(USERS))
    )
    ledger = shuffledp.Ledger.create(tmp_path / "budget.json", 4)
    batch = str(tmp_path / "batch")
    shuffle_batch(spark, [str(tmp_path / "reports")], batch, task)
    found = [open_batch(spark, batch, task, key, ledger=str(ledger.path)) for _ in range(3)]
    assert ledger.spent() == 2 and all(one["publish_noise"] == "full" for one in found)
    assert found[0] == found[1] == found[2]
    with pytest.raises(TaskError, match="pass a ledger"):
        open_batch(spark, batch, task, key)


def test_files_and_keys_that_do_not_fit_are_refused(
    spark: Any,
    tmp_path: Path,
    inputs: list[str],
    reports: list[bytes],
    task: Task,
    key: PrivateKey,
) -> None:
    out = str(tmp_path / "out")
    with pytest.raises(TaskError, match="25 different"):
        shuffle_batch(spark, inputs[:1], out, task)
    with pytest.raises(TaskError, match="cannot be read"):
        shuffle_batch(spark, [str(tmp_path / "none")], out, task)
    (tmp_path / "cut").write_bytes(b"".join(reports)[:-1])
    with pytest.raises(TaskError, match="ends in the middle of a report"):
        shuffle_batch(spark, [str(tmp_path / "cut")], out, task)
    with pytest.raises(TaskError, match="contains reports"):
        open_batch(spark, inputs[0], task, key)
    other = Task.create(task.certificate, task.key, "another", BatchRule(USERS))
    with pytest.raises(TaskError, match="another task"):
        shuffle_batch(spark, inputs, out, other)
    assert not os.path.exists(out)
    header = header_of(task, bytes(16), USERS - 1)
    messages = b"".join(report[REPORT_HEADER_BYTES:] for report in reports[1:])
    (tmp_path / "short").write_bytes(header.to_bytes() + messages)
    with pytest.raises(TaskError, match="fewer reports"):
        open_batch(spark, str(tmp_path / "short"), task, key)
    stranger = KeyFolder(tmp_path / "keys").new()
    with pytest.raises(TaskError, match="not the key for which"):
        open_batch(spark, str(tmp_path / "short"), task, stranger)


def test_the_commands_shuffle_and_open_a_batch(
    spark: Any,
    tmp_path: Path,
    inputs: list[str],
    task: Task,
    key: PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from contextlib import nullcontext

    from shuffledp.cli import cluster

    monkeypatch.setattr(cluster, "cluster", lambda _: nullcontext(spark))
    (tmp_path / "task.json").write_bytes(task.canonical())
    folder = KeyFolder(tmp_path / "keys")
    folder.write(key)
    top = Parser()
    cluster.add_to(top.add_subparsers())

    def run(*words: str) -> Any:
        args = top.parse_args([*words, "--task", str(tmp_path / "task.json"), "--json"])
        args.run(args)
        return json.loads(capsys.readouterr().out)

    out = str(tmp_path / "out")
    done = run("shuffle-batch", *inputs, "--output", out, "--batch-id", "ab" * 16)
    assert done["batch"] == "ab" * 16 and done["order"] == "canonical"
    result = run("open-batch", out, "--keys", str(folder.path), "--output", f"{out}.json")
    assert result == json.loads(Path(f"{out}.json").read_text())
    assert result["reports"] == USERS and abs(result["result"]["estimate"] - USERS / 2) < 60
    asked: dict[str, Any] = {}

    def opened(*_: Any, **options: Any) -> Any:
        asked.update(options)
        return result

    monkeypatch.setattr("shuffledp.engines.spark.batch_jobs.open_batch", opened)
    run("open-batch", out, "--keys", str(folder.path), "--implausible", "hold")
    assert asked["implausible"] == "hold"
