"""An approximate baseline is never shown as pure, and a claim without support is never hidden."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from shuffledp import baselines
from shuffledp.baselines import BASELINES, Claim, Setting, baseline, baselines_for
from shuffledp.baselines.table import Row, Table, compare
from shuffledp.cli.compare import cells_of
from shuffledp.errors import ParameterError, PlanningError

APPROXIMATE = {
    "gkmp20", "gkmp20-published", "bbgn20", "bbgn20-average", "bc20", "bc20-published", "csuzz19",
    "csuzz19-published", "efmrtt19", "fmt21", "gmps21", "gmps21-published", "bbgn20-recursive",
    "bbgn20-recursive-published", "bbgn19", "bbgn19-published", "ggkpv21", "ggkpv21-published",
    "lwy22",
}  # fmt: skip


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    sums = [
        e.name for e in baselines_for("real-sum") if e.name != "ggkmpv20"
    ]  # slow, tested on its own
    return [
        compare("count", Setting.of(1500, 1, "1e-4")),
        compare("histogram", Setting.of(1500, 1, "1e-4", 5)),
        compare("real-sum", Setting.of(4000, 1, "1e-4"), [Fraction(24)], sums),
    ]


def test_the_registry_says_which_are_approximate() -> None:
    for entry in BASELINES:
        assert entry.pure != (entry.name in APPROXIMATE), entry.name


def test_no_approximate_row_reads_as_pure(tables: list[Table]) -> None:
    seen = set()
    for table in tables:
        for row in table.rows:
            approximate = row.name in APPROXIMATE
            privacy = cells_of(row)[5]
            assert privacy.startswith("pure") != approximate
            assert privacy.startswith("(ε, ") == approximate
            assert (row.to_dict()["privacy"]["kind"] == "approximate") == approximate
            assert (float(Fraction(row.to_dict()["privacy"]["delta"])) > 0) == approximate
            seen.add(row.name)
    assert seen >= APPROXIMATE - {"bbgn20-recursive-published"}


def test_a_claim_with_delta_cannot_be_pure() -> None:
    claim = Claim(epsilon=Fraction(1), delta=Fraction(1, 10**9), trust="shuffler", basis="computed")
    assert claim.kind == "approximate"
    assert "pure" not in str(claim)
    assert replace(claim, delta=Fraction(0)).kind == "pure"
    with pytest.raises(ParameterError):
        Claim(epsilon=Fraction(1), delta=Fraction(1), trust="shuffler", basis="computed")


def test_a_baseline_registered_as_what_it_is_not_is_refused() -> None:
    lie = replace(baseline("count", "gkmp20"), pure=True)
    with pytest.raises(ParameterError, match="claims otherwise"):
        lie.plan(Setting.of(1000, 1, "1e-6"))


def pareto(rows: Iterable[Row]) -> list[Row]:
    """Rows that no other row of the same kind and trust beats in both error and messages."""
    held = [row for row in rows if row.claim.holds and row.runnable]
    return [row for row in held if not any(_beats(other, row) for other in held)]


def _beats(other: Row, row: Row) -> bool:
    return (
        (other.claim.pure, other.claim.trust) == (row.claim.pure, row.claim.trust)
        and other.forecast.rmse <= row.forecast.rmse
        and other.forecast.messages_per_user <= row.forecast.messages_per_user
        and other is not row
    )


def test_unsupported_claims_say_so(tables: list[Table]) -> None:
    row = tables[0].row("bbgn20-average")
    assert row is not None
    assert "not verified" in row.privacy
    assert row not in pareto(tables[0].rows)


def test_trust_is_shown(tables: list[Table]) -> None:
    trust = {row.name: cells_of(row)[6] for row in tables[0].rows}
    assert trust["central"] == "central"
    assert trust["local"] == "local"
    assert trust["ours-0.5"] == trust["gkmp20"] == "shuffler"


def test_cy22_is_a_line_only(tables: list[Table]) -> None:
    row = tables[0].row("cy22")
    assert row is not None
    assert not row.runnable
    assert "line only" in row.title
    with pytest.raises(PlanningError, match="cannot be run"):
        baseline("count", "cy22").plan(Setting.of(100, 1))


def test_without_delta_only_pure_baselines_remain() -> None:
    table = compare("count", Setting.of(500, 1), [Fraction(1, 2)])
    assert {row.claim.kind for row in table.rows} == {"pure"}
    assert not {row.name for row in table.rows} & APPROXIMATE


def test_tables_are_json(tables: list[Table]) -> None:
    for table in tables:
        again = json.loads(json.dumps(table.to_dict()))
        assert len(again["rows"]) == len(table.rows)


def test_refusals_are_reported_not_hidden() -> None:
    table = compare("count", Setting.of(200, 1, "1e-6"), [Fraction(1, 2)])
    missing = dict(table.missing)
    assert "at least 1,451 users" in missing["bc20-published"]
    assert "1,000 users" in missing["efmrtt19"]


def test_figures_of_the_specification_are_met() -> None:
    """n = 10⁴, ε = 1, δ = 10⁻⁶: errors and messages at the value 1."""
    names = [
        "central",
        "local",
        "thinning",
        "gkmp20",
        "gkmp20-published",
        "bbgn20",
        "bc20",
        "bc20-published",
        "csuzz19",
        "csuzz19-published",
    ]
    table = compare("count", Setting.of(10_000, 1, "1e-6"), [], names)
    found = {row.name: (row.forecast.rmse, row.forecast.messages_per_user) for row in table.rows}
    expected = {
        "central": (1.357, 1), "local": (95.95, 1), "thinning": (76.3, 0.632),
        "gkmp20": (1.520, 1.06), "gkmp20-published": (1.520, 1.44), "bbgn20": (1.357, 7),
        "bc20": (5.83, 1.003), "bc20-published": (25.9, 1.93), "csuzz19": (5.84, 1),
        "csuzz19-published": (23.8, 1),
    }  # fmt: skip
    for name, (rmse, messages) in expected.items():
        assert found[name] == pytest.approx((rmse, messages), rel=6e-3), name


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ParameterError, match="there are: central"):
        baseline("count", "magic")
    with pytest.raises(ParameterError, match="count, real-sum or histogram"):
        baselines_for("median")


def test_noise_never_comes_from_a_statistical_generator() -> None:
    folder = Path(baselines.__file__).parent
    for source in folder.rglob("*.py"):
        text = source.read_text(encoding="utf-8")
        assert "np.random" not in text, source.name
        assert "import random" not in text, source.name
