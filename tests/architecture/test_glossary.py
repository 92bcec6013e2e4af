"""The glossary's tables name what the package exports, the commands and the JSON really have."""

from __future__ import annotations

import argparse
import doctest
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from scripts_modules import script

import shuffledp
from shuffledp import spark
from shuffledp.cli.main import parser
from shuffledp.protocols.registry import PROTOCOLS

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    section = GLOSSARY.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def name(cell: str) -> str:
    found = re.fullmatch(r"`([^`]+)`", cell)
    assert found is not None, cell
    return found[1]


QUERIES = [[name(cell) for cell in row[1:]] for row in table("Queries")]


def subcommands(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = (one for one in of._actions if isinstance(one, argparse._SubParsersAction))
    return dict(action.choices)


def test_the_table_of_queries_is_what_they_declare() -> None:
    assert "\n".join(script("reference_pages").query_table()) in GLOSSARY
    assert {row[-1] for row in QUERIES} == set(PROTOCOLS) - {"by-group"}


@pytest.mark.parametrize(("query", "planner", "protocol", "word"), QUERIES)
def test_every_query_has_its_names(query: str, planner: str, protocol: str, word: str) -> None:
    assert callable(getattr(shuffledp, query)) and callable(getattr(spark, query))
    assert callable(getattr(shuffledp, planner))
    assert PROTOCOLS[word].__name__ == protocol
    assert word in subcommands(parser()) and word in subcommands(subcommands(parser())["plan"])


def test_plans_and_results_say_the_querys_name_in_json() -> None:
    reals = np.linspace(0, 1, 50)
    found = [
        (shuffledp.plan_count(50, 8), np.ones(50, int), "count"),
        (shuffledp.plan_integer_sum(50, 8, 2), np.ones(50, int), "integer-sum"),
        (shuffledp.plan_real_sum(50, 8), reals, "real-sum"),
        (shuffledp.plan_histogram(50, 8, 2), np.ones(50, int), "histogram"),
        (shuffledp.plan_frequencies(500, 8), np.ones(500, int), "frequencies"),
        (
            shuffledp.plan_heavy_hitters(500, 8),
            np.full(500, "of", object),
            "heavy-hitters",
        ),
        (shuffledp.plan_quantiles(50, 8, (0, 1), bins=4), reals, "quantiles"),
    ]
    assert [word for *_, word in found] == [word for *_, word in QUERIES]
    for plan, values, word in found:
        data = plan.to_dict()
        assert data["query"] == data["certificate"]["protocol"]["query"] == word
        assert plan.run(values).to_dict()["query"] == word


def test_the_exported_surface_is_what_the_tables_say() -> None:
    listed = {row[part] for row in QUERIES for part in (0, 1)}
    listed |= {name(row[0]) for row in table("What else `import shuffledp` provides")}
    assert listed == set(shuffledp.__all__) - {"__version__"}
    assert set(spark.__all__) == {row[0] for row in QUERIES} | {"mean", "session", "ClusterError"}


def test_every_word_is_explained_once_in_one_sentence() -> None:
    words = table("Words")
    assert len({word for word, _ in words}) == len(words)
    for word, meaning in words:
        assert meaning.endswith(".") and meaning[0].isupper(), word
        assert meaning.count(". ") == 0, word


def test_the_papers_letters_are_names_in_the_code() -> None:
    paper, bounded = (shuffledp.plan_count(50, 1, cell=kind) for kind in ("paper", "bounded"))
    known = {*inspect.signature(shuffledp.plan_count).parameters}
    known |= {*paper.protocol.cells[0].to_dict()}
    known |= {*bounded.protocol.cells[0].to_dict()["up"]}
    known |= {*shuffledp.plan_histogram(50, 8, 2).run(np.ones(50, int)).to_dict()}
    assert {name(row[1]) for row in table("The paper and the code")} <= known


FUNCTIONS = [one for one in shuffledp.__all__ if inspect.isfunction(getattr(shuffledp, one))]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_public_function_has_an_example_that_runs(function: str) -> None:
    (example,) = doctest.DocTestFinder().find(getattr(shuffledp, function), function, globs={})
    assert example.examples, f"{function} has no example"
    assert doctest.DocTestRunner().run(example).failed == 0
