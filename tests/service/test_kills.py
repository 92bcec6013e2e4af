"""kill −9 at random moments, with retries and duplicates: nothing lost, nothing counted twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest
from service_programs import Programs
from service_states import keep_tallies, stored_tallies
from service_trio import DELIVERY, OPERATOR, Trio, bearing, known_report

from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.task import Task

FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
KILLS = int(os.environ.get("SHUFFLEDP_KILLS", "240" if FULL else "8"))
"""More for a soak test."""
REPORTS, BATCH = 20 * KILLS, 40


@pytest.mark.attack("kill −9 of any server at any moment")
def test_nothing_is_lost_or_doubled(tmp_path: Path, stores: dict[str, str]) -> None:
    trio = Trio(tmp_path, stores)
    task = trio.task(users=BATCH)
    made = [known_report(task, user % 2) for user in range(REPORTS)]
    programs = Programs(trio)
    asyncio.run(keep_tallies(stores["analyzer"]))
    with programs.both() as (shuffler, _):
        programs.register(task)
        tokens = programs.enrol(len(made))
        sending = [(task, body, token) for (body, _, _), token in zip(made, tokens, strict=True)]
        kills = asyncio.run(_storm(programs, sending))
        assert kills == KILLS
        programs.results(task, REPORTS // BATCH)
        status = httpx.get(f"{shuffler}/status", headers=bearing(OPERATOR)).json()["tasks"][0]
        assert status["have"] == 0 and len(status["batches"]) == REPORTS // BATCH
    tallies = asyncio.run(stored_tallies(stores["analyzer"]))
    assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
    assert sum(tally["minus"][0] for tally in tallies) == sum(minus for _, _, minus in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert len(ledger["entries"]) == REPORTS // BATCH
    assert DELIVERY not in programs.log() and not any(token in programs.log() for token in tokens)


@pytest.mark.attack("kill −9, SIGSTOP and cut sessions of three replicas")
def test_three_replicas_lose_and_double_nothing(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """Batches have exactly their size; every acknowledged report is counted once, also those of
    tokens that count once in all tasks, and of a task that counts tokens in every batch."""
    url = postgres_database()
    trio = Trio(tmp_path, {"shuffler": url, "analyzer": f"sqlite:{tmp_path}/analyzer.db"})
    tasks = [trio.task(users=BATCH), trio.task("repeat", users=BATCH, repeat=True)]
    made = [
        (tasks[user % 2], *known_report(tasks[user % 2], user % 3 % 2)) for user in range(REPORTS)
    ]
    programs = Replicated(trio, 3)
    asyncio.run(keep_tallies(trio.analyzer_config.store))
    with programs.all():
        for task in tasks:
            programs.register(task)
        tokens = programs.enrol(REPORTS // 2) + programs.enrol(REPORTS // 2, ONCE_PREFIX)
        random.shuffle(tokens)
        sending = [(one[0], one[1], token) for one, token in zip(made, tokens, strict=True)]
        asyncio.run(_storm(programs, sending, url))
        assert programs.troubles >= KILLS
        for task in tasks:
            found = programs.results(task, REPORTS // 2 // BATCH, 180)
            assert {result["reports"] for result in found} == {BATCH}
        for at in range(3):
            status = httpx.get(
                f"{programs.replica_urls[at]}/status", headers=bearing(OPERATOR), timeout=60
            ).json()["tasks"]
            assert [(one["have"], one["state"], one["reason"]) for one in status] == [
                (0, "open", "")
            ] * 2
    tallies = asyncio.run(stored_tallies(trio.analyzer_config.store))
    assert sum(tally["plus"][0] for tally in tallies) == sum(one[2] for one in made)
    assert sum(tally["minus"][0] for tally in tallies) == sum(one[3] for one in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)
    assert not any(token in programs.log() for token in tokens)


class Replicated(Programs):
    """An analyzer and several shuffler programs on one store, each with its own port."""

    def __init__(self, trio: Trio, count: int) -> None:
        super().__init__(trio)
        ports = [self.ports["shuffler"], *(free_port() for _ in range(count - 1))]
        self.replica_urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.troubles = 0
        text = self.config.read_text()
        self._configs = []
        for at, port in enumerate(ports):
            file = trio.folder / f"service-{at}.toml"
            file.write_text(text.replace(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{port}"))
            self._configs.append(file)

    def start_replica(self, at: int) -> None:
        """Starts one of the shufflers."""
        with open(self.trio.folder / "shuffler.log", "ab") as log:
            self.running[f"shuffler {at}"] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "shuffledp.service",
                    "shuffler",
                    "--config",
                    str(self._configs[at]),
                ],
                stderr=log,
            )

    @contextlib.contextmanager
    def all(self) -> Iterator[None]:
        """Everything while it runs."""
        try:
            self.start("analyzer")
            for at in range(len(self.replica_urls)):
                self.start_replica(at)
            for url in (self.urls["analyzer"], *self.replica_urls):
                wait_ready(url, 240)
            yield
        finally:
            self.stop()

    async def trouble(self, store: str) -> None:
        """Something bad, to one of the programs or to all sessions of the store."""
        self.troubles += 1
        at = random.randrange(len(self.replica_urls))
        name = f"shuffler {at}"
        kind = random.choice(["kill", "kill", "stop", "cut", "analyzer"])
        if kind == "kill":
            self.kill(name)
            self.start_replica(at)
            await asyncio.to_thread(wait_ready, self.replica_urls[at], 240)
        elif kind == "stop":
            self.running[name].send_signal(signal.SIGSTOP)
            await asyncio.sleep(1)
            self.running[name].send_signal(signal.SIGCONT)
        elif kind == "cut":
            connection = await asyncpg.connect(store)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await connection.close()
        else:
            self.kill("analyzer")
            self.start("analyzer")
            await asyncio.to_thread(wait_ready, self.urls["analyzer"], 240)


async def _storm(
    programs: Programs, sending: list[tuple[Task, bytes, str]], store: str = ""
) -> int:
    """Clients that retry, while servers die and come back again and again."""
    urls = (
        programs.replica_urls if isinstance(programs, Replicated) else [programs.urls["shuffler"]]
    )

    async def insist(client: httpx.AsyncClient, task: Task, body: bytes, token: str) -> None:
        path = f"/tasks/{task.id.hex()}/reports"
        await asyncio.sleep(random.uniform(0, 0.8 * KILLS))
        acknowledged = 0
        while acknowledged < 2:  # the second time is a duplicate
            try:
                url = f"{random.choice(urls)}{path}"
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
            if isinstance(programs, Replicated):
                await programs.trouble(store)
                continue
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
