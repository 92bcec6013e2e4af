"""How users are grouped: the column of groups, its labels, and whether groups are public."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.data.arrays import BLOCK, MISSING, Coded, ColumnType, Values
from shuffledp.data.columns import Column, FileFormat, check_index, column_of
from shuffledp.data.values import WORDS
from shuffledp.errors import DataError, ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import truth
from shuffledp.queries.by_group.protocol import (
    MOST_COUNTED_GROUPS,
    MOST_GROUPS,
    UNKNOWN_GROUP,
    checked_groups,
)
from shuffledp.queries.checks import label_list, looks_typed
from shuffledp.queries.histogram.protocol import Label, encode_labels
from shuffledp.queries.options import QueryOptions

GroupsBy = str | Sequence[Label]
"""The name of the column of groups, or the groups' labels themselves, one for each row."""
LABEL_TYPES: dict[type, ColumnType] = {str: "text", int: "whole"}
MISSING_GROUPS = "The column of groups has missing values; every row needs a group."


@dataclass(frozen=True, kw_only=True)
class Groups:
    """How users are grouped, from a call's arguments."""

    by: Any
    """A column's name, or a list of labels."""
    labels: tuple[Label, ...] | None
    """The declared groups; None means those in the data, which are then public."""
    public: bool

    @property
    def name(self) -> str:
        """The column's name, for results."""
        return self.by if isinstance(self.by, str) else "group"

    @property
    def all_in_one(self) -> bool:
        """Whether there is no column of groups, so that all rows are in the one declared group."""
        return self.by is None

    @property
    def reads_texts(self) -> bool:
        """Whether values of a file are texts even if they look like numbers."""
        return any(isinstance(one, str) and looks_typed(one) for one in self.labels or ())

    def check(self, holds: ColumnType) -> None:
        """Refuses a column without labels, or without labels of the declared type."""
        wanted = None if self.labels is None else LABEL_TYPES[type(self.labels[0])]
        if holds not in LABEL_TYPES.values():
            raise ValueOutOfRange(
                f"Groups must be texts or whole numbers; the column of groups has {WORDS[holds]}:"
                " convert them first."
            )
        if wanted not in (None, holds):
            raise ValueOutOfRange(
                f"The declared groups are {WORDS[wanted]}, but the column of groups has "
                f"{WORDS[holds]}; declare groups of the column's type."
            )


def groups_of(by: object, groups: object, groups_public: object) -> Groups | None:
    """The groups from a call's arguments; None for all users together."""
    public = truth(groups_public, "groups_public")
    if by is None:
        if groups is not None or public:
            raise ParameterError(
                "groups and groups_public need by, the column that says which group a user is in; "
                "pass by, too."
            )
        return None
    if groups is None and not public:
        raise ParameterError(
            "Which groups there are must be known without the data: declare them with groups=[…] "
            "(--groups), or set groups_public=True (--groups-public) if anyone may know who is "
            "in which group."
        )
    most = MOST_GROUPS if public else MOST_COUNTED_GROUPS
    labels = None if groups is None else checked_groups(label_list(groups), most)
    return Groups(by=by, labels=labels, public=public)


def labels_of(groups: Groups, data: object, options: QueryOptions, rows: int) -> Values:
    """The label of every row's group."""
    column = _column_of_groups(groups, data, options, rows)
    with _missing_groups():
        return np.concatenate(list(column.batches()))


def group_column(
    groups: Groups, data: object, options: QueryOptions, rows: int
) -> Callable[[], Iterator[Values]]:
    """The number of every row's group among the declared ones, batch by batch."""
    column = _column_of_groups(groups, data, options, rows)
    assert groups.labels is not None
    declared = groups.labels

    def batches() -> Iterator[Values]:
        with _missing_groups():
            if column.coded is None:
                yield from (group_numbers(labels, declared) for labels in column.batches())
            else:
                yield from _numbers_of(column.coded(), declared)

    return batches


def _column_of_groups(groups: Groups, data: object, options: QueryOptions, rows: int) -> Column:
    """The column that says which group each row is in."""
    file_format = FileFormat(
        encoding=options.encoding,
        delimiter=options.delimiter,
        as_text=groups.reads_texts,
        known=groups.labels or (),
    )
    with _missing_groups():
        if isinstance(groups.by, str):
            column = column_of(data, groups.by, file_format)
        elif isinstance(groups.by, Iterable):
            check_index(data, groups.by, "by")
            column = column_of(groups.by)
        else:
            raise ParameterError("by must be the name of a column, or a list of labels.")
    groups.check(column.holds)
    if column.rows != rows:
        raise DataError("There must be exactly one group for every row.")
    return column


@contextmanager
def _missing_groups() -> Iterator[None]:
    """Turns an error about missing values into one about missing groups."""
    try:
        yield
    except DataError as error:
        raise DataError(MISSING_GROUPS) if str(error) == MISSING else error from None


def _numbers_of(parts: Iterable[Coded], declared: tuple[Label, ...]) -> Iterator[Values]:
    """The number of every row's group; each different text is looked up once."""
    for coded in parts:
        numbers = np.zeros(len(coded.names), np.int64)
        for at in range(0, len(coded.codes), BLOCK):
            codes = coded.codes[at : at + BLOCK]
            there = np.flatnonzero(np.bincount(codes, minlength=len(numbers)))
            numbers[there] = group_numbers(coded.names[there], declared)
            yield numbers[codes]


def group_numbers(labels: Values, declared: tuple[Label, ...]) -> Values:
    """The number of each label among the declared groups; refuses others."""
    try:
        return encode_labels(labels, declared, None)
    except ValueOutOfRange:
        raise ValueOutOfRange(UNKNOWN_GROUP) from None


def public_labels(found: Sequence[Label], groups: Groups) -> tuple[Label, ...]:
    """The public groups in the order in which they are shown; refuses those that are not declared,
    and declared ones without a user."""
    if groups.labels is None:
        return checked_groups(found)
    if set(found) - set(groups.labels):
        raise ValueOutOfRange(UNKNOWN_GROUP)
    if set(groups.labels) - set(found):
        raise DataError("A declared group has no users; leave it out of groups.")
    return groups.labels
