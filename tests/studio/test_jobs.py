"""What the studio's processes answer, and the report that is made of it."""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import shuffledp
from shuffledp.cells.report_size import EXACT
from shuffledp.errors import DataError, ParameterError, PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.studio.collecting import Purpose, make_task
from shuffledp.studio.examples import answer_lines
from shuffledp.studio.exports import EXPORTS
from shuffledp.studio.fields import number, whole_number
from shuffledp.studio.jobs import JOBS, answers, plan_json
from shuffledp.studio.public_page import public_page
from shuffledp.studio.questions import QUESTIONS, plan_of, quick_plan, reach_of
from shuffledp.studio.report import TRIAL, report_page
from shuffledp.studio.running import Collected, given_values
from shuffledp.studio.suggesting import smaller_epsilon, suggestions
from shuffledp.studio.words import (
    accuracy_sentence,
    cautions,
    certificate_rows,
    cost_sentence,
    plan_facts,
    plan_sentences,
    suspicion_sentence,
)
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.results import result_lines

FORM: dict[str, Any] = {
    "question": "count",
    "users": "1000",
    "epsilon": "1",
    "error": "6",
    "confidence": "95",
    "messages": "40",
    "find": "messages",
    "labels": ["walk", "bike"],
    "other": False,
    "largest": "3",
    "low": "0",
    "high": "10",
    "bins": "8",
    "publish_noise": True,
    "pure": False,
    "delta": "1e-6",
}
RATES = {"encrypted": 1e4, "ordered": 1e6, "opened": 1e4, "tallied": 1e6, "cores": 1}


def items(job: str, **given: Any) -> list[dict[str, Any]]:
    return list(JOBS[job](**given))


def test_the_plan_keeps_the_sentence_with_the_analyzers_noise_in_it() -> None:
    plans = [one for one in items("plan", form=FORM, rates=RATES) if "plan" in one]
    assert [one["final"] for one in plans] == [False, True]
    plan = Plan.from_dict(json.loads(plans[-1]["plan"]["json"]))
    assert plan.users == 1000 and plan.expected == 2000
    assert reach_of(FORM, plan) <= 6
    asked = {**FORM, "question": "histogram", "error": "12"}
    less, more = (plan_of({**asked, "publish_noise": noise}, "bounded") for noise in (False, True))
    assert (less.expected, more.expected) == (1000, 2000)
    assert less.report_size < more.report_size


def test_what_is_said_of_privacy_follows_the_padding() -> None:
    asked = {**FORM, "question": "quantiles", "error": "0.12", "users": "50000", "bins": "32"}
    exact, cheap = (
        [
            one["plan"]
            for one in items("plan", form={**asked, "pure": pure}, rates=RATES)
            if "plan" in one
        ][-1]
        for pure in (True, False)
    )
    assert json.loads(exact["json"])["padding"] == "exact"
    assert json.loads(exact["json"])["cells"] == ["pooled"]
    assert "2⁻⁶⁴" not in str(exact) and "pure ε-differential privacy" in str(exact["facts"])
    assert cheap["messages"] <= exact["messages"]
    paper = plan_of(asked, "paper")
    assert paper.padding == "2^-64"
    assert "2⁻⁶⁴" in plan_sentences(asked, paper)[3] and "pure" not in str(plan_facts(paper))


def test_the_two_other_numbers_are_found_too() -> None:
    by_messages = plan_of({**FORM, "find": "error"})
    assert by_messages.report_size <= 40
    by_epsilon = plan_of({**FORM, "find": "epsilon", "error": "30"})
    assert by_epsilon.epsilon < 1 and by_epsilon.report_size <= 40
    assert reach_of(FORM, by_epsilon) <= 30


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_drawn_and_tried(question: str) -> None:
    finds = QUESTIONS[question].words.finds[0]
    form = {**FORM, "question": question, "error": "400", "users": "200", "find": finds}
    found = list(islice(JOBS["frontier"](form), 4))  # the rest takes long for sums
    assert sum("ours" in one for one in found) >= 2
    assert all(one["ours"]["messages"] > 0 for one in found if "ours" in one)
    (tried,) = items("trial", form=form)
    assert shuffledp.verify(json.loads(tried["json"])).epsilon == 1


def test_without_a_delta_only_pure_baselines_are_shown() -> None:
    kinds = [
        {
            one["baseline"]["kind"]
            for one in items("frontier", form={**FORM, "delta": delta})
            if "baseline" in one
        }
        for delta in ("1e-6", "")
    ]
    assert "approximate" in kinds[0] and kinds[1] == {"pure"}


def test_baselines_beside_groups_count_the_same_or_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a cross table they count every combination; none counts people in each group."""
    monkeypatch.setattr("shuffledp.studio.questions.OVERHEADS", (Fraction(8),))  # of our plans
    groups = {"by_group": True, "groups": ["women", "men", "other"]}
    table = {**FORM, "question": "histogram", "error": "30"}

    def response(form: dict[str, Any]) -> dict[str, Any] | None:
        found = (one["baseline"] for one in JOBS["frontier"](form) if "baseline" in one)
        return next((one for one in found if one["title"] == "Local randomized response"), None)

    six = response({**table, "labels": list("abcdef")})
    assert response({**table, **groups}) == six != response(table)
    assert response(FORM) is not None and response({**FORM, **groups}) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"error": "-2"}, "Error: write a number greater than 0"),
        ({"error": ""}, "field is empty"),
        ({"error": "1.500"}, "can mean two numbers"),
        ({"error": "0,5"}, "with a point before decimals"),
        ({"users": "1"}, "Participants you can count on: .* at least 2"),
        ({"users": "20.000"}, "as 20000, 20,000 or 20 000"),
        ({"users": "0,5"}, "as 20000, 20,000 or 20 000"),
        ({"users": "abc"}, "as 20000, 20,000 or 20 000"),
        ({"users": None}, "field is empty"),
        ({"find": "error", "messages": "0"}, "Messages per device: .* at least 1"),
        ({"epsilon": "zero"}, "Privacy loss ε: write a number"),
        ({"find": "nothing"}, "can be found"),
        ({"question": "x"}, "question must be"),
        ({"question": "histogram", "labels": ["a"]}, "two answers"),
        ({"question": "histogram", "labels": "a"}, "one on each line"),
        ({"question": "quantiles", "find": "epsilon"}, "only messages"),
        ({"question": "real-sum", "low": "5", "high": "1"}, "below"),
    ],
)
def test_wrong_forms_get_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ParameterError, PlanningError), match=sentence):
        items("plan", form={**FORM, **change}, rates=RATES)


def test_a_worker_tells_refusals_and_faults_apart() -> None:
    asked = {"job": "plan", "given": {"form": {**FORM, "users": "x"}}}
    assert list(answers(json.dumps(asked)))[-1]["end"] == "refused"
    broken = list(answers(json.dumps({"job": "plan", "given": {"nothing": 1}})))
    assert "bug in shuffledp" in broken[-1]["why"]


def test_an_impossible_target_offers_those_that_can_be_reached() -> None:
    """Each button leads to a plan; more people are offered where they help."""
    asked = {**FORM, "pure": True, "error": "0.1", "error_unit": "percent"}
    why, *offered = items("plan", form=asked, rates=RATES)
    assert "No plan with ε = 1" in why["impossible"]
    labels = [one["suggestion"]["label"].split()[0] for one in offered]
    assert labels == ["use", "use", "ask"]
    for one in offered:
        form = {**asked, **one["suggestion"]["set"]}
        found = [item["plan"] for item in items("plan", form=form, rates=RATES) if "plan" in item]
        assert found, one
    with pytest.raises(PlanningError):
        plan_of(asked, "bounded")
    alone = items("plan", form={**FORM, "pure": True, "error": "1"}, rates=RATES)
    assert alone[1]["suggestion"]["set"] == {"error": "4"}
    assert len(alone) == 3  # more people do not make an error in people smaller


def test_the_least_error_that_is_offered_has_a_plan() -> None:
    """Also where the search of a plan within an error would miss it."""
    asked = {**FORM, "question": "real-sum", "users": "10000", "high": "100"}
    offered = next(suggestions(asked))
    assert plan_of({**asked, **offered["set"]}, "bounded").report_size > 1


@pytest.mark.parametrize(
    ("change", "headline"),
    [
        ({}, r"413 ± \d+ of 1,000 people \(41\.3 %\)"),
        ({"question": "histogram", "error": "20"}, r"walk: 571 ± \d+ of 1,000 people"),
        ({"question": "mean", "error": "0.9"}, r"mean: 4\.13 ± 0\.\d+$"),
        (
            {"question": "quantiles", "error": "40", "low": "2026-01-01", "high": "2026-12-31"},
            r"median: 2026-05-31 ± [\d.]+ days",
        ),
    ],
)
def test_what_people_will_see_comes_first(change: dict[str, Any], headline: str) -> None:
    first = next(JOBS["plan"]({**FORM, **change, "pure": True}, RATES))
    example = first["plan"]["example"]
    assert re.match(headline, example["headline"]), example
    low, high = example["scale"]
    assert all(low <= value <= high for _, value, _, _ in example["rows"])


def test_a_suspicion_is_never_said_to_be_certain() -> None:
    assert suspicion_sentence(Fraction(1), "you said yes").startswith(
        "Someone who sees a 1 % chance that you said yes is at most 2.7 % sure"
    )
    assert "more than 99.99 %" in suspicion_sentence(Fraction(40), "x")
    assert "100 %" not in suspicion_sentence(Fraction(12), "x", 0.5)


def imported(path: Path, **chosen: str) -> dict[str, Any]:
    *_, last = items("look", path=str(path), chosen=chosen)
    return dict(last["found"])


def rehearsed(form: dict[str, Any], path: Path, **chosen: Any) -> list[dict[str, Any]]:
    plan = planned(json.dumps({**form, "equals": None}))
    return items("rehearse", form=form, plan=plan, path=str(path), runs="12", chosen=chosen)


@cache
def planned(form: str) -> str:
    """The plan for a form, as JSON text."""
    return plan_json(plan_of(json.loads(form), "bounded"))


def test_a_rehearsal_with_fewer_rows_keeps_the_target_or_says_that_it_cannot(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("minutes\n" + "\n".join(["7", "3"] * 200))
    imported(file)
    form = {**FORM, "question": "quantiles", "users": "4000", "error": "1", "pure": True}
    ready, *_, last = rehearsed(form, file, column="0")
    assert ready["ready"]["differs"].endswith("with the same ε and target, is rehearsed instead.")
    assert last["summary"]["within"]["error"] <= 1
    ready, *_, last = rehearsed({**form, "error": "0.06"}, file, column="0")
    assert "With 400 people and ε = 1 the error that you asked for" in ready["ready"]["differs"]
    assert 0.06 < last["summary"]["within"]["error"] < 0.5


def test_a_trial_of_few_people_says_that_it_errs_more_than_asked() -> None:
    form = {**FORM, "question": "quantiles", "users": "60", "error": "0.1", "pure": True}
    (trial,) = items("trial", form=form)
    assert "cannot be reached" in trial["cautions"][0]
    plan = json.loads(trial["json"])
    assert plan["users"] == 60 and plan["padding"] == EXACT  # no exception, as the form says


def test_a_rehearsal_of_a_parquet_file(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    file = tmp_path / "ways.parquet"
    pq.write_table(pa.table({"code": np.arange(900) % 3}), file)
    assert imported(file)["columns"][0]["words"] == "whole numbers"
    form = {**FORM, "question": "histogram", "labels": ["0", "1", "2"], "error": "30"}
    found = rehearsed(form, file, column="0")
    assert "900 rows, fewer than the plan needs" in found[0]["ready"]["differs"]
    assert found[0]["ready"]["truth"] == [300.0] * 3
    assert found[-1]["summary"]["runs"] == 12 and len(found) == 14
    with pytest.raises(DataError, match="no such column") as error:
        rehearsed(form, file, column="7")
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_file_of_a_german_spreadsheet(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "wege.csv"
    file.write_bytes("Fahrten 2026;\n\nfährt;weg\n1;Fuß\n0; Rad \n".encode(encoding))
    found = imported(file)
    assert [one["name"] for one in found["columns"]] == ["fährt", "weg"]
    plain = {"utf-8-sig": "utf-8", "utf-16-le": "utf-16"}.get(encoding, encoding)
    assert (found["format"]["encoding"], found["format"]["delimiter"]) == (plain, ";")
    assert found["rows"] == 2 and found["format"]["header"] == 3
    form = {**FORM, "users": "2", "error": "50"}
    assert rehearsed(form, file, column="0")[0]["ready"]["truth"] == [1.0]
    with pytest.raises(DataError, match="holds texts, and the question is about numbers"):
        rehearsed(form, file, column="1")
    for equals, absent in (("rad", ["rad"]), ("Rad", [])):
        (ready, *_) = rehearsed({**form, "equals": equals}, file, column="1")
        assert ready["ready"]["absent"] == absent
    (ready, *_) = rehearsed({**form, "equals": "Rad"}, file, column="0")
    assert ready["ready"]["absent"] == ["Rad"]


def test_a_file_with_decimal_commas_or_without_rows(tmp_path: Path) -> None:
    file = tmp_path / "zeiten.csv"
    file.write_text('id;minuten\n1;"12,5"\n2;7\n3;30,25\n')
    found = imported(file)
    assert [one["holds"] for one in found["columns"]] == ["whole", "real"]
    assert found["format"]["decimal"] == ","
    form = {**FORM, "question": "real-sum", "users": "3", "error": "900", "high": "60"}
    assert rehearsed(form, file, column="1")[0]["ready"]["truth"] == [49.75]
    with pytest.raises(DataError, match=r"Column minuten: .* clip the values with the box on this"):
        rehearsed({**form, "high": "10"}, file, column="1", name="minuten")
    assert imported(file, decimal=".")["columns"][1]["holds"] == "real"  # it fits in one way only
    file.write_text("id;minuten\n")
    with pytest.raises(DataError, match=r"zeiten\.csv has no rows"):
        imported(file)


def test_cells_that_do_not_fit_and_empty_ones_are_named(tmp_path: Path) -> None:
    file = tmp_path / "minutes.csv"
    cells = ["5", "7", "n/a", "", "9", "4", "3", "8"]
    file.write_text(
        "minutes,way,none\n" + "".join(f"{one},{'bus' if one else ''},\n" for one in cells)
    )
    minutes, way, none = imported(file)["columns"]
    assert minutes["odd"] == {"count": 1, "row": 4, "text": "n/a"} and minutes["empty"] == 1
    assert (way["empty"], none["words"], none["empty"]) == (1, "empty", 8)
    form = {**FORM, "question": "integer-sum", "users": "4", "error": "400", "largest": "9"}
    (ready, *_) = rehearsed(form, file, column="0")
    assert (ready["ready"]["users"], ready["ready"]["truth"]) == (6, [36.0])
    (ready, *_) = rehearsed(form, file, column="0", empty="value", empty_value="1")
    assert (ready["ready"]["users"], ready["ready"]["truth"]) == (8, [38.0])
    with pytest.raises(DataError, match="cannot count as this value"):
        rehearsed(form, file, column="0", empty="value", empty_value="x")
    with pytest.raises(DataError, match="All cells of this column are empty"):
        rehearsed({**form, "question": "count", "equals": "1"}, file, column="2")
    ways = {**FORM, "question": "histogram", "labels": ["bus", "car"], "users": "4", "error": "90"}
    (ready, *_) = rehearsed(ways, file, column="1", empty="own")
    assert ready["ready"]["truth"] == [7.0, 0.0, 1.0] and ready["ready"]["absent"] == ["car"]
    assert "8 rows, and empty cells are one more answer" in ready["ready"]["differs"]


def test_a_long_file_is_read_in_parts_and_never_held_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    line = ",".join(["1", "bus", "12.5", "2026-01-31", "x" * 60])
    file.write_text("yes,way,minutes,day,comment\n" + f"{line}\n" * 800_000)
    size, before, held, shares = file.stat().st_size, pa.total_allocated_bytes(), 0, []
    for item in JOBS["look"](path=str(file), chosen={}):
        held = max(held, pa.total_allocated_bytes() - before)
        shares.append(item.get("progress", 1.0))
    assert item["found"]["rows"] == 800_000
    assert [one["words"] for one in item["found"]["columns"]][3] == "dates (year-month-day)"
    assert len(shares) > 4 and shares == sorted(shares) and shares[0] < 0.5
    assert held < 0.8 * size
    whole = pacsv.read_csv(file)  # what this would not allow
    assert pa.total_allocated_bytes() - before >= size and len(whole) == 800_000


def test_a_messy_sheet_becomes_a_histogram_by_group(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book, file = openpyxl.Workbook(), tmp_path / "Umfrage.xlsx"
    book.active.title = "Hinweise"
    book.active.append(["Bitte nicht verändern"])
    sheet = book.create_sheet("Daten")
    for row in (["Wege zur Arbeit"], [], ["Geschlecht", "Weg", "Minuten", "Datum"]):
        sheet.append(row)
    for place in range(90):
        minutes = "12,5" if place % 2 else 7
        sheet.append(["wm"[place % 2], ("Fuß ", "Rad", None)[place % 3], minutes, "03.01.2026"])
    book.save(file)
    found = imported(file)
    assert (found["rows"], found["format"]["sheet"]) == (90, "Daten")
    assert [one["words"] for one in found["columns"]] == [
        "texts",
        "texts",
        "numbers with decimals (decimal comma)",
        "dates (day.month.year)",
    ]
    assert found["columns"][1]["empty"] == 30
    form = {
        **FORM,
        "question": "histogram",
        "labels": ["Fuß", "Rad"],
        "by_group": True,
        "groups": ["w", "m"],
        "users": "60",
        "error": "40",
    }
    ready, *_, last = rehearsed(form, file, column="1", group="0")
    assert ready["ready"]["truth"] == [15.0] * 4
    assert last["summary"]["names"] == ["w × Fuß", "w × Rad", "m × Fuß", "m × Rad"]
    means = {**form, "question": "mean", "low": "0", "high": "20", "error": "15"}
    (ready, *_) = rehearsed(means, file, column="2", group="0")
    assert ready["ready"]["truth"] == [7.0, 12.5]
    file.write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(DataError, match=r"cannot be read as a \.xlsx file"):
        imported(file)


@pytest.mark.parametrize("users", ["20000", "20,000", "20 000", "20\u202f000", "2e4"])
def test_whole_numbers_are_read_as_people_write_them(users: str) -> None:
    assert whole_number({"users": users}, "users") == 20_000


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [("error", "1,500.5", "3001/2"), ("error", ".5", "1/2"), ("epsilon", "1.125", "9/8")],
)
def test_decimals_are_read_as_people_write_them(name: str, text: str, meant: str) -> None:
    assert number({name: text}, name) == Fraction(meant)


def test_the_first_sentence_names_the_people_and_one_message_is_no_messages() -> None:
    plan = plan_of({**FORM, "error": "400", "find": "messages", "epsilon": "8"})
    assert accuracy_sentence(FORM, plan).startswith("If about 1,000 people take part")
    assert plan.report_size == 1 and "of 1 encrypted message (" in cost_sentence(plan)


def test_what_is_hard_to_defend_is_said() -> None:
    assert cautions(FORM, plan_of(FORM)) == []
    large = {**FORM, "epsilon": "5"}
    assert "above 4" in cautions(large, plan_of(large))[0]
    vague = {**FORM, "error": "600"}
    assert "a guess without any data" in cautions(vague, plan_of(vague))[0]
    total = {**vague, "question": "integer-sum"}  # of numbers up to 3: at most 3,000
    assert cautions(total, plan_of(total, "bounded")) == []


@pytest.mark.parametrize("error", ["200", "60"])
def test_a_plan_without_exception_has_none(error: str) -> None:
    """Only the paper's cells, which the form must allow, have reports that may overflow."""
    form = {**FORM, "question": "histogram", "users": "3000", "error": error, "pure": True}
    form |= {"labels": list("abcde"), "by_group": True, "groups": ["women", "men", "other"]}
    first = next(JOBS["plan"](form, RATES))["plan"]
    assert "2⁻⁶⁴" not in str(first["sentences"])
    reserve = plan_of(form, "paper")
    assert reserve.padding != EXACT and "2⁻⁶⁴" in str(plan_sentences(form, reserve))


def test_a_smaller_epsilon_for_the_same_error_is_named() -> None:
    loose = {**FORM, "error": "50"}
    *_, last = items("plan", form=loose, rates=RATES)
    assert float(last["smaller"]["epsilon"]) < 0.2 and last["smaller"]["messages"] > 40
    found = smaller_epsilon(loose)
    assert found is not None and reach_of(FORM, found) <= 50
    assert smaller_epsilon({**FORM, "epsilon": "8", "error": "400"}) is not None  # in few steps
    tight = {**FORM, "epsilon": last["smaller"]["epsilon"], "error": "50"}
    assert smaller_epsilon(tight) is None


def test_the_line_of_other_plans_goes_through_the_plan() -> None:
    """Both are as the service runs them: padded, and with the analyzer's noise."""
    points = [one["ours"] for one in items("frontier", form={**FORM, "delta": ""}) if "ours" in one]
    for point in points:
        plan = plan_of({**FORM, "find": "error", "messages": str(point["messages"])}, "bounded")
        assert plan.forecast.rmse == pytest.approx(point["error"], rel=0.03)


ASKED = {
    "form": FORM,
    "publish_noise": True,
    "purpose": {"name": "Who <bikes>?", "question": "Do you bike?", "decided": "The board"},
}


def collected(trial: bool) -> tuple[str, Collected]:
    plan = plan_of(FORM)
    text = plan_json(plan)
    result = plan.run(np.ones(1000, int)).to_dict()
    one = {"number": 1, "reports": 1000, "implausible": False, "anomaly": 0.0, "result": result}
    return text, Collected([one], trial, text, None, FORM)


def test_the_report_can_be_read_and_mailed() -> None:
    text, found = collected(trial=False)
    page = report_page(ASKED, text, found.results)
    assert "Who &lt;bikes&gt;?" in page and "<bikes>" not in page
    for words in (
        "95 times in 100",
        "Shuffler and analyzer acting together",
        "shuffledp verify",
        "python -m shuffledp_check",
        "Do you bike?",
        "The board",
        "at least 1,000 honest people",
        "What becomes of the data</th><td>not written down",
        hashlib.sha256(text.encode()).hexdigest(),
    ):
        assert words in page, words
    assert "simulated" not in page
    assert "data:image/png;base64," in page and "<script" not in page and "http" not in page
    for row in certificate_rows(plan_of(FORM).certificate.to_dict()):
        assert row["left"] in page
    board, annex = page.split('<section class="annex">')
    for words in ("Bottom line", "at most 2.7 % sure", "Collusion", "Fake clients", "Small groups"):
        assert words in board, words
    assert "signature" in board and "≤" not in board and "e^" not in board
    assert "impact assessment" in annex and "definitions" in annex
    assert re.search(r"<h2>Published so far</h2>\s*<p>1 batch,", page)


def test_every_text_of_the_report_is_escaped() -> None:
    text, found = collected(trial=True)
    tag = "<script>alert(1)</script>"
    words = {name: tag for name in ("name", "question", "collector", "shuffler", "analyzer")}
    bucket = {"label": tag, "estimate": 1.0, "interval": [0.0, 2.0]}
    result = found.results[0]["result"] | {"query": "histogram", "buckets": [bucket]}
    published = {**found.results[0], "result": result}
    page = report_page(ASKED | {"purpose": words}, text, [published], trial=True)
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 12  # wherever shown
    assert "<script" not in page


def test_the_page_for_the_public_is_escaped_and_drawn_on_a_fixed_scale(tmp_path: Path) -> None:
    """The interval of a count has its true width beside all people, whatever the other numbers."""
    text, found = collected(trial=False)
    key = KeyFolder(tmp_path).new().public
    purpose = Purpose(name="<b>Bikes</b>", question="Do you <i>bike</i>?", collector="Town")
    task = make_task(text, key, purpose, publish_noise=True, shuffler="http://127.0.0.1:1")
    found = found._replace(task=task, results=[*found.results, {**found.results[0], "number": 2}])
    page = public_page(ASKED, found, ["results.csv"])
    assert "&lt;i&gt;bike" in page and "<i>" not in page and "<script" not in page
    assert 'title="Do you &amp;lt;i&amp;gt;bike' in page  # in code to copy
    result = found.results[0]["result"]
    low, high = result["interval"]
    share = re.search(r'class="span" x1="([\d.]+)%" x2="([\d.]+)%"', page)
    assert share is not None
    ends = [(float(end) - 2) / 96 * 1000 for end in share.groups()]
    assert ends == pytest.approx([min(low, 1000), min(high, 1000)], abs=0.2)
    assert (
        page.count('class="trend"') == 1 and task.id.hex() in page and 'href="results.csv"' in page
    )
    with pytest.raises(ParameterError, match="wait for the first batch"):
        public_page(ASKED, found._replace(results=[]))


@pytest.mark.parametrize("question", QUESTIONS)
def test_simulated_people_answer_every_question_also_by_group(question: str) -> None:
    """The values of a trial are what devices take, one by one; dates, too."""
    form = {**FORM, "question": question, "users": "40", "error": "30", "epsilon": "4"}
    forms = [{**form, **ROUGH.get(question, {})}]
    if QUESTIONS[question].groupable:
        forms.append({**forms[0], "by_group": True, "groups": ["women", "men"]})
    if question == "quantiles":
        forms.append({**forms[0], "low": "2026-01-01", "high": "2026-12-31", "error": "300"})
    for one in forms:
        protocol = quick_plan(one).protocol
        values = given_values(protocol, protocol.sample_values(7))
        assert len([protocol.one_value(value) for value in values]) == 7


ROUGH = {
    "real-sum": {"error": "300"},
    "integer-sum": {"error": "90"},
    "mean": {"error": "8"},
    "quantiles": {"error": "9"},
    "frequencies": {"error": "300"},
    "heavy-hitters": {"find": "error", "users": "2000"},
}
"""Targets that are planned quickly."""


def test_quantiles_are_named_in_words(tmp_path: Path) -> None:
    form = {**FORM, "question": "quantiles", "users": "400", "error": "2"}
    file = tmp_path / "numbers.csv"
    file.write_text("number\n" + "\n".join(str(place % 10) for place in range(400)))
    imported(file)
    names = ["a quarter is below", "the median", "three quarters are below"]
    assert rehearsed(form, file, column="0")[-1]["summary"]["names"] == names
    result = Plan.from_dict(json.loads(planned(json.dumps(form)))).run(np.arange(400) % 10)
    published = {"result": result.to_dict(), "reports": 400}
    assert [line.label for line in answer_lines(form, published)] == names


def test_frequent_words_are_rehearsed_beside_the_truth(tmp_path: Path) -> None:
    file = tmp_path / "words.csv"
    words = ["sun"] * 1500 + ["rain"] * 900 + [f"word{place}" for place in range(60)]
    file.write_text("word\n" + "\n".join(words))
    imported(file)
    form = {**FORM, "question": "heavy-hitters", "find": "error", "users": "2000", "epsilon": "4"}
    ready, *runs, last = rehearsed(form, file, column="0")
    assert ready["ready"]["truth"][:2] == [1500.0, 900.0]
    summary = last["summary"]
    assert summary["names"][:2] == ["sun", "rain"] and summary["found"][0] == 12
    assert summary["found"][-1] < 12 and runs[0]["run"][-1] == [None, None, None]
    assert summary["rmse"][0] < 100 and summary["held"][0] >= 5
    few = {**form, "users": "20", "epsilon": "1", "pure": True}
    why, *offered = items("plan", form=few, rates=RATES)
    assert "No word would be found" in why["impossible"]
    assert any("people" in one["suggestion"]["label"] for one in offered)
    one_message = {**form, "messages": "1", "pure": True}
    _, *offered = items("plan", form=one_message, rates=RATES)
    assert "messages" in offered[0]["suggestion"]["set"]
    assert plan_of({**one_message, **offered[0]["suggestion"]["set"]}).report_size > 1


def test_a_batch_in_which_no_word_is_found_can_be_shown(tmp_path: Path) -> None:
    form = {**FORM, "question": "heavy-hitters", "find": "error", "users": "2000", "epsilon": "4"}
    plan = quick_plan(form)
    result = plan.run([f"word{place}" for place in range(2000)]).to_dict()
    assert result_lines(result) == []
    one = {"number": 1, "reports": 2000, "implausible": False, "anomaly": 0.0, "result": result}
    text, key = plan_json(plan), KeyFolder(tmp_path).new().public
    task = make_task(text, key, Purpose(), publish_noise=False, shuffler="http://127.0.0.1:1")
    found = Collected([one], False, text, task, form)
    assert "No answer was frequent enough" in public_page(ASKED, found)
    for kind in EXPORTS:
        assert EXPORTS[kind][1]({"collected": True}, found), kind


def test_every_file_of_a_trial_says_so() -> None:
    text, found = collected(trial=True)
    page = report_page(ASKED, text, found.results, trial=True)
    assert page.count(TRIAL) >= 2 and "planned for 1000" in page
    for kind in ("results.json", "results.csv"):
        make = EXPORTS[kind][1]
        assert TRIAL in make(ASKED, found).decode()
        assert TRIAL not in make(ASKED, found._replace(trial=False)).decode()
    png = EXPORTS["results.png"][1]
    assert png(ASKED, found) != png(ASKED, found._replace(trial=False))
