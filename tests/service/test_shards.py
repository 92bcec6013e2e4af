"""A shuffler with several stores: a task lives whole in one, and the promises hold over all."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_programs import Programs
from service_shards import further, task_in
from service_trio import COLLECTOR, OPERATOR, USERS, Trio, bearing, sha

from shuffledp.cli.main import main
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.shuffler import stores as shuffler_stores
from shuffledp.service.store.backups import back_up, restore
from shuffledp.service.tokens import EACH_PREFIX, ONCE_PREFIX, new_token, token_hash
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task

NAMES = ("", "b", "c")


async def enrolled(trio: Trio, count: int, prefix: str = EACH_PREFIX) -> list[str]:
    tokens = [new_token(prefix) for _ in range(count)]
    hashes = {"sha256": [sha(token) for token in tokens]}
    answer = await trio.to_shuffler.post("/tokens", json=hashes, headers=bearing(OPERATOR))
    assert answer.status_code == 201
    return tokens


async def send(trio: Trio, task: Task, token: str, body: bytes | None = None) -> httpx.Response:
    return await trio.to_shuffler.post(
        f"/tasks/{task.id.hex()}/reports",
        content=encrypt_report(task, 1) if body is None else body,
        headers=bearing(token),
    )


def code(answer: httpx.Response) -> str:
    return str(answer.json()["type"]).rpartition(":")[2]


async def rows(trio: Trio, name: str, table: str) -> int:
    database = trio.shuffler.shards.open[name].database
    return int((await database.rows(f"SELECT COUNT(*) FROM {table}"))[0][0])


@contextlib.asynccontextmanager
async def with_tasks(trio: Trio) -> AsyncIterator[dict[str, Task]]:
    """Both servers, and a task in each store."""
    tasks = {name: task_in(trio, name, cell="bounded") for name in NAMES}
    async with trio.running():
        for task in tasks.values():
            await trio.register(task)
        yield tasks


def test_a_task_lives_whole_in_one_store(tmp_path: Path, more_stores: dict[str, str]) -> None:
    trio = Trio(tmp_path, None, **further(more_stores))

    async def walk() -> None:
        async with with_tasks(trio) as tasks:
            tokens = await enrolled(trio, USERS + 3)
            for task in tasks.values():
                for token in tokens:
                    assert (await send(trio, task, token)).status_code == 201
                assert code(await send(trio, task, tokens[0])) == "token-used"
                assert code(await send(trio, task, "each-nobody")) == "token-unknown"
            for name, task in tasks.items():
                for _ in range(200):
                    results = await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results")
                    if results.json()["results"]:
                        break
                    await asyncio.sleep(0.05)
                assert len(results.json()["results"]) == 1
                for _ in range(200):  # until the delivered reports are scrubbed
                    if await rows(trio, name, "reports") == 3:
                        break
                    await asyncio.sleep(0.05)
                assert await rows(trio, name, "reports") == 3
                assert await rows(trio, name, "batches") == 1
                assert await rows(trio, name, "used") == 2 * len(tokens)
                assert await rows(trio, name, "tokens") == (0 if name else len(tokens))
                assert await rows(trio, name, "tasks") == (0 if name else 3)
            said = (await trio.to_shuffler.get("/status")).json()["tasks"]
            assert {one["store"]: one["have"] for one in said} == dict.fromkeys(NAMES, 3)
            metrics = (await trio.to_shuffler.get("/metrics")).text
            assert metrics.count("shuffledp_shuffler_waiting_reports{") == 3
            assert "shuffledp_shuffler_stores_away 0.0" in metrics
        async with trio.running():  # everything is found again
            said = (await trio.to_shuffler.get("/status")).json()["tasks"]
            assert {one["store"]: one["have"] for one in said} == dict.fromkeys(NAMES, 3)
            for name, task in tasks.items():
                path = f"/tasks/{task.id.hex()}"
                closed = await trio.to_shuffler.post(f"{path}/close", headers=bearing(COLLECTOR))
                assert closed.status_code == 200
                gone = await trio.to_shuffler.post(
                    f"{path}/archive", json={"discard": True}, headers=bearing(OPERATOR)
                )
                assert gone.status_code == 200, gone.text
                gone = await trio.to_shuffler.delete(path, headers=bearing(OPERATOR))
                assert gone.status_code == 200, gone.text
                for table in ("reports", "batches", "used", "waiting"):
                    assert await rows(trio, name, table) == 0
            assert await rows(trio, "", "placements") == 0

    asyncio.run(walk())


def test_a_token_for_one_report_in_all_counts_once_in_all_stores(
    tmp_path: Path, more_stores: dict[str, str]
) -> None:
    trio = Trio(tmp_path, None, **further(more_stores))

    async def walk() -> None:
        async with with_tasks(trio) as tasks:
            for first in NAMES:
                (token,) = await enrolled(trio, 1, ONCE_PREFIX)
                body = encrypt_report(tasks[first], 1)
                assert (await send(trio, tasks[first], token, body)).status_code == 201
                assert (await send(trio, tasks[first], token, body)).status_code == 200
                for name in NAMES:
                    assert code(await send(trio, tasks[name], token)) == "token-used"
                if first != NAMES[0]:  # the first store forgets it, put back from a backup
                    await trio.shuffler.shards.open[""].database.rows(
                        "DELETE FROM used WHERE name=$1", token_hash(token)
                    )
                    assert code(await send(trio, tasks[first], token)) == "token-used"
            token, other = await enrolled(trio, 2, ONCE_PREFIX)
            answers = await asyncio.gather(  # at the same time, everywhere
                *(send(trio, tasks[name], token) for name in NAMES for _ in range(3))
            )
            assert sorted(one.status_code for one in answers) == [201] + [409] * 8
            unknown = new_token(ONCE_PREFIX)
            assert code(await send(trio, tasks["b"], unknown)) == "token-unknown"
            used = await rows(trio, "", "used")
            (await send(trio, tasks["c"], unknown)).read()
            assert await rows(trio, "", "used") == used  # nobody fills the store with such tokens
            await interrupted(trio, tasks, other)

    asyncio.run(walk())


async def interrupted(trio: Trio, tasks: dict[str, Task], token: str) -> None:
    """The store of the task fails after the token was spent in the first one: the same report goes
    on later, and no other one."""
    database = trio.shuffler.shards.open["b"].database
    run, body = database.run, encrypt_report(tasks["b"], 1)

    async def failing(_: Any) -> Any:
        raise StorageUnavailable("away")

    database.run = failing  # type: ignore[method-assign, assignment]
    assert code(await send(trio, tasks["b"], token, body)) == "store"
    database.run = run  # type: ignore[method-assign]
    assert code(await send(trio, tasks["c"], token)) == "token-used"
    assert code(await send(trio, tasks["b"], token)) == "token-used"
    assert (await send(trio, tasks["b"], token, body)).status_code == 201


def test_a_store_that_is_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffler_stores, "TRY_AGAIN_SECONDS", 0.05)
    disk = tmp_path / "disk"
    disk.mkdir()
    stores = {"b": f"sqlite:{disk}/b.db", "c": f"sqlite:{tmp_path}/c.db"}
    trio = Trio(tmp_path, None, **further(stores))

    async def walk() -> None:
        async with with_tasks(trio) as tasks:
            tokens = await enrolled(trio, 5)
            body = encrypt_report(tasks["b"], 1)
            assert (await send(trio, tasks["b"], tokens[0], body)).status_code == 201
        disk.rename(tmp_path / "unplugged")
        async with trio.running():
            answer = await send(trio, tasks["b"], tokens[1])
            assert (answer.status_code, code(answer)) == (503, "store")
            assert "other tasks go on" in answer.json()["detail"]
            assert answer.headers["Retry-After"] == "30"
            for name in ("", "c"):
                assert (await send(trio, tasks[name], tokens[1])).status_code == 201
            assert (await trio.to_shuffler.get("/readyz")).status_code == 200
            assert (await trio.to_shuffler.get(f"/tasks/{tasks['b'].id.hex()}")).status_code == 200
            said = {
                one["store"]: one for one in (await trio.to_shuffler.get("/status")).json()["tasks"]
            }
            assert said["b"]["progress"] == "store b cannot be reached"
            assert "store b cannot be reached" in (await trio.to_shuffler.get("/")).text
            listed = await trio.to_shuffler.get("/tasks", headers=bearing(OPERATOR))
            assert sorted(one["waiting"] is None for one in listed.json()["tasks"]) == [0, 0, 1]
            metrics = (await trio.to_shuffler.get("/metrics")).text
            assert "shuffledp_shuffler_stores_away 1.0" in metrics
            unplaced = task_in(trio, "b", cell="bounded", question="a new one?")
            await trio.register(unplaced)  # it takes the next store that answers
            assert (await send(trio, unplaced, tokens[1])).status_code == 201
            (tmp_path / "unplugged").rename(disk)
            for _ in range(200):
                if "b" in trio.shuffler.shards.open:
                    break
                await asyncio.sleep(0.05)
            assert (await send(trio, tasks["b"], tokens[0], body)).status_code == 200
            assert (await send(trio, tasks["b"], tokens[1])).status_code == 201
            name = trio.shuffler.shards.name_of(trio.shuffler.tasks.by_id[unplaced.id])
            assert name != "b"
        async with trio.running():  # it stays where it was put
            assert (await send(trio, unplaced, tokens[1])).status_code == 409

    asyncio.run(walk())


def test_another_store_moves_nothing(tmp_path: Path) -> None:
    trio = Trio(tmp_path)

    async def walk() -> None:
        tasks = [trio.task(f"old {number}", cell="bounded") for number in range(4)]
        async with trio.running():
            for task in tasks:
                await trio.register(task)
            (token,) = await enrolled(trio, 1)
            assert (await send(trio, tasks[0], token)).status_code == 201
        more = further({"b": f"sqlite:{tmp_path}/b.db"})
        trio.shuffler_config = replace(trio.shuffler_config, **more)
        async with trio.running():
            for task in tasks:
                entry = trio.shuffler.tasks.by_id[task.id]
                assert trio.shuffler.shards.name_of(entry) == ""
            assert (await send(trio, tasks[0], token)).status_code == 409
            new = task_in(trio, "b", cell="bounded")
            await trio.register(new)
            assert (await send(trio, new, token)).status_code == 201
            assert await rows(trio, "b", "reports") == 1
        trio.shuffler_config = replace(trio.shuffler_config, more_stores=())
        async with trio.analyzer_running():
            with pytest.raises(ConfigError, match="live in the store b"):
                async with trio.shuffler_running():
                    pass

    asyncio.run(walk())


def test_a_wrong_store_is_not_used(tmp_path: Path) -> None:
    """Stores whose names were exchanged, an empty one, one of another shuffler, a first one."""
    urls = {name: f"sqlite:{tmp_path}/{name}.db" for name in ("b", "c")}
    trio = Trio(tmp_path, None, **further(urls))
    (tmp_path / "other").mkdir()
    other = Trio(tmp_path / "other", None, **further({"b": f"sqlite:{tmp_path}/other/b.db"}))

    async def walk() -> None:
        async with with_tasks(trio) as tasks:
            (token,) = await enrolled(trio, 1)
        async with other.running():
            await other.register(other.task(cell="bounded"))
        wrong = {
            "another name": {"b": urls["c"], "c": urls["b"]},
            "is empty": {**urls, "b": f"sqlite:{tmp_path}/fresh.db"},
            "another shuffler": {**urls, "b": other.shuffler_config.store_urls["b"]},
            "another shuffler, or": {**urls, "b": other.shuffler_config.store},
        }
        config = trio.shuffler_config
        for reason, given in wrong.items():
            trio.shuffler_config = replace(config, **further(given))
            async with trio.running():
                assert reason in trio.shuffler.shards.away["b"]
                assert (await send(trio, tasks["b"], token)).status_code == 503
                assert (await trio.to_shuffler.get("/status")).status_code == 200
        trio.shuffler_config = replace(config, store=urls["b"], more_stores=())
        async with trio.analyzer_running():
            with pytest.raises(ConfigError, match="further store b"):
                async with trio.shuffler_running():
                    pass

    asyncio.run(walk())


def test_numbers_are_not_used_again_after_a_restore(tmp_path: Path) -> None:
    """The first store is put back from a backup that knows fewer tasks than the other store."""
    trio = Trio(tmp_path, None, **further({"b": f"sqlite:{tmp_path}/b.db"}))
    forgotten = task_in(trio, "b", cell="bounded")
    new = task_in(trio, "b", cell="bounded", question="another?")

    async def before() -> str:
        async with trio.running():
            (token,) = await enrolled(trio, 1)
            back_up(trio.shuffler_config.store, tmp_path / "backup")
            await trio.register(forgotten)
            assert (await send(trio, forgotten, token)).status_code == 201
        return token

    token = asyncio.run(before())
    restore(tmp_path / "backup", trio.shuffler_config.store)

    async def after() -> None:
        async with trio.running():
            await trio.register(new)
            assert trio.shuffler.tasks.by_id[new.id].number == 2
            assert (await send(trio, new, token)).status_code == 201

    asyncio.run(after())


def test_several_stores_behind_several_doors(tmp_path: Path, more_stores: dict[str, str]) -> None:
    trio = Trio(tmp_path, None, processes=2, **further(more_stores))
    tasks = [task_in(trio, name, cell="bounded") for name in NAMES]
    programs = Programs(trio)
    with programs.both() as (shuffler, _):
        for task in tasks:
            programs.register(task)
        tokens = programs.enrol(USERS)
        for task in tasks:
            for token in tokens:
                httpx.post(
                    f"{shuffler}/tasks/{task.id.hex()}/reports",
                    content=encrypt_report(task, 1),
                    headers=bearing(token),
                    timeout=60,
                ).raise_for_status()
        for task in tasks:
            assert programs.results(task)[0]["reports"] == USERS


def test_settings_of_further_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trio = Trio(tmp_path)
    config = trio.shuffler_config
    assert not replace(config, more_stores=("b=sqlite:b.db",)).problems()
    for wrong in (
        ("sqlite:b.db",),
        ("B=sqlite:b.db",),
        ("=sqlite:b.db",),
        ("b=mysql://b",),
        (f"b={config.store}",),
        ("b=sqlite:b.db", "b=sqlite:c.db"),
        ("b=sqlite:b.db", "c=sqlite:b.db"),
    ):
        assert any("more_stores" in one for one in replace(config, more_stores=wrong).problems())
    missing = replace(config, more_stores=(f"b=sqlite:{tmp_path}/none/b.db",))
    file = tmp_path / "service.toml"
    settings = {name: value for name, value in vars(missing).items() if value}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    file.write_text("\n".join(["[shuffler]", *lines]))
    assert main(["config", "check", "shuffler", "--config", str(file)]) == 2
    assert "more_stores, b: The SQLite store" in capsys.readouterr().err
