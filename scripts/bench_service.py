"""How fast the service is on this machine: intake, opening, a whole batch, the client.

    python scripts/bench_service.py [intake] [opening] [batch] [client] [--seconds 60] …

Everything runs on 127.0.0.1, the load generator included. Figures are printed beside the machine's
own speed at encrypting, opening and writing to disk, because they mean nothing without it. Figures
that a busy machine gave are marked by the load average.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
from bench_intake import bench_intake, new_task, say
from bench_machine import writes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from shuffledp.service.client.collector import call, register
from shuffledp.service.demo import configuration, free_port, new_tokens, wait_ready
from shuffledp.tasks.encryption import encrypt_all, open_all
from shuffledp.tasks.keys import KeyFolder, PublicKey
from shuffledp.tasks.opening import AllowedNumbers, count_messages, worker_pool
from shuffledp.tasks.parts import (
    MOST_PART_BYTES,
    Manifest,
    PartFacts,
    Sorter,
    open_part,
    part_name,
    seal_part,
)
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import DUMMY_NUMBER, MESSAGE_BYTES, BatchHeader

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
    """From a closed batch on the shuffler's disk to the published result, both steps timed."""
    task = new_task(folder, args.target, args.reports, args.epsilon)
    reports = task.batch.reports  # with the slack of the default rule
    total = reports * task.report_size
    print(
        f"one batch: {reports:,} reports of {task.report_size} messages, ε = {args.epsilon}, "
        f"{total * MESSAGE_BYTES / 1e6:,.0f} MB, every message encrypted"
    )
    raw = folder / "raw"
    write_messages(raw, task, total)
    header = BatchHeader(
        task_id=task.id,
        batch_id=os.urandom(16),
        reports=reports,
        top_up_messages=0,
        noise_shares=reports,
    )
    begin, used = time.perf_counter(), time.process_time()
    manifest = order(raw, folder, header)
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    say("canonical order, to encrypted parts", f"{seconds:.1f} s, {used:.1f} s of CPU")
    before = children_seconds()
    with analyzer(folder) as (base, collector, shuffler):
        register(task, base, collector, SigningKey.generate())
        begin = time.perf_counter()
        deliver(base, shuffler, folder, manifest)
        say("delivered", f"{time.perf_counter() - begin:.1f} s")
        while not call("GET", f"{base}/tasks/{task.id.hex()}/results").json()["results"]:
            if time.perf_counter() - begin > LONGEST_BATCH_SECONDS:
                raise SystemExit("The analyzer published no result; was the batch held?")
            time.sleep(0.5)
        seconds = time.perf_counter() - begin
    used = children_seconds() - before
    say("delivery to result", f"{seconds:.0f} s, {total / seconds:,.0f} messages per second")
    say("the analyzer's CPU, all of it", f"{used:.0f} s, {total / used:,.0f} messages per second")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    say("the analyzer's largest program", f"{most:,.0f} MB")


def write_messages(path: Path, task: Task, total: int) -> None:
    """Encrypted messages, made by all cores."""
    size = 1 << 14
    counts = [min(size, total - start) for start in range(0, total, size)]
    with open(path, "wb") as out, multiprocessing.Pool() as pool:
        make = functools.partial(real_messages, task.key, task.id)
        for messages in pool.imap_unordered(make, counts):
            out.write(messages)


SECRET = os.urandom(32)


def order(raw: Path, folder: Path, header: BatchHeader) -> Manifest:
    """Brings a file of messages into order, as parts in a folder, as the shuffler does."""
    sorter = Sorter(folder, 256 << 20)
    with open(raw, "rb") as source:
        while data := source.read(MOST_PART_BYTES):
            sorter.add(data)
    facts = []
    for number, part in enumerate(sorter.parts()):
        sealed = seal_part(part, SECRET, header.batch_id, number)
        (folder / part_name(number)).write_bytes(sealed)
        facts.append(PartFacts(len(part) // MESSAGE_BYTES, hashlib.sha256(part).digest()))
    return Manifest(header=header, parts=tuple(facts))


def deliver(base: str, token: str, folder: Path, manifest: Manifest) -> None:
    """Sends a batch as the shuffler does."""
    batch, text = manifest.header.batch_id, manifest.to_bytes()
    path, digest = f"{base}/batches/{batch.hex()}", manifest.digest.hex()
    with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=600) as client:
        while True:
            answer = client.put(path, content=text, headers={"X-Content-SHA256": digest})
            if answer.raise_for_status().json()["state"] != "receiving":
                return
            for number in answer.json()["missing"]:
                sealed = (folder / part_name(number)).read_bytes()
                data = open_part(sealed, SECRET, batch, number)
                client.put(f"{path}/{digest}/parts/{number}", content=data).raise_for_status()


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
