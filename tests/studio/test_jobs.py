"""What the studio's processes answer, and the report that is made of it."""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp.errors import DataError, ParameterError, PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.studio.cautions import cautions, smaller_epsilon
from shuffledp.studio.exports import EXPORTS
from shuffledp.studio.fields import number, whole_number
from shuffledp.studio.jobs import JOBS, plan_json
from shuffledp.studio.questions import QUESTIONS, plan_of
from shuffledp.studio.report import TRIAL, Written, report_page
from shuffledp.studio.running import Collected
from shuffledp.studio.words import (
    accuracy_sentence,
    certificate_rows,
    cost_sentence,
    published_reach,
)
from shuffledp.studio.worker import answers

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
    assert published_reach(plan, 0.95) <= 6
    asked = {**FORM, "question": "histogram", "error": "12"}
    less, more = (plan_of({**asked, "publish_noise": noise}, "bounded") for noise in (False, True))
    assert (less.expected, more.expected) == (1000, 2000)
    assert less.report_size < more.report_size


def test_what_is_said_of_privacy_follows_the_padding() -> None:
    asked = {**FORM, "question": "quantiles", "error": "600", "users": "50000", "bins": "32"}
    exact, cheap = (
        [
            one["plan"]
            for one in items("plan", form={**asked, "pure": pure}, rates=RATES)
            if "plan" in one
        ][-1]
        for pure in (True, False)
    )
    assert json.loads(exact["json"])["padding"] == "exact"
    assert "2⁻⁶⁴" not in str(exact) and "pure ε-differential privacy" in str(exact["facts"])
    assert json.loads(cheap["json"])["padding"] == "2^-64" and cheap["messages"] < exact["messages"]
    assert "2⁻⁶⁴" in cheap["sentences"][3] and "pure" not in str(cheap["facts"])


def test_the_two_other_numbers_are_found_too() -> None:
    by_messages = plan_of({**FORM, "find": "error"})
    assert by_messages.report_size <= 40
    by_epsilon = plan_of({**FORM, "find": "epsilon", "error": "30"})
    assert by_epsilon.epsilon < 1 and by_epsilon.report_size <= 40
    assert published_reach(by_epsilon, 0.95) <= 30


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_drawn_and_tried(question: str) -> None:
    form = {**FORM, "question": question, "error": "400", "users": "200"}
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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"error": "1"}, r"can do much better than ±\d+, 95 times in 100"),
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


def test_a_rehearsal_of_a_parquet_file(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    file = tmp_path / "ways.parquet"
    pq.write_table(pa.table({"code": np.arange(900) % 3}), file)
    assert items("look", path=str(file))[0]["columns"][0]["holds"] == "whole numbers"
    form = {**FORM, "question": "histogram", "labels": ["0", "1", "2"], "error": "30"}
    plan = plan_json(plan_of(form, "bounded"))
    found = items(
        "rehearse", form=form, plan=plan, path=str(file), column="code", runs="12", written={}
    )
    assert found[0]["ready"]["replanned"] is True
    assert found[0]["ready"]["truth"] == [300.0] * 3
    assert found[-1]["summary"]["runs"] == 12 and len(found) == 14
    with pytest.raises(DataError, match="no column 'x'") as error:
        items("rehearse", form=form, plan=plan, path=str(file), column="x", runs="12", written={})
    assert str(tmp_path) not in str(error.value)


def test_a_file_of_a_german_spreadsheet(tmp_path: Path) -> None:
    file = tmp_path / "wege.csv"
    file.write_bytes("fährt;weg\n1;Fuß\n0;Rad\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"UTF-8.* under “Text encoding of a CSV file”"):
        items("look", path=str(file))
    (found,) = items("look", path=str(file), encoding="cp1252")
    assert [one["name"] for one in found["columns"]] == ["fährt", "weg"]
    assert found["format"] == {"encoding": "cp1252", "delimiter": ";"}
    form = {**FORM, "users": "2", "error": "50"}
    given = {"plan": plan_json(plan_of(form)), "path": str(file), "runs": "2"}
    ready, *_ = items("rehearse", form=form, column="fährt", written=found["format"], **given)
    assert ready["ready"]["truth"] == [1.0]
    with pytest.raises(DataError, match=r"Column weg holds values other .* “Count the rows with"):
        items("rehearse", form=form, column="weg", written=found["format"], **given)
    asked = {**form, "equals": "rad"}
    ready, *_ = items("rehearse", form=asked, column="weg", written=found["format"], **given)
    assert ready["ready"]["absent"] == ["rad"]
    asked = {**form, "equals": "Rad"}
    ready, *_ = items("rehearse", form=asked, column="weg", written=found["format"], **given)
    assert ready["ready"]["absent"] == []
    with pytest.raises(DataError, match="write the value to count as a number"):
        items("rehearse", form=asked, column="fährt", written=found["format"], **given)


def test_a_file_with_decimal_commas_or_without_rows(tmp_path: Path) -> None:
    file = tmp_path / "zeiten.csv"
    file.write_text("id;minuten\n1;12,5\n2;7\n3;30,25\n")
    (found,) = items("look", path=str(file))
    assert [one["holds"] for one in found["columns"]] == ["whole numbers", "real numbers"]
    form = {**FORM, "question": "real-sum", "users": "3", "error": "900", "high": "60"}
    given = {"plan": plan_json(plan_of(form)), "path": str(file), "runs": "2"}
    ready, *_ = items("rehearse", form=form, column="minuten", written=found["format"], **given)
    assert ready["ready"]["truth"] == [49.75]
    narrow = {**form, "high": "10"}
    given["plan"] = plan_json(plan_of(narrow))
    with pytest.raises(DataError, match="Column minuten: "):
        items("rehearse", form=narrow, column="minuten", written=found["format"], **given)
    file.write_text("id;minuten\n")
    with pytest.raises(DataError, match=r"zeiten\.csv has no rows"):
        items("look", path=str(file))


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
    assert accuracy_sentence(plan, Fraction("0.95")).startswith("If about 1,000 people take part")
    assert plan.report_size == 1 and "of 1 encrypted message (" in cost_sentence(plan)


def test_what_is_hard_to_defend_is_said() -> None:
    assert cautions(FORM, plan_of(FORM)) == []
    large = {**FORM, "epsilon": "5"}
    assert "above 4" in cautions(large, plan_of(large))[0]
    vague = {**FORM, "error": "600"}
    assert "a guess without any data" in cautions(vague, plan_of(vague))[0]
    total = {**vague, "question": "integer-sum"}  # of numbers up to 3: at most 3,000
    assert cautions(total, plan_of(total, "bounded")) == []


def test_a_smaller_epsilon_for_the_same_error_is_named() -> None:
    loose = {**FORM, "error": "50"}
    *_, last = items("plan", form=loose, rates=RATES)
    assert float(last["smaller"]["epsilon"]) < 0.2 and last["smaller"]["messages"] > 40
    found = smaller_epsilon(loose)
    assert found is not None and published_reach(found, 0.95) <= 50
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
    page = report_page(Written.of(ASKED, text), found.results)
    assert "Who &lt;bikes&gt;?" in page and "<bikes>" not in page
    for words in (
        "95 times in 100",
        "Shuffler and analyzer acting together",
        "shuffledp verify",
        "python -m shuffledp_check",
        "Do you bike?",
        "The board",
        "at least 1,000 honest people",
        "What becomes of the data<td>not written down",
        hashlib.sha256(text.encode()).hexdigest(),
    ):
        assert words in page, words
    assert "simulated" not in page
    assert "data:image/png;base64," in page and "<script" not in page and "http" not in page
    for row in certificate_rows(plan_of(FORM).certificate.to_dict()):
        assert row["left"] in page
    assert re.search(r"<h2>Published so far</h2>\s*<p>1 batch,", page)


def test_every_text_of_the_report_is_escaped() -> None:
    text, found = collected(trial=True)
    tag = "<script>alert(1)</script>"
    words = {name: tag for name in ("name", "question", "collector", "shuffler", "analyzer")}
    bucket = {"label": tag, "estimate": 1.0, "interval": [0.0, 2.0]}
    result = found.results[0]["result"] | {"query": "histogram", "buckets": [bucket]}
    published = {**found.results[0], "result": result}
    written = Written.of(ASKED | {"purpose": words}, text)
    page = report_page(written, [published], trial=True)
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 7  # the name is title and heading
    assert "<script" not in page


def test_every_file_of_a_trial_says_so() -> None:
    text, found = collected(trial=True)
    page = report_page(Written.of(ASKED, text), found.results, trial=True)
    assert page.count(TRIAL) >= 2 and "planned for 1000" in page
    for kind in ("results.json", "results.csv"):
        make = EXPORTS[kind][1]
        assert TRIAL in make(ASKED, found).decode()
        assert TRIAL not in make(ASKED, found._replace(trial=False)).decode()
    png = EXPORTS["results.png"][1]
    assert png(ASKED, found) != png(ASKED, found._replace(trial=False))
