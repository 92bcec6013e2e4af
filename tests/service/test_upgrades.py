"""A store that an earlier version has written keeps its tasks, tokens and reports.

tests/data/stores/*-1.sql are dumps of the first schema: a task of batches of 20, 25 reports of
which 20 were delivered, 35 tokens, and one published result.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from service_trio import OPERATOR, Trio, bearing

from shuffledp.cli.main import main
from shuffledp.cli.task import _show_list
from shuffledp.service.analyzer.schema import ANALYZER_SCHEMA
from shuffledp.service.errors import ConfigError
from shuffledp.service.shuffler import schema
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.store import open_database
from shuffledp.service.store.database import Database
from shuffledp.service.store.schema import Schema
from shuffledp.tasks.task import Task

DUMPS = Path(__file__).parents[1] / "data" / "stores"
SCHEMAS = {"shuffler": SHUFFLER_SCHEMA, "analyzer": ANALYZER_SCHEMA}
CHANGED = ("reports", "batches", "top_ups", "waiting")
Tables = dict[str, tuple[list[str], list[tuple[Any, ...]]]]


def _old(role: str, path: Path) -> Tables:
    """Makes the stored old database in a file; gives its columns and rows by table."""
    database = sqlite3.connect(path)
    database.executescript((DUMPS / f"{role}-1.sql").read_text("utf-8"))
    names = [
        row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type='table'")
    ]
    tables: Tables = {}
    for name in set(names) - {"schema_version", "health"}:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        tables[name] = (columns, sorted(database.execute(f"SELECT * FROM {name}"), key=repr))
    database.close()
    return tables


async def _put_into(url: str, role: str, tables: Tables) -> None:
    """Makes the same old database in another store."""
    database = await open_database(url, Schema(role, SCHEMAS[role].scripts[:1]))
    for name, (columns, rows) in tables.items():
        marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        for row in rows:
            await database.rows(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})", *row)
    await database.close()


@pytest.mark.parametrize("role", sorted(SCHEMAS))
def test_every_row_is_kept(
    role: str, tmp_path: Path, stores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if reports are moved in several pages. Only the tallies of finished batches are gone."""
    monkeypatch.setattr(schema, "MOVED_REPORTS", 2)
    before = _old(role, tmp_path / "old.db")
    assert all(rows for name, (_, rows) in before.items() if name not in ("top_ups", "waiting"))

    async def walk() -> None:
        url = stores[role]
        if url.startswith("sqlite:"):
            (tmp_path / "old.db").rename(url.removeprefix("sqlite:"))
        else:
            await _put_into(url, role, before)
        database = await open_database(url, SCHEMAS[role])
        version = await database.rows("SELECT version FROM schema_version")
        assert version == [(len(SCHEMAS[role].scripts),)] and version[0][0] > 1
        for name, (columns, rows) in before.items():
            if role == "shuffler" and name in CHANGED:
                continue
            if role == "analyzer" and name == "batches":
                rows = _without_old_tallies(columns, rows)
            found = await database.rows(f"SELECT {', '.join(columns)} FROM {name}")
            assert sorted(found, key=repr) == rows, name
        if role == "shuffler":
            await _check_moved(database, before)
        await database.close()

    asyncio.run(walk())


def _without_old_tallies(columns: list[str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The batches as they are kept: one that is published or held has no tally any more."""
    state, tally = columns.index("state"), columns.index("tally")
    finished = [row for row in rows if row[state] not in ("received", "counted")]
    assert any(row[tally] is not None for row in finished)
    kept = [(*row[:tally], None, *row[tally + 1 :]) if row in finished else row for row in rows]
    return sorted(kept, key=repr)


async def _check_moved(database: Database, before: Tables) -> None:
    """The waiting reports are the same bytes in the batch whose key they are under; the delivered
    batch is known."""
    old: dict[int, bytes] = {number: messages for number, messages in before["reports"][1]}
    rows = await database.rows("SELECT task, batch, name, messages FROM reports")
    assert {int.from_bytes(name, "big"): messages for _, _, name, messages in rows} == old
    assert {(task, batch) for task, batch, _, _ in rows} == {(1, 2)} and len(rows) == 5
    filling = await database.rows("SELECT task, number, reports, size, accepting FROM filling")
    assert filling == [(1, 2, 5, 20, 1)]
    assert await database.rows("SELECT task, number, state, reports FROM batches") == [
        (1, 1, "deleted", 20)
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE batches SET state='closed'", "has not delivered yet"),
        ("UPDATE tasks SET body=replace(body, '\"reports\":20', '\"reports\":5')", "full batches"),
    ],
)
def test_an_old_store_that_is_not_finished_is_refused(
    tmp_path: Path, change: str, words: str
) -> None:
    """It says what to do, and changes nothing: 0.2 can go on."""
    _old("shuffler", tmp_path / "old.db")
    database = sqlite3.connect(tmp_path / "old.db")
    database.execute(change)
    database.commit()
    before = list(database.iterdump())
    database.close()
    with pytest.raises(ConfigError, match=words) as refused:
        asyncio.run(open_database(f"sqlite:{tmp_path}/old.db", SHUFFLER_SCHEMA))
    assert "start 0.2 once" in str(refused.value)
    assert list(sqlite3.connect(tmp_path / "old.db").iterdump()) == before


def test_a_server_goes_on_with_an_old_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its five waiting reports still wait, who has answered may not again, and others may. The task
    is put into the form that tasks have now, and the signing key is made that servers had not."""
    _old("shuffler", tmp_path / "shuffler.db")
    trio = Trio(tmp_path)
    task = trio.task("first", cell="bounded")
    database = sqlite3.connect(tmp_path / "shuffler.db")
    database.execute("UPDATE tasks SET id=?, body=?", (task.id, task.canonical().decode()))
    database.commit()
    database.close()
    keys = tmp_path / "shuffler-keys"
    keys.mkdir()
    (keys / f"{task.id.hex()}-2.key").write_bytes(bytes(32))
    assert main(["keys", "signing", str(tmp_path / "shuffler-signing.json")]) == 0

    async def walk() -> None:
        async with trio.running():
            status = await trio.status(task)
            assert (status["have"], status["state"], status["next_batch"]) == (5, "open", 2)
            used = await trio.shuffler.database.rows("SELECT COUNT(*) FROM used")
            assert used == [(50,)]
            await trio.upload(task, [1] * 3)
            assert (await trio.status(task))["have"] == 8
            (warned,) = [one for one in caplog.records if "without a place" in one.message]
            assert "Make new ones" in warned.fields["reason"]  # type: ignore[attr-defined]
            await trio.register(trio.task("second", cell="bounded"))
            headers = bearing(OPERATOR)
            listed = (await trio.to_shuffler.get("/tasks", headers=headers)).json()["tasks"]
            assert {one["name"]: one["logged"] for one in listed} == {
                "first": False,
                "second": True,
            }
            out = Console(record=True, width=200)
            _show_list(out, listed)
            assert "1 of these tasks were registered before" in out.export_text()
            caplog.clear()
        await archive_old(trio, task)

    asyncio.run(walk())


async def archive_old(trio: Trio, task: Task) -> None:
    """Nobody is warned any more of a task that is archived."""
    async with trio.running():
        path = f"/tasks/{task.id.hex()}/archive"
        await trio.to_shuffler.post(path, json={"discard": True}, headers=bearing(OPERATOR))
    async with trio.running():
        listed = (await trio.to_shuffler.get("/tasks", headers=bearing(OPERATOR))).json()["tasks"]
        out = Console(record=True, width=200)
        _show_list(out, listed)
        assert "were registered before" not in out.export_text()
