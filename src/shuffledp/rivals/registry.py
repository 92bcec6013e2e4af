"""All rivals by query and name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.rivals.base import Claim, Query, Rival, RivalForecast, Task
from shuffledp.rivals.protocols import (
    bbgn19,
    bc20,
    csuzz19,
    ggkmpv20,
    gkmp20,
    thinning,
)
from shuffledp.rivals.protocols.bbgn20 import SplitAndMix
from shuffledp.rivals.protocols.central import CentralCount, CentralHistogram, CentralSum
from shuffledp.rivals.protocols.ggkpv21 import Hadamard
from shuffledp.rivals.protocols.gmps21 import GMPS21
from shuffledp.rivals.protocols.local import (
    BucketResponse,
    HadamardResponse,
    OneBitSum,
    RandomizedResponse,
)
from shuffledp.rivals.protocols.lwy22 import FrequencyOracle

Kind = Literal["pure", "approximate"]


@dataclass(frozen=True)
class Entry:
    """A rival's name, what it is, and how it is made for a task."""

    name: str
    query: Query
    title: str
    kind: Kind
    make: Callable[[Task], Rival] | None
    """None: known from its abstract only, a line of cost and error."""

    def plan(self, task: Task) -> Rival:
        """The rival for a task; raises `PlanningError` where its own conditions exclude it."""
        if self.make is None:
            raise PlanningError(
                f"{self.title} is only known as a line of cost and error and cannot be run; "
                "choose another protocol."
            )
        rival = self.make(task)
        if rival.claim.kind != self.kind:
            raise ParameterError(f"{self.name} is registered as {self.kind} but claims otherwise.")
        return rival


RIVALS: tuple[Entry, ...] = (
    Entry("central", "count", "Central discrete Laplace", "pure", CentralCount.plan),
    Entry("local", "count", "Local randomized response", "pure", RandomizedResponse.plan),
    Entry("ggkmpv20", "count", "GGKMPV20, calibrated", "pure", ggkmpv20.GGKMPV20.plan),
    Entry("thinning", "count", "Thinning + geometric", "pure", thinning.Thinning.plan),
    Entry("cy22", "count", "CY22 (line only)", "pure", None),
    Entry("gkmp20", "count", "GKMP20, calibrated", "approximate", gkmp20.GKMP20.plan),
    Entry("gkmp20-published", "count", "GKMP20, published", "approximate", gkmp20.GKMP20.published),
    Entry("bbgn20", "count", "BBGN20 split and mix", "approximate", SplitAndMix.for_count),
    Entry("bbgn20-average", "count", "BBGN20, m−1 rule", "approximate", SplitAndMix.average_case),
    Entry("bc20", "count", "BC20, calibrated", "approximate", bc20.BC20.plan),
    Entry("bc20-published", "count", "BC20, published", "approximate", bc20.BC20.published),
    Entry("csuzz19", "count", "CSUZZ19, calibrated", "approximate", csuzz19.computed),
    Entry("csuzz19-published", "count", "CSUZZ19, published", "approximate", csuzz19.published),
    Entry("efmrtt19", "count", "RR + EFMRTT19 bound", "approximate", csuzz19.efmrtt19),
    Entry("fmt21", "count", "RR + FMT21 bound", "approximate", csuzz19.fmt21),
    Entry("central", "sum", "Central Laplace", "pure", CentralSum.plan),
    Entry("local", "sum", "Local one-bit response", "pure", OneBitSum.plan),
    Entry("ggkmpv20", "sum", "GGKMPV20 bit by bit", "pure", ggkmpv20.BitByBit.plan),
    Entry("gmps21", "sum", "GMPS21, calibrated", "approximate", GMPS21.plan),
    Entry("gmps21-published", "sum", "GMPS21, published", "approximate", GMPS21.published),
    Entry("bbgn20", "sum", "BBGN20 split and mix", "approximate", SplitAndMix.for_sum),
    Entry(
        "bbgn20-recursive", "sum", "BBGN20 recursive, calibrated", "approximate", bbgn19.recursive
    ),
    Entry(
        "bbgn20-recursive-published",
        "sum",
        "BBGN20 recursive, published",
        "approximate",
        bbgn19.published_recursive,
    ),
    Entry("bbgn19", "sum", "BBGN19, calibrated", "approximate", bbgn19.single),
    Entry("bbgn19-published", "sum", "BBGN19, published", "approximate", bbgn19.published_single),
    Entry("central", "histogram", "Central discrete Laplace", "pure", CentralHistogram.plan),
    Entry("local", "histogram", "Local randomized response", "pure", BucketResponse.plan),
    Entry("local-hadamard", "histogram", "Local Hadamard response", "pure", HadamardResponse.plan),
    Entry("ggkmpv20", "histogram", "GGKMPV20 per bucket", "pure", ggkmpv20.histogram),
    Entry("thinning", "histogram", "Thinning per bucket", "pure", thinning.histogram),
    Entry("gkmp20", "histogram", "GKMP20, calibrated", "approximate", gkmp20.histogram),
    Entry(
        "gkmp20-published",
        "histogram",
        "GKMP20, published",
        "approximate",
        gkmp20.published_histogram,
    ),
    Entry("bc20", "histogram", "BC20, calibrated", "approximate", bc20.histogram),
    Entry(
        "bc20-published", "histogram", "BC20, published", "approximate", bc20.published_histogram
    ),
    Entry("ggkpv21", "histogram", "GGKPV21, calibrated", "approximate", Hadamard.plan),
    Entry(
        "ggkpv21-published", "histogram", "GGKPV21, published", "approximate", Hadamard.published
    ),
    Entry("lwy22", "histogram", "LWY22 FE1, calibrated", "approximate", FrequencyOracle.plan),
)


def rivals_for(query: str) -> list[Entry]:
    """The rivals that answer a query."""
    found = [entry for entry in RIVALS if entry.query == query]
    if not found:
        raise ParameterError(f"There are rivals for count, sum and histogram; not for {query!r}.")
    return found


def rival(query: str, name: str) -> Entry:
    """One rival by its name."""
    entries = rivals_for(query)
    for entry in entries:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in entries)
    raise ParameterError(f"There is no protocol {name!r} for a {query}; there are: {names}.")


def cy22_line(task: Task) -> tuple[RivalForecast, Claim]:
    """[CY22] Cheu, Yan, Pure DP from secure intermediaries: the central error at n^2.5 one-bit
    messages per user, as its abstract says; constants and randomizer are not at hand."""
    error = CentralCount.plan(task).forecast().rmse
    claim = Claim(
        task.epsilon, Fraction(0), "shuffler", "theorem", "from the abstract; no constants"
    )
    return RivalForecast(error, math.pow(task.users, 2.5), 1), claim
