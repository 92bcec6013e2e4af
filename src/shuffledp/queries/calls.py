"""One call on a column: plan, randomize, shuffle, analyze.

**Each row is one user.** Be honest about what these calls are for: whoever already holds all raw
values and is trusted with them gets the same answer more cheaply from the central mechanism. Use
them to rehearse a deployment on real data, for rows that other parties will randomize, and for
research.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ShortBatchError, ValueOutOfRange
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.numbers import ExactNumber, exact, positive, whole
from shuffledp.planning import counting, integer_sum
from shuffledp.planning import histogram as histograms
from shuffledp.planning import quantiles as ranges
from shuffledp.planning import real_sum as summation
from shuffledp.planning.checks import checked_bounds
from shuffledp.planning.plan import Plan
from shuffledp.protocols.base import Progress, outermost_floats
from shuffledp.protocols.histogram import Label, checked_labels, encode_labels
from shuffledp.protocols.quantiles_result import QuantilesResult
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Estimate
from shuffledp.queries.columns import Column, column_of
from shuffledp.queries.ledger import Ledger

if TYPE_CHECKING:
    from shuffledp.rivals.run import RivalResult

Values = NDArray[Any]

# typed: True must not find the plan that was made for 1
plan_count = lru_cache(maxsize=64, typed=True)(counting.plan_count)
plan_integer_sum = lru_cache(maxsize=64, typed=True)(integer_sum.plan_integer_sum)
plan_real_sum = lru_cache(maxsize=64, typed=True)(summation.plan_real_sum)


@dataclass(frozen=True)
class Options:
    """How to run a query, whatever it asks."""

    column: str | None = None
    """Which column of a frame or file."""
    users: int | None = None
    """How many rows the guarantee may count on; all of them unless fewer are said."""
    confidence: float = 0.95
    ledger: str | Path | None = None
    """A budget to draw on; refuses before anything is released."""
    per_user: bool = False
    """Randomize row by row, as devices would, instead of in one draw of the same law."""
    entropy: Entropy = SYSTEM
    progress: Progress | None = None
    protocol: str | None = None
    """A rival's name (see `shuffledp compare`), for another trust model or an (ε, δ) budget."""
    delta: ExactNumber | None = None
    """δ of a rival that is only approximately private."""


AIMS = ("mse_overhead", "rmse", "relative_error", "max_messages", "expected")


def checked_options(given: dict[str, Any]) -> tuple[Options, dict[str, Any]]:
    """(how to run, what to aim for) from a call's keyword arguments, all of them checked."""
    names = Options.__dataclass_fields__
    unknown = [name for name in given if name not in names and name not in AIMS]
    if unknown:
        allowed = ", ".join([*names, *AIMS])
        raise ParameterError(f"There is no option {unknown[0]!r}; there are {allowed}.")
    how = Options(**{name: value for name, value in given.items() if name in names})
    confidence = float(exact(how.confidence, "confidence"))
    if not 0 < confidence < 1:
        raise ParameterError("confidence must lie strictly between 0 and 1, for example 0.95.")
    users = None if how.users is None else whole(how.users, "users")
    aim = {name: exact(given[name], name) for name in AIMS if given.get(name) is not None}
    return replace(how, confidence=confidence, users=users), aim


def run(
    data: Any,
    how: Options,
    make_plan: Callable[[int], Plan],
    prepare: Callable[[Values], Values],
    what: str,
) -> Any:
    """A query on a column: all data is looked at before a ledger is charged or anything is
    released."""
    column = column_of(data, how.column)
    if how.users is not None and how.users > column.rows:
        raise ShortBatchError(column.rows, how.users)
    plan = make_plan(column.rows if how.users is None else how.users)
    batch = _batch(plan, column, how, prepare)
    if how.ledger is not None:
        Ledger(how.ledger).spend(plan.epsilon, what, seeded=how.entropy.seeded)
    return plan.analyze(plan.release(batch), how.confidence)


def run_rival(
    query: str,
    data: Any,
    epsilon: ExactNumber,
    how: Options,
    prepare: Callable[[Values], Values],
    **shape: Any,
) -> RivalResult:
    """A query answered by another protocol; its result says what kind of privacy it has."""
    from shuffledp import rivals  # here: fifteen protocols that most calls never need

    if how.ledger is not None:
        raise ParameterError(
            "A ledger adds up pure epsilons of certified releases; leave it out with protocol=."
        )
    column = column_of(data, how.column)
    values = np.concatenate([prepare(batch) for batch in column.batches()])
    name = str(how.protocol)
    return rivals.run(
        query,
        name,
        values,
        epsilon,
        how.delta,
        users=how.users,
        entropy=how.entropy,
        confidence=how.confidence,
        **shape,
    )


def _batch(plan: Plan, column: Column, how: Options, prepare: Callable[[Values], Values]) -> Report:
    """Everybody's reports, added up batch by batch; only tallies or sums are kept."""
    tell = how.progress or (lambda _: None)
    if how.per_user:
        reports = (
            plan.randomize_all(prepare(values), how.entropy, how.progress)
            for values in column.batches()
        )
        first = next(reports)
        return sum(reports, start=first)
    tally: NDArray[np.int64] | None = None
    for values in column.batches():
        part = plan.protocol.tally(plan.protocol.encode(prepare(values), how.entropy))
        tally = part if tally is None else tally + part
        tell(len(values))
    assert tally is not None
    report: Report = plan.protocol.aggregate_tally(tally, how.entropy)
    return report


def count(data: Any, epsilon: ExactNumber, *, equals: Any = None, **options: Any) -> Any:
    """How many rows are true (or 1), or equal to `equals`: an `Estimate`.

    Options: column, users, confidence, ledger, per_user, entropy, progress; and a target:
    mse_overhead (½ unless said), rmse, relative_error, max_messages, expected. With protocol= (and
    delta=) a rival answers instead, and the result is a `RivalResult`.
    """
    how, aim = checked_options(options)
    prepare = lambda values: truth(values, equals)  # noqa: E731
    if how.protocol is not None:
        return run_rival("count", data, epsilon, how, prepare)
    epsilon = positive(epsilon, "epsilon")
    return run(data, how, lambda users: plan_count(users, epsilon, **aim), prepare, "count")


def truth(values: Values, equals: Any) -> Values:
    """0 or 1 per row."""
    if equals is not None:
        return np.asarray(values == _comparable(values, equals)).astype(np.int64)
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind == "f" and np.isin(values, (0.0, 1.0)).all():
        return values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values
    raise ValueOutOfRange(
        "A count needs a column of true/false or 0/1; say which value to count with equals= "
        "(--equals)."
    )


def _comparable(values: Values, equals: Any) -> Any:
    """The value to count as the column's own type; refuses one that no row could hold."""
    kind, refusal = (
        values.dtype.kind,
        ParameterError(
            f"The column holds {values.dtype} values, among which the value to count cannot be; "
            "give one of the same type."
        ),
    )
    if kind == "b":
        known = {"true": True, "1": True, "false": False, "0": False}
        if str(equals).lower() not in known:
            raise refusal
        return known[str(equals).lower()]
    if kind in "iuf":
        number = exact(equals, "the value to count")
        if kind == "f":
            return float(number)
        if number.denominator != 1:
            raise refusal
        return int(number)
    if kind == "M":
        try:
            return np.datetime64(str(equals))
        except ValueError:
            raise refusal from None
    if not isinstance(equals, str):
        raise refusal
    return equals


def histogram(
    data: Any,
    epsilon: ExactNumber,
    buckets: int | Sequence[Label],
    *,
    other: Label | None = None,
    **options: Any,
) -> Any:
    """How many rows hold each label: a `HistogramResult`. Labels must be known beforehand:
    reading them off the data would tell who is there. Unknown ones go to the bucket `other`, or
    are refused. With protocol= a rival answers."""
    how, aim = checked_options(options)
    if how.protocol is not None:
        names = checked_labels(buckets)
        names = names if other is None or other in names else (*names, other)
        prepare = lambda values: encode_labels(values, names, other)  # noqa: E731
        return run_rival("histogram", data, epsilon, how, prepare, buckets=len(names))
    return run(
        data,
        how,
        lambda users: histograms.plan_histogram(users, epsilon, buckets, other=other, **aim),
        lambda values: values,
        "histogram",
    )


def total(
    data: Any,
    epsilon: ExactNumber,
    *,
    bounds: tuple[ExactNumber, ExactNumber] | None = None,
    largest: int | None = None,
    clamp: bool = False,
    **options: Any,
) -> Any:
    """The sum of a column, an `Estimate`: of real values within `bounds`, or of whole numbers
    0..`largest`. A value outside is refused, or with clamp=True moved to the nearer bound. With
    protocol= a rival answers."""
    how, aim = checked_options(options)
    epsilon = positive(epsilon, "epsilon")
    if (bounds is None) == (largest is None):
        raise ParameterError(
            "A sum needs either bounds=(low, high) for real values or largest=D for 0..D."
        )
    if bounds is None:
        largest = whole(largest, "the largest value")
        low, high = Fraction(0), Fraction(largest)
        make = lambda users: plan_integer_sum(users, epsilon, largest, **aim)  # noqa: E731
    else:
        low, high = checked_bounds(bounds)
        make = lambda users: plan_real_sum(users, epsilon, bounds=(low, high), **aim)  # noqa: E731
    prepare = partial(clamped, low, high, bounds is None) if clamp else lambda values: values
    if how.protocol is not None:
        return run_rival("sum", data, epsilon, how, prepare, bounds=(low, high))
    return run(data, how, make, prepare, "sum")


def clamped(low: Fraction, high: Fraction, whole_numbers: bool, values: Values) -> Values:
    """Values moved into the bounds; what is no number is left for the protocol to refuse."""
    if values.dtype.kind not in "biuf":
        return values
    if values.dtype.kind == "f" and np.isnan(values).any():
        return values
    if whole_numbers and values.dtype.kind in "biu":
        return np.clip(values.astype(np.int64), int(low), int(high))
    return np.clip(values.astype(np.float64), *outermost_floats(low, high))


def mean(
    data: Any, epsilon: ExactNumber, bounds: tuple[ExactNumber, ExactNumber], **options: Any
) -> Estimate:
    """The mean of a column of real values within `bounds`: the sum over the public number of
    rows."""
    if options.get("protocol") is not None:
        raise ParameterError("Rivals give sums; ask for total() and divide by the public n.")
    return mean_of(total(data, epsilon, bounds=bounds, **options))


def mean_of(found: Estimate) -> Estimate:
    """The mean behind a sum."""
    n, law = found.users, found.errors
    return replace(
        found,
        query="mean",
        value=found.value / n,
        low=found.low / n,
        high=found.high / n,
        rmse=found.rmse / n,
        errors=None if law is None else lambda: (law()[0] / n, law()[1]),
    )


def checked_quantiles(probabilities: Any) -> tuple[float, ...]:
    """Which quantiles: one number or several, each strictly between 0 and 1."""
    several = isinstance(probabilities, Sequence) and not isinstance(probabilities, str)
    wanted = [exact(p, "a quantile") for p in (probabilities if several else [probabilities])]
    if not wanted or not all(0 < p < 1 for p in wanted):
        raise ParameterError("A quantile must lie strictly between 0 and 1, for example 0.5.")
    return tuple(float(p) for p in wanted)


def quantiles(
    data: Any,
    epsilon: ExactNumber,
    bounds: tuple[ExactNumber, ExactNumber],
    probabilities: Sequence[float] = (0.25, 0.5, 0.75),
    *,
    bins: int = 64,
    clamp: bool = False,
    **options: Any,
) -> QuantilesResult:
    """Quantiles and range counts of a column, from one histogram over `bins` equal parts of
    `bounds` (on several levels where that errs less)."""
    how, aim = checked_options(options)
    if how.protocol is not None:
        raise ParameterError("No rival gives quantiles; ask for a histogram.")
    wanted = checked_quantiles(probabilities)
    low, high = checked_bounds(bounds)
    result: QuantilesResult = run(
        data,
        how,
        lambda users: ranges.plan_quantiles(users, epsilon, (low, high), bins=bins, **aim),
        partial(clamped, low, high, False) if clamp else lambda values: values,
        "quantiles",
    )
    return replace(result, probabilities=wanted)
