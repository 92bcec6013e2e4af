"""Columns of files in an object store, in standard input and in the package."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem

import shuffledp
from shuffledp.cli.main import main
from shuffledp.data.columns import FileFormat, column_of
from shuffledp.data.sources import Source
from shuffledp.errors import DataError, ParameterError

CSV = b"flag,way\n" + b"1,bike\n0,walk\n" * 60
TABLE = pa.table({"flag": [1, 0] * 60, "way": ["bike", "walk"] * 60})


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE, out)
    return out.getvalue()


def flags(source: Source | str | Path) -> list[int]:
    return [int(x) for part in column_of(source, "flag").batches() for x in part]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """What a URI needs after `?` to reach a store with a bucket `people`, and files in it."""
    from moto.server import ThreadedMotoServer  # slow to import

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = f"region=us-east-1&scheme=http&endpoint_override={host}:{port}"
    system, _ = FileSystem.from_uri(f"s3://me:secret@people?{settings}&allow_bucket_creation=true")
    system.create_dir("people")
    for name, data in (
        ("a.csv", CSV),
        ("a.csv.gz", gzip.compress(CSV)),
        ("a.parquet", parquet()),
        ("folder/part=1/x.parquet", parquet()),
        ("folder/part=2/y.parquet", parquet()),
        ("folder/_temporary/z.parquet", parquet()),
        ("damaged.parquet", b"PAR1" + b"x" * 50),
    ):
        with system.open_output_stream(f"people/{name}", compression=None) as out:
            out.write(data)
    yield settings
    server.stop()


@pytest.mark.parametrize(
    ("name", "rows"), [("a.csv", 120), ("a.csv.gz", 120), ("a.parquet", 120), ("folder", 240)]
)
def test_columns_in_an_object_store(bucket: str, name: str, rows: int) -> None:
    uri = f"s3://me:secret@people/{name}?{bucket}"
    assert flags(uri) == [1, 0] * (rows // 2)
    assert abs(shuffledp.count(uri, epsilon=20, column="flag").value - rows / 2) < 5


def test_a_query_of_an_object_store_on_the_command_line(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"s3://me:secret@people/a.parquet?{bucket}"
    assert main(["count", uri, "--column", "flag", "--epsilon", "20"]) == 0
    assert "of 120 users" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://me:secret@people/none.csv?SETTINGS", "There is no file s3://people/none.csv"),
        ("s3://me:secret@people/damaged.parquet?SETTINGS", "cannot be read as Parquet"),
        ("s3://me:secret@people/a.txt?SETTINGS", "must end in"),
        ("s3://me:secret@nobody/a.csv?SETTINGS", "There is no file s3://nobody/a.csv"),
        ("nothing://x/a.csv", "is not on a file system"),
        ("sample:nothing", "There is no sample 'nothing'; choose one of: commute."),
    ],
)
def test_what_cannot_be_read_is_named_without_credentials(
    bucket: str, uri: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["count", uri.replace("SETTINGS", bucket), "--column", "flag", "--epsilon", "1"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and "secret" not in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "content", [CSV, gzip.compress(CSV), parquet()], ids=["csv", "gz", "parquet"]
)
def test_a_file_that_came_through_a_pipe(
    content: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert flags(Source.of_bytes(content, "Standard input")) == [1, 0] * 60
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert (
        main(["histogram", "-", "--column", "way", "--labels", "bike,walk", "--epsilon", "9"]) == 0
    )
    assert "bike" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "Standard input is empty"), (b"PAR1", "Standard input cannot be read as Parquet")],
)
def test_a_pipe_without_data(
    content: bytes, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main(["count", "-", "--column", "flag", "--epsilon", "1"]) == 2
    assert said in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CSV)))
    words = ["count", "-", "--column", "flag", "--epsilon", "1", "--engine", "spark"]
    assert main(words) == 2 and "standard input" in capsys.readouterr().err


def test_the_sample() -> None:
    values = np.concatenate(list(column_of("sample:commute", "bikes").batches()))
    assert len(values) == 10_000 and values.sum() == 2710
    assert column_of(shuffledp.samples.commute(), "way").rows == 10_000
    with pytest.raises(ParameterError, match="no sample"):
        shuffledp.samples.path("../secret")
    with pytest.raises((ParameterError, DataError), match="There is no column"):
        column_of("sample:commute", "nothing", FileFormat())


def test_a_file_with_another_delimiter_gets_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name;answer\nA;1\n")
    with pytest.raises(ParameterError, match=r"there are name;answer\. .*delimiter"):
        column_of(path, "answer", FileFormat())
    assert column_of(path, "answer", FileFormat(delimiter=";")).rows == 1
    path.write_text("name,answer\nA,1\n")
    with pytest.raises(ParameterError, match=r"there are name, answer\.$"):
        column_of(path, "nothing", FileFormat())
