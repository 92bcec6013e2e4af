"""A published result, line by line, whatever the protocol."""

from __future__ import annotations

from typing import Any, NamedTuple


class Line(NamedTuple):
    """One published number with its interval."""

    label: str
    estimate: float
    low: float
    high: float


def lines(result: dict[str, Any]) -> list[Line]:
    """One line for a count or sum, one per bucket of a histogram, one per quantile."""
    if "quantiles" in result:
        rows = [(f"quantile {row['probability']:g}", row) for row in result["quantiles"]]
    elif "buckets" in result:
        rows = [(str(row["label"]), row) for row in result["buckets"]]
    else:
        rows = [(str(result["query"]), result)]
    return [Line(label, row["estimate"], *row["interval"]) for label, row in rows]
