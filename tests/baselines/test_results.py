"""Results of baselines: they are results like ours, and always state their own privacy claim."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from shuffledp.baselines import BaselineEstimate, BaselineHistogram, BaselineResult, run
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.protocols.results import Estimate, HistogramResult, Result

BITS = np.arange(2000) % 4 == 0
WAYS = np.arange(2000) % 3
LABELS = ("walk", "bike", "bus")


@pytest.fixture(scope="module")
def approximate() -> BaselineEstimate:
    return run("count", "gkmp20", BITS, 1, "1e-6")


@pytest.fixture(scope="module")
def central() -> BaselineHistogram:
    return run("histogram", "central", WAYS, 1, buckets=LABELS)


def test_they_are_results_of_the_same_types(
    approximate: BaselineEstimate, central: BaselineHistogram
) -> None:
    assert isinstance(approximate, Estimate) and isinstance(approximate, BaselineResult)
    assert isinstance(central, HistogramResult) and isinstance(central, Result)


def test_a_central_histogram_prints_every_value_with_its_label(central: BaselineHistogram) -> None:
    for (name, value, low, high), line in zip(
        central.rows(), str(central).splitlines()[1:4], strict=True
    ):
        assert line.split()[0] == name
        assert f"{value:,.1f}" in line
        assert f"{low:,.0f} … {high:,.0f}" in line
    assert [name for name, *_ in central.rows()] == list(LABELS)
    assert "trusting the party that collects the raw values" in str(central)


def test_histograms_come_with_joint_intervals_around_the_single_ones(
    central: BaselineHistogram,
) -> None:
    assert (central.joint_low <= central.low).all()
    assert (central.joint_high >= central.high).all()
    assert (central.joint_high > central.high).any()
    assert (central.low <= central.values).all() and (central.values <= central.high).all()


def test_delta_is_shown_wherever_an_approximate_result_is_shown(
    approximate: BaselineEstimate,
) -> None:
    assert "δ = 1e-06" in approximate.privacy_in_words()
    for shown in (str(approximate), approximate._repr_html_()):
        assert "(ε, δ)" in shown and "1e-06" in shown
        assert "pure" not in shown
    data = json.loads(json.dumps(approximate.to_dict()))
    assert "δ = 1e-06" in data["privacy"] and "pure" not in data["privacy"]
    assert data["claim"]["delta"] == "1/1000000"
    assert data["protocol"] == "gkmp20"


def test_a_pure_result_says_pure_and_whom_it_trusts() -> None:
    found = run("count", "local", BITS, 1)
    assert found.privacy_in_words() == "pure ε-DP, trusting nobody"
    assert "pure ε = 1, trusting nobody" in str(found)
    assert "pure ε-DP, trusting nobody" in found._repr_html_()


def test_a_claim_that_nothing_supports_is_marked() -> None:
    found = run("count", "bbgn20-average", BITS, 1, "1e-6")
    assert "not verified" in found.privacy_in_words()
    assert "not verified" in str(found)


def test_a_seeded_result_is_not_private() -> None:
    found = run("count", "gkmp20", BITS, 1, "1e-6", entropy=SeededEntropy(1))
    assert found.privacy_in_words() == "none: seeded"
    assert found.to_dict()["claim"]["kind"] == "approximate"


def test_epsilon_is_that_of_the_claim(approximate: BaselineEstimate) -> None:
    assert approximate.epsilon == approximate.claim.epsilon == 1
    with pytest.raises(ParameterError, match="ε of its privacy claim"):
        replace(approximate, epsilon=Fraction(1, 2))


def test_clamping_keeps_the_type_and_the_claim(central: BaselineHistogram) -> None:
    cut = central.clamp(0, 10)
    assert isinstance(cut, BaselineHistogram)
    assert cut.clamped and cut.claim == central.claim and (cut.values <= 10).all()


def test_the_error_law_of_a_picture_is_that_of_the_noise() -> None:
    found = run("count", "central", BITS, 1)
    assert found.errors is not None
    errors, chances = found.errors()
    assert chances.sum() == pytest.approx(1, abs=1e-4)
    assert float((errors**2 * chances).sum()) ** 0.5 == pytest.approx(found.rmse, rel=0.01)
    assert run("count", "local", BITS, 1).errors is None


@pytest.mark.parametrize("name", ["central", "local"])
def test_pictures_of_baselines_can_be_drawn(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("count", name, BITS, 1).plot(str(tmp_path / "count.png"))
    run("histogram", name, WAYS, 1, buckets=LABELS).plot(str(tmp_path / "histogram.png"))
    for picture in ("count.png", "histogram.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_what_does_not_belong_to_a_query_is_refused() -> None:
    with pytest.raises(ParameterError, match="bounds are only for real sums"):
        run("count", "local", BITS, 1, bounds=(0, 1))
    query: str = "count"
    with pytest.raises(ParameterError, match="buckets are only for histograms"):
        run(query, "local", BITS, 1, buckets=3)
    with pytest.raises(ParameterError, match="pass buckets"):
        run("histogram", "local", WAYS, 1)
