"""examples/site: a site with a survey, of another origin than the demo's servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from browsers import Browser
from survey_program import running_survey, wait_for

from shuffledp.service.demo import free_port

SERVER = Path(__file__).resolve().parents[2] / "examples" / "site" / "server.py"
SURVEY = "document.querySelector('shuffledp-survey')"


def test_a_visitor_of_the_example_site_answers(browser: Browser, tmp_path: Path) -> None:
    site = f"http://127.0.0.1:{free_port()}"
    words = ("--allow-origin", site, "--browsers", "5")
    with running_survey(tmp_path / "log", *words) as demo:
        port = site.rpartition(":")[2]
        command = [sys.executable, str(SERVER), "--survey", demo, "--port", port]
        program = subprocess.Popen(command)
        try:
            wait_for(site)
            browser.open(site)
            browser.wait(f"{SURVEY}.querySelector('form')")
            browser.run(f"{SURVEY}.querySelector('[name=answer]').click()")
            browser.run(f"{SURVEY}.querySelector('button').click()")
            browser.wait(f"{SURVEY}.innerText.includes('has arrived')")
            assert not [line for line in browser.complaints() if "SEVERE" in line]
        finally:
            program.terminate()
            program.wait(60)
