"""Object stores that do not answer, Arrow streams, and results as data frames."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shuffledp
from shuffledp.data import sources
from shuffledp.data.sources import Source
from shuffledp.errors import ParameterError


class Silent:
    """A file system that never answers."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def get_file_info(self, path: str) -> Any:
        self.asked.set()
        threading.Event().wait(60)


def source(system: Any) -> Source:
    return Source(shown="gs://b/t.csv", name="t.csv", system=system, inside="b/t.csv")


def test_a_store_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SECONDS", 0.3)
    silent = Silent()
    began = time.monotonic()
    with pytest.raises(ParameterError, match=r"gs://b/t\.csv cannot be reached: there was no ans"):
        source(silent).is_file()
    assert silent.asked.is_set() and time.monotonic() - began < 20


def test_the_true_reason_is_said_without_addresses() -> None:
    class Refusing:
        def get_file_info(self, path: str) -> Any:
            raise OSError("Couldn't resolve host name s3://user:secret@host/x.\nmore lines")

    with pytest.raises(ParameterError, match="Couldn't resolve host name …") as refused:
        source(Refusing()).is_file()
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value)


def test_waiting_gives_what_a_call_gives_and_lets_ctrl_c_through() -> None:
    assert sources.within(5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        sources.within(5, lambda: 1 // 0)
    with pytest.raises(TimeoutError):
        sources.within(0.2, lambda: threading.Event().wait(30))


def test_google_storage_stops_trying_in_time() -> None:
    assert sources._limited("gs://b/t.csv") == "gs://b/t.csv?retry_limit_seconds=10"
    assert sources._limited("gs://b/t.csv?retry_limit_seconds=3").endswith("?retry_limit_seconds=3")
    assert sources._limited("s3://b/t.csv?region=x") == "s3://b/t.csv?region=x"


class Stream:
    """Any object that offers an Arrow stream, once."""

    def __init__(self, table: pa.Table) -> None:
        self.reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader.__arrow_c_stream__(requested_schema)


def test_record_batches_and_streams_are_read() -> None:
    table = pa.table({"yes": [True, False] * 200, "place": ["a", "b"] * 200})
    batch = table.to_batches()[0]
    asked: dict[str, Any] = {"column": "yes", "epsilon": 8}
    for data in (batch, table.to_reader(), Stream(table)):
        found = shuffledp.count(data, by="place", groups=["a", "b"], **asked)
        assert found.users == 400 and abs(found.values[0] - 200) < 8 * found.rmse
    assert shuffledp.count(batch, where="place = 'a'", **asked).users == 400
    column = pa.chunked_array([pa.array([True, False] * 50)])
    assert shuffledp.count(column, epsilon=8).users == 100


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_every_result_is_a_data_frame(backend: str) -> None:
    values = np.arange(200) % 2
    count = shuffledp.count(values, epsilon=8)
    frame = count.to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names == ["query", "estimate", "clipped", "low", "high"] and len(frame) == 1
    groups = shuffledp.count(values, epsilon=8, by=["a", "b"] * 100, groups=["a", "b"])
    bars = shuffledp.histogram(values, epsilon=8, labels=2)
    quantiles = shuffledp.quantiles(values, epsilon=8, bounds=(0, 1), points=True)
    lengths = [len(one.to_frame(backend)) for one in (groups, bars, quantiles)]
    assert lengths == [2, 2, 3]
