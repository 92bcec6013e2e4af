"""How fast the service is on this machine: intake, opening, a whole batch, the client.

    python scripts/bench_service.py [intake] [opening] [batch] [client] [--seconds 60] …

Everything runs on 127.0.0.1, the load generator included. Figures are printed beside the machine's
own speed at encrypting, opening and writing to disk, because they mean nothing without it. Figures
that a busy machine gave are marked by the load average.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from bench_cores import held_to

from shuffledp.planning.counting import plan_count
from shuffledp.sealed.encryption import encrypt_all, open_all
from shuffledp.sealed.keys import KeyFolder, PublicKey
from shuffledp.sealed.merkle import leaf_hash
from shuffledp.sealed.opening import AllowedNumbers, count_messages, worker_pool
from shuffledp.sealed.ordering import order_file
from shuffledp.sealed.reports import encrypt_report
from shuffledp.sealed.signing import SigningKey, task_text
from shuffledp.sealed.task import Task
from shuffledp.sealed.task_proof import Head, log_entry
from shuffledp.sealed.wire import (
    DUMMY_NUMBER,
    MESSAGE_BYTES,
    REPORT_HEADER_BYTES,
    REPORT_ID_PART,
    BatchHeader,
)
from shuffledp.service.client.collector import call, register
from shuffledp.service.client.sending import new_report_id
from shuffledp.service.demo import configuration, free_port, new_tokens, wait_ready
from shuffledp.service.tokens import EACH_PREFIX, token_hash

USERS = 10_000
TASK_ID = bytes(32)
LONGEST_BATCH_SECONDS = 1800


def calibration(folder: Path) -> dict[str, float]:
    """What one core and the disk can do here and now."""
    key = KeyFolder(folder / "calibration").new()
    begin = time.process_time()
    messages = encrypt_all(range(2000), key.public, TASK_ID)
    encrypted = 2000 / (time.process_time() - begin)
    begin = time.process_time()
    open_all(pieces(messages), key.secret, key.public.info(TASK_ID))
    opened = 2000 / (time.process_time() - begin)
    return {
        "messages encrypted per core-second": encrypted,
        "messages opened per core-second": opened,
        "durable 64 kB writes per second": writes(folder / "disk", 1 << 16),
        "durable MB per second, 1 MB at a time": writes(folder / "disk", 1_000_000),
    }


def writes(path: Path, size: int) -> float:
    """How often so many bytes can be written and synced in a second."""
    data, count = os.urandom(size), 100
    begin = time.perf_counter()
    with open(path, "wb") as out:
        for _ in range(count):
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    path.unlink()
    return count / (time.perf_counter() - begin)


def disk_bytes(folder: Path) -> int | None:
    """How many bytes were written to the disk of a folder since the machine started (Linux)."""
    device = os.stat(folder).st_dev
    wanted = [str(os.major(device)), str(os.minor(device))]
    with contextlib.suppress(OSError):
        for line in Path("/proc/diskstats").read_text().splitlines():
            fields = line.split()
            if fields[:2] == wanted:
                return 512 * int(fields[9])
    return None


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + MESSAGE_BYTES] for at in range(0, len(data), MESSAGE_BYTES))


def say(what: str, figure: str) -> None:
    print(f"  {what:<58} {figure}", flush=True)


# the client


def bench_client(folder: Path, args: argparse.Namespace) -> None:
    """CPU time and bytes of one report at ε = 1, n = 10⁴, for several targets."""
    print("client: one report at ε = 1, n = 10⁴")
    for words, target in (
        ("MSE within 1 + 1/2 of central", {"mse_overhead": "0.5"}),
        ("MSE within 1 + 1 of central", {"mse_overhead": "1"}),
        ("MSE within 1 + 2 of central", {"mse_overhead": "2"}),
        (
            "… 1 + 1/2, or within 1 % of the count",
            {"mse_overhead": "0.5", "relative_error": "0.01"},
        ),
    ):
        task = new_task(folder, target)
        encrypt_report(task, 1)
        begin = time.process_time()
        for _ in range(40):
            encrypt_report(task, 1)
        each = (time.process_time() - begin) / 40
        say(words, f"K = {task.report_size}, {task.report_bytes:,} B, {each * 1e3:.1f} ms CPU")


def new_task(folder: Path, target: dict[str, str], users: int = USERS) -> Task:
    """A count at ε = 1, planned for the smallest report."""
    keys = KeyFolder(folder / "keys")
    key = (keys.all() or [keys.new()])[-1].public
    plan = plan_count(
        users,
        1,
        mse_overhead=target["mse_overhead"],
        relative_error=target.get("relative_error"),
        padded=True,
    )
    return Task.create(plan.to_dict(), key, "bench")


# intake


def bench_intake(folder: Path, args: argparse.Namespace) -> None:
    """Durable reports per second on each store, with the load generator on the same cores."""
    for store, processes in itertools.product(args.store, args.processes):
        place = folder / f"{store}-{processes}"
        with (
            database(store, place) as url,
            server(place, url, args.target, processes, tls=args.tls) as (
                base,
                tokens,
                task,
                program,
            ),
        ):
            if args.warm:
                asyncio.run(load(base, task, tokens, 3, args))
            begin, before = time.process_time(), cpu_seconds(program)
            written = disk_bytes(folder)
            with held_to(args.core_share, before):
                rate, times, refused = asyncio.run(load(base, task, tokens, args.seconds, args))
            own = (time.process_time() - begin) / args.seconds
            after = cpu_seconds(program)
            spent = [(after[one] - before.get(one, 0.0)) / len(times) * 1e6 for one in after]
            p50, p99 = np.percentile(times, [50, 99]) * 1e3
            print(
                f"intake on {store}: {args.seconds} s, {args.connections} connections, "
                f"{task.report_bytes:,} B per report, batches of {USERS:,}, "
                f"{processes} process(es) at the door"
                + (f", each held to {args.core_share:g} of a core" if args.core_share else "")
            )
            say("durable reports per second", f"{rate:,.0f}")
            say(
                "time to acknowledgement: median, p99, longest",
                f"{p50:.0f} ms, {p99:.0f} ms, {max(times) * 1e3:.0f} ms",
            )
            say(
                "told to come back later; load generator's share of a core",
                f"{refused:,}; {own:.2f}",
            )
            say(
                "CPU per report of the first process, and of all others at the door",
                f"{spent[0]:.0f} µs, {sum(spent[1:]):.0f} µs",
            )
            if written is not None:
                now = disk_bytes(folder)
                assert now is not None
                each = (now - written) / len(times)
                say(
                    "written to the disk: per report, per second",
                    f"{each:,.0f} B, {each * rate / 1e6:.1f} MB",
                )
            batches = httpx.get(f"{base}/status").json()["tasks"][0]["batches"]
            gone = sum(batch["state"] == "scrubbed" for batch in batches)
            say("batches ordered, delivered and scrubbed meanwhile", f"{gone} of {len(batches)}")


@contextlib.contextmanager
def database(store: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store; PostgreSQL gets a server of its own, as the tests start it."""
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
    folder: Path, store: str, target: dict[str, str], processes: int, *, tls: bool
) -> Iterator[tuple[str, list[str], Task, int]]:
    """A shuffler (its address and its process) with a task and many enrolled clients, and somebody
    who takes its batches."""
    ports = {"shuffler": free_port(), "analyzer": free_port()}
    secrets = new_tokens()
    config = folder / "bench.toml"
    config.write_text(configuration(folder, ports, secrets))
    surroundings = os.environ | {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": secrets["shuffler"],
        "SHUFFLEDP_SHUFFLER_STORE": store,
        "SHUFFLEDP_SHUFFLER_PROCESSES": str(processes),
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
        yield base, enrolled(base, secrets["operator"]), task, running.pid
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


def cpu_seconds(program: int) -> dict[int, float]:
    """The CPU seconds of a program and of the programs that it started (Linux), its own first."""
    children = Path(f"/proc/{program}/task/{program}/children").read_text().split()
    found = {}
    for one in (program, *map(int, children)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        found[one] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


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
    """A POST of random bytes under a report id of its own: the shuffler cannot tell them from
    encrypted messages."""
    size = task.report_bytes - REPORT_HEADER_BYTES
    head = (
        f"POST /tasks/{task.id.hex()}/reports HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {task.report_bytes}\r\n\r\n"
    )
    before, after = header[: REPORT_ID_PART.start], header[REPORT_ID_PART.stop :]
    return head.encode() + before + new_report_id(token) + after + os.urandom(size)


# opening


def bench_opening(folder: Path, args: argparse.Namespace) -> None:
    """Messages opened per second over one worker and over all cores."""
    key = KeyFolder(folder / "opening").new()
    task = new_task(folder, args.target)
    print("opening")
    data = real_messages(key.public, task.id, 20_000) * 3
    rows = np.frombuffer(data, np.uint8).reshape(-1, MESSAGE_BYTES)
    info, stop = key.public.info(task.id), threading.Event()
    numbers = AllowedNumbers.of(task.protocol)
    for workers in range(1, (os.cpu_count() or 1) + 1):
        with worker_pool(workers) as pool:
            count_messages(
                [(rows[: 4096 * workers], 0)], key.secret, info, numbers, pool=pool, stop=stop
            )
            begin = time.perf_counter()
            tally = count_messages([(rows, 0)], key.secret, info, numbers, pool=pool, stop=stop)
            seconds = time.perf_counter() - begin
        assert tally.dropped["unopened"] == 0
        say(f"messages per second with {workers} worker(s)", f"{len(rows) / seconds:,.0f}")


def real_messages(key: PublicKey, task_id: bytes, count: int) -> bytes:
    """So many messages, by turns a +1 of cell 0 and a dummy."""
    return encrypt_all((DUMMY_NUMBER if number % 2 else 1 for number in range(count)), key, task_id)


# a whole batch


def bench_batch(folder: Path, args: argparse.Namespace) -> None:
    """From a closed batch on the shuffler's disk to the published result, both steps timed."""
    task = new_task(folder, args.target, args.reports)
    total = args.reports * task.report_size
    print(
        f"one batch: {args.reports:,} reports of {task.report_size} messages, "
        f"{total * MESSAGE_BYTES / 1e6:,.0f} MB, every message encrypted"
    )
    raw, ordered = folder / "raw", folder / "ordered"
    write_messages(raw, task, total)
    header = BatchHeader(
        task_id=task.id,
        batch_id=os.urandom(16),
        reports=args.reports,
        top_up_messages=0,
        noise_shares=args.reports,
    )
    begin = time.perf_counter()
    digest = order_file(raw, ordered, header.to_bytes(), 256 << 20)
    say("canonical order, file to file", f"{time.perf_counter() - begin:.1f} s")
    with analyzer(folder) as (base, collector, shuffler):
        register(task, base, collector, SigningKey.generate())
        begin = time.perf_counter()
        with open(ordered, "rb") as source:
            call_put(f"{base}/batches/{header.batch_id.hex()}", shuffler, source, digest)
        say("delivered", f"{time.perf_counter() - begin:.1f} s")
        while not call("GET", f"{base}/tasks/{task.id.hex()}/results").json()["results"]:
            if time.perf_counter() - begin > LONGEST_BATCH_SECONDS:
                raise SystemExit("The analyzer published no result; was the batch held?")
            time.sleep(0.5)
        seconds = time.perf_counter() - begin
    say("delivery to result", f"{seconds:.0f} s, {total / seconds:,.0f} messages per second")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    say("the analyzer's largest program", f"{most:,.0f} MB")


def write_messages(path: Path, task: Task, total: int) -> None:
    """So many encrypted messages, made by all cores."""
    size = 1 << 14
    counts = [min(size, total - start) for start in range(0, total, size)]
    with open(path, "wb") as out, multiprocessing.Pool() as pool:
        make = functools.partial(real_messages, task.key, task.id)
        for messages in pool.imap_unordered(make, counts):
            out.write(messages)


def call_put(url: str, token: str, source: Any, digest: bytes) -> None:
    headers = {
        "Authorization": f"Bearer {token}",
        "X-Content-SHA256": digest.hex(),
        "Content-Length": str(os.fstat(source.fileno()).st_size),
    }
    chunks = iter(lambda: source.read(1 << 20), b"")
    httpx.put(url, content=chunks, headers=headers, timeout=600).raise_for_status()


@contextlib.contextmanager
def analyzer(folder: Path) -> Iterator[tuple[str, str, str]]:
    ports = {"shuffler": free_port(), "analyzer": free_port()}
    secrets = new_tokens()
    config = folder / "batch.toml"
    config.write_text(configuration(folder, ports, secrets))
    running = subprocess.Popen(
        [sys.executable, "-m", "shuffledp.service", "analyzer", "--config", str(config)],
        stderr=subprocess.DEVNULL,
    )
    try:
        base = f"http://127.0.0.1:{ports['analyzer']}"
        wait_ready(base)
        yield base, secrets["collector at analyzer"], secrets["shuffler"]
    finally:
        running.terminate()
        running.wait(60)


PARTS = {
    "client": bench_client,
    "intake": bench_intake,
    "opening": bench_opening,
    "batch": bench_batch,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=[], help=", ".join(PARTS))
    parser.add_argument("--seconds", type=int, default=60, help="how long the intake runs")
    parser.add_argument("--connections", type=int, default=160)
    parser.add_argument("--store", nargs="+", default=["sqlite", "postgres"])
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1], help="at the shuffler's public address"
    )
    parser.add_argument(
        "--core-share",
        type=float,
        default=0.0,
        help="hold each process of the shuffler to such a part of a core (Linux, as root)",
    )
    parser.add_argument("--tls", action="store_true", help="at the shuffler (needs openssl)")
    parser.add_argument("--fresh", action="store_true", help="a connection for every report")
    parser.add_argument("--reports", type=int, default=20_000, help="in the whole batch")
    parser.add_argument("--mse-overhead", default="2", help="of the counts (clients: several)")
    parser.add_argument("--no-warm", dest="warm", action="store_false")
    args = parser.parse_args()
    args.target = {"mse_overhead": args.mse_overhead}
    folder = Path(tempfile.mkdtemp(prefix="shuffledp-bench-"))
    try:
        print(f"counts at ε = 1, MSE within 1 + {args.mse_overhead} of central, padded plans")
        print(f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for what, figure in calibration(folder).items():
            say(what, f"{figure:,.0f}")
        for part in args.parts or PARTS:
            PARTS[part](folder, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
