"""Nobody but the browser that was opened with the link gets anything from a studio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx2
import pytest
from studio_program import Started

from shuffledp.errors import ParameterError
from shuffledp.studio.serving import listening


@pytest.fixture(scope="module")
def client(studio: Started) -> Iterator[httpx2.Client]:
    """A client that has exchanged the token for the cookie."""
    assert httpx2.get(studio.address).status_code == 403
    assert httpx2.get(studio.link + "x").status_code == 403
    with httpx2.Client(base_url=studio.address, headers={"Origin": studio.address}) as one:
        assert one.get(studio.link).status_code == 303
        yield one


def test_a_link_works_once_and_the_cookie_afterwards(
    studio: Started, client: httpx2.Client
) -> None:
    assert client.get(studio.link, follow_redirects=True).url.query == b""
    (cookie,) = client.cookies.jar
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"
    page = client.get("/")
    assert page.status_code == 200 and "<script" in page.text
    again = httpx2.get(studio.link)
    assert again.status_code == 403 and "works once" in again.text


def test_without_the_cookie_there_is_nothing(studio: Started, client: httpx2.Client) -> None:
    for path in ("/api/progress", "/page/studio.js"):
        assert httpx2.get(studio.address + path).status_code == 401
    for wrong in (b"x", b'"\xe9"'):
        cookie = b"shuffledp_studio_%d=%b" % (client.base_url.port or 80, wrong)
        assert httpx2.get(studio.address, headers={b"Cookie": cookie}).status_code == 403
    sent = httpx2.post(f"{studio.address}/api/plan", headers={"Origin": studio.address}, json={})
    assert sent.status_code == 401


def test_foreign_names_and_pages_are_refused(studio: Started, client: httpx2.Client) -> None:
    """A name that resolves to 127.0.0.1, and a page of another site that sends a form."""
    for host in ("evil.example", f"evil.example:{client.base_url.port}", "127.0.0.1"):
        assert client.get("/", headers={"Host": host}).status_code == 421
    for origin in (
        "http://evil.example",
        "null",
        studio.address.replace("127.0.0.1", "localhost"),
    ):
        answer = client.post("/api/forget", headers={"Origin": origin}, json={})
        assert answer.status_code == 403, origin
    bare = httpx2.post(f"{studio.address}/api/forget", cookies=client.cookies, json={})
    assert bare.status_code == 403
    assert client.post("/api/forget", json={}).status_code == 200


def test_every_answer_forbids_scripts_of_others(studio: Started, client: httpx2.Client) -> None:
    for answer in (client.get("/"), client.get("/nothing"), httpx2.get(studio.address)):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
    page = client.get("/").text
    assert "<script>" not in page and " style=" not in page and " onclick=" not in page
    assert "http://" not in page and 'src="https:' not in page


def test_files_of_the_page_are_the_only_ones(studio: Started, client: httpx2.Client) -> None:
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "nothing.js", "app.py"):
        assert client.get(f"/page/{name}").status_code == 404, name


def test_uploads_have_a_limit_and_leave_nothing(
    studio: Started, client: httpx2.Client, tmp_path: Path
) -> None:
    before = set(tmp_path.parent.glob("*"))
    asking = HTTPConnection(client.base_url.host, client.base_url.port or 80)
    asking.putrequest("POST", "/api/upload")
    cookie = "; ".join(f"{one.name}={one.value}" for one in client.cookies.jar)
    for header in (("Origin", studio.address), ("Cookie", cookie), ("Content-Length", "9" * 12)):
        asking.putheader(*header)
    asking.endheaders()
    assert asking.getresponse().status == 413
    asking.close()
    name = {"X-File-Name": "..%2F..%2Fevil.csv"}
    assert client.post("/api/upload", headers=name, content=b"a,b\n1,2\n").status_code == 201
    *_, found, end = map(json.loads, client.post("/api/look", json={}).iter_lines())
    assert "/" not in found["found"]["name"] and end == {"end": "done"}
    assert [one["name"] for one in found["found"]["columns"]] == ["a", "b"]
    assert client.get("/api/file").json() == found["found"]
    assert client.post("/api/upload", content=b"").status_code == 201
    (end,) = map(json.loads, client.post("/api/look", json={}).iter_lines())
    assert end["end"] == "refused"
    assert client.post("/api/look", json={}).status_code == 409  # what cannot be read is removed
    assert set(tmp_path.parent.glob("*")) == before


def test_a_port_that_is_taken_is_refused_in_a_sentence() -> None:
    with listening(0) as taken:
        taken.listen()
        with pytest.raises(ParameterError, match="cannot be used"):
            listening(taken.getsockname()[1])
