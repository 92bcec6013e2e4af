"""Metrics for Prometheus: per task and reason, never per report, and about the process itself.

Every server has its own registry, so that several in one process do not mix their metrics.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["CONTENT_TYPE_LATEST", "Counts", "Figure", "Levels", "Metrics", "Seconds"]

BUCKET_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # when each counter began doubles the lines and helps nobody


class Figure(NamedTuple):
    """A metric, declared before it is used: how it is made, its name, its description and its
    labels."""

    kind: Callable[..., Any]
    name: str
    meaning: str
    labels: tuple[str, ...] = ()


Counts = partial(Figure, Counter)
"""A counter with labels."""
Levels = partial(Figure, partial(Gauge, multiprocess_mode="mostrecent"))
"""A gauge that is measured on request."""
Seconds = partial(Figure, partial(Histogram, buckets=BUCKET_SECONDS))
"""A histogram of durations."""


class Metrics:
    """The counters, levels and durations that /metrics shows."""

    def __init__(self, role: str, declared: Iterable[Figure]) -> None:
        self._registry = CollectorRegistry()
        place = {"namespace": f"shuffledp_{role}", "registry": self._registry}
        self._figures: dict[str, Any] = {
            name: kind(name, meaning, labels, **place) for kind, name, meaning, labels in declared
        }
        ProcessCollector(registry=self._registry)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds an amount to a counter."""
        self._figures[name].labels(**labels).inc(amount)

    def counted(self, name: str, label: str, **labels: str) -> dict[str, int]:
        """A counter's values for these labels, by one further label."""
        found: dict[str, int] = {}
        for family in self._figures[name].collect():
            for sample in family.samples:
                if labels.items() <= sample.labels.items():
                    found[sample.labels[label]] = int(sample.value)
        return found

    def level(self, name: str, value: float) -> None:
        """Sets a level without labels."""
        self._figures[name].set(value)

    def levels(self, name: str, label: str, values: Mapping[str, float]) -> None:
        """Sets all levels of a name, by the values of its label."""
        gauge = self._figures[name]
        gauge.clear()
        for key, value in values.items():
            gauge.labels(**{label: key}).set(value)

    def time(self, name: str, seconds: float) -> None:
        """Adds a duration to the histogram of this name."""
        self._figures[name].observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, summed over all processes that share an
        address."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
