"""Histograms over several columns: combinations, marginals and conditional shares."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import run
from plan_parts import bounded_cell

import shuffledp
from shuffledp import CrosstabResult, HistogramResult, Plan, plan_histogram
from shuffledp.errors import InputError, ParameterError, ValueOutOfRange
from shuffledp.queries.histogram.result import of_histogram

COUNTRIES, WAYS = ["DE", "FR", "東京"], ["walk", "bike"]
DOMAINS: dict[str, Any] = {"country": COUNTRIES, "way": WAYS}
TRUE = np.array([[900, 100], [400, 500], [0, 100]])


def frame() -> pd.DataFrame:
    pairs = [(c, w) for c in range(3) for w in range(2) for _ in range(TRUE[c, w])]
    return pd.DataFrame(
        {
            "country": [COUNTRIES[c] for c, _ in pairs],
            "way": [WAYS[w] for _, w in pairs],
            "year": [2020 + c for c, _ in pairs],
            "id": range(len(pairs)),
        }
    )


def asked(epsilon: float = 2, seed: int | None = None, **more: Any) -> CrosstabResult:
    found = shuffledp.histogram(
        frame(), epsilon=epsilon, by=["country", "way"], domains=DOMAINS, seed=seed, **more
    )
    assert isinstance(found, CrosstabResult)
    return found


def test_combinations_are_counted_and_named() -> None:
    found = asked(8)
    assert found.labels[:2] == ("DE × walk", "DE × bike") and found.query == "histogram"
    assert np.allclose(found.values.reshape(3, 2), TRUE, atol=30 * found.rmse)
    assert found.certificate is not None and shuffledp.verify(found.certificate)
    table = found.to_frame("pandas")
    assert list(table["country"]) == ["DE", "DE", "FR", "FR", "東京", "東京"]
    row = found.to_dict()["buckets"][3]
    assert row["labels"] == {"country": "FR", "way": "bike"} and found.to_dict()["by"]


def test_marginals_and_shares_keep_their_confidence_and_a_narrower_one_does_not() -> None:
    runs, inside, narrow, shares = 250, [], [], []
    true_share = TRUE / TRUE.sum(axis=1, keepdims=True)
    for seed in range(runs):
        found = asked(1, seed)
        for name, axis in (("country", 1), ("way", 0)):
            part = found.marginal(name)
            truth = TRUE.sum(axis=axis)
            inside.append((part.low <= truth) & (truth <= part.high))
            half = (part.high - part.low) / 4
            narrow.append(np.abs(part.values - truth) <= half)
        for one, share in zip(
            found.shares("way", given="country"), true_share.ravel(), strict=True
        ):
            shares.append(one.low <= share <= one.high)
    covered = np.concatenate(inside).mean()
    assert abs(covered - 0.95) < 0.02 + 4 * math.sqrt(0.05 / (5 * runs))
    assert np.concatenate(narrow).mean() < 0.85
    assert 0.93 < np.mean(shares) < 0.99


def missed(plan: Plan[HistogramResult], counts: list[int], *, by_moments: bool) -> float:
    """The chance that the 99.9 % interval of a marginal of cells with these counts misses, from the
    convolution of the cells' laws; or that of the twin, a normal law with Laplace's kurtosis."""
    cell, users = bounded_cell(plan), plan.users
    step = 1 / float(cell.data_probability)
    mass, lowest = np.ones(1), 0.0
    for count in counts:
        errors, chances = cell.error_law(users, count)
        mass, lowest = np.convolve(mass, chances), lowest + float(errors[0])
    likely = np.flatnonzero(mass > 1e-16)
    error, mass = lowest + step * likely, mass[likely]
    values = np.tile(np.array(counts, float), (len(error), 1))
    values[:, 0] += error
    one = plan.analyze(plan.release(plan.aggregate(np.zeros(users, int))), 0.999)
    rows, columns = [f"{k}" for k in range(len(error))], [f"{k}" for k in range(len(counts))]
    found = of_histogram(
        replace(one, values=values.ravel()),
        ("row", "column"),
        (tuple(rows), tuple(columns)),
        np.full(values.size, cell.variance_at(users, 0, 0)),
        cell,
    ).marginal("row")
    total = sum(counts)
    if by_moments:
        z = 3.2905
        wide = (z + (z**3 - 3 * z) / (8 * len(counts))) * math.sqrt(float(found.variances[0]))
        outside = np.abs(error) > wide
    else:
        outside = (found.low > total) | (found.high < total)
    return float(mass[outside].sum())


@pytest.mark.parametrize("counts", [[0, 40], [100, 0, 7, 300]])
def test_intervals_of_marginals_follow_the_cells_own_law(counts: list[int]) -> None:
    plan = plan_histogram(10**4, 1, len(counts), cell="bounded")
    assert 0.0001 < missed(plan, counts, by_moments=False) <= 0.00101
    assert missed(plan, counts, by_moments=True) > 0.0013  # the twin


def test_a_marginal_of_a_marginal_and_the_order_of_columns() -> None:
    found = asked(8)
    turned = found.marginal("way", "country")
    assert turned.domains == (tuple(WAYS), tuple(COUNTRIES)) and turned.labels[1] == "walk × FR"
    assert np.allclose(turned.values.reshape(2, 3), found.values.reshape(3, 2).T)
    assert np.allclose(turned.marginal("way").values, found.marginal("way").values)
    assert found.marginal("way").labels == tuple(WAYS)
    assert found.marginal("country").rmse == pytest.approx(
        math.sqrt(found.variances.reshape(3, 2).sum(axis=1).max())
    )
    for wrong in ((), ("nothing",), ("way", "way")):
        with pytest.raises(ParameterError, match="each once"):
            found.marginal(*wrong)


def test_a_share_of_nobody_is_anything() -> None:
    found = asked(8)
    nobody = frame()[lambda rows: rows["country"] != "東京"]
    found = shuffledp.histogram(nobody, epsilon=1, by=["country", "way"], domains=DOMAINS)  # type: ignore[assignment]
    last = found.shares("way", given="country")[-1]
    assert last.high - last.low > 0.5 and 0 <= last.low <= last.high <= 1
    table = found.shares_frame("way", "country", "pandas")
    assert list(table.columns) == ["country", "way", "share", "low", "high"]


def test_whole_numbers_missing_values_and_users() -> None:
    data = frame()
    data.loc[::10, "way"] = None
    years: dict[str, Any] = {"year": [2020, 2021, 2022], "way": WAYS}
    with pytest.raises(InputError, match="missing"):
        shuffledp.histogram(data, epsilon=4, by=["year", "way"], domains=years)
    with pytest.raises(ParameterError, match="all be texts"):
        shuffledp.histogram(data, epsilon=4, by=["year", "way"], domains=years, missing="bucket")
    both = {"country": COUNTRIES, "way": WAYS}
    found = shuffledp.histogram(
        data, epsilon=4, by=["country", "way"], domains=both, missing="bucket"
    )
    assert isinstance(found, CrosstabResult)
    assert abs(found.marginal("way").values[-1] - 200) < 30 * found.marginal("way").rmse
    each = shuffledp.histogram(
        frame(), epsilon=4, by=["year", "way"], domains=years, user="id", rows_per_user=1
    )
    assert each.users == 2_000 and "at most 1" in each.neighbours


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "Give labels for one column"),
        ({"by": ["way"]}, "neither labels nor other"),
        ({"domains": DOMAINS}, "neither labels nor other"),
        ({"by": ["way"], "domains": DOMAINS, "labels": 2}, "neither labels nor other"),
        ({"by": ["country"], "domains": DOMAINS}, "every column in by"),
        ({"by": ["way", "way"], "domains": {"way": WAYS}}, "twice"),
        ({"by": [1], "domains": {1: WAYS}}, "columns' names"),
        ({"by": ["way"], "domains": {"way": ["walk"]}}, "2 to"),
        ({"by": ["way"], "domains": {"way": ["walk", 1]}}, "all be texts"),
        ({"by": ["way"], "domains": {"way": WAYS}, "column": "way"}, "leave column out"),
        ({"by": ["no"], "domains": {"no": WAYS}}, "no column 'no'"),
        ({"by": ["year"], "domains": {"year": WAYS}}, "labels of the column 'year' are texts"),
        ({"by": ["way"], "domains": {"way": ["walk", "tram"]}}, "not on the list of labels"),
        ({"by": ["id", "year"], "domains": {"id": 2_000, "year": 2_000}}, "fewer labels"),
        ({"by": ["way"], "domains": {"way": WAYS}, "protocol": "local"}, "No other protocol"),
    ],
)
def test_bad_declarations_get_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ParameterError, ValueOutOfRange), match=sentence):
        shuffledp.histogram(frame(), epsilon=1, **given)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame().to_csv(path, index=False)
    words = ["histogram", str(path), "--epsilon", "8", "--by", "year,way"]
    domains = ["--domain", "year=2020,2021,2022", "--domain", "way=walk,bike"]
    picture = str(tmp_path / "table.png")
    code, out, _ = run(capsys, *words, *domains, "--json", "--plot", picture)
    assert code == 0 and json.loads(out)["by"] == ["year", "way"] and Path(picture).exists()
    code, out, _ = run(capsys, *words, *domains)
    assert code == 0 and "2020 × walk" in out
    for wrong in (["--domain", "way"], [], ["--labels", "3", *domains]):
        code, _, error = run(capsys, *words, *wrong)
        assert code == 2 and error
