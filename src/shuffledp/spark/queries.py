"""One call on a column of a Spark frame: the plan, certificate, estimate and result object are
those of `shuffledp.count` and its siblings on one machine.

**Each row is one user.** All data is looked at before a ledger is charged or anything is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.exact.numbers import ExactNumber, whole
from shuffledp.planning import histogram as histograms
from shuffledp.planning import quantiles as ranges
from shuffledp.planning.checks import checked_bounds
from shuffledp.planning.plan import Plan
from shuffledp.privacy.certificate import certify
from shuffledp.protocols.histogram import Label, checked_labels
from shuffledp.protocols.quantiles_result import QuantilesResult
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Estimate, HistogramResult
from shuffledp.queries import calls as frontdoor
from shuffledp.queries.calls import Options
from shuffledp.queries.ledger import Ledger
from shuffledp.spark.columns import equal_to, is_whole, kind_of, values_of, within
from shuffledp.spark.errors import spark_failures
from shuffledp.spark.keyed import JobSecret
from shuffledp.spark.reports import (
    PARTS,
    PartWork,
    WholeWork,
    added_up,
    checked_users,
    planned_and_drawn,
)

Values = NDArray[Any]
Bounds = tuple[ExactNumber, ExactNumber]


@lru_cache(maxsize=64, typed=True)
def plan_histogram(users: int, epsilon: ExactNumber, labels: Any, **aim: Any) -> Plan:
    """`planning.histogram.plan_histogram`, remembered where it was called: a worker's Python lives
    on from query to query."""
    return histograms.plan_histogram(users, epsilon, labels, **aim)


@dataclass(frozen=True)
class Question:
    """What is asked of a column, before its number of rows is known."""

    what: str
    make_plan: Callable[[int], Plan]
    prepare: Callable[[Values], Values]
    group: str | None = None
    """SQL over `value`: rows with the same are counted in the JVM before they are encoded. None
    where there are too many values, or the encoder draws for each."""
    parts: int = 1
    """How many parts draw noise for a grouped column: one, if it is sure to have few values."""


def count(
    frame: Any,
    column: str | None = None,
    *,
    epsilon: ExactNumber,
    equals: Any = None,
    **options: Any,
) -> Estimate:
    """How many rows are true (or 1), or equal to `equals`.

    Options: users, confidence, ledger, per_user, entropy; and a target: mse_overhead (½ unless
    said), rmse, relative_error, max_messages, expected.
    """
    how, aim = frontdoor.checked_options(options)
    values = values_of(frame, column)
    if equals is not None:
        values = equal_to(values, equals)
    kind = kind_of(values, "value")
    if kind == "string":
        frontdoor.truth(np.zeros(0, object), None)  # refuses
    group = within(1) if is_whole(values) else "value"
    if kind == "double":
        group = "case when value in (0, 1) then value when value is not null then 2D end"
    ask = Question(
        "count",
        lambda users: frontdoor.plan_count(users, epsilon, **aim),
        partial(frontdoor.truth, equals=None),
        group,
    )
    result: Estimate = _run(values, how, ask)
    return result


def histogram(
    frame: Any,
    column: str | None = None,
    *,
    epsilon: ExactNumber,
    buckets: int | Sequence[Label],
    other: Label | None = None,
    **options: Any,
) -> HistogramResult:
    """How many rows hold each label. Labels must be known beforehand; unknown ones go to the
    bucket `other`, or are refused."""
    how, aim = frontdoor.checked_options(options)
    values = values_of(frame, column)
    if kind_of(values, "value") != "string" and not is_whole(values):
        raise ValueOutOfRange("Labels must be texts or whole numbers; the column holds neither.")
    labels = checked_labels(buckets)
    plain = isinstance(buckets, int) and is_whole(values)
    ask = Question(
        "histogram",
        lambda users: plan_histogram(users, epsilon, labels, other=other, **aim),
        _as_it_is,
        within(len(labels) - 1) if plain else "value",
        parts=1 if plain else PARTS,
    )
    result: HistogramResult = _run(values, how, ask)
    return result


def total(
    frame: Any,
    column: str | None = None,
    *,
    epsilon: ExactNumber,
    bounds: Bounds | None = None,
    largest: int | None = None,
    clamp: bool = False,
    **options: Any,
) -> Estimate:
    """The sum of a column: of real values within `bounds`, or of whole numbers 0..`largest`.

    A value outside is refused, or with clamp=True moved to the nearer bound.
    """
    how, aim = frontdoor.checked_options(options)
    if (bounds is None) == (largest is None):
        raise ParameterError(
            "A sum needs either bounds=(low, high) for real values or largest=D for 0..D."
        )
    values = values_of(frame, column)
    if bounds is None:
        ask = _integers(values, epsilon, whole(largest, "the largest value"), clamp, aim)
    else:
        low, high = checked_bounds(bounds)
        ask = Question(
            "sum",
            lambda users: frontdoor.plan_real_sum(users, epsilon, bounds=(low, high), **aim),
            partial(frontdoor.clamped, low, high, False) if clamp else _as_it_is,
        )
    result: Estimate = _run(values, how, ask)
    return result


def _integers(
    values: Any, epsilon: ExactNumber, most: int, clamp: bool, aim: dict[str, Any]
) -> Question:
    if not is_whole(values):
        raise ValueOutOfRange(f"Values must be whole numbers in 0..{most}; the column has others.")
    return Question(
        "sum",
        lambda users: frontdoor.plan_integer_sum(users, epsilon, most, **aim),
        _as_it_is,
        within(most, clamp),
    )


def mean(
    frame: Any, column: str | None = None, *, epsilon: ExactNumber, bounds: Bounds, **options: Any
) -> Estimate:
    """The mean of a column of real values within `bounds`: the sum over the public number of
    rows."""
    return frontdoor.mean_of(total(frame, column, epsilon=epsilon, bounds=bounds, **options))


def quantiles(
    frame: Any,
    column: str | None = None,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    probabilities: Sequence[float] = (0.25, 0.5, 0.75),
    bins: int = 64,
    clamp: bool = False,
    **options: Any,
) -> QuantilesResult:
    """Quantiles and range counts of a column, from one histogram over `bins` equal parts of
    `bounds` (on several levels where that errs less)."""
    how, aim = frontdoor.checked_options(options)
    wanted = frontdoor.checked_quantiles(probabilities)
    low, high = checked_bounds(bounds)
    ask = Question(
        "quantiles",
        lambda users: ranges.plan_quantiles(users, epsilon, (low, high), bins=bins, **aim),
        partial(frontdoor.clamped, low, high, False) if clamp else _as_it_is,
    )
    found: QuantilesResult = _run(values_of(frame, column), how, ask)
    return replace(found, probabilities=wanted)


def _run(values: Any, how: Options, ask: Question) -> Any:
    """The query: count the rows, plan, draw where the data is, and only then charge and release."""
    ask = replace(ask, group=None) if how.per_user else ask
    secret = JobSecret(how.entropy)
    if ask.group is not None and ask.parts == 1:
        work = WholeWork(ask.make_plan, how.users, ask.prepare, secret)
        protocol, report = planned_and_drawn(_grouped(values, ask), work)
    else:
        protocol, report = _in_two_jobs(values, how, ask, secret)
    proof = certify(protocol)
    if how.ledger is not None:
        Ledger(how.ledger).spend(proof.epsilon, ask.what, seeded=how.entropy.seeded)
    found = protocol.analyze(protocol.release(report), how.confidence)
    return replace(found, certificate=proof.to_dict())


def _in_two_jobs(values: Any, how: Options, ask: Question, secret: JobSecret) -> tuple[Any, Report]:
    """(protocol, report): the first job counts, and the second draws."""
    with _counted(values, ask) as (counted, rows, missing):
        protocol = ask.make_plan(checked_users(rows, missing, how.users)).protocol
        work = PartWork(protocol.to_dict(), ask.prepare, secret, how.per_user)
        return protocol, added_up(counted, work)


def _grouped(values: Any, ask: Question) -> Any:
    if ask.group != "value":
        values = values.selectExpr(f"{ask.group} as value")
    return values.groupBy("value").count().coalesce(ask.parts)


@contextmanager
def _counted(values: Any, ask: Question) -> Iterator[tuple[Any, int, int]]:
    """(values, or values and how many hold each; rows; rows without a value)."""
    if ask.group is None:
        with spark_failures():
            rows, missing = values.selectExpr("count(*)", "count_if(value is null)").collect()[0]
        yield values, rows, missing
        return
    with spark_failures():
        tally = _kept(_grouped(values, ask))
        found = tally.selectExpr("sum(count)", "sum(if(value is null, count, 0))").collect()[0]
    try:
        yield tally, found[0] or 0, found[1] or 0
    finally:
        with spark_failures():
            tally.unpersist()


def _kept(tally: Any) -> Any:
    """The tally, to be computed once; where a service keeps nothing, it is computed twice."""
    from pyspark.errors import PySparkException

    try:
        return tally.persist()
    except PySparkException:
        return tally


def _as_it_is(values: Values) -> Values:
    return values


def query(name: str, source: str, column: str | None, master: str | None, **asked: Any) -> Any:
    """A query of the command line on Parquet, CSV or a table: starts a session and ends it.

    `name` is count, integers, histogram, sum, mean or quantiles; `asked` its keyword arguments.
    """
    from shuffledp.spark.columns import read
    from shuffledp.spark.sessions import session

    asks: dict[str, Callable[..., Any]] = {
        "count": count,
        "integers": total,
        "histogram": histogram,
        "sum": total,
        "mean": mean,
        "quantiles": quantiles,
    }
    if name not in asks:
        raise ParameterError(f"There is no query {name!r}; there are {', '.join(asks)}.")
    cluster = session(master)
    try:
        return asks[name](read(cluster, source), column, **asked)
    finally:
        cluster.stop()
