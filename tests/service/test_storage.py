"""Both databases: schemas, transactions, bytes, one service per database."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from service_states import until
from service_trio import Trio

from shuffledp.service.analyzer.store import ANALYZER_SCHEMA
from shuffledp.service.errors import ConfigError
from shuffledp.service.http.tasks import TaskRegistry
from shuffledp.service.issuer.store import ISSUER_SCHEMA
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.store import open_database
from shuffledp.service.store.database import Rows, Transaction
from shuffledp.service.store.schema import FIRST_VERSION, Schema
from shuffledp.tasks.sandbox import CheckLimits
from shuffledp.tasks.signing import TaskSignature


def test_migrations_run_once_and_roles_do_not_share(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk() -> None:
        for _ in range(2):
            database = await open_database(stores["shuffler"], SHUFFLER_SCHEMA)
            await database.rows("SELECT COUNT(*) FROM tokens")
            version = await database.rows("SELECT role, version FROM schema_version")
            assert version == [("shuffler", FIRST_VERSION)]
            await database.close()
        with pytest.raises(ConfigError, match="belongs to the shuffler"):
            await open_database(stores["shuffler"], ANALYZER_SCHEMA)

    asyncio.run(walk())


def test_an_older_schema_keeps_what_it_knew(stores: dict[str, str]) -> None:
    """Each script runs once, on what the earlier ones have left."""
    scripts = (
        "CREATE TABLE seen (name {BYTES} PRIMARY KEY) {KEYED}",
        "CREATE TABLE used (name {BYTES} PRIMARY KEY) {KEYED};"
        "INSERT INTO used SELECT name FROM seen; DROP TABLE seen",
    )

    async def walk() -> None:
        database = await open_database(stores["shuffler"], Schema("shuffler", scripts[:1]))
        await database.rows("INSERT INTO seen VALUES ($1)", b"r" * 16)
        await database.close()
        database = await open_database(stores["shuffler"], Schema("shuffler", scripts))
        assert await database.rows("SELECT name FROM used") == [(b"r" * 16,)]
        await database.close()

    asyncio.run(walk())


@pytest.mark.parametrize(
    "schema", (SHUFFLER_SCHEMA, ANALYZER_SCHEMA, ISSUER_SCHEMA), ids=lambda schema: schema.role
)
def test_a_store_of_version_0_2_is_refused_as_it_is(schema: Schema, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as old:
        old.execute("CREATE TABLE schema_version (role TEXT PRIMARY KEY, version BIGINT NOT NULL)")
        for version in range(1, FIRST_VERSION):
            old.execute("REPLACE INTO schema_version VALUES (?, ?)", (schema.role, version))
            old.commit()
            before = list(old.iterdump())
            with pytest.raises(ConfigError, match=r"shuffledp 0\.2.*an empty database"):
                asyncio.run(open_database(f"sqlite:{tmp_path}/old.db", schema))
            assert list(old.iterdump()) == before


def test_a_newer_schema_is_refused(stores: dict[str, str]) -> None:
    async def walk() -> None:
        database = await open_database(stores["shuffler"], SHUFFLER_SCHEMA)
        await database.rows("UPDATE schema_version SET version=99")
        await database.close()
        with pytest.raises(ConfigError, match="newer"):
            await open_database(stores["shuffler"], SHUFFLER_SCHEMA)

    asyncio.run(walk())


def test_transactions_take_effect_together(stores: dict[str, str]) -> None:
    async def broken(transaction: Transaction) -> None:
        await transaction.append(Rows("tokens", ("token",), [(b"x",)]))
        raise ZeroDivisionError

    async def whole(transaction: Transaction) -> None:
        assert await transaction.insert("tokens", ("token",), [(b"a",), (b"b",)]) == {0, 1}
        assert await transaction.insert("tokens", ("token",), [(b"b",), (b"c",), (b"c",)]) == {1}
        found, none = await transaction.present(
            Rows("tokens", ("token",), [(b"a",), (b"x",), (b"c",)]),
            Rows("used", ("task", "name"), [(1, b"a")]),
        )
        assert found == {(b"a",), (b"c",)} and none == set()
        assert await transaction.present(Rows("tokens", ("token",), [])) == [set()]

    async def walk() -> None:
        database = await open_database(stores["shuffler"], SHUFFLER_SCHEMA)
        with pytest.raises(ZeroDivisionError):
            await database.run(broken)
        await database.run(whole)
        await database.close()

    asyncio.run(walk())


def test_rows_of_any_bytes_come_back_in_order(stores: dict[str, str]) -> None:
    """Empty values, zero bytes and different lengths, through the statements that take many."""
    bodies = [b"", b"\0", b"\0\xff" * 3000, b"abc", os.urandom(9000)]

    async def walk() -> None:
        database = await open_database(stores["shuffler"], SHUFFLER_SCHEMA)
        rows = [(2**40, 1, bytes([at]), body) for at, body in enumerate(bodies)]
        await database.run(
            lambda transaction: transaction.append(
                Rows("reports", ("task", "batch", "name", "messages"), rows),
                Rows("used", ("task", "name"), []),
            )
        )
        found = await database.rows("SELECT task, batch, name, messages FROM reports ORDER BY name")
        assert found == rows
        await database.close()

    asyncio.run(walk())


def test_tasks_that_arrive_together_get_numbers_of_their_own(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        tasks = [trio.task(f"task {number % 4}") for number in range(8)]
        database = await open_database(stores["shuffler"], SHUFFLER_SCHEMA)
        registry = TaskRegistry(database, CheckLimits(), lambda: False, trio.clock)
        signature = TaskSignature(b"", b"")  # the role's own checks are not part of this
        fresh = await asyncio.gather(
            *(registry.register(task.canonical(), task.id, signature) for task in tasks)
        )
        assert sum(fresh) == 4
        assert sorted(entry.number for entry in registry.by_id.values()) == [1, 2, 3, 4]
        again = TaskRegistry(database, CheckLimits(), lambda: False, trio.clock)
        await again.load()
        assert {entry.task.id: entry.number for entry in again.by_id.values()} == {
            entry.task.id: entry.number for entry in registry.by_id.values()
        }
        await database.close()

    asyncio.run(walk())


def test_two_services_do_not_share_a_file(tmp_path: Path) -> None:
    async def walk() -> None:
        first = await open_database(f"sqlite:{tmp_path}/a.db", SHUFFLER_SCHEMA)
        from shuffledp.service.store import sqlite

        patience, sqlite.BUSY_MILLISECONDS = sqlite.BUSY_MILLISECONDS, 50
        try:
            with pytest.raises(ConfigError, match="another service"):
                await open_database(f"sqlite:{tmp_path}/a.db", SHUFFLER_SCHEMA)
        finally:
            sqlite.BUSY_MILLISECONDS = patience
            await first.close()
        with pytest.raises(ConfigError, match="cannot be opened"):
            await open_database(f"sqlite:{tmp_path}/none/a.db", SHUFFLER_SCHEMA)
        with pytest.raises(ConfigError, match="A store is"):
            await open_database("mysql://", SHUFFLER_SCHEMA)

    asyncio.run(walk())


def test_a_process_waits_for_a_migration_by_another(
    postgres_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than any other statement may take."""
    import asyncpg

    from shuffledp.service.store import postgres

    monkeypatch.setattr(postgres, "COMMAND_SECONDS", 1.0)
    url = postgres_database()

    async def walk() -> None:
        other = await asyncpg.connect(url)
        await other.execute(f"SELECT pg_advisory_lock({postgres.MIGRATION_LOCK})")
        opening = asyncio.create_task(open_database(url, SHUFFLER_SCHEMA, shared=True))
        await asyncio.sleep(1.5)
        assert not opening.done()
        await other.close()
        await (await opening).close()

    asyncio.run(walk())


def test_a_session_that_begins_while_the_store_closes_is_closed(
    postgres_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from shuffledp.service.store import postgres

    made: list[Any] = []
    connect = postgres._connect

    async def walk() -> None:
        database = await open_database(postgres_database(), SHUFFLER_SCHEMA, shared=True)

        async def while_closing(url: str) -> Any:
            made.append(await connect(url))
            await database.close()
            return made[-1]

        monkeypatch.setattr(postgres, "_connect", while_closing)
        first = asyncio.create_task(database.rows("SELECT pg_sleep(0.2)"))
        # the first session must be in use, so that another one is made
        await until(lambda: database._busy)  # type: ignore[attr-defined]
        await asyncio.gather(database.rows("SELECT 1"), first, return_exceptions=True)
        assert len(made) == 1 and made[0].is_closed()

    asyncio.run(walk())
