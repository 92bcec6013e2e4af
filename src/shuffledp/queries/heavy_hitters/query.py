"""The question which words of a column are frequent, without a list of candidates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from shuffledp.data.arrays import ColumnType
from shuffledp.data.values import WORDS
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written, whole
from shuffledp.plans.plan import Plan
from shuffledp.queries.base import Query
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.heavy_hitters.planner import plan_heavy_hitters
from shuffledp.queries.options import Options


@dataclass(frozen=True, kw_only=True)
class HeavyHittersQuery(Query[FrequenciesResult]):
    """Which words of a column are frequent."""

    name: ClassVar[str] = "heavy-hitters"
    alphabet: str
    length: int
    spread: Fraction

    @classmethod
    def of(
        cls,
        options: Options,
        epsilon: ExactNumber,
        alphabet: str,
        length: int,
        spread: ExactNumber,
    ) -> HeavyHittersQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        options.refuse(
            ("mse_overhead", "relative_error"),
            "heavy hitters are planned for rmse or max_messages; give one of these.",
        )
        if not isinstance(alphabet, str):
            raise ParameterError("alphabet must be a text of different characters.")
        return cls(
            epsilon=positive_as_written(epsilon, "epsilon"),
            targets=options.targets,
            alphabet=alphabet,
            length=whole(length, "length", most=64),
            spread=positive_as_written(spread, "spread"),
        )

    def make_plan(self, users: int) -> Plan[FrequenciesResult]:
        return plan_heavy_hitters(
            users,
            self.epsilon,
            alphabet=self.alphabet,
            length=self.length,
            spread=self.spread,
            rmse=self.targets.rmse,
            max_messages=self.targets.max_messages,
            expected=self.targets.expected,
        )

    @property
    def reads_texts(self) -> bool:
        return True

    def check_column(self, holds: ColumnType) -> None:
        if holds != "text":
            raise ValueOutOfRange(
                f"Words must be texts; the column holds {WORDS[holds]}: convert them first."
            )
