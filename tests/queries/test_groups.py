"""Queries by group: private groups that are declared, public ones that compose in parallel."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import run

import shuffledp
from shuffledp import GroupsResult, Ledger
from shuffledp.errors import (
    BudgetExceeded,
    DataError,
    InputError,
    ParameterError,
    ShuffleDPError,
    ValueOutOfRange,
)

MONTHS = ["may", "Juni 東", ""]
SIZES = (700, 700, 100)


def frame() -> pd.DataFrame:
    month = np.repeat(np.arange(3), SIZES)
    number = np.arange(len(month))
    return pd.DataFrame(
        {
            "month": [MONTHS[place] for place in month],
            "place": month + 1,
            "bikes": number % 2 == 0,
            "visits": number % 4,
            "minutes": (number % 11) * 10.0 + month,
            "way": np.where(number % 2 == 0, "bike", "walk"),
            "id": number // 2,
        }
    )


ROWS = frame()
BY = ROWS.groupby("month", sort=False)


def near(found: GroupsResult, truth: Any) -> bool:
    """Within what noise does, also in one batch of a hundred in which a user is muted."""
    return bool(np.allclose(found.values, np.asarray(truth, float), atol=30 * found.rmse))


@pytest.mark.parametrize("how", [{"groups": MONTHS}, {"groups_public": True, "groups": MONTHS}])
@pytest.mark.parametrize("per_user", [False, True])
def test_every_answer_by_group(how: dict[str, Any], per_user: bool) -> None:
    shared: dict[str, Any] = {"epsilon": 8, "by": "month", "per_user": per_user, "seed": 5, **how}
    count = shuffledp.count(ROWS, column="bikes", **shared)
    equal = shuffledp.count(ROWS, column="way", equals="bike", **shared)
    for found in (count, equal):
        assert near(found, BY["bikes"].sum()) and found.answer == "count"
    visits = shuffledp.integer_sum(ROWS, column="visits", largest=3, **shared)
    assert near(visits, BY["visits"].sum()) and visits.answer == "integer-sum"
    minutes = shuffledp.real_sum(ROWS, column="minutes", bounds=(0, 120), rmse=90, **shared)
    assert near(minutes, BY["minutes"].sum()) and minutes.answer == "real-sum"
    mean = shuffledp.mean(ROWS, column="minutes", bounds=(0, 120), **shared)
    assert near(mean, BY["minutes"].mean()) and mean.answer == "mean"
    for found in (count, visits, minutes, mean):
        assert found.labels == tuple(MONTHS) and found.by == "month" and found.users == 1_500
        assert found.epsilon == 8 and found.public == ("groups_public" in how)
        assert (found.joint_low <= found.low).all() and (found.high <= found.joint_high).all()
        assert (found.low <= found.values).all() and (found.values <= found.high).all()
        json.dumps(found.to_dict(), allow_nan=False)


def test_private_groups_carry_one_certificate_and_say_what_they_rest_on() -> None:
    found = shuffledp.mean(
        ROWS, column="minutes", bounds=(0, 120), epsilon=4, by="month", groups=MONTHS
    )
    assert found.certificate is not None
    assert shuffledp.verify(found.certificate).protocol.query == "by-group"
    assert "ratio of two private numbers" in found.about and found.neighbours.startswith("replace")
    assert found.sizes is not None and abs(found.sizes[0] - 700) < 100
    table = found.to_frame("pandas")
    assert list(table["month"]) == MONTHS
    assert list(table.columns) == [
        "month", "estimate", "clipped", "low", "high", "joint_low", "joint_high", "size",
    ]  # fmt: skip
    data = found.to_dict()
    assert data["query"] == "by-group" and data["answer"] == "mean" and "ratio" in data["about"]
    assert "[clamped]" in repr(found.clamp(0, 50)) and found.clamp(0, 50).values.max() <= 50


def test_public_groups_are_a_release_each_and_paid_for_once(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 3)
    found = shuffledp.count(
        ROWS, column="bikes", epsilon=2, by="place", groups_public=True, ledger=ledger, note="first"
    )
    assert ledger.remaining() == 1 and found.labels == (1, 2, 3)
    assert found.sizes is not None and found.sizes.tolist() == list(SIZES)
    assert "parallel" in found.about and "group" in found.neighbours
    assert found.certificate is not None and found.certificate["composition"] == "parallel"
    each = found.certificate["groups"]
    users = [shuffledp.verify(one["certificate"]).protocol.users for one in each]
    assert users == list(SIZES)
    alone = shuffledp.count(ROWS["bikes"], epsilon=2)
    assert found.rmse < 1.2 * alone.rmse  # every group has the whole ε
    hidden = shuffledp.count(ROWS, column="bikes", epsilon=2, by="place", groups=[1, 2, 3])
    assert hidden.rmse > 1.5 * found.rmse  # private groups share it between up and down
    with pytest.raises(BudgetExceeded):
        shuffledp.count(
            ROWS, column="bikes", epsilon=2, by="place", groups_public=True, ledger=ledger
        )
    assert ledger.remaining() == 1
    kept = json.loads((tmp_path / "budget.json").read_text("utf-8"))
    assert "by public groups" in json.dumps(kept) and "first" in json.dumps(kept)


def test_the_ledger_keeps_the_result_of_some_rows_of_public_groups(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 3)
    asked: dict[str, Any] = {"by": "place", "groups_public": True, "ledger": ledger}
    found = shuffledp.count(ROWS, column="bikes", epsilon=2, where="place < 3", **asked)
    (entry,) = ledger.read().entries
    assert found.where and entry.result is not None
    assert entry.result["where"] == found.to_dict()["where"] == "place < 3"


def test_groups_beside_a_list_of_values_and_users_with_several_rows() -> None:
    labels, bits = ["b", "a", "a", "a"] * 250, [1, 0, 1, 1] * 250
    found = shuffledp.count(bits, epsilon=8, by=labels, groups=["a", "b"])
    assert near(found, [500, 250]) and found.by == "group"
    public = shuffledp.count(bits, epsilon=8, by=labels, groups_public=True)
    assert near(public, [500, 250]) and public.labels == ("a", "b")
    for how in ({}, {"groups_public": True}):  # an iterator is read once
        once: dict[str, Any] = {"groups": iter(["a", "b"]), **how}
        assert near(shuffledp.count(bits, epsilon=8, by=labels, **once), [500, 250])
    persons = shuffledp.count(
        ROWS, column="bikes", epsilon=8, by="month", groups=MONTHS, user="id", rows_per_user=1
    )
    assert persons.users == 750 and persons.epsilon == 8 and "at most 1" in persons.neighbours


def test_missing_values_stay_in_their_groups_and_a_clamp_is_said() -> None:
    gaps = ROWS.assign(minutes=ROWS["minutes"].where(ROWS.index % 3 > 0))
    asked: dict[str, Any] = {"column": "minutes", "epsilon": 8, "by": "month", "groups": MONTHS}
    with pytest.raises(DataError, match="missing values"):
        shuffledp.real_sum(gaps, bounds=(0, 120), **asked)
    found = shuffledp.real_sum(gaps, bounds=(0, 120), missing=60.0, **asked)
    filled = gaps.assign(minutes=gaps["minutes"].fillna(60.0))
    assert near(found, filled.groupby("month", sort=False)["minutes"].sum())
    moved = shuffledp.real_sum(ROWS, bounds=(0, 50), clamp=True, **asked)
    assert moved.clamped
    assert near(moved, ROWS["minutes"].clip(0, 50).groupby(ROWS["month"], sort=False).sum())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "declare them with groups="),
        ({"groups": MONTHS, "by": None}, "pass by, too"),
        ({"groups_public": True, "by": None}, "pass by, too"),
        ({"groups_public": "yes"}, "groups_public"),
        ({"groups": MONTHS[:2]}, "groups that were not declared"),
        ({"groups": MONTHS[:2], "groups_public": True}, "groups that were not declared"),
        ({"groups": [*MONTHS, "july"], "groups_public": True}, "has no users"),
        ({"groups": ["may"]}, "2 to"),
        ({"groups": ["may", "may"]}, "same label"),
        ({"groups": ["may", 1]}, "all texts or all whole"),
        ({"groups": [1, 2]}, "declared groups are whole numbers"),
        ({"groups": MONTHS, "by": "place"}, "declared groups are texts"),
        ({"groups": MONTHS, "by": "bikes"}, "texts or whole numbers"),
        ({"groups_public": True, "by": "minutes"}, "texts or whole numbers"),
        ({"groups": MONTHS, "by": "nothing"}, "no column 'nothing'"),
        ({"groups": MONTHS, "by": ["may"]}, "exactly one group for every row"),
        ({"groups": MONTHS, "by": 7}, "name of a column"),
        ({"groups": MONTHS, "relative_error": "0.1"}, "is not available by group"),
        ({"groups": MONTHS, "protocol": "local"}, "leave protocol out"),
        ({"groups_public": True, "protocol": "local"}, "leave it out"),
        ({"groups_public": True, "user": "id", "rows_per_user": 1}, "in parallel only"),
        ({"groups_public": True, "user": np.arange(len(ROWS))}, "in parallel only"),
        ({"groups_public": True, "users": 3}, "size of every public group"),
        ({"groups": MONTHS, "missing": "bucket"}, "histograms"),
        ({"groups": MONTHS, "user": "id"}, "rows_per_user=1"),
    ],
)
def test_bad_declarations_get_one_sentence_and_nothing_is_charged(
    given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 1)
    asked: dict[str, Any] = {"column": "bikes", "epsilon": 1, "by": "month", **given}
    if "protocol" not in given:
        asked["ledger"] = ledger
    with pytest.raises(ShuffleDPError, match=sentence):
        shuffledp.count(ROWS, **asked)
    assert ledger.remaining() == Fraction(1)


def test_missing_groups_and_values_that_do_not_fit_are_refused() -> None:
    gaps = ROWS.assign(month=ROWS["month"].where(ROWS.index % 3 > 0))
    for how in ({"groups": MONTHS}, {"groups_public": True}):
        with pytest.raises(DataError, match="column of groups has missing"):
            shuffledp.count(gaps, column="bikes", epsilon=1, by="month", **how)
    asked: dict[str, Any] = {"epsilon": 1, "by": "month", "groups": MONTHS}
    with pytest.raises(ValueOutOfRange, match="outside"):
        shuffledp.integer_sum(ROWS, column="visits", largest=2, **asked)
    with pytest.raises(ValueOutOfRange, match="outside"):
        shuffledp.mean(ROWS, column="minutes", bounds=(0, 50), **asked)
    with pytest.raises(InputError, match="true/false or 0/1"):
        shuffledp.count(ROWS, column="way", **asked)
    with pytest.raises(ParameterError, match="need an error as target"):
        shuffledp.mean(ROWS, column="minutes", bounds=(0, 120), max_messages=100, **asked)


def test_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    ROWS[ROWS["month"] != ""].to_csv(path, index=False)
    words = ["mean", str(path), "--column", "minutes", "--bounds", "0,120", "--epsilon", "8"]
    groups = ["--by", "place", "--groups", "1,2"]
    picture = tmp_path / "groups.png"
    code, out, _ = run(capsys, *words, *groups, "--json", "--plot", str(picture))
    assert code == 0 and picture.exists()
    assert [row["label"] for row in json.loads(out)["groups"]] == [1, 2]
    code, out, _ = run(capsys, *words, "--by", "month", "--groups-public")
    assert "group " in out and "query " not in out  # what the first column holds
    assert code == 0 and "Juni 東" in out and "parallel" in out
    code, out, _ = run(capsys, "count", str(path), "--column", "bikes", "--epsilon", "1", *groups)
    assert code == 0 and "Groups are private" in out
    for wrong in (["--by", "place"], ["--groups", "1,2"], ["--groups-public"]):
        code, _, error = run(capsys, *words, *wrong)
        assert code == 2 and error.count("\n") == 1


def test_plans_of_groups_and_of_combinations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = str(tmp_path / "plan.json")
    words = ["plan", "by-group", "--users", "500", "--epsilon", "1", "--groups", "may,june"]
    code, out, _ = run(
        capsys, *words, "--answer", "real-sum", "--bounds", "0,9", "--rmse", "200", "--output", plan
    )
    assert code == 0 and "by-group" in out
    assert shuffledp.Plan.load(plan).protocol.to_dict()["labels"] == ["may", "june"]
    for wrong in (
        ["--answer", "integer-sum"],
        ["--relative-error", "0.1"],
        ["--answer", "mean", "--bounds", "1"],
        ["--cell", "paper"],
    ):
        code, _, error = run(capsys, *words, *wrong)
        assert code == 2 and error.count("\n") == 1
    table = ["plan", "histogram", "--users", "500", "--epsilon", "1", "--json"]
    code, out, _ = run(capsys, *table, "--domain", "year=1,2", "--domain", "way=walk,bike")
    labels = json.loads(out)["certificate"]["protocol"]["labels"]
    assert code == 0 and labels == ["1 × walk", "1 × bike", "2 × walk", "2 × bike"]
    for bad in ([], ["--domain", "way"], ["--labels", "a,b", "--domain", "way=walk,bike"]):
        code, _, error = run(capsys, *table, *bad)
        assert code == 2 and error.count("\n") == 1
