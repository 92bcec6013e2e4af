"""What operators need: configuration, health, an end in order, migrations, metrics."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from service_trio import COLLECTOR, DELIVERY, OPERATOR, USERS, Trio, bearing, sha
from test_kills import Programs

from shuffledp.sealed.encryption import KeyFolder
from shuffledp.sealed.errors import ConfigError, TaskError
from shuffledp.sealed.tokens import EACH, new_token
from shuffledp.service.client.sending import Client, encrypt_report
from shuffledp.service.demo import wait_ready
from shuffledp.service.storage import open_database, schema
from shuffledp.service.storage.database import Rows
from shuffledp.service.storage.schema import SHUFFLER
from shuffledp.service.web.config import AnalyzerConfig, ShufflerConfig, load
from shuffledp.service.web.tasks import TaskShelf

GOOD = f"""
[shuffler]
store = "sqlite:here.db"
collector_token_sha256 = "{sha(COLLECTOR)}"
operator_token_sha256 = "{sha(OPERATOR)}"

[analyzer]
collector_token_sha256 = "{sha(COLLECTOR)}"
shuffler_token_sha256 = "{sha(DELIVERY)}"
"""


def test_one_file_and_the_environment(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text(GOOD)
    environ = {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d",
        "SHUFFLEDP_SHUFFLER_QUEUE": "7",
        "SHUFFLEDP_SHUFFLER_STORE": "postgresql://x/y",
    }
    config = load(file, ShufflerConfig, environ)
    assert (config.queue, config.store, config.deliver_token) == (7, "postgresql://x/y", "d")
    assert (config.host, config.port) == ("127.0.0.1", 8800)
    assert load(file, AnalyzerConfig, {}).confidence_percent == 95


@pytest.mark.parametrize(
    ("text", "environ", "says"),
    [
        (GOOD, {}, "deliver_token is missing"),
        ("", {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d"}, "64 hexadecimal digits"),
        (GOOD + "\n[other]\n", {}, r"a table \[other\]"),
        ("[shuffler]\nspeed = 3\n", {}, "no setting speed"),
        ("[shuffler]\nqueue = 'x'\n", {}, "queue must be a whole number"),
        ("[shuffler\n", {}, "no TOML"),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_STORE": "mysql://"},
            "store must be",
        ),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_LISTEN": "8800"},
            "listen must be",
        ),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_TLS_KEY": "k"},
            "go together",
        ),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(tmp_path, text, environ, says):
    file = tmp_path / "service.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load(file, ShufflerConfig, environ)


def test_migrations_run_once_and_roles_do_not_share(tmp_path, stores):
    async def walk():
        for _ in range(2):
            database = await open_database(stores["shuffler"], "shuffler")
            await database.rows("SELECT COUNT(*) FROM tokens")
            version = await database.rows("SELECT role, version FROM schema_version")
            assert version == [("shuffler", len(SHUFFLER))]
            await database.close()
        with pytest.raises(ConfigError, match="belongs to the shuffler"):
            await open_database(stores["shuffler"], "analyzer")

    asyncio.run(walk())


def test_an_older_schema_keeps_what_it_knew(stores, monkeypatch):
    """Version 1 kept report ids and spent tokens in tables of their own."""

    async def walk():
        monkeypatch.setitem(schema.SCRIPTS, "shuffler", SHUFFLER[:1])
        database = await open_database(stores["shuffler"], "shuffler")
        await database.rows("INSERT INTO seen VALUES (1, $1)", b"r" * 16)
        await database.rows("INSERT INTO spent VALUES (1, $1)", b"t" * 32)
        await database.close()
        monkeypatch.undo()
        database = await open_database(stores["shuffler"], "shuffler")
        assert await database.rows("SELECT task, name FROM used ORDER BY name") == [
            (1, b"r" * 16),
            (1, b"t" * 32),
        ]
        await database.close()

    asyncio.run(walk())


def test_a_newer_schema_is_refused(stores):
    async def walk():
        database = await open_database(stores["shuffler"], "shuffler")
        await database.rows("UPDATE schema_version SET version=99")
        await database.close()
        with pytest.raises(ConfigError, match="newer"):
            await open_database(stores["shuffler"], "shuffler")

    asyncio.run(walk())


def test_transactions_take_effect_together(stores):
    async def broken(transaction):
        await transaction.append(Rows("tokens", ("token",), [(b"x",)]))
        raise ZeroDivisionError

    async def whole(transaction):
        assert await transaction.insert("tokens", ("token",), [(b"a",), (b"b",)]) == {0, 1}
        assert await transaction.insert("tokens", ("token",), [(b"b",), (b"c",), (b"c",)]) == {1}
        found, none = await transaction.present(
            Rows("tokens", ("token",), [(b"a",), (b"x",), (b"c",)]),
            Rows("used", ("task", "name"), [(1, b"a")]),
        )
        assert found == {(b"a",), (b"c",)} and none == set()
        assert await transaction.present(Rows("tokens", ("token",), [])) == [set()]

    async def walk():
        database = await open_database(stores["shuffler"], "shuffler")
        with pytest.raises(ZeroDivisionError):
            await database.run(broken)
        assert database.failures == 1
        await database.run(whole)
        assert database.failures == 1
        await database.close()

    asyncio.run(walk())


def test_rows_of_any_bytes_come_back_in_order(stores):
    """Empty values, zero bytes and different lengths, through the statements that take many."""
    bodies = [b"", b"\0", b"\0\xff" * 3000, b"abc", os.urandom(9000)]

    async def walk():
        database = await open_database(stores["shuffler"], "shuffler")
        rows = [(2**40 + place, body) for place, body in enumerate(bodies)]
        await database.run(
            lambda transaction: transaction.append(
                Rows("reports", ("place", "body"), rows), Rows("used", ("task", "name"), [])
            )
        )
        assert await database.rows("SELECT place, body FROM reports ORDER BY place") == rows
        assert await database.joined("reports", "body", "place", 2**40 + 1, 2**40 + 9) == b"".join(
            bodies[1:]
        )
        assert await database.joined("reports", "body", "place", 0, 5) == b""
        await database.close()

    asyncio.run(walk())


def test_tasks_that_arrive_together_get_numbers_of_their_own(tmp_path, stores):
    async def walk():
        trio = Trio(tmp_path, stores)
        tasks = [trio.task(f"task {number % 4}") for number in range(8)]
        database = await open_database(stores["shuffler"], "shuffler")
        shelf = TaskShelf(database)
        fresh = await asyncio.gather(*(shelf.register(task) for task in tasks))
        assert sum(fresh) == 4
        assert sorted(entry.number for entry in shelf.known.values()) == [1, 2, 3, 4]
        again = TaskShelf(database)
        await again.load()
        assert {entry.task.id: entry.number for entry in again.known.values()} == {
            entry.task.id: entry.number for entry in shelf.known.values()
        }
        await database.close()

    asyncio.run(walk())


def test_two_services_do_not_share_a_file(tmp_path):
    async def walk():
        first = await open_database(f"sqlite:{tmp_path}/a.db", "shuffler")
        from shuffledp.service.storage import sqlite

        patience, sqlite.PATIENCE = sqlite.PATIENCE, 50
        try:
            with pytest.raises(ConfigError, match="another service"):
                await open_database(f"sqlite:{tmp_path}/a.db", "shuffler")
        finally:
            sqlite.PATIENCE = patience
            await first.close()
        with pytest.raises(ConfigError, match="cannot be opened"):
            await open_database(f"sqlite:{tmp_path}/none/a.db", "shuffler")
        with pytest.raises(ConfigError, match="A store is"):
            await open_database("mysql://", "shuffler")

    asyncio.run(walk())


def test_sigterm_drains_then_ends(tmp_path):
    """From SIGTERM on /readyz says 503 while the port is still open; then the server ends well."""
    trio = Trio(tmp_path)
    programs = Programs(trio)
    programs.config.write_text(programs.toml().replace("drain_seconds = 0", "drain_seconds = 2"))
    url = programs.urls["shuffler"]
    programs.start("shuffler")
    try:
        wait_ready(url)
        assert httpx.get(f"{url}/livez").text == "alive\n"
        programs.running["shuffler"].send_signal(signal.SIGTERM)
        time.sleep(0.5)
        ready = httpx.get(f"{url}/readyz")
        assert ready.status_code == 503 and ready.json()["retry_after"] == 5
        assert httpx.get(f"{url}/livez").status_code == 200
        assert programs.running["shuffler"].wait(15) in (0, -signal.SIGTERM)
    finally:
        programs.stop()
    events = [json.loads(line)["event"] for line in programs_log(tmp_path)]
    assert events[0] == "started" and events[-1] == "stopped"


def programs_log(folder):
    return (folder / "shuffler.log").read_text().splitlines()


def test_a_real_trio_over_http(tmp_path, stores):
    """Client SDK, both servers as programs, over sockets; rotation of keys while they run."""
    trio = Trio(tmp_path, stores)
    programs = Programs(trio)
    try:
        for role in programs.ports:
            programs.start(role)
        for url in programs.urls.values():
            wait_ready(url)
        shuffler, analyzer = programs.urls["shuffler"], programs.urls["analyzer"]
        for name in ("first", "after rotation"):
            task = trio.task(name)
            for url in (analyzer, shuffler):
                httpx.put(
                    f"{url}/tasks/{task.id.hex()}",
                    content=task.canonical(),
                    headers=bearing(COLLECTOR),
                ).raise_for_status()
            tokens = [new_token(EACH) for _ in range(USERS)]
            httpx.post(
                f"{shuffler}/tokens",
                json={"sha256": [sha(token) for token in tokens]},
                headers=bearing(OPERATOR),
            ).raise_for_status()
            for place, token in enumerate(tokens):
                box = tmp_path / "boxes" / f"{name}{place}"
                with Client(task, shuffler, token, box) as client:
                    client.send(place % 2)
            wait_for_result(analyzer, task)
            trio.keys.retire(task.key.key_id)
            trio.keys.new()  # the running analyzer takes it up
        assert len(httpx.get(f"{analyzer}/keys").json()["keys"]) == 3
    finally:
        programs.stop()


def wait_for_result(analyzer, task):
    for _ in range(300):
        found = httpx.get(f"{analyzer}/tasks/{task.id.hex()}/results").json()["results"]
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("no result")


def test_metrics_are_prometheus_text(tmp_path):
    async def walk():
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await trio.post(task, b"x", "t")
            await trio.results(task)
            await asyncio.sleep(0.2)
            for server in (trio.to_shuffler, trio.to_analyzer):
                text = (await server.get("/metrics")).text
                for line in text.splitlines():
                    assert re.fullmatch(
                        r"# TYPE \w+ (counter|gauge|histogram)|\w+(\{[^}]*\})? [\d.e+-]+", line
                    ), line
            text = (await trio.to_shuffler.get("/metrics")).text
            assert f'uploads{{task="1",verdict="accepted"}} {USERS}' in text
            assert 'rejected{reason="size",task="1"} 1' in text
            assert 'batches{state="scrubbed"} 1' in text

    asyncio.run(walk())


def test_keys_are_private_files_and_can_be_destroyed(tmp_path):
    folder = KeyFolder(tmp_path / "keys")
    first = folder.new()
    file = tmp_path / "keys" / "key-1.json"
    assert file.stat().st_mode & 0o777 == 0o600 and "secret" in file.read_text()
    assert first.secret.hex() not in repr(first)
    folder.destroy(1)
    assert folder.all() == [] and folder.new().key_id == 2
    for left in (tmp_path / "keys").iterdir():
        assert first.secret.hex() not in left.read_text()
    with pytest.raises(TaskError, match="no key 9"):
        folder.retire(9)


def test_a_batch_for_a_destroyed_key_is_refused(tmp_path):
    async def walk():
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            trio.keys.destroy(task.key.key_id)
            tokens = await trio.enrol(USERS)
            for token in tokens:
                await trio.post(task, encrypt_report(task, 1), token)
            for _ in range(100):
                status = await trio.status(task)
                if status["batches"] and status["batches"][0]["problem"]:
                    break
                await asyncio.sleep(0.05)
            assert status["batches"][0]["problem"] == "HTTP 410"

    asyncio.run(walk())


def test_pages_that_do_not_exist(tmp_path):
    async def walk():
        async with Trio(tmp_path).running() as trio:
            for path, method, status in (
                ("/nothing", "GET", 404),
                ("/tokens", "GET", 405),
                (f"/tasks/{'0' * 64}", "GET", 404),
            ):
                answer = await trio.to_shuffler.request(method, path)
                assert answer.status_code == status
                assert answer.headers["content-type"] == "application/problem+json"
            bad = await trio.to_shuffler.put("/tasks/zz", content=b"{}", headers=bearing(COLLECTOR))
            assert bad.status_code == 400
            bad = await trio.to_shuffler.put(
                f"/tasks/{'0' * 64}", content=b"{}", headers=bearing(COLLECTOR)
            )
            assert bad.status_code == 422
            bad = await trio.to_shuffler.post("/tokens", content=b"no", headers=bearing(OPERATOR))
            assert bad.status_code == 422

    asyncio.run(walk())


def test_the_example_configuration_has_no_unknown_settings():
    file = Path(__file__).parents[2] / "deploy" / "service.toml"
    environ = {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d"}
    assert load(file, ShufflerConfig, environ).port == 8801
    assert load(file, AnalyzerConfig, environ).port == 8802
