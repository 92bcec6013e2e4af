"""Web pages of configured origins may talk to a server; others get no permission. Tasks are cached
forever, and expired ones take no reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from logged_tasks import proof_of
from raw_sockets import connect
from service_issuer import IssuerParty
from service_programs import Programs
from service_trio import (
    TRUSTING,
    Trio,
    as_collector,
    bearing,
)

from shuffledp.service.binary_http import BinaryRequest
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import ConfigError
from shuffledp.service.http.config import load_config
from shuffledp.service.relay.app import Relay
from shuffledp.service.relay.config import RelayConfig
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.tasks.clock import CLOCK_SECONDS, DAY_SECONDS
from shuffledp.tasks.errors import TaskError, TaskNotNow
from shuffledp.tasks.oblivious import GatewayKey, seal_request
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.tokens import TokenRequest, task_challenge

PAGE, STRANGER = "https://survey.example", "https://elsewhere.example"


def permitted(answer: httpx2.Response) -> str | None:
    """The origin that an answer may be read by; checks that caches are told to ask again."""
    assert "Origin" in answer.headers["vary"]
    found: str | None = answer.headers.get("access-control-allow-origin")
    return found


def test_pages_of_configured_origins_may_read_every_answer(tmp_path: Path) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path, allow_origins=(PAGE, "http://127.0.0.1:5173"))
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            (token,) = await trio.enrol()
            url, body = f"/tasks/{task.id.hex()}/reports", encrypt_report(task, 1)
            from_page = {"Origin": PAGE}
            sent = await trio.to_shuffler.post(
                url, content=body, headers=bearing(token) | from_page
            )
            assert sent.status_code == 201 and permitted(sent) == PAGE
            for path in ("/tasks/00/reports", url, "/nothing"):  # 404, 401, 404
                refused = await trio.to_shuffler.post(path, content=b"", headers=from_page)
                assert refused.status_code in (401, 404) and permitted(refused) == PAGE
                assert "Retry-After" in refused.headers["access-control-expose-headers"]
                foreign = await trio.to_shuffler.post(
                    path, content=b"", headers={"Origin": STRANGER}
                )
                assert permitted(foreign) is None
            assert permitted(await trio.to_shuffler.get(f"/tasks/{task.id.hex()}")) is None

    asyncio.run(walk())


def test_a_browser_may_ask_before_it_sends(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path, allow_origins=(PAGE,)).running() as trio:
            asks = {
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type",
            }
            url = f"/tasks/{'00' * 32}/reports"
            allowed = await trio.to_shuffler.options(url, headers=asks | {"Origin": PAGE})
            assert allowed.status_code == 204 and permitted(allowed) == PAGE
            assert allowed.headers["access-control-allow-methods"] == "GET, POST"
            assert allowed.headers["access-control-allow-headers"] == "Authorization, Content-Type"
            refused = await trio.to_shuffler.options(url, headers=asks | {"Origin": STRANGER})
            assert permitted(refused) is None
            assert "access-control-allow-methods" not in refused.headers
            # the analyzer, where no origin is configured, says nothing about origins
            silent = await trio.to_analyzer.options("/keys", headers=asks | {"Origin": PAGE})
            assert silent.status_code == 405
            assert not any(name.startswith("access-control") for name in silent.headers)

    asyncio.run(walk())


async def permits_pages(
    server: httpx2.AsyncClient, path: str, good: dict[str, Any], refused: dict[str, Any]
) -> None:
    """Checks that a page of the configured origin may ask before it sends, and may read what it is
    answered and why it is refused; and that other pages may not."""
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    for origin, allowed in ((PAGE, PAGE), (STRANGER, None)):
        here = {"Origin": origin}
        before = await server.options(path, headers=asks | here)
        assert before.status_code == 204 and permitted(before) == allowed
        names = before.headers.get("access-control-allow-headers")
        assert names == (allowed and "Authorization, Content-Type")
        for request, passes in ((good, True), (refused, False)):
            headers = request["headers"] | here
            answer = await server.post(path, content=request["content"], headers=headers)
            assert (answer.status_code == 200) is passes, answer.text
            assert permitted(answer) == allowed
            exposed = answer.headers.get("access-control-expose-headers", "")
            assert ("Retry-After" in exposed) is (allowed is not None)
        unknown = await server.post("/nothing", headers=here)
        assert unknown.status_code == 404 and permitted(unknown) == allowed


def test_pages_may_talk_to_an_issuer(tmp_path: Path) -> None:
    async def walk() -> None:
        async with (
            Trio(tmp_path).running() as trio,
            IssuerParty(trio, allow_origins=(PAGE,)).running() as party,
        ):
            task = party.task()
            await party.register(task)
            (secret,) = await party.enrol()
            assert task.issuer is not None
            request = TokenRequest.make(task.issuer.key, task_challenge(task)).to_bytes()
            await permits_pages(
                party.client,
                f"/tasks/{task.id.hex()}/tokens",
                {"content": request, "headers": bearing(secret)},
                {"content": request, "headers": bearing("each-nobody")},
            )

    asyncio.run(walk())


def test_pages_may_talk_to_a_relay(tmp_path: Path) -> None:
    """The relay passes the page's origin on to nobody: the shuffler allows no page here."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            config = RelayConfig(shuffler="http://shuffler", allow_origins=(PAGE,))
            relay = Relay(config, httpx2.ASGITransport(trio.shuffler_app))
            answer = await trio.to_shuffler.get("/.well-known/ohttp-gateway")
            key = GatewayKey.from_hex(answer.content[2:].hex())
            inner = BinaryRequest(method="GET", authority="s", path=f"/tasks/{'0' * 64}")
            sealed = {"Content-Type": "message/ohttp-req"}
            async with (
                relay.running(),
                httpx2.AsyncClient(
                    transport=httpx2.ASGITransport(relay.app()), base_url="http://relay"
                ) as server,
            ):
                await permits_pages(
                    server,
                    "/relay",
                    {"content": seal_request(key, inner.to_bytes())[0], "headers": sealed},
                    {"content": b"no sealed request", "headers": sealed},
                )

    asyncio.run(walk())


def test_every_origin_may_be_allowed_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path, allow_origins=("*",)).running() as trio:
            answer = await trio.to_shuffler.get("/livez", headers={"Origin": STRANGER})
            assert permitted(answer) == STRANGER

    asyncio.run(walk())
    config = Trio(tmp_path).shuffler_config
    for wrong in ("survey.example", "https://survey.example/", "null", "https://A.example"):
        assert any(
            "allow_origins" in line for line in replace(config, allow_origins=(wrong,)).problems()
        )
    file = tmp_path / "service.toml"
    file.write_text('[shuffler]\nallow_origins = ["https://a.example"]\n')
    environ = {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "x",
        "SHUFFLEDP_SHUFFLER_COLLECTOR_TOKEN_SHA256": "0" * 64,
        "SHUFFLEDP_SHUFFLER_OPERATOR_TOKEN_SHA256": "0" * 64,
    }
    loaded = load_config(file, ShufflerConfig, environ, allow_origins=["http://localhost:1"])
    assert loaded.allow_origins == ("https://a.example", "http://localhost:1")
    both = environ | {"SHUFFLEDP_SHUFFLER_ALLOW_ORIGINS": "https://b.example, *"}
    assert load_config(file, ShufflerConfig, both).allow_origins == ("https://b.example", "*")
    file.write_text("[shuffler]\nallow_origins = [1]\n")
    with pytest.raises(ConfigError, match="list of texts"):
        load_config(file, ShufflerConfig, environ)


def test_refusals_below_the_application_say_so_too(tmp_path: Path) -> None:
    """A request whose head is too long is answered by the connection itself."""
    trio = Trio(tmp_path, allow_origins=(PAGE,))
    with Programs(trio).alone("shuffler") as shuffler:
        for origin, allowed in ((PAGE, True), (STRANGER, False)):
            with connect(shuffler) as connection:
                long = b"x: " + b"y" * 17_000
                head = b"GET /livez HTTP/1.1\r\nhost: s\r\norigin: %s\r\n%s\r\n\r\n"
                connection.sendall(head % (origin.encode(), long))
                answer = connection.recv(65536).lower()
            assert answer.startswith(b"http/1.1 431 ")
            assert (b"access-control-allow-origin: " + PAGE.encode() in answer) is allowed
            assert b"vary: origin" in answer


def test_a_task_is_cached_for_ever(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            for server in (trio.to_shuffler, trio.to_analyzer):
                url = f"/tasks/{task.id.hex()}"
                answer = await server.get(url)
                assert answer.content == task.canonical()
                assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
                tag = answer.headers["etag"]
                again = await server.get(url, headers={"If-None-Match": tag})
                assert (again.status_code, again.content) == (304, b"")
                other = await server.get(url, headers={"If-None-Match": '"else"'})
                assert other.status_code == 200
                unknown = await server.get(f"/tasks/{'00' * 32}")
                assert unknown.status_code == 404 and "cache-control" not in unknown.headers

    asyncio.run(walk())


def test_an_expired_task_takes_no_reports(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            now = int(trio.clock())
            task = trio.task(expires=now + DAY_SECONDS)
            await trio.register(task)
            tokens = await trio.enrol(3)
            trio.seconds_ahead = DAY_SECONDS + CLOCK_SECONDS - 60
            late = await trio.post(task, encrypt_report(task, 1), tokens[0])
            assert late.status_code == 201  # within what two clocks may differ by
            trio.seconds_ahead = DAY_SECONDS + CLOCK_SECONDS + 60
            refused = await trio.post(task, encrypt_report(task, 1), tokens[1])
            assert refused.status_code == 410
            assert refused.json()["type"] == "urn:shuffledp:problem:task-expired"
            other = trio.task("other", expires=now + DAY_SECONDS)
            for server in (trio.to_shuffler, trio.to_analyzer):
                put = await server.put(
                    f"/tasks/{other.id.hex()}",
                    content=other.canonical(),
                    headers=as_collector(other.id),
                )
                assert put.status_code == 410

    asyncio.run(walk())


def test_a_device_answers_only_while_a_task_is_valid(tmp_path: Path) -> None:
    now = [0.0]
    task = Trio(tmp_path).task(not_before=1_000, expires=2_000)
    sent: list[httpx2.Request] = []

    def take(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(201)

    with Client(
        task,
        task.shuffler,
        "token",
        tmp_path / "box",
        policy=TRUSTING,
        proof=proof_of(task),
        clock=lambda: now[0],
        transport=httpx2.MockTransport(take),
    ) as client:
        for when, code in ((999.9, "task-early"), (2_000.0, "task-expired")):
            now[0] = when
            with pytest.raises(TaskNotNow) as caught:
                client.send(1)
            assert caught.value.code == code
        assert not sent and not (tmp_path / "box").exists()
        now[0] = 1_999.9
        client.send(1)
        assert str(sent[0].url).startswith("http://127.0.0.1:8801/tasks/")
    with pytest.raises(TaskError, match="expires before it begins"):
        Trio(tmp_path).task(not_before=2_000, expires=2_000)


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"shuffler": "http://shuffler.example"}, "shuffler"),
        ({"shuffler": "https://shuffler.example/"}, "shuffler"),
        ({"shuffler": "https://shuffler.example?x"}, "shuffler"),
        ({"shuffler": "https://user@shuffler.example"}, "shuffler"),
        ({"question": ""}, "question"),
        ({"question": "two\nlines"}, "question"),
        ({"question": "x" * 1001}, "question"),
        ({"question": "\u202eturned"}, "question"),
        ({"expires": 2**53}, "expires"),
    ],
)
def test_tasks_that_devices_could_not_show_or_reach_are_refused(
    tmp_path: Path, options: dict[str, Any], about: str
) -> None:
    with pytest.raises(TaskError, match=about):
        Trio(tmp_path).task(**options)
    good = Trio(tmp_path).task(shuffler="https://shuffler.example:8443/in/eu", question="Ünï? 🙂")
    assert good.to_dict()["question"] == "Ünï? 🙂"
