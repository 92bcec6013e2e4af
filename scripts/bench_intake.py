"""Durable reports per second at a shuffler, for `bench_service.py`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_machine import cpu_seconds, held_to, written_bytes

from shuffledp.queries.count.planner import plan_count
from shuffledp.service.client.collector import call, register
from shuffledp.service.client.sending import new_report_id
from shuffledp.service.demo import configuration, free_port, new_tokens, wait_ready
from shuffledp.service.tokens import EACH_PREFIX, token_hash
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import REPORT_HEADER_BYTES, REPORT_ID_PART

USERS = 10_000
MOST_RATE = 15_000
"""Reports per second that one machine is expected not to exceed: as many clients are enrolled."""


def say(what: str, figure: str) -> None:
    print(f"  {what:<58} {figure}", flush=True)


def new_task(folder: Path, target: dict[str, str], users: int = USERS, epsilon: str = "1") -> Task:
    """A count, planned for the smallest report."""
    keys = KeyFolder(folder / "keys")
    key = (keys.all() or [keys.new()])[-1].public
    plan = plan_count(
        users,
        epsilon,
        mse_overhead=target["mse_overhead"],
        relative_error=target.get("relative_error"),
        padded=True,
    )
    return Task.create(plan.to_dict(), key, "bench")


def bench_intake(folder: Path, args: argparse.Namespace) -> None:
    """Durable reports per second on each store, with the load generator on the same machine."""
    combinations = itertools.product(args.store, args.workers, args.tasks, args.core_share)
    for number, (store, workers, count, share) in enumerate(combinations):
        if store == "sqlite" and workers > 1:  # is for one process
            continue
        place = folder / f"{store}-{number}"
        with (
            database(store, place) as (url, postgres),
            server(place, url, workers, count, args) as running,
        ):
            asyncio.run(load(running, 3, args))  # the first reports are slower
            print(
                f"intake on {store}: {args.seconds} s, {args.connections} connections, "
                f"{running.tasks[0].report_bytes:,} B per report, {count} task(s) with batches of "
                f"{USERS:,}, {workers} process(es)"
                + (f", each held to {share:g} of a core" if share else "")
                + f", load {os.getloadavg()[0]:.1f}"
            )
            measured(running, postgres, share, args)
            told = call("GET", f"{running.base}/status", running.operator).json()["tasks"]
            batches = [batch["state"] for task in told for batch in task["batches"]]
            gone = batches.count("deleted")
            say("batches ordered, delivered and deleted meanwhile", f"{gone} of {len(batches)}")


@dataclass
class Running:
    """A shuffler that runs, and what is needed to send to it."""

    base: str
    operator: str
    tokens: list[str]
    tasks: list[Task]
    program: int
    """Its process."""


def measured(running: Running, postgres: int, share: float, args: argparse.Namespace) -> None:
    """Sends reports for some seconds, and prints what that took of everybody."""
    before, queried = cpu_seconds(running.program), cpu_seconds(postgres)
    own, written = time.process_time(), written_bytes(running.program, postgres)
    with held_to(share, before):
        rate, times, refused = asyncio.run(load(running, args.seconds, args))
    own = (time.process_time() - own) / args.seconds
    after = cpu_seconds(running.program)
    spent = [(after[one] - before.get(one, 0.0)) / len(times) * 1e6 for one in after]
    later = cpu_seconds(postgres)
    database = sum(later[one] - queried.get(one, 0.0) for one in later) / len(times) * 1e6
    each = (written_bytes(running.program, postgres) - written) / len(times)
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    say("durable reports per second", f"{rate:,.0f}")
    say(
        "time to acknowledgement: median, p99, longest",
        f"{p50:.0f} ms, {p99:.0f} ms, {max(times) * 1e3:.0f} ms",
    )
    say("told to come back later; load generator's share of a core", f"{refused:,}; {own:.2f}")
    say("CPU per report: shuffler, PostgreSQL", f"{sum(spent):.0f} µs, {database:.0f} µs")
    say("written to the disk per report", f"{each:,.0f} B")


@contextlib.contextmanager
def database(store: str, folder: Path) -> Iterator[tuple[str, int]]:
    """The URL of an empty store, and the process of its server (0: none). PostgreSQL gets a fresh
    server, as in the tests."""
    folder.mkdir()
    if store == "sqlite":
        yield f"sqlite:{folder}/intake.db", 0
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    import postgres_server as postgres

    place = postgres.programs()
    if place is None:
        raise SystemExit(f"PostgreSQL is not installed ({postgres.HOW}).")
    settings = ("shared_buffers=512MB", "max_wal_size=8GB", "wal_compression=off")
    with postgres.running(place, *settings) as socket:
        process = int(Path(socket, "data", "postmaster.pid").read_text().split()[0])
        yield postgres.new_database(place, socket), process


@contextlib.contextmanager
def server(
    folder: Path, store: str, workers: int, count: int, args: argparse.Namespace
) -> Iterator[Running]:
    """A shuffler with tasks and many enrolled clients. An analyzer logs the tasks; then somebody
    takes its place who only takes batches."""
    ports = {"shuffler": free_port(), "analyzer": free_port()}
    secrets = new_tokens()
    config = folder / "bench.toml"
    config.write_text(configuration(folder, ports, secrets))
    surroundings = os.environ | {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": secrets["shuffler"],
        "SHUFFLEDP_SHUFFLER_STORE": store,
        "SHUFFLEDP_SHUFFLER_WORKERS": str(workers),
    }
    tasks = [new_task(folder, args.target) for _ in range(count)]
    signing = SigningKey.generate()
    base = f"http://127.0.0.1:{ports['shuffler']}"
    analyzer = f"http://127.0.0.1:{ports['analyzer']}"

    def started(role: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "shuffledp.cli.main", role, "serve", "--config", str(config)]
        return subprocess.Popen(words, env=surroundings, stderr=subprocess.DEVNULL)

    logging, running = started("analyzer"), started("shuffler")
    sink: multiprocessing.Process | None = None
    try:
        wait_ready(analyzer)
        wait_ready(base)
        for task in tasks:
            register(task, analyzer, secrets["collector at analyzer"], signing)
            register(task, base, secrets["collector at shuffler"], signing)
        taken = call("GET", f"{analyzer}/keys").json() | {"state": "received"}
        end(logging)
        said = json.dumps(taken).encode()
        sink = multiprocessing.Process(target=take_batches, args=(ports["analyzer"], said))
        sink.start()
        tokens = enrolled(base, secrets["operator"], 50_000 + MOST_RATE * (args.seconds + 3))
        yield Running(base, secrets["operator"], tokens, tasks, running.pid)
    finally:
        end(logging, running)
        if sink is not None:
            sink.kill()
            sink.join()


def end(*programs: subprocess.Popen[bytes]) -> None:
    for program in programs:
        program.terminate()
    for program in programs:
        program.wait(60)


def take_batches(port: int, said: bytes) -> None:
    """Answers everything like an analyzer that has taken a batch, and does nothing with it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, rest = head.partition(b"content-length: ")
                left = int(rest.split(b"\r\n")[0]) if rest else 0
                while left:
                    left -= len(await reader.read(min(left, 1 << 20)))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(said) + said)
                await writer.drain()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", port, limit=1 << 22)
        await server.serve_forever()

    asyncio.run(serve())


def enrolled(base: str, operator: str, count: int) -> list[str]:
    tokens = [f"{EACH_PREFIX}{os.urandom(16).hex()}" for _ in range(count)]
    for start in range(0, count, 50_000):
        hashes = [token_hash(token).hex() for token in tokens[start : start + 50_000]]
        call("POST", f"{base}/tokens", operator, json={"sha256": hashes})
    return tokens


async def load(
    running: Running, seconds: float, args: argparse.Namespace
) -> tuple[float, list[float], int]:
    """(reports per second, times to acknowledgement, refusals) of clients that never pause, which
    answer the tasks in turn."""
    host, port = running.base.removeprefix("http://").split(":")
    tokens = running.tokens
    turns = itertools.cycle(
        (task, encrypt_report(task, 1)[:REPORT_HEADER_BYTES]) for task in running.tasks
    )
    end = time.perf_counter() + seconds
    times: list[float] = []
    refused = 0

    async def one_connection() -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection(host, int(port))
        while (now := time.perf_counter()) < end and tokens:
            writer.write(request(*next(turns), tokens.pop()))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            if head.startswith(b"HTTP/1.1 201"):
                times.append(time.perf_counter() - now)
            else:
                refused += 1
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(args.connections)))
    return len(times) / (time.perf_counter() - begin), times, refused


def request(task: Task, header: bytes, token: str) -> bytes:
    """A POST of random bytes under a fresh report id: the shuffler cannot tell them from
    encrypted messages."""
    size = task.report_bytes - REPORT_HEADER_BYTES
    before, after = header[: REPORT_ID_PART.start], header[REPORT_ID_PART.stop :]
    return post_head(task, token) + before + new_report_id(token) + after + os.urandom(size)


def post_head(task: Task, token: str) -> bytes:
    """The head of the request that sends a report."""
    return (
        f"POST /tasks/{task.id.hex()}/reports HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {task.report_bytes}\r\n\r\n"
    ).encode()
