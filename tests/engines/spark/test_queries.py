"""Queries on a cluster: the same plan, certificate and law as on one machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp
from shuffledp import spark as cluster
from shuffledp.engines.spark import executor
from shuffledp.engines.spark.errors import ClusterError
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.reports import PartWork, WholeWork, in_arrow, planned_and_drawn
from shuffledp.errors import (
    BudgetExceeded,
    DataError,
    ParameterError,
    ShortBatchError,
    ValueOutOfRange,
)
from shuffledp.numbers.entropy import SYSTEM, SeededEntropy
from shuffledp.protocols.report import shuffle
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.count.query import CountQuery

ROWS = 20_000
COUNT = CountQuery(epsilon=1)


def part_work(protocol: Any, secret: JobSecret) -> PartWork:
    return PartWork(protocol=protocol.to_dict(), prepare=COUNT.prepare, secret=secret)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file with a column of each kind."""
    at = np.arange(ROWS)
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    pq.write_table(
        pa.table(
            {
                "yes": at % 4 == 0,
                "bit": (at % 5 == 0).astype(np.int32),
                "number": at % 7,
                "label": [f"city {n % 3}" for n in at],
                "real": at / ROWS,
                "a.dotted`name": at % 2,
            }
        ),
        path,
        row_group_size=2000,
    )
    return path


@pytest.fixture(scope="module")
def frame(spark: Any, table: Path) -> Any:
    return spark.read.parquet(str(table)).repartition(3)


ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("count", "yes", {}),
    ("count", "bit", {}),
    ("count", "label", {"equals": "city 1"}),
    ("count", "number", {"equals": "3"}),
    ("count", "a.dotted`name", {}),
    ("histogram", "number", {"labels": 7}),
    ("histogram", "label", {"labels": ["city 0"], "other": "else"}),
    ("integer_sum", "number", {"largest": 6}),
    ("integer_sum", "number", {"largest": 3, "clamp": True}),
    ("real_sum", "real", {"bounds": (0, 1)}),
    ("mean", "real", {"bounds": (0, 1)}),
    ("quantiles", "real", {"bounds": (0, 1), "bins": 16}),
]


@pytest.mark.parametrize(("name", "column", "asked"), ASKED)
def test_same_plan_certificate_and_result_as_on_one_machine(
    frame: Any, table: Path, name: str, column: str, asked: dict[str, Any]
) -> None:
    there = getattr(cluster, name)(frame, column=column, epsilon=2, **asked)
    here = getattr(shuffledp, name)(str(table), epsilon=2, column=column, **asked)
    assert type(there) is type(here)
    assert there.certificate == here.certificate
    assert (there.users, there.epsilon, there.seeded) == (ROWS, Fraction(2), False)
    found, expected = there.to_dict(), here.to_dict()
    assert found.keys() == expected.keys()
    assert np.allclose(numbers(there), numbers(here), atol=40 * max(here.rmse, there.rmse))


def numbers(result: Any) -> Any:
    if isinstance(result, shuffledp.QuantilesResult):
        return [quantile.value for quantile in result.shown()]
    for name in ("values", "value"):
        if hasattr(result, name):
            return getattr(result, name)
    raise AssertionError


def test_row_by_row_asks_the_same_query(frame: Any) -> None:
    found = cluster.histogram(frame, column="number", epsilon=2, labels=7, per_user=True)
    assert found.users == ROWS
    assert abs(found.values - ROWS / 7).max() < 60


@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_parts_add_up_to_the_law_of_one_draw(cell: str) -> None:
    """Releases drawn in 4 unequal parts have the mean and the spread that the plan proves, and a
    draw that forgets to share the noise does not."""
    protocol = shuffledp.plan_count(400, 1, cell=cell).protocol
    assert isinstance(protocol, CountProtocol)
    parts = [pa.record_batch({"value": np.arange(k) % 2}) for k in (200, 120, 60, 20)]
    runs = 1200

    def errors(law: Any) -> Any:
        work = [part_work(law, JobSecret()) for _ in range(runs)]
        found = [
            shuffle(
                [
                    one.report(law, [part], one.secret.part(at)) or pytest.fail("nobody")
                    for at, part in enumerate(parts)
                ]
            )
            for one in work
        ]
        sums = np.array([int(report.plus[0] - report.minus[0]) for report in found])
        return protocol.cell.estimates(sums, 400) - 200

    error, found = protocol.rmse(400, 200), errors(protocol)
    assert abs(found.mean()) < 5 * error / math.sqrt(runs)
    # the bounded cell's error has rare large values: five standard errors of a measured spread
    reach = 0.1 if cell == "paper" else 5 * spread_error(protocol, 400, 200, runs)
    assert abs(found.std() / error - 1) < reach
    whole_noise_each = shuffledp.plan_count(100, 1, cell=cell).protocol
    assert abs(errors(whole_noise_each).std() / error - 1) > reach


def spread_error(protocol: CountProtocol, users: int, total: int, runs: int) -> float:
    """The relative standard error of a standard deviation measured in so many runs, from the exact
    law of the error: √((kurtosis − 1) / 4 runs)."""
    found, chances = protocol.cell.error_law(users, total)
    away = found - np.average(found, weights=chances)
    second, fourth = (np.average(away**power, weights=chances) for power in (2, 4))
    return math.sqrt((fourth / second**2 - 1) / (4 * runs))


def test_refusals_say_what_one_machine_says(frame: Any, table: Path) -> None:
    refused: list[tuple[str, str, dict[str, Any]]] = [
        ("count", "number", {}),
        ("count", "label", {}),
        ("integer_sum", "number", {"largest": 3}),
        ("real_sum", "real", {"bounds": (0, "0.5")}),
        ("quantiles", "real", {"bounds": ("0.1", 1)}),
        ("histogram", "label", {"labels": ["city 0", "city 1"]}),
    ]
    for name, column, asked in refused:
        with pytest.raises(ValueOutOfRange) as there:
            getattr(cluster, name)(frame, column=column, epsilon=1, **asked)
        with pytest.raises(ValueOutOfRange) as here:
            getattr(shuffledp, name)(str(table), epsilon=1, column=column, **asked)
        assert str(there.value) == str(here.value)


def test_users_without_a_value_are_refused(spark: Any) -> None:
    asks: list[Callable[[Any], object]] = [
        lambda f: cluster.count(f, epsilon=1),
        lambda f: cluster.real_sum(f, epsilon=1, bounds=(0, 1)),
    ]
    for values in ("if(id < 3, null, id % 2)", "if(id < 3, double('NaN'), double(id % 2))"):
        holes = spark.range(100).selectExpr(f"{values} as x")
        for ask in asks:
            with pytest.raises(DataError, match="has missing values"):
                ask(holes)
    with pytest.raises(DataError, match="no rows"):
        cluster.count(spark.range(0).selectExpr("id % 2 as x"), epsilon=1)


@pytest.mark.parametrize(
    "option",
    [{"protocol": "central"}, {"delta": "1e-6"}, {"progress": print}],
    ids=lambda option: next(iter(option)),
)
def test_options_that_spark_cannot_keep_are_refused(frame: Any, option: dict[str, Any]) -> None:
    name = next(iter(option))
    for ask in (
        lambda: cluster.count(frame, column="yes", epsilon=1, **option),
        lambda: cluster.integer_sum(frame, column="number", epsilon=1, largest=6, **option),
        lambda: cluster.real_sum(frame, column="real", epsilon=1, bounds=(0, 1), **option),
        lambda: cluster.mean(frame, column="real", epsilon=1, bounds=(0, 1), **option),
        lambda: cluster.histogram(frame, column="number", epsilon=1, labels=7, **option),
        lambda: cluster.quantiles(frame, column="real", epsilon=1, bounds=(0, 1), **option),
    ):
        with pytest.raises(ParameterError, match=f"option {name} cannot be used here") as refusal:
            ask()
        assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)


def test_few_values_are_planned_and_drawn_in_one_job(
    frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_in_two_jobs", lambda *_: pytest.fail("two jobs"))
    cluster.count(frame, column="yes", epsilon=1)
    cluster.count(frame, column="label", equals="city 1", epsilon=1)
    cluster.integer_sum(frame, column="number", epsilon=1, largest=6)
    cluster.histogram(frame, column="number", epsilon=1, labels=7)


def test_equal_values_are_found_as_on_one_machine(spark: Any) -> None:
    far = spark.createDataFrame(
        [(2**53 + n % 2, n % 2 == 0) for n in range(100)], "n long, t boolean"
    )
    assert abs(cluster.count(far, column="n", equals=2**53 + 1, epsilon=8).value - 50) < 10
    assert abs(cluster.count(far, column="t", equals="true", epsilon=8).value - 50) < 10
    for wrong in ("1.5", "x"):
        with pytest.raises(ParameterError):
            cluster.count(far, column="n", equals=wrong, epsilon=8)


def test_clamping_row_by_row(frame: Any) -> None:
    asked: dict[str, Any] = {"column": "number", "epsilon": 8, "largest": 3, "clamp": True}
    together, each = (cluster.integer_sum(frame, per_user=one, **asked) for one in (False, True))
    assert abs(together.value - each.value) < 100


def test_every_call_runs_on_spark_when_its_data_is_there(spark: Any) -> None:
    rows = spark.range(2000)
    bikes = rows.selectExpr("id % 4 = 0 as bikes")
    assert round(shuffledp.count(bikes, column="bikes", epsilon=8).value, -2) == 500
    visits = rows.selectExpr("id % 4 as visits")
    assert round(shuffledp.integer_sum(visits, epsilon=8, largest=3).value, -3) == 3000
    hours = rows.selectExpr("id % 4 + 0.5 as hours")
    assert round(shuffledp.real_sum(hours, epsilon=8, bounds=(0, 4)).value, -3) == 4000
    assert round(shuffledp.mean(hours, epsilon=8, bounds=(0, 4)).value) == 2
    buckets = rows.selectExpr("id % 2 as bucket")
    found = shuffledp.histogram(buckets, epsilon=8, labels=2)
    assert found.values.round(-2).tolist() == [1000.0, 1000.0]
    ages = spark.range(10_000).selectExpr("id % 100 as age")
    quantiles = shuffledp.quantiles(ages, epsilon=8, bounds=(0, 100), bins=10)
    assert round(quantiles.quantile(0.5).value, -1) == 50 and quantiles.axis.points


def test_labels_of_any_domain_on_spark(spark: Any) -> None:
    numbers = spark.range(20_000).selectExpr("id % 4 as number")
    found = shuffledp.frequencies(numbers, epsilon=8, candidates=[1, 2])
    assert found.values.round(-3).tolist() == [5000.0, 5000.0]
    words = spark.range(40_000).selectExpr("if(id % 4 = 0, 'of', 'the') as word")
    common = shuffledp.heavy_hitters(words, epsilon=8)
    assert common.labels == ("the", "of")


@pytest.mark.parametrize("asked", [{}, {"by": ["a", "b"] * 50, "groups_public": True}])
def test_other_data_is_answered_on_this_machine(asked: dict[str, Any]) -> None:
    assert cluster.count is shuffledp.count
    assert cluster.count([0, 1] * 50, epsilon=8, **asked).users == 100


def test_wrong_calls(frame: Any) -> None:
    with pytest.raises(ParameterError, match="Which column"):
        cluster.count(frame, epsilon=1)
    with pytest.raises(ParameterError, match="no column 'x'"):
        cluster.count(frame, column="x", epsilon=1)
    with pytest.raises(ShortBatchError):
        cluster.count(frame, column="yes", epsilon=1, users=ROWS + 1)
    with pytest.raises(ValueOutOfRange):
        cluster.histogram(frame, column="real", epsilon=1, labels=3)
    with pytest.raises(ValueOutOfRange):
        cluster.integer_sum(frame, column="real", epsilon=1, largest=3)


def test_a_ledger_is_charged_once_and_only_for_what_is_released(frame: Any, tmp_path: Path) -> None:
    ledger = shuffledp.Ledger.create(tmp_path / "budget.json", 1)
    with pytest.raises(ValueOutOfRange):
        cluster.count(frame, column="number", epsilon=1, ledger=ledger.path)
    assert ledger.spent() == 0
    cluster.count(frame, column="yes", epsilon=1, ledger=ledger.path)
    assert ledger.spent() == 1
    with pytest.raises(BudgetExceeded):
        cluster.count(frame, column="yes", epsilon=1, ledger=ledger.path)


def test_seeds_are_marked_and_repeat(frame: Any, tmp_path: Path) -> None:
    one, two = (
        cluster.count(frame, column="yes", epsilon=1, entropy=SeededEntropy(5)) for _ in range(2)
    )
    assert one.seeded and two.seeded and one.value == two.value


def test_fewer_users_may_be_counted_on(frame: Any) -> None:
    found = cluster.count(frame, column="yes", epsilon=1, users=1000)
    assert found.users == ROWS
    assert found.certificate is not None
    assert found.certificate["protocol"]["cell"]["users"] == 1000


def test_the_secret_is_not_in_the_plan_and_prints_nothing(spark: Any, capsys: Any) -> None:
    plan, secret = shuffledp.plan_count(100, 1), JobSecret()
    values = spark.range(100).selectExpr("id % 2 as value")
    work = part_work(plan.protocol, secret)
    in_arrow(values, work, "cell long").explain(True)
    shown = capsys.readouterr().out + repr(secret)
    raw = secret._secret
    assert raw.hex() not in shown and repr(raw) not in shown and "MapInArrow" in shown


def test_keystreams_of_parts() -> None:
    secret = JobSecret()
    assert secret.part(1).bits(256) == secret.part(1).bits(256)
    assert secret.part(1).bits(256) != secret.part(2).bits(256)
    assert secret.part(1).bits(256) != JobSecret().part(1).bits(256)
    assert not secret.part(0).seeded and not SYSTEM.seeded


def test_a_part_belongs_to_one_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor

    part = JobSecret().part(0)
    part.bits(8)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ParameterError, match="only in the thread"):
        pool.submit(part.bits, 8).result()


def test_a_whole_that_comes_in_two_parts_is_refused(spark: Any) -> None:
    """Each part would plan for its own users only, and bring noise for them alone."""
    tally = spark.range(0, 2, 1, 2).selectExpr("id as value", "100 as count")
    work = WholeWork(make_plan=COUNT.plan, prepare=COUNT.prepare, secret=JobSecret())
    with pytest.raises(ClusterError, match="nothing was released"):
        planned_and_drawn(tally, work)
    protocol, report = planned_and_drawn(tally.coalesce(1), work)
    assert protocol.users == report.users == 200


def test_frequencies_on_a_cluster_count_every_row_once(frame: Any) -> None:
    found = cluster.frequencies(frame, column="label", epsilon=4)
    assert isinstance(found, shuffledp.FrequenciesResult) and found.users == ROWS
    shown = found.showing([f"city {n}" for n in range(100)])
    true = np.array([ROWS / 3] * 3 + [0] * 97)
    assert (np.abs(shown.values - true) < 6 * shown.rmse).all()
    seeded = [cluster.frequencies(frame, column="number", epsilon=4, seed=3) for _ in range(2)]
    tables = [one.table.tokens for one in seeded if isinstance(one, shuffledp.FrequenciesResult)]
    assert (tables[0] == tables[1]).all()  # also the rows are drawn from the job's secret
