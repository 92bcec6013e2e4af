"""The token endpoints of docs/how-to/your-site.md, in Python and in Node, with a real shuffler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from service_needs import missing
from service_programs import Programs
from service_trio import OPERATOR, Trio, bearing
from survey_program import wait_for

from shuffledp.service.demo import free_port
from shuffledp.tasks.reports import encrypt_report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "your-site.md"
LOGINS = {
    "login.py": "def person(request): return request.headers.get('x-person')",
    "login.js": "export const person = (request) => request.headers['x-person'] ?? null;",
}
"""What a site brings itself: who is logged in."""


def endpoint(language: str) -> str:
    """The code of the page's section "Where tokens come from"."""
    section = PAGE.read_text("utf-8").partition("## Where tokens come from")[2]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    running = Programs(Trio(tmp_path_factory.mktemp("servers")))
    with running.both():
        yield running


@pytest.mark.parametrize("language", ["py", "js"])
def test_the_endpoint_gives_each_person_one_token(
    language: str, programs: Programs, tmp_path: Path
) -> None:
    port = free_port()
    code = endpoint(language).replace("https://shuffler.example", programs.urls["shuffler"])
    for name, text in LOGINS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / f"site.{language}").write_text(code.replace("listen(8000)", f"listen({port})"))
    if language == "py":
        command = [sys.executable, "-m", "uvicorn", "site_app:app", "--port", str(port)]
        (tmp_path / "site.py").rename(tmp_path / "site_app.py")  # `site` is Python's own
    else:
        command = ["node", "site.js"]
        if not shutil.which("node"):
            missing("Node", "Debian: apt-get install nodejs")
    environment = {**os.environ, "OPERATOR_TOKEN": OPERATOR}
    site = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        url = f"http://127.0.0.1:{port}/token"
        wait_for(url)
        assert httpx2.post(url).status_code == 403
        assert httpx2.get(url, headers={"X-Person": "ann"}).status_code in (404, 405)
        answers = [httpx2.post(url, headers={"X-Person": name}) for name in ("ann", "ann", "bob")]
        assert all(answer.headers["cache-control"] == "no-store" for answer in answers)
        ann, again, bob = (answer.json()["token"] for answer in answers)
        assert ann == again != bob
    finally:
        site.terminate()
        site.wait(60)
    task = programs.trio.task(f"Tokens of a site in {language}")
    programs.register(task)
    reports = f"{programs.urls['shuffler']}/tasks/{task.id.hex()}/reports"
    stati = [
        httpx2.post(reports, headers=bearing(token), content=encrypt_report(task, 1)).status_code
        for token in (ann, bob, ann, f"{ann}x")
    ]
    assert stati[:2] == [201, 201] and all(status >= 400 for status in stati[2:]), stati
