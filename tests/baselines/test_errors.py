"""Simulated errors against forecasts, over seeded runs; a forecast that is off is rejected."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp.baselines import BASELINES, Baseline, Entry, Setting
from shuffledp.baselines.base import Bag
from shuffledp.baselines.protocols.bbgn19 import BlanketSum
from shuffledp.baselines.protocols.gmps21 import GMPS21
from shuffledp.errors import PlanningError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.laws import NegativeBinomial
from shuffledp.protocols.report import shuffle

BUCKETS = 4
SMALLER = {  # (users, runs) where a run or a calibration takes long
    "histogram-ggkpv21": (128, 120),
    "histogram-gkmp20": (3000, 600),
    "real-sum-ggkmpv20": (100, 800),
}
RUNNABLE = [entry for entry in BASELINES if entry.runnable]


def name(entry: Entry) -> str:
    """The entry's name in test reports."""
    return f"{entry.query}-{entry.name}"


def planned(entry: Entry, users: int, delta: str) -> Baseline:
    """The baseline for so many users, or for the least larger number that its theorem allows."""
    delta = min(delta, "0.009", key=float) if entry.name == "efmrtt19" else delta  # its condition
    setting = Setting.of(users, 1, delta, BUCKETS)
    if entry.name.startswith(
        "gmps21"
    ):  # the published noise is millions of messages; its law is tested
        some = NegativeBinomial(Fraction(3), Fraction(1))
        return replace(GMPS21.with_units(setting, 4), pairs=some, splits=(some,) * 4)
    for enough in (users, 60, 400, 2000, 6000, 20_000):
        try:
            return entry.plan(Setting.of(max(users, enough), 1, delta, BUCKETS))
        except PlanningError:
            continue
    raise AssertionError(f"{entry.name} plans for no number of users up to 20,000")


def data_for(baseline: Baseline, users: int) -> NDArray[Any]:
    """Where sums err most: values between two units of the rounding."""
    if baseline.query == "count":
        return np.asarray(np.arange(users) % 3 == 0, np.int64)
    if baseline.query == "histogram":
        return np.asarray(np.minimum(np.arange(users) % 7, BUCKETS - 2))  # none in the last bucket
    value = (
        baseline.digits[-1].worst_fraction / baseline.units
        if isinstance(baseline, BlanketSum)
        else 0.5 / getattr(baseline, "units", 1)
    )
    return np.full(users, value)


def truth_of(baseline: Baseline, values: NDArray[Any]) -> NDArray[Any]:
    if baseline.query == "histogram":
        return np.bincount(values, minlength=BUCKETS)
    return np.array([values.sum()])


def squared_errors(baseline: Baseline, bags: list[Bag], values: NDArray[Any]) -> NDArray[Any]:
    """(error)²/forecast, one row per run."""
    truth = truth_of(baseline, values)
    totals = [None] if baseline.query == "real-sum" else list(truth)
    forecast = np.array([baseline.mean_squared_error(len(values), total) for total in totals])
    return np.array([(baseline.analyze(bag) - truth) ** 2 / forecast for bag in bags])


def agrees(ratios: NDArray[Any], factor: float = 1.0) -> bool:
    """Whether the mean is 1 after the forecast is divided by `factor`, within 4.5 deviations."""
    runs = ratios.mean(axis=1)
    return bool(abs(runs.mean() * factor - 1) < 4.5 * runs.std() / len(runs) ** 0.5)


@pytest.mark.parametrize("entry", RUNNABLE, ids=name)
def test_aggregate_is_unbiased_and_errs_as_forecast(entry: Entry) -> None:
    users, runs = SMALLER.get(name(entry).removesuffix("-published"), (3000, 1500))
    baseline = planned(entry, users, "1e-3")
    users = baseline.users
    values, entropy = data_for(baseline, users), SeededEntropy(name(entry))
    bags = [baseline.aggregate(values, entropy) for _ in range(runs)]
    ratios = squared_errors(baseline, bags, values)
    assert agrees(ratios)
    assert not agrees(ratios, 2.2)
    assert not agrees(ratios, 1 / 2.2)
    found = np.array([baseline.analyze(bag) for bag in bags])
    away = np.abs(found.mean(axis=0) - truth_of(baseline, values))
    assert (away / (found.std(axis=0) / runs**0.5)).max() < 4.5


@pytest.mark.parametrize("entry", RUNNABLE, ids=name)
def test_message_by_message_has_the_same_law(entry: Entry) -> None:
    """randomize, shuffle, collect, analyze: one user after the other."""
    baseline = planned(entry, 25, "0.05")
    users, runs = baseline.users, 60 if baseline.users <= 60 else 16
    values, entropy = data_for(baseline, users), SeededEntropy(f"messages {name(entry)}")
    bags = []
    for _ in range(runs):
        sent = shuffle([baseline.randomize(value, entropy) for value in values], entropy)
        extra = {"entropy": entropy} if baseline.claim.trust == "central" else {}
        bags.append(baseline.collect(sent, users, **extra))
    ratios = squared_errors(baseline, bags, values).mean(axis=1)
    assert 0.35 < ratios.mean() < 2.2


@pytest.mark.parametrize("entry", RUNNABLE, ids=name)
def test_messages_are_as_many_as_forecast(entry: Entry) -> None:
    baseline = planned(entry, 25, "0.05")
    entropy = SeededEntropy(f"cost {name(entry)}")
    value = 1 if baseline.query != "real-sum" else 1.0
    sent = [len(baseline.randomize(value, entropy)) for _ in range(400)]
    most = baseline.messages_per_user()
    allowed = 4.5 * np.std(sent) / 20
    assert np.mean(sent) <= most + allowed + 1e-9
    assert np.mean(sent) >= 0.9 * most - allowed
