"""The verifier and the page "See it": static files that work from a folder, without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from axe import accessible
from browsers import Browser

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
CERTIFICATES = json.loads((ROOT / "vectors" / "certificates.json").read_text("utf-8"))
CLIENT = json.loads((ROOT / "vectors" / "client.json").read_text("utf-8"))
ALONE = """
import runpy, sys
sys.path.insert(0, "")
runpy.run_module("shuffledp_check", run_name="__main__")
"""
"""`python -m shuffledp_check` without any installed package."""
CHECK = """
    const out = document.querySelector("#outcome");
    const verdicts = [];
    for (const text of args[0]) {
        const before = out.dataset.done;
        document.querySelector("#text").value = text;
        document.querySelector("#check").click();
        while (out.dataset.done === before) await new Promise((resolve) => setTimeout(resolve, 5));
        verdicts.push(out.querySelector(".verdict").textContent);
    }
    return verdicts;
"""


def looked_at(browser: Browser, name: str) -> None:
    """Nothing is wrong for axe in light and dark, nothing is cut off at 400 pixels."""
    for dark in (False, True):
        browser.dark(dark)
        assert accessible(browser) == [], dark
        browser.picture(f"{name}-{'dark' if dark else 'light'}")
    browser.dark(False)
    browser.narrow(400)
    assert browser.run("document.documentElement.scrollWidth") <= 400
    browser.picture(f"{name}-narrow")
    browser.narrow(0)


def quiet(browser: Browser) -> None:
    """The page asked for nothing but its own files, and nothing was refused."""
    asked = browser.run("performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(name.startswith("file:") for name in asked), asked
    assert not [line for line in browser.complaints() if "SEVERE" in line or "CSP" in line]


def as_plan(certificate: Any) -> str:
    return json.dumps({"format": "shuffledp plan 2", "certificate": certificate})


def test_the_verifier_accepts_what_holds_and_refuses_every_attack(browser: Browser) -> None:
    browser.open((PAGES / "verify.html").as_uri())
    attacks = [as_plan(one["certificate"]) for one in CERTIFICATES if not one["holds"]]
    attacks += [
        one["text"]
        for one in [*CLIENT["refused"], *CLIENT["shared"]["refused"]]
        if one["stage"] in ("text", "proof") and one["text"] == one["text"].rstrip()
    ]
    assert len(attacks) > 150
    verdicts = []
    for begin in range(0, len(attacks), 40):  # a script may take half a minute
        verdicts += browser.work(CHECK, attacks[begin : begin + 40])
    assert set(verdicts) == {"Not certified."}
    holding = next(one for one in CERTIFICATES if one["name"] == "bounded count")
    task = CLIENT["tasks"][0]["text"]
    found = browser.work(CHECK, [as_plan(holding["certificate"]), task])
    assert all(one.startswith("Certified for ε = 1, by these") for one in found), found
    rows = browser.run(
        "[...document.querySelectorAll('tbody tr')].map((row) =>"
        "[...row.querySelectorAll('.short, .yes')].map((one) => one.textContent))"
    )
    assert len(rows) > 10 and all(len(row) == 3 and all(row) for row in rows), rows[:3]
    assert f"these {len(rows)} inequalities" in found[1]
    looked_at(browser, "verify")
    quiet(browser)


def test_a_dropped_file_is_checked(browser: Browser, tmp_path: Path) -> None:
    browser.open((PAGES / "verify.html").as_uri())
    browser.run(
        "(() => { const files = new DataTransfer();"
        f"files.items.add(new File([{json.dumps(CLIENT['tasks'][0]['text'])}], 'task.json'));"
        "document.querySelector('#drop').dispatchEvent("
        "new DragEvent('drop', { dataTransfer: files, cancelable: true })); })()"
    )
    browser.wait("document.querySelector('.verdict')")
    assert browser.run("document.querySelector('#file-name').textContent") == "task.json"
    assert browser.run("document.querySelector('.verdict').textContent").startswith("Certified")


def test_an_answer_is_followed_and_estimates_are_near_the_truth(browser: Browser) -> None:
    browser.open((PAGES / "see.html").as_uri())
    browser.wait("document.body.dataset.runs >= 1", 60)
    assert "1,000 people" in browser.run("document.querySelector('#noise-words').textContent")
    for users, epsilon in ((0, 0), (3, 4)):
        browser.run(
            f"[['users', {users}], ['epsilon', {epsilon}]].forEach(([id, value]) => {{"
            "const slider = document.getElementById(id); slider.value = value;"
            "slider.dispatchEvent(new Event('change')); })"
        )
        browser.wait("document.body.dataset.runs >= 2", 60)
    browser.wait("document.querySelector('#epsilon-shown').textContent === '4'", 60)
    browser.wait("document.querySelector('#answer').textContent.includes('of 3,000')", 60)
    cipher = browser.run("document.querySelector('#cipher').textContent")
    assert len(cipher.split("\n")) == 3
    looked_at(browser, "see")
    quiet(browser)


@pytest.mark.parametrize(("name", "code"), [("bounded count", 0), (None, 1)])
def test_the_second_opinion_runs_as_the_page_says(
    name: str | None, code: int, tmp_path: Path
) -> None:
    """Python alone, from the folder that the page names; None: a certificate that does not hold."""
    text = (PAGES / "verify.html").read_text("utf-8")
    assert "<code>cd src\npython3 -m shuffledp_check path/to/plan.json</code>" in text
    assert "pip install" not in text
    wanted = [one for one in CERTIFICATES if (name or one["name"]) == one["name"]]
    certificate = next(one["certificate"] for one in wanted if one["holds"] == (code == 0))
    plan = tmp_path / "plan.json"
    plan.write_text(as_plan(certificate))
    command = [sys.executable, "-I", "-S", "-c", ALONE, str(plan)]
    done = subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (code == 0), done.stderr


@pytest.mark.parametrize("page", ["verify", "see"])
def test_the_pages_ask_for_nothing_outside_their_folder(page: str) -> None:
    text = (PAGES / f"{page}.html").read_text("utf-8")
    assert "default-src 'none'" in text and "://" not in text
