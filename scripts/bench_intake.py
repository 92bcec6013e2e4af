"""Durable reports per second at a shuffler, for `bench_service.py`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_machine import cpu_seconds, disk_bytes, held_to, postgres_seconds
from bench_tasks import USERS, new_task, say

from shuffledp.service.client.collector import call, register
from shuffledp.service.client.sending import new_report_id
from shuffledp.service.demo import configuration, free_port, new_tokens, wait_ready
from shuffledp.service.tokens import EACH_PREFIX, token_hash
from shuffledp.tasks.log import Head, log_entry
from shuffledp.tasks.merkle import leaf_hash
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.signing import SigningKey, task_text
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import REPORT_HEADER_BYTES, REPORT_ID_PART


def bench_intake(folder: Path, args: argparse.Namespace) -> None:
    """Durable reports per second on each store, with the load generator on the same machine."""
    for store, workers in itertools.product(args.store, args.workers):
        if store == "sqlite" and workers > 1:  # is for one process
            continue
        place = folder / f"{store}-{workers}"
        with (
            database(store, place) as url,
            server(place, url, args.target, workers, tls=args.tls) as running,
        ):
            base, operator, tokens, task, program = running
            if args.warm:
                asyncio.run(load(base, task, tokens, 3, args))
            print(
                f"intake on {store}: {args.seconds} s, {args.connections} connections, "
                f"{task.report_bytes:,} B per report, batches of {USERS:,}, "
                f"{workers} process(es)"
                + (f", each held to {args.core_share:g} of a core" if args.core_share else "")
            )
            measured(folder, base, tokens, task, program, args)
            batches = call("GET", f"{base}/status", operator).json()["tasks"][0]["batches"]
            gone = sum(batch["state"] == "deleted" for batch in batches)
            say("batches ordered, delivered and deleted meanwhile", f"{gone} of {len(batches)}")


def measured(
    folder: Path,
    base: str,
    tokens: list[str],
    task: Task,
    program: int,
    args: argparse.Namespace,
) -> None:
    """Sends reports for some seconds, and prints what that took of everybody."""
    before, queried, own = cpu_seconds(program), postgres_seconds(), time.process_time()
    written = disk_bytes(folder)
    with held_to(args.core_share, before):
        rate, times, refused = asyncio.run(load(base, task, tokens, args.seconds, args))
    own = (time.process_time() - own) / args.seconds
    after = cpu_seconds(program)
    spent = [(after[one] - before.get(one, 0.0)) / len(times) * 1e6 for one in after]
    queried = (postgres_seconds() - queried) / len(times) * 1e6
    each = (disk_bytes(folder) - written) / len(times)
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    say("durable reports per second", f"{rate:,.0f}")
    say(
        "time to acknowledgement: median, p99, longest",
        f"{p50:.0f} ms, {p99:.0f} ms, {max(times) * 1e3:.0f} ms",
    )
    say("told to come back later; load generator's share of a core", f"{refused:,}; {own:.2f}")
    say(
        "CPU per report: first process (parent of workers), others, PostgreSQL",
        f"{spent[0]:.0f} µs, {sum(spent[1:]):.0f} µs, {queried:.0f} µs",
    )
    say(
        "written to the disk: per report, per second",
        f"{each:,.0f} B, {each * rate / 1e6:.1f} MB",
    )


@contextlib.contextmanager
def database(store: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store; PostgreSQL gets a fresh server, as in the tests."""
    folder.mkdir()
    if store == "sqlite":
        yield f"sqlite:{folder}/intake.db"
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    import postgres_server as postgres

    place = postgres.programs()
    if place is None:
        raise SystemExit(f"PostgreSQL is not installed ({postgres.HOW}).")
    settings = ("shared_buffers=512MB", "max_wal_size=8GB", "wal_compression=off")
    with postgres.running(place, *settings) as socket:
        yield postgres.new_database(place, socket)


@contextlib.contextmanager
def server(
    folder: Path, store: str, target: dict[str, str], workers: int, *, tls: bool
) -> Iterator[tuple[str, str, list[str], Task, int]]:
    """A shuffler (its address, its operator's token and its process) with a task and many enrolled
    clients, and somebody who takes its batches."""
    ports = {"shuffler": free_port(), "analyzer": free_port()}
    secrets = new_tokens()
    config = folder / "bench.toml"
    config.write_text(configuration(folder, ports, secrets))
    surroundings = os.environ | {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": secrets["shuffler"],
        "SHUFFLEDP_SHUFFLER_STORE": store,
        "SHUFFLEDP_SHUFFLER_WORKERS": str(workers),
        **(self_signed(folder) if tls else {}),
    }
    task = new_task(folder, target)
    signing = SigningKey.generate()
    keys = json.dumps(said_by_analyzer(task, signing)).encode()
    sink = multiprocessing.Process(target=take_batches, args=(ports["analyzer"], keys), daemon=True)
    sink.start()
    running = subprocess.Popen(
        [sys.executable, "-m", "shuffledp.service", "shuffler", "--config", str(config)],
        env=surroundings,
        stderr=subprocess.DEVNULL,
    )
    try:
        base = f"{'https' if tls else 'http'}://127.0.0.1:{ports['shuffler']}"
        wait_ready(base)
        register(task, base, secrets["collector at shuffler"], signing)
        operator = secrets["operator"]
        yield base, operator, enrolled(base, operator), task, running.pid
    finally:
        running.terminate()
        running.wait(60)
        sink.kill()
        sink.join()


def said_by_analyzer(task: Task, signing: SigningKey) -> dict[str, Any]:
    """What an analyzer says of its keys, and of a log that holds this task alone, all in one."""
    head = Head.sign(signing, 1, leaf_hash(log_entry(task.id, *signing.sign_task(task.id))))
    return {
        "keys": [task.key.to_dict() | {"state": "active"}],
        "head": head.to_dict(),
        "path": [],
        "index": 0,
        "analyzer_signature": signing.sign(task_text("analyzer", task.id)).hex(),
    }


def self_signed(folder: Path) -> dict[str, str]:
    """The settings of a server with a certificate for 127.0.0.1, which this program trusts."""
    certificate, key = f"{folder}/tls.pem", f"{folder}/tls.key"
    words = "req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 2 -subj /CN=bench"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words.split(), *names], check=True, stderr=subprocess.DEVNULL)
    os.environ["SSL_CERT_FILE"] = certificate
    return {"SHUFFLEDP_SHUFFLER_TLS_CERTIFICATE": certificate, "SHUFFLEDP_SHUFFLER_TLS_KEY": key}


def take_batches(port: int, keys: bytes) -> None:
    """Answers like an analyzer with these keys that takes every batch and does nothing with it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, rest = head.partition(b"content-length: ")
                left = int(rest.split(b"\r\n")[0]) if rest else 0
                while left:
                    left -= len(await reader.read(min(left, 1 << 20)))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(keys) + keys)
                await writer.drain()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", port, limit=1 << 22)
        await server.serve_forever()

    asyncio.run(serve())


def enrolled(base: str, operator: str, count: int = 600_000) -> list[str]:
    tokens = [f"{EACH_PREFIX}{os.urandom(16).hex()}" for _ in range(count)]
    for start in range(0, count, 50_000):
        hashes = [token_hash(token).hex() for token in tokens[start : start + 50_000]]
        call("POST", f"{base}/tokens", operator, json={"sha256": hashes})
    return tokens


async def load(
    base: str, task: Task, tokens: list[str], seconds: float, args: argparse.Namespace
) -> tuple[float, list[float], int]:
    """(reports per second, times to acknowledgement, refusals) of clients that never pause."""
    scheme, host, port = base.replace("://", ":").split(":")
    trust = ssl.create_default_context() if scheme == "https" else None
    header = encrypt_report(task, 1)[:REPORT_HEADER_BYTES]
    end = time.perf_counter() + seconds
    times: list[float] = []
    refused = 0

    async def one_connection() -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection(host, int(port), ssl=trust)
        while (now := time.perf_counter()) < end and tokens:
            if args.fresh:
                writer.close()
                reader, writer = await asyncio.open_connection(host, int(port), ssl=trust)
            writer.write(request(task, header, tokens.pop()))
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
    head = (
        f"POST /tasks/{task.id.hex()}/reports HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {task.report_bytes}\r\n\r\n"
    )
    before, after = header[: REPORT_ID_PART.start], header[REPORT_ID_PART.stop :]
    return head.encode() + before + new_report_id(token) + after + os.urandom(size)
