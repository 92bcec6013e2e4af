"""A rehearsal runs the same query on the same column many times and compares it with the truth.

It needs all values, and its output is not private: neither the truth nor the measured errors are.
No ledger is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.columns import collected, settled_source
from shuffledp.engines.local import missing_first, prepared, read_column
from shuffledp.errors import ParameterError, ShortBatchError
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.queries.base import Query
from shuffledp.tasks.results import of_reports

R = TypeVar("R", bound=Result)
Floats = NDArray[np.float64]


class Rehearsal(Generic[R]):
    """A query with its plan and all its values; `run` returns the result of one more run.

    `noise_shares` is the number of users whose noise the analyzer adds before it publishes.
    """

    def __init__(
        self,
        query: Query[R],
        data: object,
        *,
        plan: Plan[R] | None = None,
        noise_shares: int = 0,
    ) -> None:
        query = query.as_asked()
        query.refuse(("user", "rows_per_user"), "a rehearsal treats every row as one user.")
        query.refuse(("where",), "a rehearsal always uses all rows.")
        if query.user_groups() is not None:
            raise ParameterError("A rehearsal treats all users together; leave by out.")
        data = collected(settled_source(data), query.columns_together)
        column = read_column(query, data)
        query = self._query = query.of_column(column.holds)
        self.users = column.rows
        self.plan = query.plan(column.rows) if plan is None else plan
        if column.rows < self.plan.users:
            raise ShortBatchError(column.rows, self.plan.users)
        with missing_first(column):
            self._values = np.concatenate(list(prepared(query, column)))
            self.plan.protocol.encode(self._values)  # refuses values that do not fit
        self.noise_shares = noise_shares
        self.truth = np.array(query.truth(self._values))

    def run(self) -> R:
        """The result of one more run with fresh noise."""
        entropy = self._query.entropy
        plan = self.plan.renewed(entropy)
        protocol = plan.protocol
        batch = protocol.aggregate(self._values, entropy)
        if self.noise_shares:
            batch += protocol.top_up(self.noise_shares, entropy)
        result = plan.analyze(protocol.release(batch), float(self._query.confidence))
        shown = self._query.finish(of_reports(protocol, result, self.noise_shares, self.users))
        return self._query.beside_truth(shown, self._values)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of several runs next to the truth: a row for each run, a column for each number
    of the result."""

    names: tuple[str, ...]
    truth: Floats
    estimates: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, results: Sequence[Result], truth: Floats) -> Comparison:
        """The comparison of at least one result of a rehearsal with its truth."""
        rows = [result.rows() for result in results]
        numbers = np.array([[row[1:] for row in one] for one in rows])
        return cls(
            names=tuple(row[0] for row in rows[0]),
            truth=truth,
            estimates=numbers[:, :, 0],
            low=numbers[:, :, 1],
            high=numbers[:, :, 2],
        )

    @property
    def errors(self) -> Floats:
        """Estimate − truth."""
        return self.estimates - self.truth

    @property
    def rmse(self) -> Floats:
        """The root mean squared error of each number over the runs that found it."""
        squares = np.where(self.found, self.errors, 0.0) ** 2
        return np.asarray(np.sqrt(squares.sum(axis=0) / np.maximum(self.found.sum(axis=0), 1)))

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which numbers the results have: all, except words that were not found."""
        return ~np.isnan(self.estimates)

    @property
    def held(self) -> NDArray[np.bool_]:
        """Which intervals contain the truth."""
        return (self.low <= self.truth) & (self.truth <= self.high)

    def within(self, error: float) -> float:
        """The fraction of all estimates that are at most `error` away from the truth."""
        return float((np.abs(self.errors) <= error).sum() / max(self.found.sum(), 1))
