"""kill −9 at random moments, with retries and duplicates: nothing lost, nothing counted twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

import httpx
from service_trio import COLLECTOR, DELIVERY, OPERATOR, Trio, bearing, known_report, sha

from shuffledp.sealed.tokens import EACH, new_token
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.storage import open_database

KILLS = int(os.environ.get("SHUFFLEDP_KILLS", "8"))
"""More for a soak test."""
REPORTS, BATCH = 20 * KILLS, 40


class Programs:
    """Both servers as programs of their own, on the trio's stores."""

    def __init__(self, trio: Trio, scheme: str = "http") -> None:
        self.trio = trio
        self.ports = {"shuffler": free_port(), "analyzer": free_port()}
        self.urls = {role: f"{scheme}://127.0.0.1:{port}" for role, port in self.ports.items()}
        self.running: dict[str, subprocess.Popen] = {}
        self.config = trio.folder / "service.toml"
        self.config.write_text(self.toml())

    def toml(self) -> str:
        lines = []
        for role, config in (
            ("shuffler", self.trio.shuffler_config),
            ("analyzer", self.trio.analyzer_config),
        ):
            lines.append(f"[{role}]")
            changed = {"listen": f"127.0.0.1:{self.ports[role]}", "drain_seconds": 0}
            if role == "shuffler":
                changed["analyzer"] = self.urls["analyzer"]
            for name, value in (vars(config) | changed).items():
                lines.append(f"{name} = {json.dumps(value)}")
        return "\n".join(lines)

    def start(self, role: str, **options) -> None:
        with open(self.trio.folder / f"{role}.log", "ab") as log:
            self.running[role] = subprocess.Popen(
                [sys.executable, "-m", "shuffledp.service", role, "--config", str(self.config)],
                stderr=log,
                **options,
            )

    def kill(self, role: str) -> None:
        self.running[role].send_signal(signal.SIGKILL)
        self.running[role].wait()

    def stop(self) -> None:
        for program in self.running.values():
            program.terminate()
        for program in self.running.values():
            program.wait(30)

    def log(self) -> str:
        return "".join((self.trio.folder / f"{role}.log").read_text() for role in self.ports)


def test_nothing_is_lost_or_doubled(tmp_path, stores):
    trio = Trio(tmp_path, stores)
    task = trio.task(users=BATCH)
    made = [known_report(task, place % 2) for place in range(REPORTS)]
    tokens = [new_token(EACH) for _ in made]
    programs = Programs(trio)
    try:
        for role in programs.ports:
            programs.start(role)
        for url in programs.urls.values():
            wait_ready(url)
        for url in programs.urls.values():
            httpx.put(
                f"{url}/tasks/{task.id.hex()}", content=task.canonical(), headers=bearing(COLLECTOR)
            ).raise_for_status()
        httpx.post(
            f"{programs.urls['shuffler']}/tokens",
            headers=bearing(OPERATOR),
            json={"sha256": [sha(token) for token in tokens]},
        ).raise_for_status()
        kills = asyncio.run(_storm(programs, task, [body for body, _, _ in made], tokens))
        assert kills == KILLS
        _wait_results(programs.urls["analyzer"], task, REPORTS // BATCH)
        status = httpx.get(f"{programs.urls['shuffler']}/status").json()["tasks"][0]
        assert status["have"] == 0 and len(status["batches"]) == REPORTS // BATCH
    finally:
        programs.stop()
    tallies = asyncio.run(_tallies(stores["analyzer"]))
    assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
    assert sum(tally["minus"][0] for tally in tallies) == sum(minus for _, _, minus in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert len(ledger["entries"]) == REPORTS // BATCH
    assert DELIVERY not in programs.log() and not any(token in programs.log() for token in tokens)


async def _storm(programs: Programs, task, bodies, tokens) -> int:
    """Clients that insist, while a server dies and comes back again and again."""
    url = f"{programs.urls['shuffler']}/tasks/{task.id.hex()}/reports"
    over = asyncio.Event()

    async def insist(client: httpx.AsyncClient, body: bytes, token: str) -> None:
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
        over.set()
        return kills

    limits = httpx.Limits(max_connections=32)
    async with httpx.AsyncClient(limits=limits, timeout=20) as client:
        clients = [insist(client, body, token) for body, token in zip(bodies, tokens, strict=True)]
        kills, *_ = await asyncio.gather(kill(), *clients)
    return kills


def _wait_results(url: str, task, count: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = httpx.get(f"{url}/tasks/{task.id.hex()}/results").json()["results"]
        if len(found) == count:
            return
        time.sleep(0.1)
    raise AssertionError(f"{len(found)} of {count} results")


async def _tallies(url: str) -> list[dict]:
    database = await open_database(url, "analyzer")
    try:
        rows = await database.rows("SELECT tally FROM batches")
        return [json.loads(row[0]) for row in rows]
    finally:
        await database.close()
