"""Options: declared once with their meanings, checked once, refused where they cannot be kept."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest

import shuffledp
from shuffledp import spark
from shuffledp.errors import ParameterError
from shuffledp.queries.calls import ERRORS
from shuffledp.queries.catalogue import CALLED, CATALOGUE
from shuffledp.queries.count.query import CountQuery
from shuffledp.queries.options import QueryOptions, arguments
from shuffledp.release.ledger import Ledger

ROOT = Path(__file__).parents[2]
CALLS = [name.replace("-", "_") for name in CALLED]


def test_every_argument_of_every_query_is_declared_with_its_meaning() -> None:
    for query in CALLED.values():
        declared = list(arguments(query))
        assert {one.name for one in fields(query)} == {one.name for one in declared}
        assert all(one.option.meaning.endswith(".") for one in declared)
        assert all(one.option.meaning[0].isupper() or one.name == "delta" for one in declared)
    assert [one.name for one in arguments(QueryOptions)] == [
        one.name for one in fields(QueryOptions)
    ]


def test_every_query_declares_what_the_surfaces_read() -> None:
    for query in CATALOGUE:
        said = query.declaration
        assert (said.protocol is None) == (said.protocol_json is None) == (said.planner is None)
        assert query.summary().endswith(".") and len(query.summary()) < 90
        if said.protocol is not None:
            assert said.protocol.query == query.name


def test_the_javascript_client_answers_every_query_that_a_task_can_ask() -> None:
    registry = ROOT / "clients/js/src/queries/registry.ts"
    listed = registry.read_text("utf-8").split("const QUERIES")[1].split("\n};")[0]
    supported = set(re.findall(r'^  "?([\w-]+)"?: \(\) => import', listed, re.MULTILINE))
    assert supported == {one.name for one in CATALOGUE if one.declaration.result_json is not None}


def test_options_are_checked_and_exact(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    found = CountQuery(epsilon="0.1", rmse="0.1", users="100", confidence="0.9", ledger=path)  # type: ignore[arg-type]
    assert (found.rmse, found.users, found.confidence) == (Fraction(1, 10), 100, 0.9)
    assert isinstance(found.ledger, Ledger) and found.targets()["rmse"] == Fraction(1, 10)
    assert found.exact_epsilon == Fraction(1, 10)
    for name, wrong in {"users": 0, "confidence": 1, "expected": "1.5", "rmse": True}.items():
        with pytest.raises(ParameterError):
            CountQuery(epsilon=1).changed(**{name: wrong})
    with pytest.raises(ParameterError, match="There is no option 'x'; there are epsilon, equals"):
        shuffledp.count([1], epsilon=1, x=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="epsilon"):
        shuffledp.count([1])  # type: ignore[call-overload]


def test_refusing_names_the_option_that_was_given() -> None:
    CountQuery(epsilon=1).refuse(("users", "rmse"), "never mind.")
    with pytest.raises(ParameterError, match=r"The option users cannot be used here: do without\."):
        CountQuery(epsilon=1, users=5).refuse(("users", "rmse"), "do without.")


@pytest.mark.parametrize("name", CALLS)
def test_one_function_for_every_engine(name: str) -> None:
    assert getattr(spark, name) is getattr(shuffledp, name)
    (data, epsilon, *rest) = inspect.signature(getattr(shuffledp, name)).parameters.values()
    assert data.name == "data" and data.kind is data.POSITIONAL_OR_KEYWORD
    assert epsilon.name == "epsilon" and epsilon.default is epsilon.empty
    assert all(one.kind is one.KEYWORD_ONLY for one in (epsilon, *rest))
    assert not any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in rest)


@pytest.mark.parametrize("name", CALLS)
def test_the_help_page_explains_every_argument_and_error(name: str) -> None:
    function = getattr(shuffledp, name)
    page = inspect.getdoc(function) or ""
    for argument in inspect.signature(function).parameters:
        assert f"\n    {argument}: " in page, argument
    assert all(f"\n    {error}: " in page for error in ERRORS)
    first = page.splitlines()[0]
    assert first.endswith(".") and len(first) < 90 and ">>> " in page
    assert all(len(line) <= 100 for line in page.splitlines())
