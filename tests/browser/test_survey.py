"""`shuffledp demo --browser`: a person answers on the page, and sees the result."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from axe import accessible
from browsers import Browser
from survey_program import USERS, running_survey

FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "browser-demo.png"
WRITE_FIGURE = os.environ.get("SHUFFLEDP_FIGURES") == "1"
"""Whether the picture of the documents is taken anew (`make figures`)."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running survey."""
    with running_survey(tmp_path_factory.mktemp("survey") / "log") as url:
        yield url


SURVEY = "document.querySelector('shuffledp-survey')"


def words(browser: Browser) -> str:
    """What the survey says."""
    return str(browser.run(f"{SURVEY}.innerText"))


def test_a_person_declines_and_may_change_their_mind(site: str, browser: Browser) -> None:
    browser.open(site)
    browser.run("addEventListener('shuffledp:declined', () => { window.declined = true; })")
    browser.wait(f"{SURVEY}?.querySelector('button.quiet')")
    browser.run(f"{SURVEY}.querySelector('button.quiet').click()")
    assert "Nothing was sent" in words(browser) and browser.run("window.declined")
    assert (
        browser.work(
            "const { history } = await import('/client/device.js'); return await history();"
        )
        == []
    )
    browser.run(f"{SURVEY}.querySelector('button').click()")
    browser.wait(f"{SURVEY}.querySelector('form')")


def test_every_control_has_a_name_and_there_is_a_dark_form(site: str, browser: Browser) -> None:
    browser.open(site)
    browser.wait(f"{SURVEY}?.querySelector('form')")
    names = browser.run(
        "[...document.querySelectorAll('input, button, progress')]"
        ".map((one) => (one.labels?.[0]?.innerText ?? one.innerText).trim())"
    )
    assert names[:4] == ["Yes", "No", "Send my answer", "I would rather not answer"] and all(names)
    light = browser.run("getComputedStyle(document.body).backgroundColor")
    browser.dark(True)
    dark = browser.run("getComputedStyle(document.body).backgroundColor")
    assert accessible(browser) == []
    browser.picture("survey-dark")
    browser.dark(False)
    browser.narrow(400)
    assert browser.run("document.documentElement.scrollWidth") <= 400
    browser.picture("survey-narrow")
    browser.narrow(0)
    assert light == "rgb(245, 243, 238)" and dark == "rgb(20, 24, 27)"


def test_a_person_answers_and_sees_the_result(site: str, browser: Browser) -> None:
    browser.size(900, 1040)
    browser.open(site)
    browser.wait(f"{SURVEY}?.querySelector('form')")
    said = words(browser)
    assert said.startswith("Do you cycle") and "adds noise to your answer" in said
    assert "100 people" in said and "127.0.0.1" not in said and "ε" not in said
    assert accessible(browser) == []
    details = browser.run(f"{SURVEY}.querySelector('details').textContent")
    assert "ε = 1" in details and "after this answer 3 are left" in details
    assert "127.0.0.1" not in details
    # with the keyboard alone: tab to the answers, choose, tab to the button, press it
    browser.run(f"{SURVEY}.querySelector('[name=answer]').focus()")
    for keys in (" ", "\ue004", "\ue007"):  # space, tab, enter
        browser.press(keys)
    browser.wait(f"{SURVEY}.innerText.includes('has arrived')")
    said = words(browser)
    assert "What you sent" in said and "bytes" in said and "100 people (ε = 1)" in said
    assert browser.run(f"{SURVEY}.querySelector('[name=answer]')") is None
    browser.wait("!document.querySelector('#result').hidden", 60)
    assert browser.run("document.querySelector('#progress').value") == USERS
    estimate = browser.run("document.querySelector('#estimate').innerText")
    assert re.fullmatch(r"About \d+ of 100 people say yes\.", estimate), estimate
    interval = browser.run("document.querySelector('#interval').innerText")
    assert re.fullmatch(r"With 95 % confidence between \d+ and \d+\.", interval), interval
    details = browser.run(f"{SURVEY}.querySelector('details').textContent")
    assert "spent ε = 1 of 4" in details
    assert accessible(browser) == []
    picture = browser.picture("survey")
    assert len(picture) > 20_000
    if WRITE_FIGURE:
        FIGURE.write_bytes(picture)
    assert FIGURE.exists()
    browser.run(f"[...{SURVEY}.querySelectorAll('button')].at(-1).click()")
    browser.wait(f"{SURVEY}.innerText.includes('Forgotten')")
    browser.open(site)  # who comes back has answered
    browser.wait(f"{SURVEY}?.innerText.includes('You have answered')")
    assert browser.run(f"{SURVEY}.querySelector('form')") is None
    assert not [line for line in browser.complaints() if "SEVERE" in line or "CSP" in line]


def test_a_person_answers_with_a_one_time_token_through_a_relay(
    browser: Browser, tmp_path: Path
) -> None:
    """The page may talk to issuer and relay, and has no permission to talk to the shuffler."""
    with running_survey(tmp_path / "log", "--issuer", "--relay") as url:
        lines = (tmp_path / "log").read_text()
        shuffler, issuer, relay = (
            re.search(rf"{role} on (http://[0-9.:]+\d)", lines)[1]  # type: ignore[index]
            for role in ("shuffler", "issuer", "relay")
        )
        policy = httpx2.get(url).headers["content-security-policy"]
        assert f"connect-src 'self' {relay} {issuer};" in policy and shuffler not in policy
        browser.open(url)
        browser.wait(f"{SURVEY}?.querySelector('form')")
        details = browser.run(f"{SURVEY}.querySelector('details').textContent")
        assert "The issuer gives this device one token" in details
        assert "goes through a relay" in details
        browser.run(f"{SURVEY}.querySelector('[name=answer]').click()")
        browser.run(f"{SURVEY}.querySelector('button').click()")
        browser.wait(f"{SURVEY}.innerText.includes('has arrived')")
        browser.wait("!document.querySelector('#result').hidden", 60)
        assert browser.run("document.querySelector('#progress').value") == USERS
        assert not [line for line in browser.complaints() if "SEVERE" in line or "CSP" in line]


def test_the_site_serves_its_own_files_and_nothing_else(site: str) -> None:
    assert httpx2.get(f"{site}/client/client.js").status_code == 200
    for path in (
        "/client/none.js",
        "/client/..%2fsurvey.js",
        "/survey.toml",
        "/client/../survey.py",
    ):
        assert httpx2.get(f"{site}{path}").status_code == 404, path
    policy = httpx2.get(site).headers["content-security-policy"]
    assert "default-src 'self'" in policy
