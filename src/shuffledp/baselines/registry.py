"""The table of all baselines, by query and name: those of the literature, and those that
installed packages add."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.metadata import entry_points

from shuffledp.baselines.base import Baseline, BaselineForecast, QueryName, Setting
from shuffledp.baselines.buckets import halves
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.protocols import bbgn19, bc20, csuzz19, ggkmpv20, gkmp20, thinning
from shuffledp.baselines.protocols.bbgn20 import SplitAndMixCount, SplitAndMixSum
from shuffledp.baselines.protocols.central import CentralCount, CentralHistogram, CentralSum
from shuffledp.baselines.protocols.ggkpv21 import HadamardTuples
from shuffledp.baselines.protocols.gmps21 import GMPS21
from shuffledp.baselines.protocols.local import (
    BucketResponse,
    HadamardResponse,
    OneBitSum,
    RandomizedResponse,
)
from shuffledp.baselines.protocols.lwy22 import FrequencyOracle
from shuffledp.baselines.protocols.olh import LocalHashing
from shuffledp.errors import ParameterError, PlanningError

Maker = Callable[[Setting], Baseline]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A baseline's name, the query that it answers, its kind of privacy, and how it is made."""

    name: str
    query: QueryName
    title: str
    """Its name in tables and pictures."""
    pure: bool
    """Whether it promises δ = 0."""
    make: Maker
    """Makes the baseline for a setting."""
    line: Callable[[Setting], tuple[BaselineForecast, Claim]] | None = None
    """If only error and cost are known: it is a row in tables and cannot run."""

    @property
    def runnable(self) -> bool:
        """Whether the baseline can be run on data."""
        return self.line is None

    def plan(self, setting: Setting) -> Baseline:
        """The baseline for a setting; raises `PlanningError` if its conditions exclude the
        setting, or if there is no protocol to run."""
        if self.line is not None:
            raise PlanningError(
                f"Only the cost and the error of {self.title} are known, so it cannot be run; "
                "choose another protocol."
            )
        baseline = self.make(setting)
        if baseline.claim.pure != self.pure:
            kind = "pure" if self.pure else "approximate"
            raise ParameterError(f"{self.name} is registered as {kind} but claims otherwise.")
        return baseline

    def forecast(self, setting: Setting) -> tuple[BaselineForecast, Claim]:
        """The baseline's error and cost for a setting, and what it promises."""
        if self.line is not None:
            return self.line(setting)
        protocol = planned(self.query, self.name, setting)
        return protocol.forecast(error_at=setting.error_at), protocol.claim


def cy22_line(setting: Setting) -> tuple[BaselineForecast, Claim]:
    """Error and cost of [CY22] Cheu, Yan, Pure DP from secure intermediaries: the central error
    at n^2.5 one-bit messages per user, as stated in its abstract; its constants and randomizer are
    not available to us."""
    error = CentralCount.plan(setting).forecast().rmse
    claim = pure_claim(setting.epsilon, "shuffler", "theorem", "from the abstract; no constants")
    messages = math.pow(setting.users, 2.5)
    return BaselineForecast(rmse=error, messages_per_user=messages, bits_per_message=1), claim


def _pure(query: QueryName, name: str, title: str, make: Maker) -> Entry:
    return Entry(name=name, query=query, title=title, pure=True, make=make)


def _approximate(query: QueryName, name: str, title: str, make: Maker) -> Entry:
    return Entry(name=name, query=query, title=title, pure=False, make=make)


BASELINES: tuple[Entry, ...] = (
    _pure("count", "central", "Central discrete Laplace", CentralCount.plan),
    _pure("count", "local", "Local randomized response", RandomizedResponse.plan),
    _pure("count", "ggkmpv20", "GGKMPV20, calibrated", ggkmpv20.GGKMPV20.plan),
    _pure("count", "thinning", "Thinning + geometric", thinning.Thinning.plan),
    Entry(
        name="cy22",
        query="count",
        title="CY22 (line only)",
        pure=True,
        make=CentralCount.plan,
        line=cy22_line,
    ),
    _approximate("count", "gkmp20", "GKMP20, calibrated", gkmp20.GKMP20.plan),
    _approximate("count", "gkmp20-published", "GKMP20, published", gkmp20.GKMP20.published),
    _approximate("count", "bbgn20", "BBGN20 split and mix", SplitAndMixCount.plan),
    _approximate("count", "bbgn20-average", "BBGN20, m−1 rule", SplitAndMixCount.average_case),
    _approximate("count", "bc20", "BC20, calibrated", bc20.BC20.plan),
    _approximate("count", "bc20-published", "BC20, published", bc20.BC20.published),
    _approximate("count", "csuzz19", "CSUZZ19, calibrated", csuzz19.computed),
    _approximate("count", "csuzz19-published", "CSUZZ19, published", csuzz19.published),
    _approximate("count", "efmrtt19", "RR + EFMRTT19 bound", csuzz19.efmrtt19),
    _approximate("count", "fmt21", "RR + FMT21 bound", csuzz19.fmt21),
    _pure("real-sum", "central", "Central Laplace", CentralSum.plan),
    _pure("real-sum", "local", "Local one-bit response", OneBitSum.plan),
    _pure("real-sum", "ggkmpv20", "GGKMPV20 bit by bit", ggkmpv20.BitByBit.plan),
    _approximate("real-sum", "gmps21", "GMPS21, calibrated", GMPS21.plan),
    _approximate("real-sum", "gmps21-published", "GMPS21, published", GMPS21.published),
    _approximate("real-sum", "bbgn20", "BBGN20 split and mix", SplitAndMixSum.plan),
    _approximate("real-sum", "bbgn20-recursive", "BBGN20 recursive, calibrated", bbgn19.recursive),
    _approximate(
        "real-sum",
        "bbgn20-recursive-published",
        "BBGN20 recursive, published",
        bbgn19.published_recursive,
    ),
    _approximate("real-sum", "bbgn19", "BBGN19, calibrated", bbgn19.single),
    _approximate("real-sum", "bbgn19-published", "BBGN19, published", bbgn19.published_single),
    _pure("histogram", "central", "Central discrete Laplace", CentralHistogram.plan),
    _pure("histogram", "local", "Local randomized response", BucketResponse.plan),
    _pure("histogram", "local-hadamard", "Local Hadamard response", HadamardResponse.plan),
    _pure("histogram", "local-hashing", "Local hashing (OLH)", LocalHashing.plan),
    _pure("histogram", "ggkmpv20", "GGKMPV20 per bucket", partial(halves, ggkmpv20.GGKMPV20.plan)),
    _pure("histogram", "thinning", "Thinning per bucket", partial(halves, thinning.Thinning.plan)),
    _approximate("histogram", "gkmp20", "GKMP20, calibrated", gkmp20.histogram),
    _approximate(
        "histogram",
        "gkmp20-published",
        "GKMP20, published",
        partial(halves, gkmp20.GKMP20.published),
    ),
    _approximate("histogram", "bc20", "BC20, calibrated", bc20.histogram),
    _approximate(
        "histogram", "bc20-published", "BC20, published", partial(halves, bc20.BC20.published)
    ),
    _approximate("histogram", "ggkpv21", "GGKPV21, calibrated", HadamardTuples.plan),
    _approximate("histogram", "ggkpv21-published", "GGKPV21, published", HadamardTuples.published),
    _approximate("histogram", "lwy22", "LWY22 FE1, calibrated", FrequencyOracle.plan),
)

PLUGINS = "shuffledp.baselines"
"""The group of entry points by which a package adds baselines; each is an `Entry` or several."""


def added_entries() -> list[Entry]:
    """The baselines of installed packages; raises `ParameterError` for one that cannot be used."""
    added: list[Entry] = []
    for point in entry_points(group=PLUGINS):
        package = point.dist.name if point.dist else point.value
        advice = "fix the package or uninstall it."
        try:
            loaded = point.load()
        except Exception as error:
            raise ParameterError(
                f"The baseline {point.name!r} of the package {package} cannot be loaded "
                f"({type(error).__name__}); {advice}"
            ) from error
        entries = (loaded,) if isinstance(loaded, Entry) else loaded
        if not isinstance(entries, list | tuple) or not all(isinstance(e, Entry) for e in entries):
            raise ParameterError(
                f"The entry point {point.name!r} of the package {package} is not a baseline Entry; "
                f"{advice}"
            )
        added += entries
    return added


@cache
def by_name() -> dict[tuple[str, str], Entry]:
    """All baselines, by query and name."""
    found: dict[tuple[str, str], Entry] = {(one.query, one.name): one for one in BASELINES}
    for entry in added_entries():
        if (entry.query, entry.name) in found:
            raise ParameterError(
                f"Two baselines for a {entry.query} are named {entry.name!r}; rename the one that "
                "your package adds."
            )
        found[entry.query, entry.name] = entry
    return found


def baselines_for(query: str) -> list[Entry]:
    """The baselines that answer a query: "count", "real-sum" or "histogram"."""
    found = [entry for entry in by_name().values() if entry.query == query]
    if not found:
        raise ParameterError(
            f"There are no baselines for {query!r}; choose count, real-sum or histogram."
        )
    return found


def baseline(query: str, name: str) -> Entry:
    """The baseline of this name that answers a query."""
    entries = baselines_for(query)
    if (query, name) not in by_name():
        names = ", ".join(entry.name for entry in entries)
        raise ParameterError(f"There is no protocol {name!r} for a {query}; choose from {names}.")
    return by_name()[query, name]


@lru_cache(maxsize=64)
def planned(query: str, name: str, setting: Setting) -> Baseline:
    """The baseline for a setting, calibrated once and then cached."""
    return baseline(query, name).plan(setting)
