"""Injects Spark's faults for real and prints what happened, as JSON.

A standalone master with two workers runs on loopback, on an address each: Spark starts a
speculative copy only on another host. A Spark Connect server drives it, and this program is its
client. In every trial the tasks draw, write down what they drew, and then the first attempt fails,
sleeps until a speculative copy overtakes it, or takes its whole executor down. Each trial runs
twice: with noise keyed by the job's secret, as the package does it, and naively with fresh noise
in every task. Then whole jobs run, of which every stage meets a fault: a query over a grouped
column, and a sealed batch that is ordered and opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import shuffledp
from shuffledp import spark as cluster
from shuffledp.engines.spark import batch_parts as batches
from shuffledp.engines.spark import executor, reports
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.reports import REPORT_SCHEMA, PartWork, added_up, in_arrow
from shuffledp.engines.spark.sessions import prepare_java
from shuffledp.queries.count.query import CountQuery
from shuffledp.service.demo import free_port

USERS, PARTS = 400, 4
COUNT = CountQuery(epsilon=1)
FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": FAST,
    "spark.executor.extraJavaOptions": FAST,
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "4",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "1s",
}


class FreshEveryTime:
    """The naive way: every task asks the operating system."""

    seeded = False

    def part(self, number: int) -> Any:
        from shuffledp.numbers.entropy import SYSTEM

        return SYSTEM


def part_work(protocol: Any, secret: Any) -> PartWork:
    return PartWork(protocol=protocol.to_dict(), prepare=COUNT.prepare, secret=secret)


class Troubled:
    """A stage's work of which one task comes to grief after it has done all of it, once."""

    def __init__(self, work: Any, fault: str, folder: str, number: int = 0) -> None:
        self.work, self.fault, self.folder = work, fault, Path(folder)
        self.stage = f"{type(work).__name__} {number}"
        self.secret, self.protocol = (getattr(work, name, None) for name in ("secret", "protocol"))

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        rows = list(self.work(batches))
        gave = [self.stage, context.partitionId(), *told(rows)]
        (self.folder / f"gave-{uuid.uuid4().hex}").write_text(json.dumps(gave))
        if rows and self.first():
            self.suffer()
        yield from rows

    def first(self) -> bool:
        try:
            os.close(os.open(self.folder / f"first-{self.stage}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def suffer(self) -> None:
        if self.fault == "fails":
            raise RuntimeError("injected")
        if self.fault == "is slow":
            time.sleep(120)
        if self.fault == "loses its executor":
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1]
            os.kill(int(daemon.split()[1]), signal.SIGKILL)  # the JVM of this executor
            time.sleep(120)


def told(rows: list[Any]) -> list[Any]:
    """What a task gave: a part's report in its first cell, or a digest of its rows."""
    if rows and "plus" in rows[-1].schema.names:
        return [rows[-1].column(name)[0].as_py() for name in ("plus", "minus", "users")]
    digest = hashlib.sha256()
    for batch in rows:
        digest.update(repr(batch.to_pydict()).encode())
    return [digest.hexdigest(), 0, 0]


def attempts(folder: Path) -> list[Any]:
    """What every attempt of every task gave."""
    return [json.loads(file.read_text()) for file in folder.glob("gave-*")]


def trial(session: Any, fault: str, secret: Any, folder: Path) -> dict[str, Any]:
    """What was drawn, attempt by attempt, and what was published."""
    folder.mkdir(parents=True)
    plan = shuffledp.plan_count(USERS, "0.01")
    values = session.range(0, USERS, 1, PARTS).selectExpr("id % 2 as value")
    work = Troubled(part_work(plan.protocol, secret), fault, str(folder))
    began = time.monotonic()
    report = added_up(values, work)  # type: ignore[arg-type]
    return {
        "gave": attempts(folder),
        "published": [int(report.plus[0]), int(report.minus[0]), report.users],
        "seconds": time.monotonic() - began,
    }


@contextlib.contextmanager
def trouble(fault: str, folder: Path) -> Iterator[None]:
    """Every stage of every job meets this fault once; "" leaves them alone."""
    folder.mkdir(parents=True)
    plain, numbers = reports.in_arrow, itertools.count()

    def troubled(frame: Any, work: Any, schema: str) -> Any:
        return plain(frame, Troubled(work, fault, str(folder), next(numbers)), schema)

    reports.in_arrow = batches.in_arrow = troubled  # type: ignore[attr-defined]
    try:
        yield
    finally:
        reports.in_arrow = batches.in_arrow = plain  # type: ignore[attr-defined]


def whole_jobs(session: Any, data: Path, fault: str, secret: JobSecret) -> dict[str, Any]:
    """A query over a column of labels, whose tally is kept between two jobs, one over whole
    numbers, which is planned and drawn in one, a batch that is ordered and opened, and one row of
    each person, chosen by a key that is the same every time, under a fault; the queries' noise
    comes from the same secret every time."""
    folder = data / "whole" / (fault or "nothing")
    patched: Any = executor
    patched.JobSecret = lambda _: secret
    frame = session.read.parquet(str(data / "rows.parquet"))
    with trouble(fault, folder):
        labels = cluster.histogram(frame, column="label", epsilon=1, labels=["a", "b", "c"])
        numbers = cluster.integer_sum(frame, column="number", epsilon=1, largest=9)
        batch = sealed(session, data, folder / "batch")
        persons = cluster.integer_sum(
            frame, column="number", epsilon=1, largest=9, user="person", rows_per_user=1, seed=5
        )
    patched.JobSecret = JobSecret
    return {
        "gave": attempts(folder),
        "histogram": list(labels.values),
        "users": labels.users,
        "total": numbers.value,
        "sealed": batch,
        "persons": [persons.value, persons.users],
    }


def two_actions(session: Any, secret: Any) -> list[Any]:
    """The same lineage evaluated twice: what one must never hand out."""
    plan = shuffledp.plan_count(USERS, "0.01")
    values = session.range(0, USERS, 1, PARTS).selectExpr("id % 2 as value")
    noised = in_arrow(values, part_work(plan.protocol, secret), REPORT_SCHEMA)
    added = noised.groupBy("cell").sum("plus", "minus")
    return [[list(row) for row in added.collect()] for _ in range(2)]


def queries(session: Any, data: str) -> dict[str, Any]:
    """Every kind of query through Connect."""
    frame = session.read.parquet(data)
    found: dict[str, Any] = {
        "count": cluster.count(frame, column="label", epsilon=1, equals="b").value,
        "histogram": cluster.histogram(
            frame, column="label", epsilon=1, labels=["a", "b", "c"]
        ).values,
        "integers": cluster.integer_sum(frame, column="number", epsilon=1, largest=9).value,
        "mean": cluster.mean(frame, column="real", epsilon=1, bounds=(0, 1)).value,
        "median": cluster.quantiles(frame, column="real", epsilon=1, bounds=(0, 1))
        .quantile(0.5)
        .value,
    }
    try:
        cluster.count(frame, column="number", epsilon=1)
    except shuffledp.ShuffleDPError as error:
        found["refusal"] = str(error)
    return found | {"histogram": list(found["histogram"]), "kind": type(frame).__module__}


def sealed(session: Any, folder: Path, target: Path) -> dict[str, Any]:
    """A batch shuffled and opened through Connect; the key and the reports lie in the folder."""
    from shuffledp.engines.spark.batch_jobs import open_batch, shuffle_batch
    from shuffledp.tasks.keys import KeyFolder
    from shuffledp.tasks.task import task_from_json

    task = task_from_json((folder / "task.json").read_bytes())
    (key,) = KeyFolder(folder / "keys").all()
    done = shuffle_batch(session, [str(folder / "reports")], str(target), task, batch_id=bytes(16))
    return {"shuffled": done, "opened": open_batch(session, str(target), task, key)}


class Cluster:
    """A master, two workers and a Connect server, each a program of its own."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        prepare_java()
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        self.bin = Path(pyspark.__file__).parent / "bin"
        self.master, self.connect = free_port(), free_port()
        self.environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": FAST,
            "SPARK_DAEMON_MEMORY": "768m",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def start(self) -> None:
        url = f"spark://127.0.0.1:{self.master}"
        deploy, quiet = "org.apache.spark.deploy", ["--webui-port", "0"]
        self._run(
            "spark-class",
            f"{deploy}.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.master),
            *quiet,
        )
        self._wait_for(self.master)
        for host in ("127.0.0.1", "127.0.0.2"):
            self._run(
                "spark-class",
                f"{deploy}.worker.Worker",
                "--host",
                host,
                "--cores",
                "1",
                "--memory",
                "512m",
                "--work-dir",
                str(self.folder / host),
                *quiet,
                url,
            )
        settings = SETTINGS | {"spark.connect.grpc.binding.port": str(self.connect)}
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        main = "org.apache.spark.sql.connect.service.SparkConnectServer"
        self._run("spark-submit", "--master", url, *words, "--class", main, "spark-internal")
        self._wait_for(self.connect)

    def _run(self, program: str, *words: str) -> None:
        log = self.folder / f"log-{len(self.running)}"
        self.running.append(
            subprocess.Popen(
                [self.bin / program, *words],
                env=self.environment,
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=log.open("wb"),
            )
        )

    def _wait_for(self, port: int) -> None:
        for _ in range(1200):
            if self.running[-1].poll() is not None:
                raise RuntimeError("a part of the cluster did not start; see its log")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError("a part of the cluster took too long")

    def stop(self) -> None:
        for program in reversed(self.running):
            program.terminate()
        for program in self.running:
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                program.kill()


def tell(session: Any, folder: Path) -> dict[str, Any]:
    """Everything that is tried."""
    story: dict[str, Any] = {"queries": queries(session, str(folder / "rows.parquet"))}
    secret = JobSecret()
    story["whole"] = {
        fault: whole_jobs(session, folder, fault, secret)
        for fault in ("", "fails", "loses its executor")
    }
    for name, new_secret in (("keyed", JobSecret), ("naive", FreshEveryTime)):
        story[name] = {
            fault: trial(session, fault, new_secret(), folder / name / fault)
            for fault in ("fails", "is slow", "loses its executor")
        }
        story[name]["two actions"] = two_actions(session, new_secret())
    return story


def main(folder: Path) -> None:
    cluster_of_two = Cluster(folder)
    try:
        cluster_of_two.start()
        session = cluster.session(f"sc://127.0.0.1:{cluster_of_two.connect}")
        try:
            print(json.dumps(tell(session, folder)))
        finally:
            session.stop()  # while the server is there, or the client waits for it
    finally:
        cluster_of_two.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
