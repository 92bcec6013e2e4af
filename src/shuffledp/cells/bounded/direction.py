"""The parameters of a bounded cell for one direction of a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from shuffledp.cells.base import check_epsilon
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import positive, probability, show, whole

MOST_CUT = 65_535
MOST_BOUNDED_VALUE = 65_535
MOST_BITS = 4_096
"""Of a numerator or denominator, and of the common denominator of a direction's odds, which are
added up exactly."""
LARGEST_ODDS = Fraction(10**30)


@dataclass(frozen=True, kw_only=True)
class Direction:
    """The noise and the muting that hide a change in one direction."""

    epsilon: Fraction
    """What a change in this direction may cost: the certificate shows D·ln(1/decay) ≤ epsilon."""
    decay: Fraction
    """β: the noise's masses fall by about this factor from one value to the next."""
    cut: int
    """z: the largest noise of a user who sends its value."""
    muted_cut: int
    """w ≤ z: the largest noise of a muted user."""
    odds: tuple[Fraction, ...]
    """o_1..o_D: the weight of each muted jump, against 1 for sending the value."""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon, "epsilon")
        probability(self.decay, "decay")
        whole(self.cut, "cut", least=0, most=MOST_CUT)
        whole(self.muted_cut, "muted_cut", least=0, most=self.cut)
        whole(len(self.odds), "the number of odds", most=MOST_BOUNDED_VALUE)
        for odds in self.odds:
            positive(odds, "each of the odds")
        numbers = (self.epsilon, self.decay, *self.odds)
        if not all(isinstance(number, Fraction) for number in numbers):
            raise ParameterError("epsilon, decay and the odds must be given as fractions.")
        if any(max(map(int.bit_length, n.as_integer_ratio())) > MOST_BITS for n in numbers):
            raise ParameterError(
                f"epsilon, decay and the odds may have at most {MOST_BITS:,} bits each above and "
                "below the line; round them."
            )
        if max(self.odds) > LARGEST_ODDS:
            raise ParameterError(f"Each of the odds must be at most {show(LARGEST_ODDS)}.")
        common = 1
        for odds in self.odds:
            common = lcm(common, odds.denominator)
            if common.bit_length() > MOST_BITS:
                raise ParameterError(
                    f"The odds need a common denominator of more than {MOST_BITS:,} bits; round "
                    "them to decimals."
                )

    def to_dict(self) -> dict[str, Any]:
        """The parameters, rationals as exact text."""
        return {
            "epsilon": str(self.epsilon),
            "decay": str(self.decay),
            "cut": self.cut,
            "muted_cut": self.muted_cut,
            "odds": [str(odds) for odds in self.odds],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Direction:
        """The parameters behind `to_dict`."""
        return cls(
            epsilon=Fraction(data["epsilon"]),
            decay=Fraction(data["decay"]),
            cut=data["cut"],
            muted_cut=data["muted_cut"],
            odds=tuple(Fraction(odds) for odds in data["odds"]),
        )
