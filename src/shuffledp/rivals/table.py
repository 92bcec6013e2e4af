"""Ours and all rivals in one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.planning.plan import Plan
from shuffledp.planning.printed import printed_recipe
from shuffledp.rivals.base import Claim, RivalForecast, Task
from shuffledp.rivals.registry import Entry, cy22_line, rivals_for
from shuffledp.rivals.run import planned

OVERHEADS = (Fraction(1, 10), Fraction(1, 2), Fraction(2), Fraction(8))
"""The error targets, MSE over central less 1, at which ours is shown."""
SUM_OVERHEADS = (Fraction(2), Fraction(8), Fraction(24))


@dataclass(frozen=True)
class Row:
    """One protocol in the table."""

    name: str
    title: str
    forecast: RivalForecast
    claim: Claim
    central_rmse: float
    ours: bool = False
    runnable: bool = True

    @property
    def over_central(self) -> float:
        return self.forecast.rmse / self.central_rmse

    @property
    def privacy(self) -> str:
        """The kind for people, with a warning where nothing supports it."""
        kind = "pure" if self.claim.kind == "pure" else f"(ε, {float(self.claim.delta):g})"
        return kind if self.claim.holds else f"{kind}, {self.claim.basis}"

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON can hold it."""
        return {
            "protocol": self.name,
            "title": self.title,
            "ours": self.ours,
            "runnable": self.runnable,
            "rmse": self.forecast.rmse,
            "rmse_over_central": self.over_central,
            "messages_per_user": self.forecast.messages_per_user,
            "bits_per_message": self.forecast.bits_per_message,
            "bits_per_user": self.forecast.bits_per_user,
            "privacy": self.claim.to_dict(),
        }


@dataclass(frozen=True)
class Table:
    """All rows that a task admits, and why the others are missing."""

    query: str
    task: Task
    rows: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...]

    def row(self, name: str) -> Row | None:
        """A row by its name."""
        return next((row for row in self.rows if row.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON can hold it."""
        return {
            "query": self.query,
            "users": self.task.users,
            "epsilon": str(self.task.epsilon),
            "delta": None if self.task.delta is None else str(self.task.delta),
            "buckets": self.task.buckets,
            "rows": [row.to_dict() for row in self.rows],
            "missing": [{"protocol": name, "why": why} for name, why in self.missing],
        }


@lru_cache(maxsize=256)
def our_plan(query: str, task: Task, mse_overhead: Fraction) -> Plan:
    """Our plan for a task, at an error target."""
    if query == "count":
        from shuffledp.planning.counting import plan_count

        return plan_count(task.users, task.epsilon, mse_overhead=mse_overhead)
    if query == "histogram":
        from shuffledp.planning.histogram import plan_histogram

        return plan_histogram(
            task.users, task.epsilon, task.some_buckets, mse_overhead=mse_overhead
        )
    from shuffledp.planning.real_sum import plan_real_sum

    return plan_real_sum(task.users, task.epsilon, mse_overhead=mse_overhead)


def our_row(query: str, task: Task, mse_overhead: Fraction) -> Row:
    """Ours at an error target, certified."""
    plan = our_plan(query, task, mse_overhead)
    forecast = plan.forecast
    claim = Claim(task.epsilon, Fraction(0), "shuffler", "computed", "certificate")
    return Row(
        f"ours-{float(mse_overhead):g}",
        f"shuffledp, ρ = {float(mse_overhead):g}",
        RivalForecast(forecast.rmse, forecast.messages_per_user, forecast.bits_per_message),
        claim,
        forecast.central_rmse,
        ours=True,
    )


def printed_forecast(query: str, task: Task, mse_overhead: Fraction) -> RivalForecast:
    """[GKM23] with the constants as printed: one counter, or one at ε/2 per bucket."""
    if query == "count":
        recipe = printed_recipe(task.users, task.epsilon, mse_overhead)
        return RivalForecast(recipe.rmse, recipe.messages_per_user, 1)
    if query == "sum":
        raise PlanningError("No constants are printed for real sums.")
    recipe, buckets = printed_recipe(task.users, task.epsilon / 2, mse_overhead), task.some_buckets
    messages = buckets * (recipe.messages_per_user - 1) + 1
    return RivalForecast(recipe.rmse, messages, 1 + (buckets - 1).bit_length())


def printed_row(query: str, task: Task, central_rmse: float) -> Row:
    """The printed constants at ρ = ½."""
    claim = Claim(task.epsilon, Fraction(0), "shuffler", "theorem", "printed constants, ρ = 0.5")
    forecast = printed_forecast(query, task, Fraction(1, 2))
    return Row("printed", "GKM23 as printed, ρ = 0.5", forecast, claim, central_rmse, ours=True)


def rival_row(entry: Entry, task: Task, central_rmse: float) -> Row:
    """One rival's row."""
    if entry.name == "cy22":
        forecast, claim = cy22_line(task)
        return Row(entry.name, entry.title, forecast, claim, central_rmse, runnable=False)
    protocol = planned(entry.query, entry.name, task)
    return Row(entry.name, entry.title, protocol.forecast(), protocol.claim, central_rmse)


def overheads_for(query: str) -> tuple[Fraction, ...]:
    """The error targets at which ours is shown."""
    return SUM_OVERHEADS if query == "sum" else OVERHEADS


def compare(
    query: str,
    task: Task,
    overheads: Iterable[Fraction] | None = None,
    names: Iterable[str] | None = None,
) -> Table:
    """The table: ours at a few error targets, then every rival (or those named) that admits the
    task. Without δ, approximate rivals are left out."""
    entries = rivals_for(query)
    if query == "histogram" and task.buckets is None:
        raise ParameterError("A histogram needs the number of buckets; give buckets=….")
    if task.delta is None:
        entries = [entry for entry in entries if entry.kind == "pure"]
    wanted = {entry.name for entry in entries} if names is None else set(names)
    central = planned(query, "central", task).forecast().rmse
    rows: list[Row] = []
    missing: list[tuple[str, str]] = []
    for overhead in overheads_for(query) if overheads is None else overheads:
        _try(
            rows,
            missing,
            f"ours-{float(overhead):g}",
            lambda overhead=overhead: our_row(query, task, overhead),
        )
    if query != "sum" and names is None:
        _try(rows, missing, "printed", lambda: printed_row(query, task, central))
    for entry in entries:
        if entry.name in wanted:
            _try(rows, missing, entry.name, lambda entry=entry: rival_row(entry, task, central))
    return Table(query, task, tuple(rows), tuple(missing))


def _try(rows: list[Row], missing: list[tuple[str, str]], name: str, make: Any) -> None:
    """Appends a row, or why there is none."""
    try:
        rows.append(make())
    except (PlanningError, ParameterError) as error:
        missing.append((name, str(error)))


def pareto(rows: Iterable[Row]) -> list[Row]:
    """Rows that no other of the same kind and trust beats in both error and messages."""
    held = [row for row in rows if row.claim.holds and row.runnable]
    return [
        row
        for row in held
        if not any(
            other.claim.kind == row.claim.kind
            and other.claim.trust == row.claim.trust
            and other.forecast.rmse <= row.forecast.rmse
            and other.forecast.messages_per_user <= row.forecast.messages_per_user
            and other is not row
            for other in held
        )
    ]
