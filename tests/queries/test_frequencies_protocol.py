"""Frequencies from two hashed rows: error, robustness against collisions, coverage, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import shuffledp
from shuffledp import FrequenciesResult, SeededEntropy, certify, plan_frequencies, verify
from shuffledp.cells.sparse.search import plan_sparse
from shuffledp.errors import ParameterError, PrivacyViolation, ValueOutOfRange
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.frequencies.table import Table, product_level
from shuffledp.queries.frequencies.tails import Background, Seen, counts_tried, first_place

USERS = 5_000
COUNTS = {"often": 1_500, "ä": 200, "": 20, "nobody": 0}
TRUE = np.array(list(COUNTS.values()))
OTHERS = USERS - int(TRUE.sum())
DATA = np.array(
    [label for label, count in COUNTS.items() for _ in range(count)]
    + [f"other {n % 400}" for n in range(OTHERS)],
    object,
)
Floats = NDArray[np.float64]


def protocol() -> FrequenciesProtocol:
    found = plan_frequencies(USERS, 1).protocol
    assert isinstance(found, FrequenciesProtocol)
    return replace(found, candidates=tuple(COUNTS))


def results(
    what: FrequenciesProtocol, runs: int, per_user: bool = False
) -> list[FrequenciesResult]:
    found = []
    for run in range(runs):
        entropy = SeededEntropy(run)
        one = what.renewed(entropy)
        draw = one.randomize_all if per_user else one.aggregate
        found.append(one.analyze(one.release(draw(DATA, entropy))))
    return found


@pytest.mark.parametrize("per_user", [False, True])
def test_bias_error_and_coverage(per_user: bool) -> None:
    """Labels that 0, 20, 200 and 1,500 of 5,000 users hold, beside 400 others."""
    what, runs = protocol(), 60
    found = results(what, runs, per_user)
    errors = np.array([one.values - TRUE for one in found])
    stated = np.array([what.rmse(USERS, count) for count in TRUE])
    # others add about 8 users to a bucket now and then, unless the rows tell that they do
    derived = np.sqrt(stated**2 + 2 * OTHERS**2 / 400 / what.row_buckets)
    assert (np.abs(errors.mean(axis=0)) < 4 * derived / math.sqrt(runs) + 2).all()
    spread, chance = np.sqrt((errors**2).mean(axis=0)), 4 / math.sqrt(2 * runs) + 0.1
    assert (spread < (1 + chance) * derived).all() and (spread > (1 - chance) * stated).all()
    inside = np.array([(one.low <= TRUE) & (one.high >= TRUE) for one in found])
    assert inside.mean() > 0.95 - 3 * math.sqrt(0.05 / inside.size)
    together = [((one.joint_low <= TRUE) & (one.joint_high >= TRUE)).all() for one in found]
    assert np.mean(together) > 0.95 - 3 * math.sqrt(0.05 / runs)
    # an error three times as large, or a third, would be seen
    assert (3 * spread > (1 + chance) * derived).all()
    assert (spread / 3 < (1 - chance) * stated).all()


def test_narrower_intervals_would_miss() -> None:
    """The twin of the coverage above: intervals of a third of the width."""
    found = results(protocol(), 25)
    middle = [(one.low + one.high) / 2 for one in found]
    wide = [(one.high - one.low) / 6 for one in found]
    inside = [np.abs(TRUE - at) <= reach for at, reach in zip(middle, wide, strict=True)]
    assert np.mean(inside) < 0.85


def table(tokens: list[list[int]]) -> Table:
    return Table(tokens=np.array(tokens), share=0.4, floor=10.0, slope=1.5)


def test_rows_that_disagree_leave_the_smaller_one() -> None:
    what = table([[0] * 1_000, [0] * 1_000])
    agree, collided = what.estimates(np.array([[40, 40], [44, 4_000]]))
    assert agree == pytest.approx(84 / 0.4, rel=0.01)
    assert collided == pytest.approx(80 / 0.4, rel=0.01)


def test_a_collision_widens_no_interval_below_the_truth() -> None:
    """A row of 4,000 tokens beside one of 2 shows hardly anybody."""
    rng = np.random.default_rng(3)
    rows = rng.poisson(1.0, (2, 4_096))
    rows[0, :60] = 4_000  # one label in 70 meets such a bucket
    low, high = table(rows.tolist()).intervals(np.array([[4_000, 2], [2, 2]]).T, 0.05)
    assert low[0] <= 20 and low[1] == 0
    assert high[1] < 40


def test_the_product_of_two_p_values() -> None:
    level = product_level(0.05)
    assert level * (1 - math.log(level)) == pytest.approx(0.05)
    drawn = np.random.default_rng(1).random((2, 200_000)).prod(axis=0)
    assert abs((drawn <= level).mean() - 0.05) < 0.003
    assert abs((drawn <= 2 * level).mean() - 0.05) > 0.02


def test_tails_of_a_binomial_with_a_background() -> None:
    background = Background(np.array([0, 3, 500]), np.array([0.7, 0.2, 0.1]))
    seen, rng = Seen(0.3, background), np.random.default_rng(2)
    drawn = rng.binomial(40, 0.3, 200_000) + rng.choice([0, 3, 500], 200_000, p=[0.7, 0.2, 0.1])
    asked = np.array([0, 8, 12, 20, 400, 600])
    above = np.array([(drawn >= value).mean() for value in asked])
    below = np.array([(drawn <= value).mean() for value in asked])
    assert np.abs(seen.at_least(40, asked) - above).max() < 0.006
    assert np.abs(seen.at_most(40, asked) - below).max() < 0.006
    assert np.abs(seen.at_least(44, asked) - above).max() > 0.05  # another count is seen


def test_rounded_backgrounds_only_widen() -> None:
    law = Background.of_counts(np.random.default_rng(4).zipf(1.6, 5_000).clip(max=10**6))
    for up in (True, False):
        short = law.rounded(up)
        assert len(short.values) < len(law.values) + 1
        assert short.weights.sum() == pytest.approx(1)
        for value in (10, 100, 3_000, 10**5):
            exact, rounded = (one.weights[one.values >= value].sum() for one in (law, short))
            assert rounded >= exact - 1e-12 if up else rounded <= exact + 1e-12


def test_counts_are_searched_by_halving() -> None:
    tried = counts_tried(1_000, 1.0)
    wanted = np.array([0, 5, 400, 999])
    places = first_place(lambda count, at: count >= wanted[at], tried, 4)
    assert (tried[places] >= wanted).all() and (tried[places] - wanted <= 4).all()


def test_a_result_answers_about_any_label_without_the_data() -> None:
    (one,) = results(protocol(), 1)
    often = one.frequency("often")
    assert often.value == one.values[0] and (often.low, often.high) == (one.low[0], one.high[0])
    assert one.showing(["often"]).labels == ("often",)
    assert "look up labels with" in str(one.showing([])) and one.showing([]).rmse > 0
    assert "public: 5,000 users" in str(one)


def test_whole_numbers_and_labels_that_are_refused() -> None:
    what = replace(protocol(), candidates=(3, 2**64 - 1))
    assert what.parse("18446744073709551615") == 2**64 - 1
    what.randomize(2**64 - 1), what.randomize("tea"), what.encode(np.array([2**64 - 1], np.uint64))
    for wrong in ("seven", "1" * 21):
        with pytest.raises(ValueOutOfRange):
            what.parse(wrong)
    for values in (np.array([1.5]), np.array([True]), np.array([[1]])):
        with pytest.raises(ValueOutOfRange):
            what.encode(values)
    with pytest.raises(ValueOutOfRange, match="One user"):
        what.randomize([1, 2])


def test_both_rows_are_used_equally_often() -> None:
    what = protocol()
    codes = what.encode(np.full(4_000, "tea", object), SeededEntropy(1))
    buckets, counts = np.unique(codes, return_counts=True)
    assert sorted(buckets // what.row_buckets) == [0, 1]
    assert abs(counts[0] - 2_000) < 200


def test_a_top_up_does_not_shift_the_estimates() -> None:
    what, off = protocol(), []
    for run in range(20):
        entropy = SeededEntropy(run)
        one = what.renewed(entropy)
        batch = one.aggregate(DATA, entropy) + one.top_up(USERS, entropy)
        off.append(one.analyze(one.release(batch)).values - TRUE)
    error = np.array([what.rmse(2 * USERS, count) for count in TRUE])
    assert (np.abs(np.mean(off, axis=0)) < 5 * error / math.sqrt(20) + 2).all()


def test_certificates_of_weaker_cells_are_refused() -> None:
    plan = plan_frequencies(20_000, 1)
    assert verify(plan.to_dict()).protocol == plan.protocol
    what = plan.protocol
    assert protocol_from_dict(what.to_dict()) == what
    cell = what.to_dict()["cell"]
    muted = Fraction(cell["muted"]) * Fraction(999, 1000)
    data = 1 - muted - Fraction(cell["jump"])
    weaker = {**what.to_dict(), "cell": {**cell, "muted": str(muted), "data": str(data)}}
    with pytest.raises(PrivacyViolation):
        certify(protocol_from_dict(weaker))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cell": plan_sparse(1_000, 1_000, 1)}, "power of two"),
        ({"cell": plan_sparse(1_000, 32, 1)}, "power of two"),
        ({"cell": plan_sparse(1_000, 1_024, 2)}, "own epsilon"),
        ({"hash_seed": "zz"}, "hexadecimal"),
        ({"candidates": ("a", "a")}, "same"),
    ],
)
def test_bad_parameters_get_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        replace(protocol(), **changes)  # type: ignore[arg-type]


def test_a_cell_of_another_kind_is_refused() -> None:
    from shuffledp import plan_count

    cell = plan_count(100, 1).protocol.to_dict()["cell"]
    with pytest.raises(ParameterError, match="sparse cell"):
        protocol_from_dict({**protocol().to_dict(), "cell": cell})


def test_labels_are_counted_before_they_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each different label is hashed once, however many parts a column has; the tally is one of
    the users, and both rows get about half of each label."""
    hashed: list[int] = []
    real = FrequenciesProtocol.buckets_of

    def watched(self: FrequenciesProtocol, labels: Any) -> Any:
        names = list(labels)
        hashed.append(len(names))
        return real(self, names)

    monkeypatch.setattr(FrequenciesProtocol, "buckets_of", watched)
    parts = [["tea"] * 3_000 + ["milk"] * 1_000, ["milk"] * 2_000, ["rum"] * 4_000]
    for table in (
        pa.table({"drink": pa.chunked_array(parts)}),
        pa.table(
            {"drink": pa.array([{"tea": 1, "milk": 2, "rum": 3}[x] for p in parts for x in p])}
        ),
    ):
        hashed.clear()
        found = shuffledp.frequencies(table, column="drink", epsilon=4, seed=1)
        assert sum(hashed) == 3 and isinstance(found, FrequenciesResult)
        text = table.schema.field(0).type == pa.string()
        names: list[Any] = ["tea", "milk", "rum"] if text else [1, 2, 3]
        shown = found.showing(names)
        assert (np.abs(shown.values - [3_000, 3_000, 4_000]) < 6 * shown.rmse).all()
    what = protocol()
    tally = what.tally_of_counted(
        np.array(["tea", "rum"], object), np.array([3_000, 700_000]), SeededEntropy(2)
    )
    tea, rum = what.buckets_of(["tea", "rum"]).T
    assert tally.sum() == 703_000
    for row in (0, 1):
        own = tally[row * what.row_buckets :][: what.row_buckets]
        assert abs(own[tea[row]] - 1_500) < 170 and abs(own[rum[row]] - 350_000) < 2_600
