"""The executor on this machine: reads a column in batches, randomizes it and publishes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import InputError, ShortBatchError
from shuffledp.planning.plan import Plan
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.columns import Column, FileFormat, column_of
from shuffledp.queries.options import TARGETS, Options
from shuffledp.queries.publish import publish
from shuffledp.queries.query import Query, Values
from shuffledp.queries.values import compared

R = TypeVar("R", bound=Result)


def run(query: Query[R], data: object, options: Options) -> R:
    """The answer to a query. All data is looked at before a ledger is charged or anything is
    released."""
    options.refuse(("delta",), "δ belongs to another protocol; name one with protocol=.")
    column = _column(query, data, options)
    if options.users is not None and options.users > column.rows:
        raise ShortBatchError(column.rows, options.users)
    plan = query.plan(column.rows if options.users is None else options.users)
    return publish(
        plan.protocol,
        _batch(plan, query, column, options),
        confidence=options.confidence,
        ledger=options.ledger,
        what=query.name,
        note=options.note,
        certificate=plan.certificate.to_dict(),
        finish=query.finish,
    )


def run_rival(query: Query[R], data: object, options: Options) -> R:
    """The answer that another protocol gives; it carries that protocol's privacy claim."""
    from shuffledp import rivals  # here: fifteen protocols that most calls never need

    asked = query.for_rival()
    options.refuse(
        ("ledger",), "a ledger adds up pure epsilons of certified releases; leave protocol out."
    )
    options.refuse(
        ("per_user", "progress", "note", *TARGETS),
        "it belongs to our own protocol; leave protocol out.",
    )
    column = _column(query, data, options)
    values = np.concatenate(list(prepared(query, column, asked.prepare)))
    result = rivals.run(
        asked.query,
        str(options.protocol),
        values,
        query.epsilon,
        options.delta,
        users=options.users,
        buckets=asked.buckets,
        bounds=asked.bounds,
        entropy=options.entropy,
        confidence=options.confidence,
    )
    return query.finish(cast("R", result))  # a rival's result is of the query's own kind


def _column(query: Query[R], data: object, options: Options) -> Column:
    """The column that is asked about; refuses one that the query has no answer for."""
    file_format = FileFormat(
        encoding=options.encoding, delimiter=options.delimiter, as_text=query.reads_texts
    )
    column = column_of(data, options.column, file_format)
    try:
        query.check_column(column.holds)
    except InputError:
        column.refuse_missing()  # what the rows hold may look otherwise only because some are empty
        raise
    return column


def prepared(
    query: Query[R], column: Column, prepare: Callable[[Values], Values]
) -> Iterator[Values]:
    """The column's values batch by batch, compared where the query does so, and prepared."""
    wanted = query.compared_with
    for values in column.batches():
        yield prepare(values if wanted is None else compared(values, wanted, column.holds))


def _batch(plan: Plan[R], query: Query[R], column: Column, options: Options) -> Report:
    """Everybody's reports, added up batch by batch; only tallies or sums are kept."""
    batches = prepared(query, column, query.prepare)
    entropy, progress = options.entropy, options.progress
    if options.per_user:
        reports = (plan.randomize_all(values, entropy, progress) for values in batches)
        first = next(reports)
        return sum(reports, start=first)
    tally: NDArray[np.int64] | None = None
    for values in batches:
        part = plan.protocol.tally(plan.protocol.encode(values, entropy))
        tally = part if tally is None else tally + part
        if progress is not None:
            progress(len(values))
    assert tally is not None
    return plan.protocol.aggregate_tally(tally, entropy)
