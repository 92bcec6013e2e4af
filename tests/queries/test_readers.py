"""Any two readers of the same table give the same tally or the same refusal."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import QUERIES, WORDS, as_sources, outcome

from shuffledp.errors import DataError

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "truth": st.booleans(),
    "whole": st.one_of(st.integers(-1, 7), st.sampled_from([2**62, -(2**63)])),
    "bits": st.integers(0, 1),
    "real": st.one_of(
        st.integers(-2, 12).map(lambda n: n / 2), st.sampled_from([0.1, 1e300, float("inf")])
    ),
    "text": st.sampled_from(WORDS),
    "date": st.dates(dt.date(2020, 2, 27), dt.date(2020, 3, 1)),
}


@st.composite
def columns(draw: st.DrawFn, kind: str) -> list[Any]:
    """Values of one type, of which some may be missing."""
    values: list[Any] = draw(st.lists(VALUES[kind], min_size=1, max_size=8))
    missing = draw(st.lists(st.integers(0, len(values)), max_size=2, unique=True))
    for place in missing if draw(st.booleans()) else []:
        values.insert(place, None)
    return values


@pytest.mark.parametrize("kind", VALUES)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_all_readers_agree(kind: str, data: st.DataObject) -> None:
    values = data.draw(columns(kind))
    with tempfile.TemporaryDirectory() as folder:
        sources = as_sources(values, Path(folder))
        for name in QUERIES:
            found = {reader: outcome(name, *source) for reader, source in sources.items()}
            assert len(set(map(repr, found.values()))) == 1, (name, found)


def test_the_property_can_fail(tmp_path: Path) -> None:
    """Its twin: a reader that reads another table is found out."""
    sources = as_sources([1, 2, 3], tmp_path)
    good = {repr(outcome("integer sum", *source)) for source in sources.values()}
    bad = repr(outcome("integer sum", [1, 2, 4]))
    assert len(good) == 1 and bad not in good


def test_every_query_answers_something(tmp_path: Path) -> None:
    """The property is not about refusals alone."""
    answered = set()
    for values in ([True, False], [0, 1], [0.5, 1.0], ["a", "b,c"], [dt.date(2020, 2, 29)]):
        for name in QUERIES:
            if isinstance(outcome(name, values)[0], int):
                answered.add(name)
    assert answered == set(QUERIES)


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT"), np.ma.masked])
def test_missing_values_are_refused_without_their_number(missing: object) -> None:
    for name in QUERIES:
        kind, sentence = outcome(name, ["a", missing])
        assert kind is DataError and "has missing values" in sentence
        assert not any(character.isdigit() for character in sentence)
