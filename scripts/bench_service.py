"""How fast the service is on this machine: intake, opening, a whole batch, the client.

    python scripts/bench_service.py [intake] [opening] [batch] [client] [--seconds 60] …

Everything runs on 127.0.0.1, the load generator included. Figures are printed beside the machine's
own speed at encrypting, opening and writing to disk, because they mean nothing without it. Figures
that a busy machine gave are marked by the load average.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import mmap
import multiprocessing
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_intake import bench_intake, database, enrolled, new_task, post_head, say
from bench_machine import family_seconds, peak_memory, program, writes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from shuffledp.service.client.collector import call, results
from shuffledp.service.client.sending import new_report_id
from shuffledp.service.demo import Servers, local_servers
from shuffledp.tasks.encryption import encrypt_all, open_all
from shuffledp.tasks.keys import KeyFolder, PublicKey
from shuffledp.tasks.opening import AllowedNumbers, count_messages, worker_pool
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import DUMMY_NUMBER, MESSAGE_BYTES

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
        "X25519 exchanges per core-second: the limit of opening": exchanges(),
        "messages encrypted per core-second": encrypted,
        "messages opened per core-second": opened,
        "durable 64 kB writes per second": writes(folder / "disk", 1 << 16),
        "durable MB per second, 1 MB at a time": writes(folder / "disk", 1_000_000),
    }


def exchanges(count: int = 5000) -> float:
    """How many X25519 exchanges OpenSSL computes in a second of one core."""
    secret, public = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    begin = time.process_time()
    for _ in range(count):
        secret.exchange(public)
    return count / (time.process_time() - begin)


def children_seconds() -> float:
    """The CPU seconds of all programs that this one started, and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + MESSAGE_BYTES] for at in range(0, len(data), MESSAGE_BYTES))


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
    """Messages, by turns a +1 of cell 0 and a dummy."""
    return encrypt_all((DUMMY_NUMBER if number % 2 else 1 for number in range(count)), key, task_id)


# a whole batch


def bench_batch(folder: Path, args: argparse.Namespace) -> None:
    """A batch on its whole way: reports encrypted as devices do it, stored by a shuffler, ordered,
    delivered to an analyzer, opened and published. Every message is encrypted."""
    with database(args.store[0], folder / "batch") as (store, postgres):
        os.environ["SHUFFLEDP_SHUFFLER_STORE"] = store
        with local_servers(folder) as servers:
            whole_way(servers, postgres, folder, args)


def whole_way(servers: Servers, postgres: int, folder: Path, args: argparse.Namespace) -> None:
    """Prints how long each step of one batch takes, and what the servers need for it."""
    task = new_task(folder, args.target, args.reports, args.epsilon)
    servers.register(task)
    reports = task.batch.reports  # with the slack of the default rule
    total = reports * task.report_size
    print(
        f"one batch on {args.store[0]}: {reports:,} reports of {task.report_size} messages, "
        f"ε = {args.epsilon}, {reports * task.report_bytes / 1e6:,.0f} MB"
    )
    tokens = enrolled(servers.shuffler, servers.operator_token, reports)
    begin, used = time.perf_counter(), children_seconds()
    encrypted = folder / "reports"
    write_reports(encrypted, task, tokens)
    seconds, used = time.perf_counter() - begin, children_seconds() - used
    say("devices: encrypted", f"{seconds:.0f} s, {used / reports * 1e3:.2f} ms of CPU per report")

    shuffler, analyzer = (program(role) for role in ("shuffler", "analyzer"))
    before = {one: family_seconds(one) for one in (shuffler, analyzer, postgres)}
    begin = time.perf_counter()
    asyncio.run(send_reports(servers.shuffler, task, encrypted, tokens, args.connections))
    stored = time.perf_counter()
    say("stored durably", f"{stored - begin:.0f} s, {reports / (stored - begin):,.0f} per second")
    most = dict.fromkeys((shuffler, analyzer), 0.0)
    delivered = 0.0
    found: Sequence[dict[str, Any]] = ()
    while not found:
        if time.perf_counter() - stored > LONGEST_BATCH_SECONDS:
            raise SystemExit("The analyzer published no result; was the batch held?")
        time.sleep(0.5)
        found = results(servers.analyzer, task.id.hex())
        most = {one: max(peak, peak_memory(one)) for one, peak in most.items()}
        if not delivered:
            told = call("GET", f"{servers.shuffler}/status", servers.operator_token).json()
            states = [batch["state"] for batch in told["tasks"][0]["batches"]]
            delivered = time.perf_counter() if states == ["deleted"] else 0.0
    published = time.perf_counter()
    delivered = delivered or published
    say("ordered, delivered, key destroyed", f"{delivered - stored:.0f} s after the last report")
    say(
        "opened and published",
        f"{published - delivered:.0f} s later, {total / (published - delivered):,.0f} messages/s",
    )
    say("the last report to the result", f"{published - stored:.0f} s")
    for one, name in ((shuffler, "shuffler"), (postgres, "PostgreSQL"), (analyzer, "analyzer")):
        used = family_seconds(one) - before[one]
        memory = f", largest program {most[one] / 1e6:,.0f} MB" if one in most else ""
        say(f"CPU of {name}", f"{used:.0f} s, {used / reports * 1e6:.0f} µs per report{memory}")
    truth = sum(value_of(user) for user in range(reports))
    result = found[0]["result"]
    low, high = result["interval"]
    say("result", f"{result['estimate']:,.1f} ({low:,.0f} … {high:,.0f}); truth {truth:,}")


def value_of(user: int) -> int:
    """The value of a simulated user: three in ten are 1."""
    return int(user % 10 < 3)


def write_reports(path: Path, task: Task, tokens: list[str]) -> None:
    """One report per token, made by all cores."""
    size = 512
    starts = range(0, len(tokens), size)
    chunks = ((start, tokens[start : start + size]) for start in starts)
    with open(path, "wb") as out, multiprocessing.Pool() as pool:
        for made in pool.imap(functools.partial(reports_of, task), chunks):
            out.write(made)
        pool.close()
        pool.join()


def reports_of(task: Task, chunk: tuple[int, list[str]]) -> bytes:
    first, tokens = chunk
    return b"".join(
        encrypt_report(task, value_of(user), report_id=new_report_id(token))
        for user, token in enumerate(tokens, first)
    )


async def send_reports(
    base: str, task: Task, path: Path, tokens: list[str], connections: int
) -> None:
    """Sends every report until it is acknowledged, over connections that never pause."""
    host, port = base.removeprefix("http://").split(":")
    size, turn = task.report_bytes, iter(range(len(tokens)))
    with open(path, "rb") as source, mmap.mmap(source.fileno(), 0, prot=mmap.PROT_READ) as bodies:

        async def one_connection() -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            for user in turn:
                body = bodies[user * size : (user + 1) * size]
                head = post_head(task, tokens[user])
                while True:
                    writer.write(head + body)
                    answer = await reader.readuntil(b"\r\n\r\n")
                    length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    told = await reader.readexactly(length)
                    if answer.startswith((b"HTTP/1.1 201", b"HTTP/1.1 200")):
                        break
                    if not answer.startswith((b"HTTP/1.1 429", b"HTTP/1.1 503")):
                        raise SystemExit(f"A report was refused: {told.decode()}")
                    await asyncio.sleep(0.2)
            writer.close()

        await asyncio.gather(*(one_connection() for _ in range(connections)))


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
        "--workers", type=int, nargs="+", default=[1], help="processes of the shuffler"
    )
    parser.add_argument("--tasks", type=int, nargs="+", default=[1], help="that clients answer")
    parser.add_argument(
        "--core-share",
        type=float,
        nargs="+",
        default=[0.0],
        help="hold each process of the shuffler to such a part of a core (Linux, as root)",
    )
    parser.add_argument("--reports", type=int, default=20_000, help="in the whole batch")
    parser.add_argument("--epsilon", default="1", help="of the whole batch: more, shorter reports")
    parser.add_argument("--mse-overhead", default="2", help="of the counts (clients: several)")
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
