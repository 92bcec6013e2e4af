"""The status pages in a real browser: Chromium, driven headless through ChromeDriver."""

from __future__ import annotations

from pathlib import Path

import httpx
from browsers import Browser
from service_programs import Programs
from service_trio import USERS, Trio, bearing

from shuffledp.service.http.page import interval_svg, render
from shuffledp.tasks.reports import encrypt_report


def test_both_pages_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """Progress, states and drawn intervals; the page follows without being loaded again."""
    programs = Programs(Trio(tmp_path))
    task = programs.trio.task("Who uses <b>dark</b> mode?")
    with programs.both() as (shuffler, analyzer):
        browser.open(shuffler)
        assert "No task is registered yet" in browser.run("document.body.innerText")
        programs.register(task)
        reports = f"{shuffler}/tasks/{task.id.hex()}/reports"
        for user, token in enumerate(programs.enrol(3 * USERS + 13)):
            httpx.post(
                reports, headers=bearing(token), content=encrypt_report(task, user % 2)
            ).raise_for_status()
        httpx.post(reports, headers=bearing("t"), content=b"x")
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


def test_a_page_without_javascript_says_the_same(tmp_path: Path) -> None:
    status = {
        "role": "analyzer",
        "tasks": [
            {
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
                "results": [
                    {
                        "number": 1,
                        "anomaly": 9.0,
                        "result": {
                            "confidence": 0.95,
                            "query": "histogram",
                            "buckets": [
                                {"label": "a&b", "estimate": -1.5, "interval": [-4, 2]},
                                {"label": "c", "estimate": 3.0, "interval": [1, 5]},
                            ],
                        },
                    }
                ],
            }
        ],
    }
    page = render(status, "opens & publishes")
    assert "<p>opens &amp; publishes</p>" in page
    assert "&lt;script&gt;" in page and "<script>" not in page.replace("<script src", "")
    assert "1 · a&amp;b" in page and "-4.0 … 2.0" in page and 'class="odd">+9.0' in page
    assert "received · TaskError. Trying again." in page


def test_an_interval_is_drawn_to_scale() -> None:
    svg = interval_svg(5.0, 0.0, 10.0, 0.0, 10.0)
    assert 'x1="3.0%" x2="97.0%"' in svg and 'cx="50.0%"' in svg
    assert "interval 3.0 to 3.0" in interval_svg(3.0, 3.0, 3.0, 3.0, 3.0)
