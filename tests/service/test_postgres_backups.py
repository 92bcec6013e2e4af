"""A dump of a PostgreSQL store, taken while reports come in, holds one moment of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from older_stores import pg
from service_trio import Trio

from shuffledp.tasks.reports import encrypt_report


def test_a_dump_of_a_running_server_is_restored(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    urls = {role: postgres_database() for role in ("shuffler", "analyzer")}
    dump, restored = tmp_path / "store.dump", postgres_database()

    async def walk() -> None:
        trio = Trio(tmp_path, urls)
        task = trio.task(cell="bounded")
        async with trio.running():
            await trio.register(task)
            tokens = await trio.enrol(19)
            bodies = [encrypt_report(task, 1) for _ in tokens]
            for body, token in zip(bodies[:9], tokens[:9], strict=True):
                await trio.post(task, body, token)
            dumping = asyncio.to_thread(
                pg, "pg_dump", "--format=custom", f"--file={dump}", urls["shuffler"]
            )
            later = [
                trio.post(task, body, token)
                for body, token in zip(bodies[9:], tokens[9:], strict=True)
            ]
            done = asyncio.create_task(dumping)
            answers = await asyncio.gather(*later)
            await done
            assert {answer.status_code for answer in answers} == {201}
        await asyncio.to_thread(pg, "pg_restore", f"--dbname={restored}", str(dump))
        after = Trio(tmp_path, urls | {"shuffler": restored})
        async with after.running():
            status = await after.status(task)
            kept = status["have"]
            assert 9 <= kept <= 19
            said = [
                (await after.post(task, body, token)).status_code
                for body, token in zip(bodies, tokens, strict=True)
            ]
            if kept < 19:  # acknowledged reports are gone: nobody answers twice, and it is said
                assert said == [410] * 19
                assert (status["state"], "older" in status["reason"]) == ("closed", True)
            else:
                assert said == [200] * 19
                await after.upload(task, [1])
                (result,) = await after.results(task)
                assert result["reports"] == 20 and result["dropped"]["replayed"] == 0

    asyncio.run(walk())
