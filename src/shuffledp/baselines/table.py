"""shuffledp and all baselines in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from shuffledp.baselines.base import BaselineForecast, QueryName, Setting
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.ours import OVERHEADS, PRINTED_FOR, our_plan, printed, sparse_plan
from shuffledp.baselines.registry import Entry, baselines_for, planned
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result

LARGE_DOMAIN = 100  # from this number of buckets, plans whose cost does not depend on it are shown
SPARSE_MESSAGES = (25, 45)
PRINTED_OVERHEAD = Fraction(1, 2)  # the error target of the row with the printed constants


@dataclass(frozen=True, kw_only=True)
class Row:
    """One protocol in the table: its error, its cost, and its privacy claim."""

    name: str
    title: str
    forecast: BaselineForecast
    claim: Claim
    central_rmse: float
    ours: bool = False
    runnable: bool = True

    @property
    def over_central(self) -> float:
        """The error as a multiple of the central mechanism's."""
        return self.forecast.rmse / self.central_rmse

    @property
    def privacy(self) -> str:
        """The claim in a few words, with a warning if nothing supports it."""
        kind = "pure" if self.claim.pure else f"(ε, {float(self.claim.delta):g})"
        return kind if self.claim.holds else f"{kind}, {self.claim.basis}"

    def to_dict(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return {
            "protocol": self.name,
            "title": self.title,
            "ours": self.ours,
            "runnable": self.runnable,
            "rmse": self.forecast.rmse,
            "rmse_at_zero": self.forecast.at_zero,
            "rmse_at": self.forecast.at_count,
            "rmse_over_central": self.over_central,
            "messages_per_user": self.forecast.messages_per_user,
            "bits_per_message": self.forecast.bits_per_message,
            "bits_per_user": self.forecast.bits_per_user,
            "privacy": self.claim.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Table:
    """A row for every protocol that covers a setting, and why the others have none."""

    query: QueryName
    setting: Setting
    rows: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...]

    def row(self, name: str) -> Row | None:
        """The row with this name, or None."""
        return next((row for row in self.rows if row.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """The table as a JSON object."""
        return {
            "query": self.query,
            "users": self.setting.users,
            "epsilon": str(self.setting.epsilon),
            "delta": None if self.setting.delta is None else str(self.setting.delta),
            "buckets": self.setting.buckets,
            "error_at": self.setting.error_at if self.query == "histogram" else None,
            "rows": [row.to_dict() for row in self.rows],
            "missing": [{"protocol": name, "why": why} for name, why in self.missing],
        }


def our_name(mse_overhead: Fraction) -> str:
    """The name of shuffledp's row at an error target."""
    return f"ours-{float(mse_overhead):g}"


def our_row(query: QueryName, setting: Setting, mse_overhead: Fraction) -> Row:
    """The row of shuffledp at an error target, its plan certified."""
    plan = our_plan(query, setting, mse_overhead)
    title = f"shuffledp, ρ = {float(mse_overhead):g}"
    return _row_of_plan(our_name(mse_overhead), title, plan, setting)


def sparse_row(setting: Setting, messages: int) -> Row:
    """The row of the sparse histogram, with at most `messages` messages in a report."""
    title = f"shuffledp, sparse, ≤ {messages:,} messages"
    return _row_of_plan(f"sparse-{messages}", title, sparse_plan(setting, messages), setting)


def _row_of_plan(name: str, title: str, plan: Plan[Result], setting: Setting) -> Row:
    forecast, at = plan.forecast, min(setting.error_at, setting.users)
    return Row(
        name=name,
        title=title,
        forecast=BaselineForecast(
            rmse=forecast.rmse,
            messages_per_user=forecast.messages_per_user,
            bits_per_message=forecast.bits_per_message,
            rmse_at_zero=forecast.rmse_at_zero,
            rmse_at=plan.protocol.rmse_at(setting.users, Fraction(at)),
        ),
        claim=pure_claim(plan.epsilon, "shuffler", "computed", "certificate"),
        central_rmse=forecast.central_rmse,
        ours=True,
    )


def _printed_row(query: QueryName, setting: Setting, central_rmse: float) -> Row:
    """The row of [GKM23] with the constants as printed, at ρ = ½."""
    return Row(
        name="printed",
        title="GKM23 as printed, ρ = 0.5",
        forecast=printed(query, setting, PRINTED_OVERHEAD),
        claim=pure_claim(setting.epsilon, "shuffler", "theorem", "printed constants, ρ = 0.5"),
        central_rmse=central_rmse,
        ours=True,
    )


def baseline_row(entry: Entry, setting: Setting, central_rmse: float) -> Row:
    """The row of one baseline; raises `PlanningError` if it does not cover the setting."""
    forecast, claim = entry.forecast(setting)
    return Row(
        name=entry.name,
        title=entry.title,
        forecast=forecast,
        claim=claim,
        central_rmse=central_rmse,
        runnable=entry.runnable,
    )


def compare(
    query: QueryName,
    setting: Setting,
    overheads: Iterable[Fraction] | None = None,
    names: Iterable[str] | None = None,
) -> Table:
    """The table: shuffledp at a few error targets, then every baseline (or those named) that can
    answer for this setting. Without δ, approximate baselines are left out."""
    entries = baselines_for(query)
    if setting.delta is None:
        entries = [entry for entry in entries if entry.pure]
    wanted = {entry.name for entry in entries} if names is None else set(names)
    central = planned(query, "central", setting).forecast().rmse
    makers: list[tuple[str, Callable[[], Row]]] = [
        (our_name(overhead), partial(our_row, query, setting, overhead))
        for overhead in (OVERHEADS[query] if overheads is None else overheads)
    ]
    if names is None and query == "histogram" and setting.required_buckets >= LARGE_DOMAIN:
        makers += [
            (f"sparse-{messages}", partial(sparse_row, setting, messages))
            for messages in SPARSE_MESSAGES
        ]
    if names is None and query in PRINTED_FOR:
        makers.append(("printed", partial(_printed_row, query, setting, central)))
    makers += [
        (entry.name, partial(baseline_row, entry, setting, central))
        for entry in entries
        if entry.name in wanted
    ]
    rows: list[Row] = []
    missing: list[tuple[str, str]] = []
    for name, make in makers:
        try:
            rows.append(make())
        except (PlanningError, ParameterError) as error:
            missing.append((name, str(error)))
    return Table(query=query, setting=setting, rows=tuple(rows), missing=tuple(missing))
