"""What a careful reader once found wrong, so that it stays right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chi2 import p_value
from numpy.typing import NDArray

import shuffledp
from shuffledp import (
    certify,
    plan_count,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.data.values import compared, zeros_and_ones
from shuffledp.documents.files import write_whole
from shuffledp.errors import (
    CertificateError,
    ParameterError,
    PlanningError,
    ShuffleDPError,
    ValueOutOfRange,
)
from shuffledp.numbers.arrangement import arrange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.laws import Poisson
from shuffledp.numbers.sampler import SPARSE_BATCH, Sampler
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.quantiles.protocol import QuantilesProtocol
from shuffledp.release.ledger import Ledger

F = Fraction


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int8, np.uint16, np.int16, np.uint64])
@pytest.mark.parametrize("pairs", [100, 255, 300])
def test_small_types_do_not_wrap_around(kind: type, pairs: int) -> None:
    cell = PaperCell(
        users=10,
        largest=1,
        up_epsilon=F(1),
        down_epsilon=F(1, 2),
        mute_probability=F(1, 1000),
        input_pairs=pairs,
        flood_mean=F(100),
    )
    values = np.array([1, 0] * 500)
    plus, minus = cell.randomize_total(values.astype(kind), SeededEntropy(1))
    assert (plus, minus) == cell.randomize_total(values, SeededEntropy(1))
    assert min(plus, minus) > 980 * pairs


@pytest.mark.parametrize("path", ["randomize_all", "aggregate"])
def test_a_row_of_values_is_not_one_user(path: str) -> None:
    for plan in (plan_count(4, 1), plan_histogram(4, 1, 2), plan_real_sum(4, 1)):
        with pytest.raises(ValueOutOfRange, match="One"):
            getattr(plan, path)(np.ones((4, 5), int))
        with pytest.raises(ValueOutOfRange, match="One"):
            plan.randomize([1, 1])


def test_levels_for_different_users_are_not_certified() -> None:
    few, many = plan_quantiles(1000, 1, (0, 1)), plan_quantiles(10**6, 1, (0, 1))
    assert isinstance(few.protocol, QuantilesProtocol) and isinstance(
        many.protocol, QuantilesProtocol
    )
    levels = few.protocol.levels[:1] + many.protocol.levels[1:]
    with pytest.raises(ParameterError, match="same users"):
        QuantilesProtocol(epsilon=F(1), levels=levels, low=F(0), high=F(1))


def test_buckets_have_no_stand_in() -> None:
    cell = plan_histogram(100, 1, 2, cell="paper").protocol.cells[0]
    assert isinstance(cell, PaperCell)
    cell = replace(cell, stand_in=1)
    with pytest.raises(ParameterError, match="stand-in"):
        HistogramProtocol(epsilon=F(1), cell=cell, labels=(0, 1))


def test_sparse_draws_follow_the_law() -> None:
    law = Poisson(F(1, 1000))
    sparse, size = Sampler(law), SPARSE_BATCH * 16
    entropy = SeededEntropy("sparse")
    draws = np.concatenate([sparse.draw(size, entropy) for _ in range(8)])
    chances = [float(law.pmf(k)) for k in range(5)]
    assert sparse._table is not None and sparse._table.rare
    assert p_value(draws, chances) > 1e-4
    assert p_value(draws, [float(Poisson(F(12, 10_000)).pmf(k)) for k in range(5)]) < 1e-6
    places = np.flatnonzero(draws) % size * 16 // size
    assert p_value(places, [1 / 16] * 16) > 1e-4
    totals = [sparse.total(size, entropy) for _ in range(200)]
    assert abs(np.mean(totals) - size / 1000) < 4.5 * (size / 1000 / 200) ** 0.5
    hits = [len(sparse.hits(size, entropy)) for _ in range(200)]
    assert abs(np.mean(hits) - size * (1 - chances[0])) < 4.5 * (size / 1000 / 200) ** 0.5


@pytest.mark.parametrize(("users", "runs"), [(1000, 60), (300_000, 60), (10**7, 20)])
def test_intervals_hold_when_many_more_come_than_planned(users: int, runs: int) -> None:
    plan = plan_count(10, 1)
    tally, entropy = np.array([users - users // 3, users // 3]), SeededEntropy(f"surplus {users}")
    found = [
        plan.analyze(plan.release(plan.protocol.aggregate_tally(tally, entropy)))
        for _ in range(runs)
    ]
    covered = np.mean([e.low <= users // 3 <= e.high for e in found])
    assert 0.85 < covered <= 1


def test_a_relative_tolerance_needs_values_that_only_add() -> None:
    with pytest.raises(ParameterError, match="below 0"):
        plan_real_sum(1000, 1, bounds=(-1, 1), relative_error="0.01")


@pytest.mark.parametrize(
    ("users", "epsilon", "tolerance"),
    [
        (320364962, "0.0151", "0.01743"),
        (2514650475, "0.285", "0.09114"),
        (100, "8", "0.5"),
    ],
)
def test_odd_tolerances_plan_or_say_why(users: int, epsilon: str, tolerance: str) -> None:
    try:
        plan = plan_real_sum(users, epsilon, relative_error=tolerance)
    except PlanningError:
        return
    assert plan.certificate.loss == F(epsilon)


def test_ranges_of_concentrated_data_are_covered() -> None:
    plan = plan_quantiles(10**5, 1, (0, 1), bins=16, relative_error="0.01")
    values = np.where(np.arange(10**5) % 2, 0.01, 0.9)
    entropy = SeededEntropy("concentrated")
    found = [plan.run(values, entropy).between(0, 1 / 16) for _ in range(150)]
    errors = np.array([e.value for e in found]) - 50_000
    assert np.mean([e.low <= 50_000 <= e.high for e in found]) > 0.9
    assert errors.std() < 1.2 * plan.forecast.rmse
    assert errors.std() == pytest.approx(found[0].rmse, rel=0.2)


def test_messages_of_a_histogram_are_used_up() -> None:
    thin = plan_histogram(10**5, 1, 10, max_messages=1, cell="paper")
    assert thin.forecast.messages_per_user <= 1
    wide = plan_histogram(10**4, 4, 20, max_messages=400, cell="paper")
    assert 385 < wide.forecast.messages_per_user <= 400


def test_messages_of_integers_use_the_stand_in() -> None:
    plan = plan_integer_sum(10**4, 1, 4, max_messages=180, cell="paper")
    assert plan.protocol.cells[0].to_dict()["stand_in"] == 2 and plan.forecast.rmse < 7
    odd = plan_integer_sum(31545348, "0.012", 50, max_messages="95.36", cell="paper")
    assert odd.forecast.messages_per_user <= 95.36


def test_a_free_flood_costs_no_more() -> None:
    for plan in (
        plan_integer_sum(71529, "0.8093", 2, mse_overhead="99.2625"),
        plan_quantiles(1000, 1, (0, 1), bins=8),
        plan_histogram(1000, 1, 3),
        plan_count(100, 1, max_messages=1),
    ):
        least = plan.forecast.limit_messages
        assert least is None or least <= plan.forecast.messages_per_user * (1 + 1e-9)


def test_lopsided_bags_are_arranged_quickly() -> None:
    start = time.perf_counter()
    assert (arrange(300_000, 5) == 1).sum() == 300_000
    assert time.perf_counter() - start < 20  # it used to take hours


EQUALS: dict[str, tuple[NDArray[Any], object, int]] = {
    "whole numbers": (np.array([1, 2, 2]), "2", 2),
    "beyond 2^53": (np.array([2**53, 2**53 + 1]), str(2**53 + 1), 1),
    "floats": (np.array([0.5, 1.5]), "0.5", 1),
    "bools": (np.array([True, False, True]), "true", 2),
    "dates": (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), "2020-01-01", 1),
    "texts": (np.array(["1", "0"], object), "1", 1),
}


@pytest.mark.parametrize("name", EQUALS)
def test_equals_compares_like_with_like(name: str) -> None:
    values, equals, expected = EQUALS[name]
    assert zeros_and_ones(compared(values, equals)).sum() == expected


@pytest.mark.parametrize(
    ("values", "equals"),
    [
        (np.array(["1", "0"], object), 1),
        (np.array([1, 2]), "x"),
        (np.array([1, 2]), "1.5"),
        (np.array([True]), "maybe"),
        (np.array(["2020-01-01"], "M8[D]"), "never"),
    ],
)
def test_equals_refuses_what_no_row_could_hold(values: NDArray[Any], equals: object) -> None:
    with pytest.raises(ParameterError):
        compared(values, equals)


BAD_CALLS: dict[str, Callable[[], object]] = {
    "epsilon list": lambda: shuffledp.count([1], epsilon=[1]),  # type: ignore[call-overload]
    "target list": lambda: shuffledp.count([1], epsilon=1, rmse=[1]),  # type: ignore[call-overload]
    "users text": lambda: shuffledp.count([1], epsilon=1, users="x"),  # type: ignore[call-overload]
    "unknown option": lambda: shuffledp.count([1], epsilon=1, foo=1),  # type: ignore[call-overload]
    "confidence text": lambda: shuffledp.count([1], epsilon=1, confidence="x"),
    "huge epsilon": lambda: plan_count(10, "1e999999999"),
    "huge users": lambda: plan_count("1e9999999", 1),  # type: ignore[arg-type]
    "huge buckets": lambda: plan_histogram(10, 1, 10**12),
    "huge bounds": lambda: plan_real_sum(10, 1, bounds=(0, "1e300")),
    "narrow bounds": lambda: plan_real_sum(10, 1, bounds=(0, "1e-300")),
    "mixed labels": lambda: shuffledp.histogram(
        np.array(["a", 1], object), epsilon=1, labels=["a", "b"]
    ),
    "range of texts": lambda: plan_quantiles(9, 1, (0, 1)).run(np.ones(9)).between("a", "b"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_get_one_sentence(name: str) -> None:
    with pytest.raises(ShuffleDPError) as caught:
        BAD_CALLS[name]()
    assert "\n" not in str(caught.value)


def test_clamping_reaches_the_bounds_of_any_type() -> None:
    values = np.array([0.0, 0.5, 1.0], np.float32)
    assert shuffledp.real_sum(values, epsilon=8, bounds=("0.1", "0.7"), clamp=True).users == 3
    numbers = np.array([0, 1, 2])
    assert shuffledp.real_sum(numbers, epsilon=8, bounds=("0.5", "1.5"), clamp=True).users == 3


def test_a_mistake_charges_nothing(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    Ledger.create(path, 1)
    mistakes: list[dict[str, Any]] = [{"confidence": 2}, {"users": 99}]
    for mistake in mistakes:
        with pytest.raises(ShuffleDPError):
            shuffledp.count([1, 0], epsilon="0.1", ledger=path, **mistake)
    assert Ledger(path).entries() == []
    (tmp_path / "link.json").symlink_to(path)
    Ledger(tmp_path / "link.json").spend("0.5", "through a link")
    assert Ledger(path).remaining() == F(1, 2)
    data = json.loads(path.read_text())
    data["budget"] = "1/0"
    path.write_text(json.dumps(data))
    with pytest.raises(ParameterError):
        Ledger(path).remaining()


def test_columns_of_the_same_name_and_empty_cells(tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("a,a\n1,0\n")
    with pytest.raises(ParameterError, match="Two columns"):
        shuffledp.count(str(tmp_path / "twice.csv"), epsilon=1, column="a")
    (tmp_path / "empty.csv").write_text("a,b\nx,1\n,2\n")
    with pytest.raises(ShuffleDPError, match="missing"):
        shuffledp.histogram(
            str(tmp_path / "empty.csv"), epsilon=1, labels=["x", "y"], column="a", other="z"
        )


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ParameterError):
        write_whole(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_random_cells_are_certified_often_enough_to_mean_something() -> None:
    """The twin of the random test of certificates: among such cells many are certified."""
    rng = np.random.default_rng(5)  # chooses parameters, never noise
    certified = 0
    for _ in range(200):
        d, s, flood = (int(rng.integers(1, top)) for top in (5, 7, 41))
        epsilon, q = F(int(rng.integers(1, 12)), 4), F(int(rng.integers(1, 25)), 50)
        cell = PaperCell(
            users=2,
            largest=d,
            up_epsilon=epsilon,
            down_epsilon=epsilon * F(int(rng.integers(1, 10)), 10),
            mute_probability=q,
            input_pairs=s,
            flood_mean=F(flood),
        )
        try:
            certify(IntegerSumProtocol(epsilon, cell))
            certified += 1
        except CertificateError:
            continue
    assert 20 < certified < 180
