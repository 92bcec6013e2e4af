"""Counters and gauges for Prometheus: per task and reason, never per report."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

Labels = tuple[tuple[str, str], ...]
BUCKET_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """The counters, gauges and durations that /metrics shows."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._values: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._kinds: dict[str, str] = {}
        self._times: dict[str, list[int]] = {}
        self._sums: dict[str, float] = defaultdict(float)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds an amount to a counter."""
        self._kinds[name] = "counter"
        self._values[name][tuple(sorted(labels.items()))] += amount

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge to a value."""
        self._kinds[name] = "gauge"
        self._values[name][tuple(sorted(labels.items()))] = value

    def time(self, name: str, seconds: float) -> None:
        """Adds a duration to the histogram of this name."""
        buckets = self._times.setdefault(name, [0] * (len(BUCKET_SECONDS) + 1))
        buckets[bisect_left(BUCKET_SECONDS, seconds)] += 1
        self._sums[name] += seconds

    def total(self, name: str) -> float:
        """The sum of a counter over all its labels."""
        return sum(self._values[name].values())

    def text(self) -> str:
        """All metrics in Prometheus' text format."""
        lines: list[str] = []
        for name, series in sorted(self._values.items()):
            full = f"shuffledp_{self._role}_{name}"
            lines.append(f"# TYPE {full} {self._kinds.get(name, 'counter')}")
            for labels, value in sorted(series.items()):
                lines.append(f"{full}{_shown(labels)} {value:.12g}")
        for name, buckets in sorted(self._times.items()):
            lines += self._histogram(f"shuffledp_{self._role}_{name}", buckets, self._sums[name])
        return "\n".join(lines) + "\n"

    def _histogram(self, full: str, buckets: list[int], total: float) -> list[str]:
        lines, below = [f"# TYPE {full} histogram"], 0
        for bound, inside in zip((*BUCKET_SECONDS, "+Inf"), buckets, strict=True):
            below += inside
            lines.append(f'{full}_bucket{{le="{bound}"}} {below}')
        return [*lines, f"{full}_sum {total:.6f}", f"{full}_count {below}"]


def _shown(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
