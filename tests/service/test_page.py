"""The status pages in a real browser: Chromium, driven headless through ChromeDriver."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
from browsers import Browser
from service_programs import Programs
from service_trio import USERS, Trio, bearing

from shuffledp.service.demo import free_port
from shuffledp.service.http.page import render
from shuffledp.tasks.reports import encrypt_report


def test_both_pages_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """Progress, states and drawn intervals; the page follows without being loaded again."""
    inside = f"127.0.0.1:{free_port()}"
    programs = Programs(Trio(tmp_path, operators_listen=inside))
    task = programs.trio.task("Who uses <b>dark</b> mode?")
    with programs.both() as (shuffler, analyzer):
        browser.open(f"http://{inside}")
        assert "No task is registered yet" in browser.run("document.body.innerText")
        programs.register(task)
        reports = f"{shuffler}/tasks/{task.id.hex()}/reports"
        for user, token in enumerate(programs.enrol(3 * USERS + 13)):
            httpx2.post(
                reports, headers=bearing(token), content=encrypt_report(task, user % 2)
            ).raise_for_status()
        httpx2.post(reports, headers=bearing("t"), content=b"x")
        browser.wait(f"document.body.innerText.includes('13 of {USERS}')")
        browser.wait("document.querySelectorAll('.chips .deleted').length == 3")
        assert browser.run("document.querySelector('h2').innerText") == task.name
        assert browser.run("document.querySelectorAll('h2 b').length") == 0
        assert browser.run("document.querySelector('progress').value") == 13
        browser.wait("document.body.innerText.includes('1 refused (size 1)')")
        assert (
            browser.run("getComputedStyle(document.querySelector('article')).borderRadius")
            == "10px"
        )
        assert len(browser.picture("shuffler")) > 5000
        browser.open(analyzer)
        browser.wait("document.querySelectorAll('svg .dot').length == 3")
        browser.wait("document.querySelectorAll('.chips .published').length == 3")
        widths = browser.run(
            "[...document.querySelectorAll('svg .span')].map(s => s.getBoundingClientRect().width)"
        )
        assert all(width > 0 for width in widths)
        assert browser.run("document.querySelector('#age').innerText") == "live"
        assert len(browser.picture("analyzer")) > 5000
        assert not [line for line in browser.complaints() if "SEVERE" in line or "CSP" in line]


def published(*buckets: tuple[str, float, float, float], anomaly: float = 0.0) -> dict[str, Any]:
    """A published histogram with these labels, estimates and intervals."""
    rows = [
        {"label": label, "estimate": estimate, "interval": [low, high]}
        for label, estimate, low, high in buckets
    ]
    result = {"confidence": 0.95, "query": "histogram", "buckets": rows}
    return {"number": 1, "anomaly": anomaly, "result": result}


def analyzer_status(*results: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """The status of an analyzer with one task."""
    task = {
        "task": "ab" * 32,
        "name": "<script>",
        "query": "histogram",
        "epsilon": "1",
        "state": "open",
        "report_size": 7,
        "batches": [
            {"number": 1, "state": "published", "reports": 5, "problem": ""},
            {"number": 2, "state": "received", "reports": 5, "problem": "TaskError"},
        ],
        "results": list(results),
    }
    return {"role": "analyzer", "tasks": [task | facts]}


def test_a_page_without_javascript_says_the_same() -> None:
    result = published(("a&b", -1.5, -4, 2), ("c", 3.0, 1, 5), anomaly=9.0)
    page = render(analyzer_status(result), "opens & publishes")
    assert "<p>opens &amp; publishes</p>" in page
    assert "&lt;script&gt;" in page and "<script>" not in page.replace("<script src", "")
    assert "1 · a&amp;b" in page and "-4.0 … 2.0" in page and 'class="odd">+9.0' in page
    assert "received · TaskError. Trying again." in page


def test_every_text_of_the_status_page_is_escaped() -> None:
    tag = "<script>alert(1)</script>\"'"
    words = {name: tag for name in ("name", "query", "epsilon", "state", "task", "progress")}
    status = analyzer_status(
        published((tag, 1.0, 0.0, 2.0), (tag, 1.0, 0.0, 2.0)),
        **words,
        series={"series": tag, "name": tag, "place": 1, "tasks": 2},
        have=1,
        need=2,
        rejected={tag: 1},
        issued=1,
        attested=False,
        stopped=tag,
        batches=[{"number": 1, "state": tag}, {"number": 2, "state": tag, "reason": tag}],
    )
    page = render(status, tag)
    assert page.count("&lt;script&gt;") >= len(words) + 10
    assert page.count("<script") == 1 and 'class="&lt;script&gt;' in page
    assert "alert(1)</" not in page and "\"'" not in page


def test_scripts_never_write_html() -> None:
    """Texts reach the survey and the studio by their scripts: as text, never as HTML."""
    service, studio = (files(f"shuffledp.{name}") for name in ("service", "studio"))
    scripts = [
        file
        for folder in (service / "pages", studio / "page")
        for file in folder.iterdir()
        if file.name.endswith(".js")
    ]
    assert len(scripts) >= 8
    for script in scripts:
        text = script.read_text("utf-8")
        for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert name not in text, (script.name, name)


def test_an_interval_is_drawn_to_scale() -> None:
    page = render(analyzer_status(published(("a", 5.0, 0.0, 10.0))), "")
    assert 'x1="3.0%" x2="97.0%"' in page and 'cx="50.0%"' in page
    same = render(analyzer_status(published(("a", 3.0, 3.0, 3.0))), "")
    assert "interval 3.0 to 3.0" in same
