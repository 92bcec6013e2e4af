"""The executor on this machine: reads a column in batches, randomizes it and publishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import BLOCK, MISSING, ColumnType, Counted, Values, array_type
from shuffledp.data.arrow_conditions import kept_rows
from shuffledp.data.columns import (
    Column,
    FileFormat,
    arrow_column,
    check_index,
    column_of,
    in_steps,
)
from shuffledp.data.conditions import columns_of, parsed
from shuffledp.data.filling import BUCKET
from shuffledp.data.values import compared
from shuffledp.engines.rows_per_user import (
    MISSING_IDS,
    RowsPerUser,
    check_ids,
    kept,
    numbered,
    rows_per_user,
    summed,
)
from shuffledp.errors import DataError, InputError, ParameterError, ShortBatchError
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.memory import check_memory
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import Groups, group_column
from shuffledp.queries.options import TARGETS
from shuffledp.release.publish import LESS, Drawn, publish

R = TypeVar("R", bound=Result)


def answer(query: Query[R], data: object) -> R:
    """The answer to a query, from shuffledp's protocol or from a named baseline."""
    return (run if query.protocol is None else run_baseline)(query, data)


def run(query: Query[R], data: object) -> R:
    """The answer from shuffledp's protocol. All data is checked before a ledger is charged or
    anything is released."""
    query.refuse(("delta",), "delta is only for other protocols; name one with protocol=.")
    several = rows_per_user(query)
    where = query.where_text
    if where and query.grouped is None:
        column, query = kept_column(query, data)
    else:
        column = read_column(query, data)
        query = query.of_column(column.holds)
    if several is not None:
        column, people = rows_of_users(column, _ids(data, query), several, query.entropy)
        several = replace(several, people=people)
        query = several.ask(query)
    if query.users is not None and query.users > column.rows:
        raise ShortBatchError(column.rows, query.users)
    users = column.rows if query.users is None else query.users
    return published(query, drawn(query, column, users), several, where)


def drawn(query: Query[R], column: Column, users: int) -> Drawn[R]:
    """The protocol for this number of users, the reports of all rows, and the certificate."""
    plan = query.plan(users).renewed(query.entropy)
    check_memory(plan.protocol.working_bytes(), LESS)
    return Drawn(plan.protocol, batch_of(plan, query, column), plan.certificate.to_dict())


def published(query: Query[R], drawn: Drawn[R], several: RowsPerUser | None, where: str) -> R:
    """The result of a query, for rows or for users with several rows, charged to its ledger."""

    def finish(result: R) -> R:
        found = replace(query.finish(result), where=where)
        return found if several is None else several.finish(found)

    return publish(
        drawn.protocol,
        drawn.batch,
        confidence=float(query.confidence),
        ledger=query.open_ledger,
        what=query.name,
        note=query.note,
        certificate=drawn.certificate,
        finish=finish,
        times=1 if several is None else several.times,
    )


def kept_column(query: Query[R], data: object) -> tuple[Column, Query[R]]:
    """The column of a query with `where`, and its query; see `filtered`. Values may be missing in
    the rows that are excluded."""
    try:
        column = read_column(query, data)
        query = query.of_column(column.holds)
        return filtered(query, data, column)
    except DataError as error:
        plain = isinstance(data, np.ndarray | list | tuple)
        if str(error) != MISSING or query.columns_together or plain:
            raise
    series = arrow_column(data, query.column, format_of(query, as_text=query.reads_texts))
    kept = kept_of(query, data, len(series))
    some_row = series.drop_null().slice(0, 1)  # if nobody is kept, any value stands for all rows
    if not len(some_row):
        raise DataError(MISSING)
    column = column_of(series.filter(kept) if kept.any() else some_row)
    query.check_column(column.holds)
    query = query.of_column(column.holds)
    some = np.concatenate(list(prepared(query, column)))
    values = some[np.maximum(np.cumsum(kept) - 1, 0)]  # excluded rows: the value of a kept one
    return _of_kept(query, values, kept)


def filtered(query: Query[R], data: object, column: Column) -> tuple[Column, Query[R]]:
    """The column in which rows that `where` excludes do not affect the answer, and its query."""
    with missing_first(column):
        values = np.concatenate(list(prepared(query, column)))
        return _of_kept(query, values, kept_of(query, data, column.rows))


def _of_kept(query: Query[R], values: Values, kept: NDArray[np.bool_]) -> tuple[Column, Query[R]]:
    found = query.filtered(values, kept)
    holds: ColumnType = "other" if found.dtype.kind in "V" else array_type(found)
    return in_steps(found, holds), query.of_filtered()


def kept_of(query: Query[R], data: object, rows: int) -> NDArray[np.bool_]:
    """Which rows `where` keeps."""
    assert query.where is not None
    return kept_rows(query.where, data, rows, format_of(query))


def _ids(data: object, query: Query[R]) -> Column:
    """The column that says which user each row belongs to; ids in a CSV file are texts as they are
    written, because 007 and 7 may be two users."""
    try:
        if isinstance(query.user, str):
            return column_of(data, query.user, format_of(query, as_text=True))
        check_index(data, query.user, "user")
        if query.grouped is not None:
            check_index(query.grouped.by, query.user, "user", "by")
        return column_of(query.user)
    except DataError as error:
        raise DataError(MISSING_IDS) if str(error) == MISSING else error from None


def rows_of_users(
    column: Column, ids: Column, several: RowsPerUser, entropy: Entropy
) -> tuple[Column, int]:
    """(the rows of each user that are kept, or their sums, as a new column; how many users)."""
    check_ids(ids.holds)
    if ids.rows != column.rows:
        raise DataError("There must be exactly one user id for every row.")
    values = column.values()
    try:
        users = numbered(ids)
    except DataError:
        raise DataError(MISSING_IDS) from None
    people = int(users.max()) + 1
    if several.rows is not None:
        return in_steps(kept(users, values, several.rows, entropy), column.holds), people
    sums = summed(users, values)
    return in_steps(sums, "whole" if sums.dtype.kind in "iu" else "real"), people


def run_baseline(query: Query[R], data: object) -> R:
    """The answer from another protocol, with that protocol's privacy claim."""
    from shuffledp import baselines  # imported here: most calls never need these fifteen protocols

    asked = query.for_baseline()
    if query.user is not None or query.rows_per_user is not None:
        raise ParameterError(
            "user and rows_per_user need shuffledp's protocol; leave protocol out, or keep one "
            "row of each user first."
        )
    query.refuse(
        ("ledger",), "a ledger adds up pure epsilons of certified releases; leave protocol out."
    )
    query.refuse(
        ("per_user", "progress", "note", "where", *TARGETS),
        "it works only with shuffledp's protocol; leave protocol out.",
    )
    column = read_column(query, data)
    with missing_first(column):
        batches = (as_compared(query, column, values) for values in column.batches())
        values = np.concatenate([asked.prepare(values) for values in batches])
    result = baselines.run(
        asked.query,
        str(query.protocol),
        values,
        query.epsilon,
        query.delta,
        users=query.users,
        buckets=asked.buckets,
        bounds=asked.bounds,
        entropy=query.entropy,
        confidence=float(query.confidence),
    )
    return query.finish(cast("R", result))  # a baseline's result has the query's result type


def format_of(query: Query[R], **more: Any) -> FileFormat:
    """How to read a text file for a query."""
    return FileFormat(encoding=query.encoding, delimiter=query.delimiter, **more)


def columns_read(query: Query[R], groups: Groups | None) -> list[str | None]:
    """The names of the columns that are read for a query, one for each time that it is read; None
    for the only column of the data."""
    more = [query.user, groups and groups.by]
    more += columns_of(parsed(query.where)) if isinstance(query.where, str) else []
    own = query.columns_together or (query.column,)
    return [*own, *(name for name in more if isinstance(name, str))]


def read_column(query: Query[R], data: object) -> Column:
    """The column of the query; refuses one that the query cannot answer."""
    if query.grouped is not None:
        return _pairs(query, data)
    if query.columns_together:
        return _combinations(query, data)
    file_format = format_of(
        query,
        as_text=query.reads_texts,
        fill=fill_of(query),
        known=(query.compared_with, *(one for labels in query.label_lists for one in labels)),
    )
    column = column_of(data, query.column, file_format)
    with missing_first(column):
        query.check_column(column.holds)
    return column


def _combinations(query: Query[R], data: object) -> Column:
    """The columns of the query combined into one column of whole numbers."""
    columns = []
    for number, name in enumerate(query.columns_together):
        file_format = format_of(
            query,
            as_text=query.reads_text_in(number),
            fill=fill_of(query),
            known=query.label_lists[number],
        )
        columns.append(column_of(data, name, file_format))
    query.check_columns([column.holds for column in columns])
    return in_steps(query.codes([column.values() for column in columns]), "whole")


def _pairs(query: Query[R], data: object) -> Column:
    """The column of the query, with every row's group next to its value."""
    asked, groups = query.of_each_group, query.grouped
    assert groups is not None
    column = read_column(asked, data)
    numbers = None if groups.all_in_one else group_column(groups, data, asked, column.rows)
    kept = None if query.where is None else kept_of(query, data, column.rows)

    def batches() -> Iterator[Values]:
        with missing_first(column):
            values = in_blocks(prepared(asked, column))
            labels = repeat(None) if numbers is None else in_blocks(numbers())
            chosen = repeat(None) if kept is None else in_blocks([kept])
            for of_block, own, held in zip(labels, values, chosen, strict=False):
                yield query.pairs(of_block, own, held)

    return Column(rows=column.rows, holds="other", batches=batches)


def in_blocks(batches: Iterable[Values]) -> Iterator[Values]:
    """The same values in blocks of BLOCK rows, so that several columns can be read in step."""
    left: list[Values] = []
    held = 0
    for batch in batches:
        begin = 0
        while held + len(batch) - begin >= BLOCK:
            end = begin + BLOCK - held
            yield np.concatenate([*left, batch[begin:end]]) if left else batch[begin:end]
            left, held, begin = [], 0, end
        left.append(batch[begin:])
        held += len(batch) - begin
    if held:
        yield np.concatenate(left)


def fill_of(query: Query[R]) -> object:
    """The replacement for missing values; None if they are refused."""
    if query.missing != BUCKET:
        return query.missing
    if query.missing_label is None:
        raise ParameterError(
            f'missing="bucket" is for histograms; for {query.name}, pass the value to use for '
            "every missing one, for example missing=0."
        )
    return query.missing_label


@contextmanager
def missing_first(column: Column) -> Iterator[None]:
    """Reports missing values before any other error of the block. Otherwise the first error, and
    the type of a column with gaps, would depend on the reader."""
    try:
        yield
    except InputError:
        column.refuse_missing()
        raise


def as_compared(query: Query[R], column: Column, values: Values) -> Values:
    """Values of the column, compared with a value if the query does so."""
    wanted = query.compared_with
    return values if wanted is None else compared(values, wanted, column.holds)


def prepared(query: Query[R], column: Column) -> Iterator[Values]:
    """The column's values batch by batch, compared if the query does so, and prepared."""
    return (query.prepare(as_compared(query, column, values)) for values in column.batches())


def batch_of(plan: Plan[R], query: Query[R], column: Column) -> Report:
    """All users' reports, added up batch by batch; only tallies or sums are kept."""
    entropy = query.entropy
    if not query.per_user:
        return plan.protocol.aggregate_tally(tallied(plan.protocol, query, column), entropy)
    with missing_first(column):
        batches = prepared(query, column)
        reports = (plan.randomize_all(values, entropy, query.progress) for values in batches)
        return sum(reports, start=next(reports))


def tallied(protocol: Protocol[R], query: Query[R], column: Column) -> NDArray[np.int64]:
    """How many rows have each code of the protocol. Secret: nothing is randomized yet."""
    if column.counted is not None and protocol.encodes_alike:
        by_value = protocol.tally(np.zeros(0, np.int64))
        with missing_first(column):
            for values, rows in _counted_texts(query, column):
                np.add.at(by_value, protocol.encode(values), rows)
        return by_value
    if protocol.encodes_counted and (column.counted is not None or column.holds == "whole"):
        with missing_first(column):
            counted = (_numbers if column.counted is None else _texts)(query, column)
        return protocol.tally_of_counted(*counted, query.entropy)
    tally: NDArray[np.int64] | None = None
    with missing_first(column):
        for values in prepared(query, column):
            part = protocol.tally_of(values, query.entropy)
            tally = part if tally is None else tally + part
            _advance(query, len(values))
    assert tally is not None
    return tally


def _advance(query: Query[R], rows: int) -> None:
    """Tells the caller that more rows were read."""
    if query.progress is not None:
        query.progress(rows)


def _counted_texts(query: Query[R], column: Column) -> Iterator[Counted]:
    """Different texts, compared if the query does so, and prepared, and how many rows have each; a
    text may occur again in a later part."""
    assert column.counted is not None
    for names, rows in column.counted():
        yield Counted(query.prepare(as_compared(query, column, names)), rows)
        _advance(query, int(rows.sum()))


def _numbers(query: Query[R], column: Column) -> Counted:
    """The different numbers of the column, and how many rows have each."""
    parts = []
    for batch in prepared(query, column):
        parts.append(np.unique(batch, return_counts=True))
        _advance(query, len(batch))
    seen, counts = (np.concatenate(some) for some in zip(*parts, strict=True))
    values, places = np.unique(seen, return_inverse=True)
    return Counted(values, np.bincount(places, counts).astype(np.int64))


def _texts(query: Query[R], column: Column) -> Counted:
    """The different texts of the column, and how many rows have each."""
    parts = list(_counted_texts(query, column))
    if len(parts) == 1:
        return parts[0]
    known: dict[str, int] = {}
    for names, rows in parts:
        for name, count in zip(names.tolist(), rows.tolist(), strict=True):
            known[name] = known.get(name, 0) + count
    return Counted(np.array(list(known), object), np.array(list(known.values()), np.int64))
