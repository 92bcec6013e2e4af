"""Options: one list of names and meanings, checked once, refused where they cannot be kept."""

from __future__ import annotations

import inspect
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest

import shuffledp
from shuffledp import spark
from shuffledp.errors import ParameterError
from shuffledp.queries.options import ERRORS, MEANINGS, Options, QueryOptions
from shuffledp.release.ledger import Ledger

QUERIES = ("count", "integer_sum", "real_sum", "mean", "histogram", "quantiles")


def test_every_option_has_a_type_a_default_and_a_meaning() -> None:
    names = [option.name for option in fields(Options)]
    assert names == list(MEANINGS)
    assert {*QueryOptions.__annotations__, "protocol"} == set(names)
    assert all(text.endswith(".") for text in MEANINGS.values())


def test_options_are_checked_and_exact(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    found = Options.checked({"rmse": "0.1", "users": "100", "confidence": "0.9", "ledger": path})
    assert (found.rmse, found.users, found.confidence) == (Fraction(1, 10), 100, 0.9)
    assert isinstance(found.ledger, Ledger) and found.targets.rmse == Fraction(1, 10)
    for wrong in ({"users": 0}, {"confidence": 1}, {"expected": "1.5"}, {"rmse": True}, {"x": 1}):
        with pytest.raises(ParameterError):
            Options.checked(wrong)


def test_refusing_names_the_option_that_was_given() -> None:
    Options().refuse(("users", "rmse"), "never mind.")
    with pytest.raises(ParameterError, match=r"The option users cannot be used here: do without\."):
        Options(users=5).refuse(("users", "rmse"), "do without.")


@pytest.mark.parametrize("name", QUERIES)
def test_queries_have_the_same_arguments_here_and_on_spark(name: str) -> None:
    here = inspect.signature(getattr(shuffledp, name)).parameters
    there = inspect.signature(getattr(spark, name)).parameters
    assert [(p.name, p.kind) for p in here.values()] == [(p.name, p.kind) for p in there.values()]
    assert all(repr(here[name].default) == repr(there[name].default) for name in here)
    (data, epsilon, *rest) = here.values()
    assert data.name == "data" and data.kind is data.POSITIONAL_OR_KEYWORD
    assert epsilon.name == "epsilon" and epsilon.default is epsilon.empty
    assert all(one.kind is one.KEYWORD_ONLY for one in (epsilon, *rest))


@pytest.mark.parametrize("room", [shuffledp, spark], ids=["here", "spark"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_help_page_explains_every_argument_and_error(room: object, name: str) -> None:
    function = getattr(room, name)
    page = inspect.getdoc(function) or ""
    for argument in inspect.signature(function).parameters:
        assert f"\n    {argument}: " in page, argument
    assert all(f"\n    {error}: " in page for error in ERRORS)
    first = page.splitlines()[0]
    assert first.endswith(".") and len(first) < 90 and ">>> " in page
    assert all(len(line) <= 100 for line in page.splitlines())
