"""The cell: Algorithms 1 and 2, their error, their messages, and the two paths to the same law."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.search import search_cell
from shuffledp.cells.registry import CELL as CELL_SCHEMA
from shuffledp.cells.registry import cell_from_dict
from shuffledp.cells.search import CellTarget
from shuffledp.errors import InputError, ParameterError, ShortBatchError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.protocols.report import Report, View, count_messages, release, shuffle

F = Fraction
CELL = PaperCell(
    users=200,
    largest=1,
    up_epsilon=F(1),
    down_epsilon=F(4, 5),
    mute_probability=F(1, 100),
    input_pairs=3,
    flood_mean=F(60),
)
DIGIT = PaperCell(
    users=200,
    largest=4,
    up_epsilon=F(1),
    down_epsilon=F(4, 5),
    mute_probability=F(1, 50),
    input_pairs=3,
    flood_mean=F(60),
    stand_in=2,
)


def report_of(value: int) -> Report:
    """One user's report, drawn as on a device."""
    plus, minus = CELL.randomize(value, SeededEntropy(value))
    return Report(users=1, plus=np.array([plus]), minus=np.array([minus]))


def estimates(cell: PaperCell, values: np.ndarray, runs: int, aggregate: bool) -> np.ndarray:
    """Estimates of many seeded runs."""
    entropy = SeededEntropy(f"{cell} {aggregate}")
    tally = np.bincount(values, minlength=cell.largest + 1)
    found = np.empty(runs)
    for run in range(runs):
        if aggregate:
            plus, minus = cell.aggregate(tally, entropy)
        else:
            plus, minus = cell.randomize_total(values, entropy)
        found[run] = float(cell.estimate(plus, minus, len(values)))
    return found


@pytest.mark.parametrize("cell", [CELL, DIGIT], ids=["count", "digit"])
@pytest.mark.parametrize("aggregate", [False, True], ids=["one by one", "aggregate"])
@pytest.mark.parametrize("users", [200, 500])
def test_unbiased_with_the_forecast_error(cell: PaperCell, aggregate: bool, users: int) -> None:
    values = np.arange(users) * 7 % (cell.largest + 1)
    truth, squares = int(values.sum()), int(((values - cell.stand_in) ** 2).sum())
    errors = estimates(cell, values, 3000, aggregate) - truth
    mse = float(cell.squared_error(users, squares))
    assert abs(errors.mean()) < 4 * (mse / 3000) ** 0.5
    assert abs((errors**2).mean() / mse - 1) < 0.13
    # the twin: a forecast for another muting probability is found to be wrong
    wrong = replace(cell, mute_probability=F(1, 4))
    assert abs((errors**2).mean() / float(wrong.squared_error(users, squares)) - 1) > 0.13


def test_erratum_1_subtracting_the_pairs_would_be_wrong() -> None:
    values = np.ones(200, np.int64)
    sent = [CELL.randomize_total(values, SeededEntropy(run)) for run in range(200)]
    plain = np.array([plus - minus for plus, minus in sent])
    assert abs(plain.mean() - 200) < 10  # Σ y is about the count already …
    assert abs(plain.mean() - 200 * CELL.input_pairs - 200) > 500  # … and Σ y − ns is not


def test_erratum_7_the_plain_sum_is_low_by_q_times_the_count() -> None:
    cell = replace(CELL, mute_probability=F(1, 5))
    values = np.ones(200, np.int64)
    noise = float(cell.plus_noise.mean() - cell.minus_noise.mean())
    plain = []
    for run in range(400):
        plus, minus = cell.aggregate(np.array([0, 200]), SeededEntropy(f"e7 {run}"))
        plain.append(plus - minus - noise)
    assert abs(np.mean(plain) - 0.8 * len(values)) < 2


@pytest.mark.parametrize("cell", [CELL, DIGIT], ids=["count", "digit"])
def test_erratum_2_messages_count_the_flood_twice(cell: PaperCell) -> None:
    values = np.full(200, cell.largest)
    sent = [sum(cell.randomize_total(values, SeededEntropy(run))) / 200 for run in range(400)]
    forecast = float(cell.messages_per_user())
    assert abs(np.mean(sent) - forecast) < 5 * np.std(sent) / 20
    printed = forecast - float(cell.flood_mean) / 200  # λ/n once, as in the print
    assert abs(np.mean(sent) - printed) > 5 * np.std(sent) / 20


def test_both_paths_have_the_same_law_of_the_view() -> None:
    """Mean and covariance of (V₊, V₋) over many runs, one by one against aggregate."""
    values = np.array([1] * 60 + [0] * 140)
    views = {}
    for name in ("each", "all"):
        entropy = SeededEntropy(f"law {name}")
        rows = []
        for _ in range(4000):
            if name == "each":
                rows.append(CELL.randomize_total(values, entropy))
            else:
                rows.append(CELL.aggregate(np.array([140, 60]), entropy))
        views[name] = np.array(rows, float)
    spread = np.cov(views["each"].T)
    shift = views["each"].mean(axis=0) - views["all"].mean(axis=0)
    assert (np.abs(shift) < 5 * np.sqrt(2 * np.diag(spread) / 4000)).all()
    assert np.allclose(spread, np.cov(views["all"].T), rtol=0.12)


def test_a_user_is_an_explicit_list_of_signs() -> None:
    report = report_of(1)
    plus, minus = report.plus[0], report.minus[0]
    signs = report.signs()
    assert (signs == 1).sum() == plus and (signs == -1).sum() == minus
    assert report.messages().shape == (len(signs), 2)
    again = count_messages(shuffle([signs]), 1)
    assert again.plus[0] == plus and again.minus[0] == minus


def test_shuffling_messages_keeps_the_bag_and_reports_add_up() -> None:
    reports = [report_of(x) for x in (0, 1, 1)]
    mixed = shuffle([report.signs() for report in reports])
    together = shuffle(reports)
    assert (mixed == 1).sum() == together.plus[0] and together.users == 3
    with pytest.raises(InputError, match="nothing to shuffle"):
        shuffle([])
    with pytest.raises(InputError, match="cannot be added"):
        reports[0] + Report(users=1, plus=np.zeros(2, np.int64), minus=np.zeros(2, np.int64))


def test_the_door_refuses_a_short_batch() -> None:
    batch = Report(users=199, plus=np.array([5]), minus=np.array([4]))
    with pytest.raises(ShortBatchError, match="199 of the 200"):
        release(batch, 200)
    view = release(Report(users=200, plus=np.array([5]), minus=np.array([4])), 200)
    assert isinstance(view, View) and view.users == 200
    assert (view.arranged() == 1).sum() == 5


def test_muting_rarer_than_any_float_has_a_lower_bound_too() -> None:
    rare, rarer = (replace(CELL, mute_probability=F(1, 10**k)) for k in (300, 390))
    low, high = (replace(cell, input_pairs=9000).fewest_messages(F(1), 1) for cell in (rare, rarer))
    assert low is not None and high is not None and 1 < low < high


def test_a_report_prints_no_counts() -> None:
    assert "12345" not in repr(Report(users=1, plus=np.array([12345]), minus=np.array([12345])))


@pytest.mark.parametrize("values", [[-1], [2], [0, 1, 7]])
def test_values_outside_are_refused_without_naming_them(values: list[int]) -> None:
    with pytest.raises(ValueOutOfRange) as caught:
        CELL.randomize_total(np.array(values))
    assert "7" not in str(caught.value) and "-1" not in str(caught.value)
    with pytest.raises(ValueOutOfRange, match="whole numbers"):
        CELL.randomize_total(np.array([0.5]))
    with pytest.raises(ValueOutOfRange):
        CELL.aggregate(np.array([1, 2, 3]))


def test_a_batch_of_one_and_of_none() -> None:
    cell = replace(CELL, users=1)
    assert cell.aggregate(np.array([0, 0])) == (0, 0)
    assert sum(cell.randomize_total(np.array([1]))) > 0
    assert sum(cell.aggregate(np.array([0, 1]))) > 0


@pytest.mark.parametrize("largest", [15, 16, 1000])
def test_a_cell_without_pairs_is_read_back_however_large_the_values_are(largest: int) -> None:
    target = CellTarget(
        users=100, expected=100, largest=largest, up=F(1), down=F(1), mse=F(99 * largest) ** 2
    )
    found = search_cell(target, None)
    assert found is not None and isinstance(found.cell, PaperCell)
    assert found.cell.input_pairs == 0
    data = found.cell.to_dict()
    CELL_SCHEMA.check(data, "cell")
    assert cell_from_dict(data) == found.cell


@pytest.mark.parametrize(
    "change",
    [
        {"users": 0},
        {"largest": 0},
        {"up_epsilon": F(0)},
        {"down_epsilon": F(-1)},
        {"down_epsilon": F(1001)},
        {"mute_probability": F(0)},
        {"mute_probability": F(1)},
        {"input_pairs": -1},
        {"flood_mean": F(0)},
        {"flood_mean": F(-1)},
        {"stand_in": 2},
    ],
    ids=str,
)
def test_parameters_outside_their_domain(change: dict[str, object]) -> None:
    """Erratum 4 among them: q must stay below 1."""
    with pytest.raises(ParameterError):
        replace(CELL, **change)  # type: ignore[arg-type]
