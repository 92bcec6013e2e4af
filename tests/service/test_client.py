"""The device's side: one answer, stored before it is sent, the same bytes again."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from logged_tasks import proof_of
from service_trio import TRUSTING, Trio

from shuffledp.errors import SeededError, ValueOutOfRange
from shuffledp.numbers.entropy import Entropy, SeededEntropy
from shuffledp.protocols.report import Report
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.service.client import retries
from shuffledp.service.client.outbox import Outbox
from shuffledp.service.client.sending import AsyncClient, Client
from shuffledp.service.errors import AlreadyAnswered, Refused, Unreachable
from shuffledp.service.tokens import token_hash
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import ENCAPSULATED_KEY_BYTES, MESSAGE_BYTES, read_upload


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Trio(tmp_path).task()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)


def answering(answers: list[int | Exception], seen: list[bytes]) -> httpx2.MockTransport:
    """A shuffler that gives these answers in turn; an exception is raised."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.read())
        found = answers[min(len(seen), len(answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return httpx2.Response(found, json={"type": "urn:x:token-used", "detail": "used"})

    return httpx2.MockTransport(answer)


def given(task: Task, box: Path | Outbox, transport: httpx2.MockTransport) -> dict[str, Any]:
    """What a device is made of that answers every task and whose requests `transport` carries."""
    return {
        "task": task,
        "shuffler": "http://shuffler",
        "token": "t",
        "outbox": box,
        "policy": TRUSTING,
        "proof": proof_of(task),
        "transport": transport,
    }


def device(
    task: Task, box: Path | Outbox, transport: httpx2.MockTransport, **options: Any
) -> Client:
    return Client(**given(task, box, transport), **options)


def test_a_retry_sends_the_same_bytes(task: Task, tmp_path: Path) -> None:
    seen: list[bytes] = []
    transport = answering([httpx2.ConnectError("away"), 503, 429, 201], seen)
    with device(task, tmp_path / "box", transport) as client:
        client.send(1)
    assert len(seen) == 4 and len(set(seen)) == 1
    assert len(seen[0]) == task.report_bytes


def test_an_id_lies_beside_its_token_and_is_fresh(task: Task, tmp_path: Path) -> None:
    seen: list[bytes] = []
    for name in ("a", "b"):
        with device(task, tmp_path / name, answering([201], seen)) as client:
            client.send(1)
    ids = [read_upload(body).report_id for body in seen]
    assert {name[:8] for name in ids} == {token_hash("t")[:8]} and len(set(ids)) == 2


def test_bytes_are_stored_before_the_first_send(task: Task, tmp_path: Path) -> None:
    box = Outbox(tmp_path / "box")
    stored: list[bool] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        stored.append(box.stored(task.id) == request.read())
        return httpx2.Response(201)

    device(task, box, httpx2.MockTransport(answer)).send(0)
    assert stored == [True]
    assert box.stored(task.id) is None and box.answered(task.id)


def test_what_was_not_acknowledged_is_resumed_with_the_same_bytes(
    task: Task, tmp_path: Path
) -> None:
    seen: list[bytes] = []
    away = answering([httpx2.ConnectError("away")], seen)
    with pytest.raises(Unreachable, match="stored"):
        device(task, tmp_path, away, attempts=3).send(1)
    again = device(task, tmp_path, answering([201], seen))
    again.resume()
    again.resume()  # nothing left to send
    assert len(seen) == 4 and len(set(seen)) == 1


def test_a_second_value_is_refused(task: Task, tmp_path: Path) -> None:
    client = device(task, tmp_path, answering([201], []))
    client.send(1)
    for value in (0, 1):
        with pytest.raises(AlreadyAnswered):
            client.send(value)
    with pytest.raises(Unreachable):
        fresh = device(task, tmp_path / "b", answering([503], []), attempts=1)
        fresh.send(1)
    with pytest.raises(AlreadyAnswered):  # stored but not acknowledged counts too
        fresh.send(1)


def test_a_report_that_is_not_stored_costs_nothing(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: what was stored although the folder could not be synchronized is charged when sent."""
    seen: list[bytes] = []
    client = device(task, tmp_path, answering([201], seen))
    for name, is_stored in (("link", False), ("sync", True)):
        with monkeypatch.context() as broken:
            where = "os.link" if name == "link" else "shuffledp.service.client.outbox.sync"
            broken.setattr(where, failing)
            with pytest.raises(OSError, match="disk"):
                client.send(1)
        assert client.device.charges() == [] and not seen
        assert (client.outbox.stored(task.id) is not None) is is_stored
    client.resume()
    assert len(seen) == len(client.device.charges()) == 1
    assert client.device.history()[0]["shuffler"] == "http://shuffler" != task.shuffler


def test_a_disk_that_fills_up_leaves_no_part_of_a_report(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    client, real = device(task, tmp_path, answering([201], seen)), os.fsync

    def full(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".part"):
            raise OSError(errno.ENOSPC, "disk is full")
        real(descriptor)

    with monkeypatch.context() as broken, pytest.raises(OSError, match="disk is full"):
        broken.setattr("os.fsync", full)
        client.send(1)
    assert client.device.charges() == [] and not [*tmp_path.rglob("*.part")]
    client.send(1)
    assert len(seen) == len(client.device.charges()) == 1


def failing(*_: object) -> None:
    raise OSError(errno.EIO, "disk error")


def test_two_programs_cannot_both_answer(task: Task, tmp_path: Path) -> None:
    box = Outbox(tmp_path / "box")

    def store(number: int) -> int:
        try:
            box.store(task.id, bytes([number]))
            return 1
        except AlreadyAnswered:
            return 0

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(store, range(32))) == 1


def test_a_task_may_allow_more_answers(tmp_path: Path) -> None:
    task = Trio(tmp_path).task(repeat=True)
    seen: list[bytes] = []
    client = device(task, tmp_path / "box", answering([201], seen))
    client.send(1)
    client.send(0)
    assert len(set(seen)) == 2


def test_a_final_no_is_said_with_its_reason(task: Task, tmp_path: Path) -> None:
    client = device(task, tmp_path, answering([409], []))
    with pytest.raises(Refused, match="used") as refused:
        client.send(1)
    assert refused.value.status == 409 and refused.value.code == "token-used"


def test_seeded_randomness_is_refused(task: Task, tmp_path: Path) -> None:
    with pytest.raises(SeededError):
        Client(task, "http://s", "t", tmp_path, policy=TRUSTING, entropy=SeededEntropy(1))
    with pytest.raises(SeededError):
        encrypt_report(task, 1, SeededEntropy(1))


def test_a_wrong_value_leaves_nothing_behind(task: Task, tmp_path: Path) -> None:
    client = device(task, tmp_path / "box", answering([201], []))
    with pytest.raises(ValueOutOfRange):
        client.send(7)
    client.send(1)


def test_an_overflowing_draw_is_drawn_again(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    real = CountProtocol.randomize

    def randomize(self: CountProtocol, value: int, entropy: Entropy) -> Report:
        report = real(self, value, entropy)
        drawn.append(1)
        if len(drawn) < 3:
            report.plus[0] = task.report_size + 1
        return report

    monkeypatch.setattr(CountProtocol, "randomize", randomize)
    assert len(encrypt_report(task, 1)) == task.report_bytes and len(drawn) == 3


def test_every_report_has_the_same_size_whatever_the_value(task: Task) -> None:
    sizes = {len(encrypt_report(task, value)) for value in (0, 1) for _ in range(20)}
    assert sizes == {task.report_bytes}
    uploads = [read_upload(encrypt_report(task, 1)) for _ in range(20)]
    assert len({upload.report_id for upload in uploads}) == 20
    joined = b"".join(upload.messages for upload in uploads)
    rows = np.frombuffer(joined, np.uint8).reshape(-1, MESSAGE_BYTES)
    assert len(np.unique(rows[:, :ENCAPSULATED_KEY_BYTES], axis=0)) == 20 * task.report_size


def test_the_async_client_does_the_same(task: Task, tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def walk() -> None:
        transport = answering([httpx2.ReadTimeout("slow"), 201], seen)
        async with AsyncClient(**given(task, tmp_path, transport)) as client:
            await client.send(1)
            with pytest.raises(AlreadyAnswered):
                await client.send(1)
            await client.resume()

    asyncio.run(walk())
    assert len(seen) == 2 and len(set(seen)) == 1


def of_this_thread(slept: list[float]) -> Callable[[float], None]:
    """A sleep that is only noted; threads of other tests' programs sleep as before."""
    own, sleep = threading.get_ident(), time.sleep

    def noted(seconds: float) -> None:
        slept.append(seconds) if threading.get_ident() == own else sleep(seconds)

    return noted


def test_the_shuffler_says_how_long_to_wait(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retry-After is honoured, within what a person waits; an interrupted upload is sent again."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", of_this_thread(slept))
    problem = {"type": "urn:shuffledp:problem:interrupted", "detail": "broke off"}
    answers = [
        httpx2.Response(503, headers={"Retry-After": "7"}),
        httpx2.Response(429, headers={"Retry-After": "99999"}),
        httpx2.Response(503, headers={"Retry-After": "soon"}),
        httpx2.Response(400, json=problem),
        httpx2.Response(201),
    ]
    left = iter(answers)
    transport = httpx2.MockTransport(lambda _: next(left))
    with device(task, tmp_path, transport) as client:
        client.send(1)
    assert slept[:2] == [7.0, 30.0] and all(pause < 1 for pause in slept[2:])
    assert len(slept) == 4
    malformed = httpx2.MockTransport(
        lambda _: httpx2.Response(400, json=problem | {"type": "urn:shuffledp:problem:malformed"})
    )
    again = device(task, tmp_path / "b", malformed)
    with pytest.raises(Refused):
        again.send(1)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_nobody_waits_after_the_last_attempt(
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Client] | type[AsyncClient],
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(time, "sleep", of_this_thread(slept))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    transport = httpx2.MockTransport(lambda _: httpx2.Response(503))
    client = kind(**given(task, tmp_path, transport), attempts=3)
    with pytest.raises(Unreachable, match="in 3 attempts"):
        if isinstance(client, Client):
            client.send(1)
        else:
            asyncio.run(client.send(1))
    assert len(slept) == 2


def test_how_long_the_shuffler_asks_to_wait() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=20), usegmt=True)
    for text, low, high in (
        ("7", 7, 7),
        ("9" * 500, 99_999, 1e9),
        (later, 15, 20),
        (past, 0, 0),
        ("soon", 0, 0),
        ("-1", 0, 0),
        ("", 0, 0),
    ):
        answer = httpx2.Response(503, headers={"Retry-After": text})
        assert low <= retries.asked_seconds(answer) <= high
