"""The question how many rows hold each of some labels, among values of any domain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.data.arrays import ColumnType, as_labels
from shuffledp.data.values import WORDS
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.base import Query
from shuffledp.queries.checks import looks_typed
from shuffledp.queries.frequencies.hashing import checked_candidates
from shuffledp.queries.frequencies.planner import plan_frequencies
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Options


@dataclass(frozen=True, kw_only=True)
class FrequenciesQuery(Query[HistogramResult]):
    """How many rows hold each candidate, among texts or whole numbers of any kind."""

    name: ClassVar[str] = "frequencies"
    candidates: tuple[Label, ...]
    spread: Fraction

    @classmethod
    def of(
        cls,
        options: Options,
        epsilon: ExactNumber,
        candidates: Iterable[Label],
        spread: ExactNumber,
    ) -> FrequenciesQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        options.refuse(
            ("mse_overhead", "relative_error"),
            "frequencies are planned for rmse or max_messages; give one of these.",
        )
        if not isinstance(candidates, str) and isinstance(candidates, Iterable):
            candidates = as_labels(candidates)
        return cls(
            epsilon=positive_as_written(epsilon, "epsilon"),
            targets=options.targets,
            candidates=checked_candidates(candidates),
            spread=positive_as_written(spread, "spread"),
        )

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_frequencies(
            users,
            self.epsilon,
            candidates=self.candidates,
            spread=self.spread,
            rmse=self.targets.rmse,
            max_messages=self.targets.max_messages,
            expected=self.targets.expected,
        )

    @property
    def reads_texts(self) -> bool:
        return any(isinstance(name, str) and looks_typed(name) for name in self.candidates)

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("text", "whole"):
            raise ValueOutOfRange(
                f"Values must be texts or whole numbers; the column holds {WORDS[holds]}: convert "
                "them first."
            )
        wanted: ColumnType = "whole" if isinstance(next(iter(self.candidates), ""), int) else "text"
        if self.candidates and holds != wanted:
            raise ValueOutOfRange(
                f"The column holds {WORDS[holds]}, and no candidate is one; give candidates of the "
                "column's type."
            )

    def finish(self, result: HistogramResult) -> HistogramResult:
        """The candidates alone: a histogram also counted all others."""
        known = set(self.candidates)
        kept = [at for at, label in enumerate(result.labels) if label in known]
        names = ("values", "low", "high", "joint_low", "joint_high")
        return replace(
            result,
            query=self.name,
            labels=tuple(result.labels[at] for at in kept),
            **{name: getattr(result, name)[np.array(kept, np.int64)] for name in names},
        )
