"""The same table in every library and file format, and what a query reads from each."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_quantiles
from shuffledp.engines import local
from shuffledp.errors import ShuffleDPError
from shuffledp.protocols.base import Protocol
from shuffledp.queries.base import Query
from shuffledp.queries.options import Options
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.questions import CountQuery, HistogramQuery, IntegerSumQuery

LABELS = ("a", "b,c", "Köln")
WORDS = (*LABELS, 'say "no"', " x ", "東京", "$5 $6", "line\nbreak")
BOUNDS = (0, 5)
HOW = Options()

QUERIES: dict[str, Query[Any]] = {
    "count": CountQuery.of(HOW, 8),
    "count of a text": CountQuery.of(HOW, 8, "b,c"),
    "count of a number": CountQuery.of(HOW, 8, 1),
    "count of a day": CountQuery.of(HOW, 8, "2020-02-29"),
    "integer sum": IntegerSumQuery.of(HOW, 8, 5, False),
    "integer sum, clamped": IntegerSumQuery.of(HOW, 8, 5, True),
    "histogram of texts": HistogramQuery.of(HOW, 8, LABELS, None),
    "histogram of texts and others": HistogramQuery.of(HOW, 8, LABELS, "else"),
    "histogram of numbers": HistogramQuery.of(HOW, 8, 4, None),
    "histogram of true and false": HistogramQuery.of(HOW, 8, [True, False], None),
    "quantiles": QuantilesQuery.of(HOW, 8, BOUNDS, 0.5, 8, False),
    "quantiles, clamped": QuantilesQuery.of(HOW, 8, BOUNDS, 0.5, 8, True),
}


@cache
def protocol_of(name: str) -> Protocol[Any]:
    """A protocol that takes the query's values; for how many users does not matter here."""
    query = QUERIES[name]
    if isinstance(query, HistogramQuery):
        plain = query.for_planning()
        return plan_histogram(9, 8, plain.labels, other=plain.other).protocol
    if isinstance(query, QuantilesQuery):
        return plan_quantiles(9, 8, BOUNDS, bins=8).protocol
    if isinstance(query, IntegerSumQuery):
        return plan_integer_sum(9, 8, 5).protocol
    return plan_count(9, 8).protocol


def outcome(name: str, source: object, column: str | None = None) -> tuple[Any, Any]:
    """What a query gets to know of a source: the tally, or the refusal with its sentence."""
    query, protocol = QUERIES[name], protocol_of(name)
    try:
        found = local.read_column(query, source, Options(column=column))
        return found.rows, local.tallied(protocol, query, found).tolist()
    except ShuffleDPError as error:
        return type(error), str(error)


def as_sources(values: Sequence[Any], folder: Path) -> dict[str, tuple[object, str | None]]:
    """(source, column) for every reader: the same values, None where one is missing."""
    listed = list(values)
    table = pa.table({"id": range(len(listed)), "value": pa.array(listed)})
    pq.write_table(table, folder / "table.parquet")
    (folder / "parts").mkdir(exist_ok=True)
    half = len(listed) // 2
    pq.write_table(table.slice(0, half), folder / "parts" / "0.parquet")
    pq.write_table(table.slice(half), folder / "parts" / "1.parquet")
    _write_csv(folder / "table.csv", listed)
    frame = pl.DataFrame({"id": range(len(listed)), "value": pl.Series(listed)})
    sources: dict[str, tuple[object, str | None]] = {
        "list": (listed, None),
        "numpy": (_as_array(listed), None),
        "numpy objects": (np.array([*listed, ""], dtype=object)[:-1], None),
        "pandas": (pd.Series(listed), None),
        "pandas objects": (pd.DataFrame({"value": pd.Series(listed, dtype=object)}), "value"),
        "polars": (frame["value"], None),
        "polars lazy": (frame.lazy(), "value"),
        "arrow": (table, "value"),
        "arrow chunks": (pa.chunked_array([table["value"].combine_chunks()]), None),
        "parquet": (folder / "table.parquet", "value"),
        "parquet folder": (folder / "parts", "value"),
        "csv": (str(folder / "table.csv"), "value"),
    }
    if find_spec("duckdb") is not None:
        import duckdb

        sources["duckdb"] = (duckdb.connect().from_arrow(table), "value")
    return sources


def _as_array(values: list[Any]) -> object:
    """A typed NumPy array; a masked one where values are missing."""
    present = next((value for value in values if value is not None), 0)
    kind = "datetime64[D]" if isinstance(present, dt.date) else type(present)
    filled = np.array([present if value is None else value for value in values], dtype=kind)
    missing = [value is None for value in values]
    return np.ma.array(filled, mask=missing) if any(missing) else filled


def _write_csv(path: Path, values: list[Any]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "value"])
        for number, value in enumerate(values):
            text = "" if value is None else value
            if isinstance(value, bool):
                text = str(value).lower()
            writer.writerow([number, text])
