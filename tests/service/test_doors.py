"""Several processes at the shuffler's door: the same answers, and the same promises when any of
them is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from raw_sockets import connect
from service_programs import Programs
from service_shards import further, task_in
from service_states import stored_tallies
from service_trio import COLLECTOR, USERS, Trio, bearing, known_report

from shuffledp.service.demo import wait_ready
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task

DOORS = 2
FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
KILLS, BATCH = int(os.environ.get("SHUFFLEDP_KILLS", "40" if FULL else "6")), 40
REPORTS = 4 * BATCH


def _doors(programs: Programs) -> list[int]:
    """The ids of the processes that answer the public address now."""
    log = (programs.trio.folder / "shuffler.log").read_text().splitlines()
    started = [json.loads(line)["process"] for line in log if '"process started"' in line]
    return [process for process in started[-8:] if _alive(process)]


def _alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def _wait_doors(programs: Programs, count: int = DOORS) -> list[int]:
    end = time.monotonic() + 60
    while len(found := _doors(programs)) != count:
        assert time.monotonic() < end, programs.log()
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def _running(trio: Trio) -> Iterator[Programs]:
    programs = Programs(trio)
    with programs.both():
        _wait_doors(programs)
        yield programs
    _wait_doors(programs, 0)


def test_all_doors_answer_like_one_server(tmp_path: Path) -> None:
    trio = Trio(tmp_path, processes=DOORS, allow_origins=("https://survey.example",))
    task, ended = trio.task(cell="bounded"), trio.task("ended", cell="bounded")
    with _running(trio) as programs:
        url = programs.urls["shuffler"]
        for one in (task, ended):
            programs.register(one)
        httpx.post(f"{url}/tasks/{ended.id.hex()}/close", headers=bearing(COLLECTOR), timeout=60)
        tokens = programs.enrol(20)
        body = encrypt_report(task, 1)
        path = f"{url}/tasks/{task.id.hex()}/reports"

        def said(body: bytes, token: str, path: str = path) -> tuple[int, str]:
            """Status and code of an answer over a connection of its own."""
            headers = bearing(token) if token else {}
            answer = httpx.post(path, content=body, headers=headers, timeout=60)
            code = answer.json()["type"].rpartition(":")[2] if answer.content else ""
            return answer.status_code, code

        for _ in range(6):  # whichever door it is
            assert said(body, "") == (401, "token-missing")
            assert said(body, "each-nobody") == (403, "token-unknown")
            assert said(body + b"x", tokens[0]) == (413, "size")
            assert said(body, tokens[0], path.replace(task.id.hex(), "00")) == (404, "task-unknown")
            late = path.replace(task.id.hex(), ended.id.hex())
            assert said(encrypt_report(ended, 1), tokens[0], late) == (410, "task-closed")
        assert [said(body, tokens[0])[0] for _ in range(4)] == [201, 200, 200, 200]
        assert said(encrypt_report(task, 1), tokens[0]) == (409, "token-used")
        cross = httpx.get(
            f"{url}/tasks/{task.id.hex()}", headers={"Origin": "https://survey.example"}
        )
        assert cross.content == task.canonical()
        assert cross.headers.get_list("access-control-allow-origin") == ["https://survey.example"]
        again = httpx.get(str(cross.url), headers={"If-None-Match": cross.headers["etag"]})
        assert again.status_code == 304
        for token in tokens[1:]:
            assert said(encrypt_report(task, 1), token)[0] == 201
        (result,) = programs.results(task)
        assert result["reports"] == 20
        metrics = httpx.get(f"{url}/metrics", timeout=60).text
        assert 'uploads_total{task="1",verdict="accepted"} 20.0' in metrics  # of all doors
        assert 'uploads_total{task="1",verdict="duplicate"} 3.0' in metrics
    assert not any(token in programs.log() for token in tokens)


def test_a_body_in_parts_is_put_together(tmp_path: Path) -> None:
    """Also one that breaks off: it is not stored, and can be sent again."""
    trio = Trio(tmp_path, processes=DOORS)
    task = trio.task(cell="bounded")
    with _running(trio) as programs:
        programs.register(task)
        tokens = programs.enrol(3)
        for token, cut in zip(tokens, (False, True, False), strict=True):
            body = encrypt_report(task, 1)
            head = (
                f"POST /tasks/{task.id.hex()}/reports HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
            ).encode()
            with connect(programs.urls["shuffler"]) as peer:
                peer.sendall(head + body[:100])
                time.sleep(0.2)
                if not cut:
                    peer.sendall(body[100:200])
                    time.sleep(0.2)
                    peer.sendall(body[200:])
                    assert peer.recv(100).startswith(b"HTTP/1.1 201")
        status = httpx.get(f"{programs.urls['shuffler']}/status", timeout=60).json()["tasks"][0]
        assert status["have"] == 2


def test_addresses_are_limited_at_the_doors(tmp_path: Path) -> None:
    trio = Trio(tmp_path, processes=DOORS, address_requests_per_minute=20)
    with _running(trio) as programs:
        url = programs.urls["shuffler"]
        said = [httpx.get(f"{url}/livez", timeout=60).status_code for _ in range(3 * 20 * DOORS)]
        assert said[0] == 200 and said.count(429) >= 20
        end = time.monotonic() + 60
        while True:
            answer = httpx.get(f"{url}/metrics", timeout=60)
            if answer.status_code == 200:
                break
            assert time.monotonic() < end
            time.sleep(0.5)
        assert 'limited_total{by="address"}' in answer.text


def test_every_door_knows_a_task_as_soon_as_it_is_registered(tmp_path: Path) -> None:
    """And as soon as it is closed; a token that counts anew in every batch does so at all doors."""
    trio = Trio(tmp_path, processes=DOORS)
    with _running(trio) as programs:
        url = programs.urls["shuffler"]
        tokens = programs.enrol(USERS + 1)

        def post(task: Task, token: str) -> httpx.Response:
            path = f"{url}/tasks/{task.id.hex()}/reports"
            body = encrypt_report(task, 1)
            return httpx.post(path, content=body, headers=bearing(token), timeout=60)

        for number in range(4):
            task = trio.task(f"task {number}", cell="bounded")
            programs.register(task)
            assert [post(task, token).status_code for token in tokens[:4]] == [201] * 4
            httpx.post(f"{url}/tasks/{task.id.hex()}/close", headers=bearing(COLLECTOR), timeout=60)
            assert [post(task, token).status_code for token in tokens[4:8]] == [410] * 4
        task = trio.task("again", cell="bounded", repeat=True)
        programs.register(task)
        for batch in range(2):
            told = [post(task, token).status_code for token in tokens[: USERS - 1]]
            assert told == [201] * (USERS - 1)
            assert [post(task, tokens[0]).status_code for _ in range(4)] == [409] * 4
            assert post(task, tokens[USERS]).status_code == 201
            assert len(programs.results(task, batch + 1)) == batch + 1


def test_a_batch_leaves_early_though_doors_go_on(tmp_path: Path, stores: dict[str, str]) -> None:
    """While a batch that is not full is closed, uploads wait; all of them are counted once."""
    trio = Trio(tmp_path, stores, processes=DOORS)
    rule = {"top_up": "missing", "at_least": 10, "wait_seconds": 1}
    task = trio.task(users=400, cell="bounded", batch=rule)
    reports = 60
    with _running(trio) as programs:
        programs.register(task)
        tokens = programs.enrol(reports)
        path = f"{programs.urls['shuffler']}/tasks/{task.id.hex()}/reports"
        with httpx.Client(timeout=60) as client:
            for token in tokens:
                body = encrypt_report(task, 1)
                while client.post(path, content=body, headers=bearing(token)).status_code == 429:
                    time.sleep(0.1)
                time.sleep(0.05)
            end = time.monotonic() + 60
            while True:
                (status,) = client.get(f"{programs.urls['shuffler']}/status").json()["tasks"]
                sizes = [batch["reports"] for batch in status["batches"]]
                if sum(sizes) + status["have"] == reports and status["have"] < rule["at_least"]:
                    break
                assert time.monotonic() < end, status
                time.sleep(0.2)
        assert len(sizes) > 1 and all(rule["at_least"] <= size < reports for size in sizes)
        results = programs.results(task, len(sizes))
        assert sorted(one["reports"] for one in results) == sorted(sizes)


def test_a_store_that_comes_back_is_opened_by_the_host_first(tmp_path: Path) -> None:
    """If a door had it first, the host would wait for the door for ever."""
    disk = tmp_path / "disk"
    trio = Trio(tmp_path, processes=DOORS, **further({"b": f"sqlite:{disk}/b.db"}))
    task = task_in(trio, "b", cell="bounded")
    disk.mkdir()
    with _running(trio) as programs:
        programs.register(task)
    disk.rename(tmp_path / "away")
    with _running(trio) as programs:
        url = programs.urls["shuffler"]
        tokens = programs.enrol(USERS)
        path = f"{url}/tasks/{task.id.hex()}/reports"
        body = encrypt_report(task, 1)
        assert httpx.post(path, content=body, headers=bearing(tokens[0])).status_code == 503
        (tmp_path / "away").rename(disk)
        end = time.monotonic() + 60
        for token in tokens:
            body = encrypt_report(task, 1)
            while httpx.post(path, content=body, headers=bearing(token)).status_code != 201:
                assert time.monotonic() < end, programs.log()
                time.sleep(0.3)
        assert programs.results(task)[0]["reports"] == USERS


@pytest.mark.attack("kill −9 of a process that has begun to store reports")
def test_a_door_dies_in_the_middle_of_a_commit(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """Its places are given to others, and the batch has exactly its reports."""
    stores = {role: postgres_database() for role in ("shuffler", "analyzer")}
    trio = Trio(tmp_path, stores, processes=DOORS)
    task = trio.task(cell="bounded")

    async def walk(programs: Programs) -> None:
        url = f"{programs.urls['shuffler']}/tasks/{task.id.hex()}/reports"
        tokens = await asyncio.to_thread(programs.enrol, USERS)
        bodies = [encrypt_report(task, 1) for _ in tokens]

        async def post(client: httpx.AsyncClient, number: int) -> int:
            headers = bearing(tokens[number])
            return (await client.post(url, content=bodies[number], headers=headers)).status_code

        async with httpx.AsyncClient(timeout=60) as client:
            assert {await post(client, number) for number in range(5)} == {201}
            other = await asyncpg.connect(stores["shuffler"])
            async with other.transaction():  # whoever stores now waits for this
                await other.execute("LOCK TABLE used IN EXCLUSIVE MODE")
                begun = [asyncio.create_task(post(client, number)) for number in range(5, 9)]
                await _until_waiting(other)
                for door in _doors(programs):
                    os.kill(door, signal.SIGKILL)
                cut = await asyncio.gather(*begun, return_exceptions=True)
                assert all(isinstance(one, httpx.TransportError) for one in cut)
            await other.close()
            await asyncio.to_thread(wait_ready, programs.urls["shuffler"])
            for number in range(9, USERS):  # others come first
                assert await post(client, number) == 201
            assert {await post(client, number) for number in range(5, 9)} == {201}

    with _running(trio) as programs:
        programs.register(task)
        asyncio.run(walk(programs))
        (result,) = programs.results(task)
        assert result["reports"] == USERS
        (status,) = httpx.get(f"{programs.urls['shuffler']}/status", timeout=60).json()["tasks"]
        assert status["have"] == 0


async def _until_waiting(other: Any) -> None:
    """Returns when somebody waits for a lock in this database."""
    for _ in range(600):
        sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
        if await other.fetchval(sql):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nobody stores anything")


@pytest.mark.attack("kill −9 of any process of a shuffler that has several")
def test_nothing_is_lost_or_doubled(tmp_path: Path, stores: dict[str, str]) -> None:
    trio = Trio(tmp_path, stores, processes=DOORS)
    task = trio.task(users=BATCH, cell="bounded")
    made = [known_report(task, user % 2) for user in range(REPORTS)]
    with _running(trio) as programs:
        programs.register(task)
        tokens = programs.enrol(len(made))
        asyncio.run(_storm(programs, task, [body for body, _, _ in made], tokens))
        programs.results(task, REPORTS // BATCH)
        (status,) = httpx.get(f"{programs.urls['shuffler']}/status", timeout=60).json()["tasks"]
        assert status["have"] == 0 and len(status["batches"]) == REPORTS // BATCH
    counted = asyncio.run(stored_tallies(stores["analyzer"]))
    assert sum(tally["plus"][0] for tally in counted) == sum(plus for _, plus, _ in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in counted)


async def _storm(programs: Programs, task: Task, bodies: list[bytes], tokens: list[str]) -> None:
    """Clients that insist, while doors, the writer and the analyzer die in turn."""
    url = f"{programs.urls['shuffler']}/tasks/{task.id.hex()}/reports"
    over = asyncio.Event()

    async def insist(client: httpx.AsyncClient, body: bytes, token: str, first: float) -> None:
        await asyncio.sleep(first)
        acknowledged = 0
        while acknowledged < 2 or not (over.is_set() or acknowledged > 3):
            try:
                answer = await client.post(url, content=body, headers=bearing(token))
                assert answer.status_code in (200, 201, 429, 503), answer.text
                acknowledged += answer.status_code in (200, 201)
            except httpx.TransportError:
                pass
            await asyncio.sleep(random.uniform(0.05, 0.4))

    async def kill() -> None:
        for number in range(KILLS):
            await asyncio.sleep(random.uniform(0.05, 0.4))
            if number % 3 == 0:
                os.kill(
                    random.choice(await asyncio.to_thread(_wait_doors, programs)), signal.SIGKILL
                )
                continue
            role = ("shuffler", "analyzer")[number % 3 - 1]
            programs.kill(role)
            programs.start(role)
            await asyncio.to_thread(wait_ready, programs.urls[role])
        over.set()

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=24), timeout=60) as client:
        clients = [
            insist(client, body, token, 4 * number / len(bodies))
            for number, (body, token) in enumerate(zip(bodies, tokens, strict=True))
        ]
        await asyncio.gather(kill(), *clients)
