"""Answers for public groups, each a separate release; private groups are one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shuffledp.data.columns import Column, in_steps
from shuffledp.engines import local
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import LARGEST_CONFIDENCE, checked_confidence
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import Groups, labels_of, public_labels
from shuffledp.queries.by_group.query import GroupableQuery, check_public
from shuffledp.queries.by_group.result import MEAN, PUBLIC_GROUPS, GroupsResult
from shuffledp.queries.histogram.protocol import Label
from shuffledp.release.publish import Drawn, publish_in_parallel


def answer(query: GroupableQuery, data: object, groups: Groups) -> GroupsResult:
    """The answer to a query for each public group."""
    check_public(query)
    column = local.read_column(query, data)
    where = query.where_text
    if where:
        column, query = filtered_for_groups(query, data, column)
    labels = labels_of(groups, data, query, column.rows)
    with local.missing_first(column):
        values = column.values()
    names = public_labels([_plain(label) for label in np.unique(labels)], groups)
    columns = (in_steps(values[labels == label], column.holds) for label in names)
    drawn = [local.drawn(query, one, one.rows) for one in columns]
    return publish_groups(query, drawn, names, groups, where)


def filtered_for_groups(
    query: GroupableQuery, data: object, column: Column
) -> tuple[Column, GroupableQuery]:
    """The column with 0 in rows that `where` excludes, and the query for it."""
    check_no_mean(query)
    found, asked = local.filtered(query, data, column)
    assert isinstance(asked, GroupableQuery)
    return found, asked


def check_no_mean(query: GroupableQuery) -> None:
    """Refuses the mean of some rows of a public group, which would be a ratio of two private
    numbers."""
    if query.name == MEAN:
        raise ParameterError(
            "A mean by public groups uses all rows of a group; leave where out, or declare the "
            "groups with groups= as private ones."
        )


def _plain(label: Any) -> Label:
    found: Label = label.item() if isinstance(label, np.generic) else label
    return found


def publish_groups(
    query: Query[Estimate],
    drawn: Sequence[Drawn[Estimate]],
    labels: tuple[Label, ...],
    groups: Groups,
    where: str,
) -> GroupsResult:
    """The result of public groups, each drawn separately; the ledger is charged once, and keeps the
    result as it is returned."""
    confidence = checked_confidence(query.confidence)
    joint = min(confidence ** (1 / len(labels)), LARGEST_CONFIDENCE)
    certificates = [
        {"label": label, "certificate": one.certificate}
        for label, one in zip(labels, drawn, strict=True)
    ]

    def finish(found: list[tuple[Estimate, ...]]) -> GroupsResult:
        together = _together(query, found, labels, groups)
        shown = {"composition": "parallel", "groups": certificates}
        return replace(together, certificate=shown, where=where)

    return publish_in_parallel(
        drawn,
        confidences=(confidence, joint),
        ledger=query.open_ledger,
        what=f"{query.name} by public groups",
        note=query.note,
        finish=finish,
    )


def _together(
    query: Query[Estimate],
    found: list[tuple[Estimate, ...]],
    labels: tuple[Label, ...],
    groups: Groups,
) -> GroupsResult:
    """The groups' results combined into one, each at both confidence levels."""
    each = [tuple(query.finish(result) for result in results) for results in found]
    alone, joint = zip(*each, strict=True)
    first = alone[0]
    return GroupsResult(
        answer=query.name,
        by=groups.name,
        labels=labels,
        values=np.array([one.value for one in alone]),
        low=np.array([one.low for one in alone], np.float64),
        high=np.array([one.high for one in alone], np.float64),
        joint_low=np.array([one.low for one in joint], np.float64),
        joint_high=np.array([one.high for one in joint], np.float64),
        sizes=np.array([one.users for one in alone], np.float64),
        possible=(
            np.array([one.possible[0] for one in alone]),
            np.array([one.possible[1] for one in alone]),
        ),
        public=True,
        epsilon=first.epsilon,
        users=sum(one.users for one in alone),
        messages_per_user=max(one.messages_per_user for one in alone),
        confidence=first.confidence,
        rmse=max(one.rmse for one in alone),
        seeded=first.seeded,
        clamped=first.clamped,
        neighbours=PUBLIC_GROUPS,
    )
