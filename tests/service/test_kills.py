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
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import httpx2
import postgres_server as postgres
import pytest
from nginx_proxy import proxy
from raw_sockets import wait_for
from service_programs import Programs
from service_states import keep_tallies, stored_tallies
from service_trio import DELIVERY, OPERATOR, Trio, bearing, known_report

from shuffledp.service.client.collector import ask, call
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.task import Task

FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
KILLS = int(os.environ.get("SHUFFLEDP_KILLS", "240" if FULL else "8"))
"""More for a soak test."""
CONNECTIONS = 32
BATCH = 40
REPORTS = 2 * BATCH * -(-KILLS // 4)
"""Whole batches of two tasks."""
SMALL = 8
"""Reports in a batch of the replicas: many batches in few reports."""
BATCHES = 5 * KILLS
"""Of each of their tasks with batches of one size."""
EARLY = 2 * KILLS
"""Reports of their task whose batches leave early, many with a single report."""


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
        status = ask(shuffler, "/status", OPERATOR, fields=["tasks"])["tasks"][0]
        assert status["have"] == 0 and len(status["batches"]) == REPORTS // BATCH
    tallies = asyncio.run(stored_tallies(stores["analyzer"])).values()
    assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
    assert sum(tally["minus"][0] for tally in tallies) == sum(minus for _, _, minus in made)
    assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert len(ledger["entries"]) == REPORTS // BATCH
    assert DELIVERY not in programs.log() and not any(token in programs.log() for token in tokens)


@pytest.fixture
def crashing(postgres_server: postgres.Server) -> str:
    """The URL of a database on a PostgreSQL server that this test alone uses."""
    return postgres_server.new_database()


@pytest.mark.attack("kill −9, SIGSTOP, cut sessions and PostgreSQL crashes under three replicas")
def test_three_replicas_lose_and_double_nothing(tmp_path: Path, crashing: str) -> None:
    """Clients talk to nginx in front of three replicas. Batches have exactly their size; every
    acknowledged report is counted once, also those of tokens that count once in all tasks, of a
    task that counts tokens in every batch, and of one whose batches all replicas close early, at
    the same moment. At last one replica hangs."""
    trio = Trio(tmp_path, {"shuffler": crashing, "analyzer": f"sqlite:{tmp_path}/analyzer.db"})
    trio.analyzer_config = replace(trio.analyzer_config, budget="1000000")
    early = {"top_up": "missing", "at_least": 1, "wait_seconds": 1}
    tasks = [
        trio.task(users=SMALL, cell="bounded"),
        trio.task("repeat", users=SMALL, cell="bounded", repeat=True),
        trio.task("early", users=SMALL, cell="bounded", batch=early),
    ]
    counts = (SMALL * BATCHES, SMALL * BATCHES, EARLY)
    wanted = [task for task, count in zip(tasks, counts, strict=True) for _ in range(count)]
    made = [(task, *known_report(task, at % 3 % 2)) for at, task in enumerate(wanted)]
    programs = Replicated(trio, 3)
    asyncio.run(keep_tallies(trio.analyzer_config.store))
    with programs.all():
        for task in tasks:
            programs.register(task)
        half = len(made) // 2
        tokens = programs.enrol(half) + programs.enrol(len(made) - half, ONCE_PREFIX)
        random.shuffle(tokens)
        sending = [(one[0], one[1], token) for one, token in zip(made, tokens, strict=True)]
        asyncio.run(_storm(programs, sending, crashing))
        assert programs.troubles.total() == KILLS
        for task in tasks[:2]:
            found = programs.results(task, BATCHES, 180 + BATCHES)
            assert [result["reports"] for result in found] == [SMALL] * BATCHES
        assert wait_for(lambda: _counted(programs, tasks[2]) >= EARLY, 180 + BATCHES)
        short = programs.results(tasks[2])
        assert sum(result["reports"] for result in short) == EARLY
        assert min(result["reports"] for result in short) < SMALL  # some did leave early
        print(f"{dict(programs.troubles)}, {len(made)} reports, {2 * BATCHES + len(short)} batches")
        for url in programs.replica_urls:
            wait_ready(url, 240)  # the last trouble may have been a crash
            status = ask(url, "/status", OPERATOR, fields=["tasks"])["tasks"]
            assert [(one["have"], one["state"], one["reason"]) for one in status] == [
                (0, "open", "")
            ] * len(tasks)
        _check_hung_replica(programs, crashing)
    stored = asyncio.run(stored_tallies(trio.analyzer_config.store))
    assert len(stored) == 2 * BATCHES + len(short)
    topped_up = {result["batch"] for result in short}
    tallies = [tally for batch, tally in stored.items() if batch not in topped_up]
    sent = [one for one in made if one[0] is not tasks[2]]
    assert sum(tally["plus"][0] for tally in tallies) == sum(one[2] for one in sent)
    assert sum(tally["minus"][0] for tally in tallies) == sum(one[3] for one in sent)
    assert all(tally["dropped"]["replayed"] == 0 for tally in stored.values())
    assert not any(token in programs.log() for token in tokens)


def _counted(programs: Programs, task: Task) -> int:
    """How many reports the published results of a task rest on."""
    return sum(result["reports"] for result in programs.results(task, 0))


def _check_hung_replica(programs: Replicated, store: str) -> None:
    """One replica is stopped: its health check fails, the others see that it is away and go on, and
    it holds no lock."""

    def metric(at: int, name: str) -> float:
        text = call("GET", f"{programs.replica_urls[at]}/metrics", OPERATOR).text
        found = next(line for line in text.splitlines() if line.startswith(f"{name} "))
        return float(found.split()[-1])

    def away(at: int) -> float:
        return metric(at, "shuffledp_shuffler_replicas_away")

    def seen() -> float:
        return metric(1, "shuffledp_shuffler_replicas")

    async def idle() -> int:
        connection = await asyncpg.connect(store)
        found = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'idle in transaction' AND now() - state_change > interval '20 s'"
        )
        await connection.close()
        return int(found)

    assert wait_for(lambda: seen() == 3, 60)  # those that were killed last are away by now
    before = away(1)
    hung = programs.running["shuffler 0"]
    hung.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(httpx2.TimeoutException):
            httpx2.get(f"{programs.replica_urls[0]}/readyz", timeout=3)
        assert httpx2.get(f"{programs.replica_urls[1]}/readyz", timeout=60).status_code == 200
        assert wait_for(lambda: away(1) == away(2) == before + 1, 120)
        assert asyncio.run(idle()) == 0
    finally:
        hung.send_signal(signal.SIGCONT)
    assert wait_for(lambda: away(1) == before and seen() == 3, 60)


class Replicated(Programs):
    """An analyzer and several shuffler programs on one store, each with its own port, and nginx in
    front of them."""

    def __init__(self, trio: Trio, count: int) -> None:
        super().__init__(trio)
        ports = [self.ports["shuffler"], *(free_port() for _ in range(count - 1))]
        self.replica_ports = ports
        self.replica_urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.public = ""
        """The proxy's URL."""
        self.troubles: Counter[str] = Counter()
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
                    "shuffledp.cli.main",
                    "shuffler",
                    "serve",
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
            with proxy(self.trio.folder, self.replica_ports, self.ports["analyzer"]) as urls:
                self.public = urls[0]
                yield
        finally:
            self.stop()

    async def trouble(self, store: str) -> None:
        """Something bad, to one of the programs or to all sessions of the store."""
        at = random.randrange(len(self.replica_urls))
        name = f"shuffler {at}"
        kind = ("kill", "kill", "stop", "cut", "analyzer", "crash")[self.troubles.total() % 6]
        self.troubles[kind] += 1
        if kind == "kill":
            self.kill(name)
            await _recovered(store)  # a process does not start without its store
            self.start_replica(at)
            await asyncio.to_thread(wait_ready, self.replica_urls[at], 240)
        elif kind == "stop":
            self.running[name].send_signal(signal.SIGSTOP)
            await asyncio.sleep(1)
            self.running[name].send_signal(signal.SIGCONT)
        elif kind in ("cut", "crash"):
            connection = await asyncpg.connect(store)
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            pids = await connection.fetch(f"SELECT pid FROM pg_stat_activity WHERE {others}")
            if kind == "cut":
                await connection.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
                )
                await connection.close()
            else:  # the server ends all sessions and recovers from its log
                connection.terminate()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(pids)[0], signal.SIGKILL)
        else:
            self.kill("analyzer")
            self.start("analyzer")
            await asyncio.to_thread(wait_ready, self.urls["analyzer"], 240)


async def _recovered(store: str) -> None:
    """Waits until PostgreSQL takes connections, also after a crash."""
    for _ in range(1200):
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            await (await asyncpg.connect(store)).close()
            return
        await asyncio.sleep(0.1)
    raise AssertionError("PostgreSQL does not come back")


async def _storm(
    programs: Programs, sending: list[tuple[Task, bytes, str]], store: str = ""
) -> int:
    """Clients that retry, while servers die and come back again and again."""
    public = programs.public if isinstance(programs, Replicated) else programs.urls["shuffler"]
    statuses = {200, 201, 429, 503} | ({502, 504} if isinstance(programs, Replicated) else set())

    begun = [asyncio.Event() for _ in range(KILLS)]

    async def insist(client: httpx2.AsyncClient, task: Task, body: bytes, token: str) -> None:
        path = f"/tasks/{task.id.hex()}/reports"
        await random.choice(begun).wait()
        await asyncio.sleep(random.uniform(0, 1))
        acknowledged = 0
        while acknowledged < 2:  # the second time is a duplicate
            try:
                async with slots:  # the pool's own queue slows down as thousands wait in it
                    answer = await client.post(public + path, content=body, headers=bearing(token))
                assert answer.status_code in statuses, answer.text
                acknowledged += answer.status_code in (200, 201)
            except httpx2.TransportError:
                pass
            await asyncio.sleep(random.uniform(0.05, 0.3))

    async def kill() -> int:
        kills = 0
        for number in range(KILLS):
            role = ("shuffler", "analyzer")[number % 2]
            begun[number].set()
            await asyncio.sleep(random.uniform(0.05, 0.6))
            if isinstance(programs, Replicated):
                await programs.trouble(store)
                continue
            programs.kill(role)
            kills += 1
            programs.start(role)
            await asyncio.to_thread(wait_ready, programs.urls[role])
        return kills

    slots, limits = asyncio.Semaphore(CONNECTIONS), httpx2.Limits(max_connections=CONNECTIONS)
    async with httpx2.AsyncClient(limits=limits, timeout=20) as client:
        clients = [insist(client, *one) for one in sending]
        killing = asyncio.create_task(kill())
        await asyncio.gather(killing, *clients)
    return killing.result()
