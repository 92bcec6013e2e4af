"""Living with a server: tasks are listed, archived and deleted, and old things are forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from service_deliveries import batch_of, made_reports, send_manifest
from service_programs import Programs
from service_trio import ANALYZER_OPERATOR, OPERATOR, Trio, as_collector, bearing

from shuffledp.cli.main import main
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.clock import CLOCK_SECONDS, DAY_SECONDS
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task

DAYS = 7


async def _archive(server: httpx2.AsyncClient, task: Task, token: str, discard: bool) -> str:
    """The state after an attempt to archive a task, or the code of the refusal."""
    answer = await server.post(
        f"/tasks/{task.id.hex()}/archive", json={"discard": discard}, headers=bearing(token)
    )
    data = answer.json()
    return str(data["state"] if answer.status_code == 200 else data["type"].rpartition(":")[2])


async def _delete(server: httpx2.AsyncClient, task: Task, token: str) -> int:
    answer = await server.delete(f"/tasks/{task.id.hex()}", headers=bearing(token))
    return answer.status_code


async def _count(trio: Trio, sql: str, *values: Any) -> int:
    rows = await trio.shuffler.database.rows(f"SELECT COUNT(*) FROM {sql}", *values)
    return int(rows[0][0])


async def _close(trio: Trio, task: Task) -> None:
    answer = await trio.to_shuffler.post(
        f"/tasks/{task.id.hex()}/close", headers=bearing("collector-secret")
    )
    assert answer.status_code == 200


def test_a_task_is_closed_archived_and_deleted(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task, other = trio.task(cell="bounded"), trio.task("other", cell="bounded")
            for one in (task, other):
                await trio.register(one)
            await trio.upload(task, [1] * 25)  # a batch of 20, and 5 that wait
            await trio.results(task)
            await trio.deleted(task)
            proof = f"/tasks/{task.id.hex()}/proof"
            assert (await trio.to_shuffler.get(proof)).status_code == 200
            assert await _archive(trio.to_shuffler, task, OPERATOR, False) == "task-open"
            await _close(trio, task)
            assert await _archive(trio.to_shuffler, task, OPERATOR, False) == "task-waiting"
            assert await _archive(trio.to_shuffler, task, "wrong", True) == "token-wrong"
            assert await _delete(trio.to_shuffler, task, OPERATOR) == 409
            assert await _archive(trio.to_shuffler, task, OPERATOR, True) == "archived"
            assert await _archive(trio.to_shuffler, task, OPERATOR, False) == "archived"
            assert await _count(trio, "reports") == 0
            listed = await trio.to_shuffler.get("/tasks", headers=bearing(OPERATOR))
            states = {one["name"]: (one["state"], one["waiting"]) for one in listed.json()["tasks"]}
            assert states == {"test": ("archived", 0), "other": ("open", 0)}
            shown = (await trio.to_shuffler.get("/status", headers=bearing(OPERATOR))).json()[
                "tasks"
            ]
            assert [one["name"] for one in shown] == ["other"]
            (token,) = await trio.enrol()
            late = await trio.post(task, encrypt_report(task, 1), token)
            assert late.status_code == 410

            assert await _archive(trio.to_analyzer, task, ANALYZER_OPERATOR, False) == "task-open"
            messages, _, _ = made_reports(task)
            batch, body = batch_of(task, b"".join(messages))
            await send_manifest(trio, batch, body.manifest.to_bytes())
            assert await _archive(trio.to_analyzer, task, ANALYZER_OPERATOR, True) == "task-busy"
            known = await trio.analyzer.store.find(batch)
            assert known is not None and await trio.analyzer.publishing.discard(known, "given up")
            assert await _archive(trio.to_analyzer, task, ANALYZER_OPERATOR, True) == "archived"
            results = await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results")
            assert len(results.json()["results"]) == 1  # still to be read
            assert await _delete(trio.to_analyzer, task, ANALYZER_OPERATOR) == 200
            assert await _delete(trio.to_shuffler, task, OPERATOR) == 200
            assert (await trio.to_shuffler.get(proof)).status_code == 404
            for table in ("used", "batches"):
                assert await _count(trio, f"{table} WHERE task=1") == 0
            for server in (trio.to_shuffler, trio.to_analyzer):
                gone = await server.get(f"/tasks/{task.id.hex()}")
                again = await server.put(
                    f"/tasks/{task.id.hex()}",
                    content=task.canonical(),
                    headers=as_collector(task.id),
                )
                assert (gone.status_code, again.status_code) == (404, 410)
            await trio.upload(other, [1] * 20)
            await trio.results(other)  # the ledger takes it that a published batch is not known
        async with trio.running():  # deleted ones stay deleted after a start
            listed = await trio.to_shuffler.get("/tasks", headers=bearing(OPERATOR))
            assert [one["name"] for one in listed.json()["tasks"]] == ["other"]

    asyncio.run(walk())


def test_an_archived_task_takes_no_batch(tmp_path: Path) -> None:
    """The shuffler says why its batch stays; nothing is published."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task(cell="bounded")
            await trio.register(task)
            assert await _archive(trio.to_analyzer, task, ANALYZER_OPERATOR, True) == "archived"
            await trio.upload(task, [1] * 20)
            for _ in range(600):
                batches = (await trio.status(task))["batches"]
                if batches and batches[0]["problem"]:
                    break
                await asyncio.sleep(0.1)
            assert batches[0]["problem"] == "HTTP 410"
            assert await _archive(trio.to_shuffler, task, OPERATOR, True) == "task-busy"

    asyncio.run(walk())


def test_old_tokens_and_report_ids_are_forgotten(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path, stores, token_days=DAYS, replay_days=DAYS)
        async with trio.running():
            task = trio.task(cell="bounded", expires=int(trio.clock()) + DAY_SECONDS)
            await trio.register(task)
            (once,) = await trio.enrol(prefix=ONCE_PREFIX)
            assert (await trio.post(task, encrypt_report(task, 1), once)).status_code == 201
            await trio.upload(task, [1] * 4)
            retention = trio.shuffler.retention
            await retention.once()
            assert await _count(trio, "tokens") == 5 and await _count(trio, "used") == 10
            trio.seconds_ahead = (DAYS - 1) * DAY_SECONDS
            fresh = await trio.enrol(2)
            await retention.once()
            assert await _count(trio, "tokens") == 7
            trio.seconds_ahead = (DAYS + 1) * DAY_SECONDS + 2 * CLOCK_SECONDS
            await retention.once()
            assert await _count(trio, "tokens") == len(fresh)
            assert await _count(trio, "used") == 0
            assert (await trio.status(task))["have"] == 5  # the reports themselves still wait
            # the clock goes back: nobody may answer a second time
            trio.seconds_ahead = 0
            again = await trio.post(task, encrypt_report(task, 1), fresh[0])
            assert again.status_code == 410

    asyncio.run(walk())


def test_nothing_is_forgotten_unless_asked_for(tmp_path: Path) -> None:
    """The twin: without settings, a thousand days change nothing."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task(cell="bounded")
            await trio.register(task)
            await trio.upload(task, [1] * 20)
            await trio.results(task)
            await trio.deleted(task)
            trio.seconds_ahead = 1000 * DAY_SECONDS
            await trio.shuffler.retention.once()
            await trio.analyzer.retention.once()
            assert await _count(trio, "tokens") == 20 and await _count(trio, "used") == 40
            assert len(await trio.results(task)) == 1

    asyncio.run(walk())


def test_old_results_and_replays_are_forgotten(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        trio.analyzer_config = replace(trio.analyzer_config, result_days=DAYS, replay_days=DAYS)
        async with trio.running():
            task = trio.task(cell="bounded")
            await trio.register(task)
            await trio.upload(task, [1] * 20)
            await trio.results(task)
            seen = next((tmp_path / "analyzer").glob("seen-*"))
            retention = trio.analyzer.retention
            trio.seconds_ahead = (DAYS - 1) * DAY_SECONDS
            await retention.once()
            assert len(await trio.results(task)) == 1
            trio.seconds_ahead = (DAYS + 1) * DAY_SECONDS
            await retention.once()
            answer = (await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results")).json()
            assert (answer["results"], answer["unpublished"], answer["forgotten"]) == ([], [], 1)
            rows = await trio.analyzer.database.rows("SELECT tally, result FROM batches")
            assert rows == [(None, None)]
            csv = await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results.csv")
            page = await trio.to_analyzer.get("/")
            assert csv.status_code == page.status_code == 200
            # copies are remembered as long as anything can be opened under the key
            assert await _archive(trio.to_analyzer, task, ANALYZER_OPERATOR, True) == "archived"
            trio.seconds_ahead += (DAYS + 1) * DAY_SECONDS
            await retention.once()
            assert seen.exists()
            keys = KeyFolder(tmp_path / "keys")
            keys.retire(task.key.key_id)
            keys.new()
            await retention.once()
            assert not seen.exists()
            other = trio.task("other", cell="bounded", clock=trio.clock)
            await trio.register(other)
            await trio.upload(other, [1] * 20)  # under the new key, all goes on
            assert len(await trio.results(other)) == 1

    asyncio.run(walk())


class Apart(NamedTuple):
    """Running servers, of which the shuffler answers its operators at an address of their own."""

    programs: Programs
    inside: str
    """The operators' URL."""


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    inside = f"127.0.0.1:{free_port()}"
    programs = Programs(Trio(tmp_path_factory.mktemp("apart"), operators_listen=inside))
    with programs.both():
        wait_ready(f"http://{inside}")
        yield Apart(programs, f"http://{inside}")


def test_commands_of_the_operator(
    apart: Apart, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHUFFLEDP_OPERATOR_TOKEN", OPERATOR)
    task = apart.programs.trio.task("dark mode", cell="bounded")
    apart.programs.register(task)
    words = ["--server", apart.inside, "--task", task.id.hex()]
    assert main(["task", "list", *words[:2]]) == 0
    shown = capsys.readouterr().out
    assert "dark mode" in shown and "open" in shown
    assert main(["task", "archive", *words]) == 2
    assert "still takes reports" in capsys.readouterr().err
    assert main(["task", "archive", *words, "--discard"]) == 0
    assert main(["task", "delete", *words]) == 0
    capsys.readouterr()
    assert main(["task", "list", *words[:2], "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert task.id.hex() not in [one["task"] for one in listed]
    assert main(["task", "delete", *words[:2], "--task", "7"]) == 2
    assert "64 hexadecimal digits" in capsys.readouterr().err


def test_operators_have_a_port_of_their_own(apart: Apart) -> None:
    shuffler, analyzer = (apart.programs.urls[role] for role in ("shuffler", "analyzer"))
    task = apart.programs.trio.task(cell="bounded")
    apart.programs.register(task)  # the collector uses the public one
    with httpx2.Client(headers=bearing(OPERATOR), timeout=60) as web:
        for path in ("/", "/page.js", "/status", "/metrics", "/tasks"):
            assert web.get(f"{shuffler}{path}").status_code == 404
            assert web.get(f"{apart.inside}{path}").status_code == 200, path
            found = web.get(f"{analyzer}{path}", headers=bearing(ANALYZER_OPERATOR))
            assert found.status_code == 200  # not apart there
        for method, path in (
            ("POST", "/tokens"),
            ("POST", f"/tasks/{task.id.hex()}/archive"),
            ("DELETE", f"/tasks/{task.id.hex()}"),
        ):
            assert web.request(method, f"{shuffler}{path}").status_code in (404, 405), path
        for path in ("/livez", "/readyz", f"/tasks/{task.id.hex()}"):
            assert web.get(f"{shuffler}{path}").status_code == 200
        enrolled = web.post(f"{apart.inside}/tokens", json={"sha256": ["0" * 64]})
        assert enrolled.status_code == 201


def test_tasks_can_be_listed_while_one_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            for name in ("first", "second"):
                await trio.register(trio.task(name))
            shuffler, other = trio.shuffler, trio.task("other")

            async def waiting(_: RegisteredTask) -> int:
                shuffler.tasks._add(RegisteredTask(number=9, task=other, state="open"))
                return 0

            monkeypatch.setattr(shuffler.retention, "waiting", waiting)
            answer = await trio.to_shuffler.get("/tasks", headers=bearing(OPERATOR))
            assert [one["name"] for one in answer.json()["tasks"]] == ["first", "second"]

    asyncio.run(walk())
