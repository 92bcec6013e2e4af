"""Results by group: one number with its interval for each group of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.exact import decimals, percent
from shuffledp.protocols.frames import data_frame
from shuffledp.protocols.results import WHERE_NOTE, LabelledResult

Floats = NDArray[np.float64]
COUNT, INTEGER_SUM, REAL_SUM, MEAN = "count", "integer-sum", "real-sum", "mean"
ANSWERS = (COUNT, INTEGER_SUM, REAL_SUM, MEAN)
"""What is estimated for each group."""
PUBLIC_GROUPS = (
    "replace one user's value; which group a user is in is public, and so is the size of each group"
)
"""The neighbouring relation if groups are public."""
PRIVATE_NOTE = "Groups are private: each estimate has the noise of all users, however small a group"
RATIO_NOTE = (
    "Each mean is the ratio of two private numbers, a group's sum and its size, moved into the "
    "bounds: it is not unbiased, and in a small group it says little, as its interval shows"
)
PUBLIC_NOTE = (
    "Groups are public and composed in parallel: each is a separate release for the whole "
    "epsilon, and every user is in one"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GroupsResult(LabelledResult):
    """One number with its intervals for each group."""

    answer: str
    """What the numbers are: count, integer-sum, real-sum or mean."""
    by: str = "group"
    """The column that says which group a user is in."""
    sizes: Floats | None = None
    """How many users each group has: exact for public groups, estimated for private means and sums
    that need it; None if not known."""
    possible: tuple[Any, Any] = (-np.inf, np.inf)
    """The least and the largest possible answer, of all groups or of each."""
    public: bool = False
    """Whether groups are public: then each is a separate release."""

    @property
    def limits(self) -> tuple[Any, Any]:
        return self.possible

    @property
    def about(self) -> str:
        notes = [PUBLIC_NOTE] if self.public else [PRIVATE_NOTE]
        if self.answer == MEAN and not self.public:
            notes.insert(0, RATIO_NOTE)
        return " ".join(f"{note}." for note in (*notes, *([WHERE_NOTE] * bool(self.where))))

    def first(self, groups: int) -> GroupsResult:
        """The same result with only the first groups."""
        sizes = None if self.sizes is None else self.sizes[:groups]
        return self.at(np.arange(groups), sizes=sizes)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per group: its label, estimate, clipped, low, high, joint ends, and size if
        known.

        `backend` is "pandas", "polars" or "pyarrow"; by default the first that is installed.
        """
        numbers = self._columns()
        if self.sizes is not None:
            numbers["size"] = self.sizes.tolist()
        return data_frame({self.by: list(self.labels)}, numbers, backend)

    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON object."""
        groups = self._listed()
        if self.sizes is not None:
            for group, size in zip(groups, self.sizes.tolist(), strict=True):
                group["size"] = size
        return {
            "query": "by-group",
            "answer": self.answer,
            "by": self.by,
            "groups_public": self.public,
            "groups": groups,
            "about": self.about,
            **self.promise(),
        }

    def __str__(self) -> str:
        head = (
            f"{self.answer} by {self.by}, ε = {float(self.epsilon):g}, "
            f"{percent(self.confidence)} intervals, RMSE {self.rmse:,.{decimals(self.rmse)}f} at "
            f"most; {self.public_number()}{self.marks()}"
        )
        return f"{self._table(head, self.texts(), 'groups')}\n{self.about}"
