"""Queries and encrypted batches on Spark, beside Spark's own group-by and the single-machine pool.

    python scripts/bench_spark.py [--rows 10000000 100000000] [--cores 1 2] [--json FILE]

Every setting runs as a separate program; each line is the best of several runs, taken in turns
with what it is compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TIMED_RUNS = 6
BATCH_REPORTS = 2000


def write_rows(path: Path, rows: int) -> None:
    """Parquet with a column of 100 buckets and one of bits, in parts of 10⁶ rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    step = 10**6
    schema = pa.schema([("bucket", pa.int32()), ("bit", pa.bool_())])
    with pq.ParquetWriter(path, schema) as out:
        for start in range(0, rows, step):
            words = np.frombuffer(os.urandom(4 * min(step, rows - start)), np.uint32)
            out.write_table(
                pa.table([(words % 100).astype(np.int32), words % 3 == 0], schema=schema)
            )


def in_turns(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest time of each, taken in turns; the first round is not counted."""
    best = dict.fromkeys(works, float("inf"))
    for turn in range(TIMED_RUNS + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if turn:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def bench_queries(path: str, rows: int, cores: int) -> dict[str, Any]:
    """Seconds of our queries and of Spark's own, on the same file."""
    from shuffledp import spark as cluster

    session = cluster.session(f"local[{cores}]")
    frame = session.read.parquet(path)
    times = in_turns(
        {
            "groupBy(bit).count()": lambda: frame.groupBy("bit").count().collect(),
            "count": lambda: cluster.count(frame, epsilon=1, column="bit"),
            "groupBy(bucket).count()": lambda: frame.groupBy("bucket").count().collect(),
            "histogram": lambda: cluster.histogram(frame, epsilon=1, labels=100, column="bucket"),
        }
    )
    heap = session._jvm.java.lang.Runtime.getRuntime()
    session._jvm.java.lang.System.gc()
    found = {
        "rows": rows,
        "cores": cores,
        "seconds": times,
        "rows_per_second": {name: rows / seconds for name, seconds in times.items()},
        "count_ratio": times["count"] / times["groupBy(bit).count()"],
        "histogram_ratio": times["histogram"] / times["groupBy(bucket).count()"],
        "driver_python_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "jvm_used_after_gc_mb": (heap.totalMemory() - heap.freeMemory()) / 2**20,
    }
    session.stop()
    return found


def encrypted_batch(folder: Path) -> tuple[Any, Any, Path]:
    """(task, key, file) of a batch: a new task, its key, and a file of encrypted reports."""
    from shuffledp.queries.count.planner import plan_count
    from shuffledp.tasks.keys import KeyFolder
    from shuffledp.tasks.reports import encrypt_report
    from shuffledp.tasks.rules import BatchRule
    from shuffledp.tasks.task import Task

    key = KeyFolder(folder / "keys").new()
    plan = plan_count(BATCH_REPORTS, 1).to_dict()
    task = Task.create(plan, key.public, "bench", BatchRule(BATCH_REPORTS))
    with (folder / "reports").open("wb") as out:
        for user in range(BATCH_REPORTS):
            out.write(encrypt_report(task, user % 2))
    return task, key, folder / "reports"


def bench_opening(cores: int) -> dict[str, Any]:
    """Messages opened per second and core, on Spark and in the analyzer's own pool."""
    import threading

    from shuffledp import spark as cluster
    from shuffledp.engines.spark import batch_parts as batches
    from shuffledp.engines.spark.batch_jobs import open_batch, shuffle_batch
    from shuffledp.tasks.opening import AllowedNumbers, count_messages, worker_pool
    from shuffledp.tasks.replays import first_seen, in_order
    from shuffledp.tasks.wire import BATCH_HEADER_BYTES

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task, key, reports = encrypted_batch(folder)
        messages = BATCH_REPORTS * task.report_size
        batches.OPEN_PART_MESSAGES = messages // (4 * cores)
        session = cluster.session(f"local[{cores}]")
        batch = folder / "batch"
        shuffle_batch(session, [str(reports)], str(batch), task)
        sorted_messages = batch.read_bytes()[BATCH_HEADER_BYTES:]
        pool = worker_pool(cores)

        def in_the_pool() -> None:
            ordered = in_order(lambda: [sorted_messages], folder, 1 << 28)
            pages = first_seen(ordered, [], folder / "kept")
            count_messages(
                pages,
                key.secret,
                key.public.info(task.id),
                AllowedNumbers.of(task.protocol),
                pool=pool,
                stop=threading.Event(),
            )

        times = in_turns(
            {
                "pool": in_the_pool,
                "spark": lambda: open_batch(session, str(batch), task, key),
            }
        )
        pool.shutdown()
        session.stop()
    return {
        "messages": messages,
        "cores": cores,
        "seconds": times,
        "opened_per_second_and_core": {n: messages / s / cores for n, s in times.items()},
    }


def alone(*words: str) -> Any:
    """What one setting measures, run in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, *words],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**7, 10**8])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", help="also write all numbers here")
    parser.add_argument("--one", nargs=3, metavar=("FILE", "ROWS", "CORES"), help=argparse.SUPPRESS)
    parser.add_argument("--opening", type=int, metavar="CORES", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(bench_queries(args.one[0], int(args.one[1]), int(args.one[2]))))
    elif args.opening:
        print(json.dumps(bench_opening(args.opening)))
    else:
        run_all(args)


def run_all(args: argparse.Namespace) -> None:
    """Runs every setting, one after the other, and prints what each measured."""
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in args.rows:
            path = Path(folder, f"{rows}.parquet")
            write_rows(path, rows)
            for cores in args.cores:
                found.append(one := alone("--one", str(path), str(rows), str(cores)))
                print(
                    f"{rows:>11,} rows, {cores} cores: "
                    + ", ".join(f"{n} {s:.2f} s" for n, s in one["seconds"].items())
                    + f"; count × {one['count_ratio']:.2f}, "
                    f"histogram × {one['histogram_ratio']:.2f} of Spark's own; driver: Python "
                    f"{one['driver_python_mb']:.0f} MB, JVM after gc "
                    f"{one['jvm_used_after_gc_mb']:.0f} MB",
                    flush=True,
                )
    for cores in args.cores:
        found.append(one := alone("--opening", str(cores)))
        print(
            f"{one['messages']:>11,} encrypted messages, {cores} cores: "
            + ", ".join(
                f"{n} {r:,.0f} opened per second and core"
                for n, r in one["opened_per_second_and_core"].items()
            ),
            flush=True,
        )
    print(f"load while measuring: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
