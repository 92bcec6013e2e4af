"""kill −9 at random moments, with retries and duplicates: nothing lost, nothing counted twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

import httpx
import pytest
from service_programs import Programs
from service_shards import further, task_in
from service_states import stored_tallies
from service_trio import DELIVERY, Trio, bearing, known_report

from shuffledp.service.demo import wait_ready
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.task import Task

FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
KILLS = int(os.environ.get("SHUFFLEDP_KILLS", "60" if FULL else "8"))
"""More for a soak test."""
REPORTS, BATCH = 20 * KILLS, 40


@pytest.mark.attack("kill −9 of any server at any moment")
def test_nothing_is_lost_or_doubled(tmp_path: Path, stores: dict[str, str]) -> None:
    trio = Trio(tmp_path, stores)
    task = trio.task(users=BATCH)
    made = [known_report(task, user % 2) for user in range(REPORTS)]
    programs = Programs(trio)
    with programs.both() as (shuffler, _):
        programs.register(task)
        tokens = programs.enrol(len(made))
        sending = [(task, body, token) for (body, _, _), token in zip(made, tokens, strict=True)]
        kills = asyncio.run(_storm(programs, sending))
        assert kills == KILLS
        programs.results(task, REPORTS // BATCH)
        status = httpx.get(f"{shuffler}/status").json()["tasks"][0]
        assert status["have"] == 0 and len(status["batches"]) == REPORTS // BATCH
    tallies = asyncio.run(stored_tallies(stores["analyzer"]))
    assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
    assert sum(tally["minus"][0] for tally in tallies) == sum(minus for _, _, minus in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert len(ledger["entries"]) == REPORTS // BATCH
    assert DELIVERY not in programs.log() and not any(token in programs.log() for token in tokens)


@pytest.mark.attack("kill −9 of a shuffler whose tasks lie in several stores")
def test_nothing_is_lost_or_doubled_in_several_stores(
    tmp_path: Path, more_stores: dict[str, str]
) -> None:
    """Also tokens that count once in all tasks, which two stores must agree on."""
    trio = Trio(tmp_path, None, **further(more_stores))
    tasks = [task_in(trio, name, users=BATCH) for name in ("", *more_stores)]
    each = 2 * BATCH
    made = [(task, *known_report(task, user % 2)) for task in tasks for user in range(each)]
    programs = Programs(trio)
    with programs.both() as (shuffler, _):
        for task in tasks:
            programs.register(task)
        tokens = programs.enrol(len(made) // 2) + programs.enrol(len(made) // 2, ONCE_PREFIX)
        random.shuffle(tokens)
        sending = [(one[0], one[1], token) for one, token in zip(made, tokens, strict=True)]
        assert asyncio.run(_storm(programs, sending)) == KILLS
        for task in tasks:
            programs.results(task, each // BATCH)
        status = httpx.get(f"{shuffler}/status", timeout=60).json()["tasks"]
        assert sorted(one["store"] for one in status) == sorted(("", *more_stores))
        assert all(one["have"] == 0 and len(one["batches"]) == 2 for one in status)
        for (task, _, token), other in zip(sending[::7], sending[1::7], strict=False):
            if token.startswith(ONCE_PREFIX):  # it is spent, in whatever store
                elsewhere = next(one for one in tasks if one is not task)
                answer = httpx.post(
                    f"{shuffler}/tasks/{elsewhere.id.hex()}/reports",
                    content=known_report(elsewhere, 1)[0],
                    headers=bearing(token),
                    timeout=60,
                )
                assert answer.status_code == 409, other
    tallies = asyncio.run(stored_tallies(trio.analyzer_config.store))
    assert sum(tally["plus"][0] for tally in tallies) == sum(one[2] for one in made)
    assert sum(tally["minus"][0] for tally in tallies) == sum(one[3] for one in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)


async def _storm(programs: Programs, sending: list[tuple[Task, bytes, str]]) -> int:
    """Clients that insist, while a server dies and comes back again and again."""

    async def insist(client: httpx.AsyncClient, task: Task, body: bytes, token: str) -> None:
        url = f"{programs.urls['shuffler']}/tasks/{task.id.hex()}/reports"
        await asyncio.sleep(random.uniform(0, 0.8 * KILLS))
        acknowledged = 0
        while acknowledged < 2:  # the second time is a duplicate
            try:
                answer = await client.post(url, content=body, headers=bearing(token))
                assert answer.status_code in (200, 201, 429, 503), answer.text
                acknowledged += answer.status_code in (200, 201)
            except httpx.TransportError:
                pass
            await asyncio.sleep(random.uniform(0.05, 0.3))

    async def kill() -> int:
        kills = 0
        for number in range(KILLS):
            role = ("shuffler", "analyzer")[number % 2]
            await asyncio.sleep(random.uniform(0.05, 0.6))
            programs.kill(role)
            kills += 1
            programs.start(role)
            await asyncio.to_thread(wait_ready, programs.urls[role])
        return kills

    limits = httpx.Limits(max_connections=32)
    async with httpx.AsyncClient(limits=limits, timeout=20) as client:
        clients = [insist(client, *one) for one in sending]
        killing = asyncio.create_task(kill())
        await asyncio.gather(killing, *clients)
    return killing.result()
