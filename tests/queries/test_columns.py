"""Columns of files: what is refused, and how little memory a large one takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp
from shuffledp.errors import InputError


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a\n")
    (tmp_path / "holes.csv").write_text("a,b\n1,2\n,3\n")
    (tmp_path / "not.parquet").write_text("hello")
    for name in ("empty.csv", "header.csv", "not.parquet"):
        with pytest.raises(InputError):
            shuffledp.count(str(tmp_path / name), epsilon=1, column="a")
    with pytest.raises(InputError, match="has missing values"):
        shuffledp.count(str(tmp_path / "holes.csv"), epsilon=1, column="a")


def test_memory_of_a_streamed_file_stays_flat(tmp_path: Path) -> None:
    """A file of 300 MB of raw values, counted with much less than that."""
    path = tmp_path / "big.parquet"
    schema = pa.schema([("x", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(38):
            batch = pa.record_batch([pa.array(np.random.default_rng(1).random(1_000_000))], schema)
            writer.write_batch(batch)
    code = (
        "import re, shuffledp\n"
        f"shuffledp.real_sum({str(path)!r}, epsilon=1, bounds=(0, 1))\n"
        "print(re.search('VmHWM:\\\\s+(\\\\d+)', open('/proc/self/status').read())[1])"
    )
    peak = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(peak.stdout) < 330_000  # kB; imports alone take about a third of it
