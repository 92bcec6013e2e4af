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
from shuffledp import CrosstabResult, HistogramResult, Plan, SeededEntropy, plan_histogram
from shuffledp.cells.sparse.cell import SparseBuckets
from shuffledp.cells.sparse.law import bucket_law
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
    step = 1 / float(cell.moments().kept)
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


# Sparse cells: buckets are not independent

SPARSE_USERS, SPARSE_COLUMNS = 50, ((0, 1), (0, 1), tuple(range(100)))
SPARSE_TRUE = np.array([[25, 8], [8, 9]])
"""By the first two columns; everybody has a 0 in the third."""


@pytest.fixture(scope="module")
def sparse_plan() -> Plan[HistogramResult]:
    return plan_histogram(
        SPARSE_USERS, 1, 400, cell="sparse", error_at=16, max_messages=12, padded=True
    )


@pytest.fixture(scope="module")
def sparse(sparse_plan: Plan[HistogramResult]) -> SparseBuckets:
    (group,) = sparse_plan.protocol.cell_groups
    assert isinstance(group, SparseBuckets)
    return group


def sparse_draws(group: SparseBuckets, runs: int, seed: int) -> Any:
    """The estimates of all combinations in each of many draws."""
    codes = np.repeat(100 * np.arange(4), SPARSE_TRUE.ravel())
    user, bucket = group.tokens_of_all(np.tile(codes, runs), SeededEntropy(seed))
    found = np.zeros((runs, 400), np.int64)
    np.add.at(found, (user // SPARSE_USERS, bucket), 1)
    return group.cell.estimates(found, SPARSE_USERS)


def test_the_law_of_several_buckets_of_a_sparse_cell_has_the_moments_of_the_covariances(
    sparse: SparseBuckets,
) -> None:
    cell = sparse.cell
    for buckets in (1, 2, 100, 200, 399):
        law, tokens = bucket_law(cell, buckets), np.arange(cell.cut + 2)
        noise = np.append(law.noise, 0.0)
        without = (law.data + law.muted) * noise + law.jump * law.jumped
        held = law.data * np.roll(noise, 1) + law.muted * noise + law.jump * law.jumped
        mean = float(tokens @ without)
        assert mean == pytest.approx(buckets * float(cell.moments.mean))
        assert float(tokens @ held) == pytest.approx(mean + law.data)
        assert float(tokens**2 @ without) - mean**2 == pytest.approx(law.variance)
        spread = float(tokens**2 @ held) - float(tokens @ held) ** 2
        assert spread == pytest.approx(law.variance_with)
        alone = buckets * float(cell.moments.variance)  # the twin: independent buckets
        assert (law.variance > 1.0001 * alone) == (buckets > 1)


def test_stated_variances_of_sums_of_sparse_buckets_are_the_measured_ones(
    sparse: SparseBuckets,
) -> None:
    runs, truth = 4_000, SPARSE_TRUE.sum(axis=1)
    parts = sparse_draws(sparse, runs, 1).reshape(runs, 2, 200).sum(axis=2)
    measured = ((parts - truth) ** 2).mean(axis=0)
    # The standard error of a variance follows from the fourth moment; √(2/runs) is that of normal
    # errors, and too small for these, whose tails are heavy.
    kurtosis = ((parts - truth) ** 4).mean(axis=0) / measured**2
    cell, reach = sparse.cell, 3.5 * np.sqrt((kurtosis - 1) / runs)
    stated = [cell.variance_of_sum(200, SPARSE_USERS, float(total)) for total in truth]
    alone = [cell.variance_at(200 * SPARSE_USERS, float(total), float(total)) for total in truth]
    assert (np.abs(measured / stated - 1) < reach).all()
    assert (np.abs(measured / alone - 1) > reach).all()  # the twin: independent buckets


def test_marginals_and_shares_of_a_sparse_cell_keep_their_confidence(
    sparse_plan: Plan[HistogramResult], sparse: SparseBuckets
) -> None:
    plan, columns = sparse_plan, ("a", "b", "c")
    first = plan.analyze(plan.release(plan.aggregate(np.zeros(SPARSE_USERS, int))))
    spread = np.full(400, sparse.cell.variance_at(SPARSE_USERS, 0, 0))
    found = of_histogram(first, columns, SPARSE_COLUMNS, spread, sparse.cell)
    truth, inside, narrow, shares = SPARSE_TRUE.sum(axis=1), [], [], []
    true_shares = (SPARSE_TRUE / truth[:, None]).ravel()
    for values in sparse_draws(sparse, 200, 2):
        one = replace(found, values=values)
        part = one.marginal("a")
        inside.append((part.low <= truth) & (truth <= part.high))
        narrow.append(np.abs(part.values - truth) <= (part.high - part.low) / 4)
        for share, true in zip(one.shares("b", given="a"), true_shares, strict=True):
            shares.append(share.low <= true <= share.high)
    assert abs(np.mean(inside) - 0.95) < 0.02 + 4 * math.sqrt(0.05 / 400)
    assert np.mean(narrow) < 0.85  # the twin
    assert np.mean(shares) > 0.93


def test_marginals_of_several_rows_per_user_count_rows() -> None:
    data = pd.concat([frame(), frame()])
    found = shuffledp.histogram(
        data, epsilon=16, by=["country", "way"], domains=DOMAINS, user="id", rows_per_user=2
    )
    assert isinstance(found, CrosstabResult) and (found.users, found.rows_kept) == (2_000, 4_000)
    part = found.marginal("country")
    truth = 2 * TRUE.sum(axis=1)
    assert (np.abs(part.values - truth) < 30 * part.rmse).all()
    assert ((part.low <= part.values) & (part.values <= part.high)).all()
    assert ((part.high - part.low) < 20 * part.rmse).all()


def test_a_marginal_of_a_marginal_and_the_order_of_columns() -> None:
    found = asked(8)
    turned = found.marginal("way", "country")
    assert turned.domains == (tuple(WAYS), tuple(COUNTRIES)) and turned.labels[1] == "walk × FR"
    assert np.allclose(turned.values.reshape(2, 3), found.values.reshape(3, 2).T)
    assert np.allclose(turned.marginal("way").values, found.marginal("way").values)
    assert found.marginal("way").labels == tuple(WAYS)
    country = found.marginal("country")
    exact = [found.cell.variance_of_sum(2, found.reports, total) for total in country.clipped]
    assert found.cell.kind == "pooled" and country.rmse == pytest.approx(math.sqrt(max(exact)))
    alone = asked(8, cell="bounded")  # whose combinations are independent
    assert alone.marginal("country").rmse == pytest.approx(
        math.sqrt(alone.variances.reshape(3, 2).sum(axis=1).max())
    )
    for wrong in ((), ("nothing",), ("way", "way")):
        with pytest.raises(ParameterError, match="each once"):
            found.marginal(*wrong)


def test_a_share_of_nobody_is_anything() -> None:
    nobody = frame()[lambda rows: rows["country"] != "東京"]
    found = shuffledp.histogram(nobody, epsilon=1, by=["country", "way"], domains=DOMAINS, seed=1)
    assert isinstance(found, CrosstabResult)
    last = found.shares("way", given="country")[-1]
    assert last.high - last.low > 0.5 and 0 <= last.low <= last.high <= 1
    below = replace(found, values=np.array([900.0, 100, 400, 500, -60, 20]))
    assert [one[3:] for one in below.shares("way", given="country")[-2:]] == [(0, 1), (0, 1)]
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
        ({}, "A histogram needs its labels"),
        ({"by": ["way"]}, "without labels, other or heavy"),
        ({"domains": DOMAINS}, "without labels, other or heavy"),
        ({"by": ["way"], "domains": DOMAINS, "labels": 2}, "without labels, other or heavy"),
        ({"by": ["country"], "domains": DOMAINS}, "exactly the columns in by"),
        ({"by": ["way", "way"], "domains": {"way": WAYS}}, "twice"),
        ({"by": [1], "domains": {1: WAYS}}, "column names"),
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
