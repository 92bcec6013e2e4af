"""Many runs of the page's query on an uploaded file, compared with the true answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.data.arrays import ColumnType
from shuffledp.data.columns import Column, FileFormat, column_of
from shuffledp.data.files import FILE_KINDS, TEXT_FILES, file_columns
from shuffledp.data.sources import Source
from shuffledp.data.values import WORDS
from shuffledp.engines.rehearsal import Comparison, Rehearsal
from shuffledp.errors import DataError, ParameterError, ShuffleDPError, ValueOutOfRange
from shuffledp.numbers.exact import exact, whole
from shuffledp.numbers.lattice import lattice_bins
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.studio.fields import Form
from shuffledp.studio.questions import (
    confidence_of,
    noise_shares,
    query_of,
    question_of,
    quick_plan,
)
from shuffledp.studio.words import published_reach

Item = dict[str, Any]
MOST_RUNS = 2000
MOST_BUCKETS_SHOWN = 60
OTHER_DELIMITERS = (";", "\t", "|")
"""Delimiters other than a comma, used if a file's first line has more of one than of commas."""
MOST_HEADER_BYTES = 1 << 16
NUMBER_TYPES = ("whole", "real")
IN_CODE = re.compile(r" with [a-z_]+=?(True)? \(--[a-z-]+\)")
"""How an error names an option of Python or the command line; the page has neither."""
ON_THE_PAGE = {
    "name its encoding, for example latin-1.": "choose it under “Text encoding of a CSV file”.",
    "say which value to count.": "write which value to count under “Count the rows with this "
    "value”.",
}
"""Advice in errors, and where to follow it on the page."""


def look(path: str, encoding: str | None = None) -> Iterator[Item]:
    """The columns of an uploaded file with their types, and the delimiter."""
    with _named(path) as file:
        if not file.name.lower().endswith(FILE_KINDS):
            raise DataError(f"{file} must end in {', '.join(FILE_KINDS)} to be read.")
        text = file.name.lower().endswith(TEXT_FILES)
        delimiter = _delimiter(Source.of(file)) if text else None
        found = file_columns(Source.of(file), FileFormat(encoding=encoding, delimiter=delimiter))
    columns = [{"name": name, "holds": WORDS[holds]} for name, holds in found]
    yield {"columns": columns, "format": {"encoding": encoding, "delimiter": delimiter}}


def _delimiter(source: Source) -> str | None:
    """The delimiter of a text file, by its first line; None: a comma, or what the file's name
    implies."""
    with source.stream() as stream:
        first = stream.read(MOST_HEADER_BYTES).partition(b"\n")[0]
    most = max(OTHER_DELIMITERS, key=lambda one: first.count(one.encode()))
    return most if first.count(most.encode()) > first.count(b",") else None


@contextmanager
def _named(path: str) -> Iterator[Path]:
    """Makes errors name a file as the user knows it, without its temporary folder."""
    file = Path(path)
    try:
        yield file
    except ShuffleDPError as error:
        words = str(error).replace(f"{file.parent}{os.sep}", "")
        words = IN_CODE.sub("", words)
        for advice, here in ON_THE_PAGE.items():
            words = words.replace(advice, here)
        raise DataError(words) from None


def rehearse(
    form: Form, plan: str, path: str, column: str, runs: str, written: dict[str, str | None]
) -> Iterator[Item]:
    """The true answer, then the numbers of each run, then a summary of all runs."""
    wanted = whole(runs, "runs", most=MOST_RUNS)
    with _named(path) as file, _of_column(form, column):
        setup, replanned = _setup(form, plan, file, column, written)
    yield {
        "ready": {
            "users": setup.users,
            "planned": setup.plan.users,
            "replanned": replanned,
            "truth": setup.truth.tolist(),
            "absent": _absent(form, setup),
        }
    }
    results: list[Result] = []
    for _ in range(wanted):
        results.append(setup.run())
        rows = results[-1].clipped_rows()[:MOST_BUCKETS_SHOWN]
        yield {"run": [[value, low, high] for _, value, low, high in rows]}
    yield {"summary": _summary(form, setup.plan, results, setup.truth)}


@contextmanager
def _of_column(form: Form, column: str) -> Iterator[None]:
    """Makes errors name the column whose value does not fit, and what to do on the page."""
    try:
        yield
    except ValueOutOfRange as error:
        if question_of(form).name != "count":
            raise DataError(f"Column {column}: {error}") from None
        raise DataError(
            f"Column {column} holds values other than true/false or 0/1. Write which value to "
            "count under “Count the rows with this value”, or choose another column."
        ) from None


def _absent(form: Form, setup: Rehearsal[Result]) -> list[str]:
    """The answers that no row holds: they may be misspelt."""
    if question_of(form).name == "count":
        return [str(form["equals"])] if form.get("equals") and not setup.truth[0] else []
    if "labels" not in question_of(form).fields:
        return []
    labels = [label.strip() for label in form["labels"] if label.strip()]
    return [label for label, count in zip(labels, setup.truth, strict=False) if not count]


def _setup(
    form: Form, plan: str, file: Path, column: str, written: dict[str, str | None]
) -> tuple[Rehearsal[Result], bool]:
    """The rehearsal with the page's plan, or with a smaller one if the file has fewer rows."""
    made = Plan.from_dict(json.loads(plan))
    found = column_of(file, column or None, _format(written))
    _check_value_to_count(form, found.holds)
    replanned = found.rows < made.users
    if replanned:
        smaller = {**form, "find": _keeps(form), "epsilon": str(made.epsilon)}
        made = quick_plan(smaller, found.rows)
    data: object = file
    how: dict[str, Any] = {"column": column or None, "confidence": confidence_of(form), **written}
    if "labels" in question_of(form).fields and found.holds in ("whole", "truth"):
        data, how = _texts(found), {"confidence": confidence_of(form)}
    query = query_of(form, made.epsilon, **how)
    shares = noise_shares(form, made.users)
    return Rehearsal(query, data, plan=made, noise_shares=shares), replanned


def _check_value_to_count(form: Form, holds: ColumnType) -> None:
    """Refuses a text to count in a column of numbers."""
    if question_of(form).name != "count" or not form.get("equals") or holds not in NUMBER_TYPES:
        return
    try:
        exact(form["equals"], "the value")
    except ParameterError:
        raise DataError(
            f"The column holds {WORDS[holds]}; write the value to count as a number, such as 1 or "
            "2.5."
        ) from None


def _format(written: dict[str, str | None]) -> FileFormat:
    return FileFormat(encoding=written.get("encoding"), delimiter=written.get("delimiter"))


def _texts(column: Column) -> list[str]:
    """Numbers or true/false as texts, like the page's answers."""
    return [str(value).lower() for part in column.batches() for value in part.tolist()]


def _keeps(form: Form) -> str:
    """What a plan for fewer people optimises, with the same ε."""
    return "error" if form["find"] == "error" else "messages"


def _summary(form: Form, plan: Plan[Any], results: list[Result], truth: Any) -> Item:
    """Coverage and errors of all runs together."""
    found, often = Comparison.of(results, truth), float(confidence_of(form))
    people = results[0].users
    allowed = published_reach(plan, often, people)
    return {
        "names": list(found.names[:MOST_BUCKETS_SHOWN]),
        "runs": len(results),
        "promised": often,
        "held": [int(number) for number in found.held.sum(axis=0)],
        "coverage": float(found.held.mean()),
        "rmse": [float(number) for number in found.rmse],
        "forecast": results[0].rmse,
        "within": {"error": allowed, "share": found.within(allowed + 0.5 * (allowed % 1 == 0))},
        "planned": published_reach(plan, often),
        "bars": _bars(results, found),
    }


def _bars(results: list[Result], found: Comparison) -> Item | None:
    """How often each error occurred, and its exact law, for results of one number."""
    law = getattr(results[0], "errors", None)
    if found.errors.shape[1] != 1 or law is None or len(results) < 10:
        return None
    errors = found.errors[:, 0]
    places, chances = replace(results[0]).errors()  # type: ignore[attr-defined]
    edges = lattice_bins(places, 3.5 * max(errors.std(), 1e-9) / len(errors) ** (1 / 3))
    reach = 1.1 * float(np.abs(errors).max()) + float(edges[1] - edges[0])
    edges = edges[np.abs(edges) <= reach]
    if len(edges) < 2:
        return None
    measured, _ = np.histogram(errors, bins=edges)
    expected, _ = np.histogram(places, bins=edges, weights=chances)
    return {
        "edges": edges.tolist(),
        "measured": (measured / len(errors)).tolist(),
        "expected": expected.tolist(),
    }
