"""Metrics for Prometheus: per task and reason, never per report, and about the process itself.

Every server has its own registry, so that several in one process do not mix their metrics.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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

__all__ = ["CONTENT_TYPE_LATEST", "Counts", "Figures", "Levels", "Metrics", "Seconds"]

BUCKET_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # when each counter began doubles the lines and helps nobody


@dataclass(frozen=True)
class Counts:
    """A counter with labels and a description."""

    name: str
    meaning: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Seconds:
    """A histogram of durations with a description."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Levels:
    """A gauge that is measured on request, with a description."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


Figure = Counts | Seconds | Levels


class Figures(Protocol):
    """Anything that counts and records durations: `Metrics`, or a proxy to another process."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds an amount to a counter."""

    def time(self, name: str, seconds: float) -> None:
        """Adds a duration to the histogram of this name."""


class Metrics:
    """The counters, levels and durations that /metrics shows, each declared before it is used."""

    def __init__(self, role: str, declared: Iterable[Figure]) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._times: dict[str, Histogram] = {}
        self._levels: dict[str, Gauge] = {}
        place: dict[str, Any] = {"namespace": f"shuffledp_{role}", "registry": self._registry}
        for one in declared:
            if isinstance(one, Counts):
                self._counters[one.name] = Counter(one.name, one.meaning, one.labels, **place)
            elif isinstance(one, Levels):
                self._levels[one.name] = Gauge(
                    one.name, one.meaning, one.labels, multiprocess_mode="mostrecent", **place
                )
            else:
                self._times[one.name] = Histogram(
                    one.name, one.meaning, buckets=BUCKET_SECONDS, **place
                )
        ProcessCollector(registry=self._registry)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds an amount to a counter."""
        self._counters[name].labels(**labels).inc(amount)

    def counted(self, name: str, label: str, **labels: str) -> dict[str, int]:
        """A counter's values for these labels, by one further label."""
        found: dict[str, int] = {}
        for family in self._counters[name].collect():
            for sample in family.samples:
                if labels.items() <= sample.labels.items():
                    found[sample.labels[label]] = int(sample.value)
        return found

    def level(self, name: str, value: float) -> None:
        """Sets a level without labels."""
        self._levels[name].set(value)

    def levels(self, name: str, label: str, values: Mapping[str, float]) -> None:
        """Sets all levels of a name, by the values of its label."""
        gauge = self._levels[name]
        gauge.clear()
        for key, value in values.items():
            gauge.labels(**{label: key}).set(value)

    def time(self, name: str, seconds: float) -> None:
        """Adds a duration to the histogram of this name."""
        self._times[name].observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, summed over all processes that share an
        address."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
