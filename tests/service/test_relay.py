"""Reports through a relay: the shuffler learns no address, the relay nothing but sizes."""

from __future__ import annotations

import asyncio
import re
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from described_answers import check_described
from raw_sockets import wait_for
from service_issuer import ByHost, IssuerParty, code
from service_relay import relayed
from service_trio import as_collector, bearing

from shuffledp.errors import ParameterError
from shuffledp.service.binary_http import BinaryRequest
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.errors import ConfigError, Refused, Unreachable, UntrustedServer
from shuffledp.service.http.config import host_and_port, load_config
from shuffledp.service.relay.app import Relay
from shuffledp.service.relay.config import RelayConfig
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.oblivious import GatewayKey
from shuffledp.tasks.reports import encrypt_report


@pytest.mark.attack("a shuffler that looks for addresses, a relay that looks for contents")
def test_the_relay_passes_on_sealed_bytes_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            task = await one.task()
            tokens = await one.trio.enrol(3)
            for user, token in enumerate(tokens):
                async with one.device(task, token, f"device{user}") as device:
                    await device.send(user % 2)
            assert (await one.trio.status(task))["have"] == 3
            sizes = [len(body) for _, body in one.to_relay.seen]
            assert sizes == sizes[:2] * 3  # the proof and the report, of one size for everybody
            passed = {"host", "content-length", "content-type", "user-agent"}
            passed |= {"accept", "accept-encoding", "connection"}
            for (headers, body), (asked, sealed) in zip(
                one.to_gateway.seen, one.to_relay.seen, strict=True
            ):
                assert body == sealed and set(headers) <= passed
                assert headers["user-agent"] == "relay"
                for secret in (*tokens, task.id.hex(), "Bearer", "reports"):
                    assert secret.encode() not in sealed and secret not in str(asked)
                assert task.id not in sealed

    asyncio.run(run())


def test_one_time_tokens_through_the_relay(tmp_path: Path) -> None:
    """Neither who sent it nor from where: the issuer is asked directly, the shuffler through it."""

    async def run() -> None:
        async with relayed(tmp_path) as one, IssuerParty(one.trio).running() as party:
            task = party.task(gateway=await one.key())
            await party.register(task)
            (secret,) = await party.enrol()
            hosts = ByHost({"relay": one.to_relay, "127.0.0.1:8803": party.transport})
            async with one.device(task, secret, "device", transport=hosts) as device:
                await device.send(1)
            assert len(one.to_relay.seen) == 2  # the proof and the report
            assert (await one.trio.status(task))["have"] == 1

    asyncio.run(run())


def test_the_shufflers_refusals_hold_inside_the_gateway(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            task = await one.task()
            (token,) = await one.trio.enrol()
            body = encrypt_report(task, 1)
            path = f"/tasks/{task.id.hex()}/reports"
            cases = [
                (body, bearing("each-nobody"), 403, "token-unknown"),
                (body, {}, 401, "token-missing"),
                (body[:-1], bearing(token), 413, "size"),
                (bytes(len(body)), bearing(token), 400, "malformed"),
            ]
            for content, headers, status, reason in cases:
                answer = await one.through(task, "POST", path, content=content, headers=headers)
                assert (answer.status_code, code(answer)) == (status, reason)
            got = [
                (
                    await one.through(task, "POST", path, content=body, headers=bearing(token))
                ).status_code
                for _ in range(2)
            ]
            assert got == [201, 200]
            other = await one.through(
                task, "POST", path, content=encrypt_report(task, 0), headers=bearing(token)
            )
            assert (other.status_code, code(other)) == (409, "token-used")
            found = await one.through(task, "GET", f"/tasks/{task.id.hex()}")
            assert found.content == task.canonical()
            for unknown in ("/status", "/tokens", "/metrics", f"/tasks/{'0' * 64}"):
                assert (await one.through(task, "GET", unknown)).status_code == 404
            closed = f"/tasks/{task.id.hex()}/close"
            assert (
                await one.through(task, "POST", closed, headers=bearing("x"))
            ).status_code == 404

    asyncio.run(run())


def test_bytes_that_are_no_sealed_request_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            key = await one.key()
            await one.task()
            whole = BinaryRequest(method="GET", authority="s", path="/tasks/x").to_bytes()
            assert (await one.post(key, whole)).status_code == 200
            for inner in (b"", b"\x01", whole + b"\x01", whole[:-3]):
                if inner != whole[:-3]:
                    answer = await one.post(key, inner)
                    assert (answer.status_code, code(answer)) == (400, "malformed")
            other = GatewayKey((key.number + 1) % 256, key.public)
            assert (await one.post(other, whole)).status_code == 400
            long = await one.post(key, whole + bytes(1 << 20))
            assert (long.status_code, code(long)) == (413, "size")

    asyncio.run(run())


def test_a_relay_cannot_acknowledge_a_report(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            task = await one.task()
            (token,) = await one.trio.enrol()
            answer = await one.trio.to_shuffler.get(f"/tasks/{task.id.hex()}/proof")
            proof = TaskProof.from_json(answer.content)
            for status, error in ((200, Unreachable), (201, Unreachable), (403, Refused)):
                fake = httpx2.MockTransport(lambda _, status=status: httpx2.Response(status))
                options = {"transport": fake, "attempts": 1, "proof": proof}
                async with one.device(task, token, f"d{status}", **options) as device:
                    with pytest.raises(error):
                        await device.send(1)
                    assert not device.outbox.answered(task.id)
            async with one.device(task, token, "d201") as device:
                await device.resume()
            assert (await one.trio.status(task))["have"] == 1

    asyncio.run(run())


def test_a_task_without_a_gateway_key_or_with_a_foreign_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            with pytest.raises(ParameterError, match="no gateway key"):
                one.device(one.trio.task(), "each-x", "device")
            foreign = one.trio.task(gateway=GatewayKey(1, bytes(31) + b"\x09"))
            answer = await one.trio.to_shuffler.put(
                f"/tasks/{foreign.id.hex()}",
                content=foreign.canonical(),
                headers=as_collector(foreign.id),
            )
            assert (answer.status_code, code(answer)) == (422, "key-unknown")
            key = await one.key()
        async with relayed(tmp_path) as one:
            assert await one.key() == key  # it is kept

    asyncio.run(run())


def test_what_is_wrong_with_the_relay_is_not_blamed_on_the_shuffler(tmp_path: Path) -> None:
    def untrusted(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("") from ssl.SSLCertVerificationError()

    async def run() -> None:
        async with relayed(tmp_path) as one:
            task = await one.task()
            for relay in (
                *("relay.example", "ftp://relay", "https://", "https://relay:99999"),
                *("https://relay?a=1", "https://relay#a", "https://relay "),
            ):
                said = f"^{re.escape(relay)} is not a URL of a relay; use"
                with pytest.raises(ParameterError, match=said):
                    one.device(task, "each-x", "device", relay=relay)
            transport = httpx2.MockTransport(untrusted)
            async with one.device(task, "each-x", "device", transport=transport) as device:
                with pytest.raises(UntrustedServer, match=r"^http://relay answers"):
                    await device.check()

    asyncio.run(run())


def test_what_the_relay_answers_is_described(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            operations = one.relay.operations()
            async with httpx2.AsyncClient(
                transport=one.to_relay, base_url="http://relay"
            ) as client:
                sealed = {"Content-Type": "message/ohttp-req"}
                for headers, body, status, reason in (
                    ({}, b"x", 422, "media-type"),
                    (sealed, b"x", 400, "malformed"),
                    (sealed, bytes(5 << 20), 413, "size"),
                ):
                    answer = await client.post("/relay", content=body, headers=headers)
                    assert (answer.status_code, code(answer)) == (status, reason)
                    check_described(operations, "POST", "/relay", status, reason)
                assert (await client.get("/livez")).text == "alive\n"
                assert (await client.get("/readyz")).text == "ready\n"
            away = Relay(RelayConfig(), httpx2.MockTransport(_nobody))
            async with away.running():
                transport = httpx2.ASGITransport(away.app())
                async with httpx2.AsyncClient(transport=transport, base_url="http://r") as client:
                    answer = await client.post("/relay", content=b"x", headers=sealed)
                    assert (answer.status_code, code(answer)) == (503, "gateway-away")
                    check_described(operations, "POST", "/relay", 503, "gateway-away")

    asyncio.run(run())


def test_an_address_sends_as_often_as_the_relay_allows(tmp_path: Path) -> None:
    async def run() -> None:
        relay = Relay(RelayConfig(address_requests_per_minute=2), httpx2.MockTransport(_nobody))
        transport = httpx2.ASGITransport(relay.app())
        async with httpx2.AsyncClient(transport=transport, base_url="http://r") as client:
            answers = [await client.get("/livez") for _ in range(3)]
        assert [one.status_code for one in answers] == [200, 200, 429]
        assert code(answers[2]) == "rate"
        check_described(relay.operations(), "GET", "/livez", 429, "rate")

    asyncio.run(run())


def test_the_relay_drains_before_it_ends(tmp_path: Path) -> None:
    """From SIGTERM on /readyz says 503 while the port is still open, as at the other servers."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    config = tmp_path / "relay.toml"
    config.write_text(f'[relay]\nlisten = "127.0.0.1:{port}"\ndrain_seconds = 2\n')
    words = [sys.executable, "-m", "shuffledp.cli.main", "relay", "serve", "--config", str(config)]
    relay = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_ready(url)
        relay.send_signal(signal.SIGTERM)
        assert wait_for(lambda: httpx2.get(f"{url}/readyz").status_code == 503)
        ready = httpx2.get(f"{url}/readyz")
        assert (ready.status_code, code(ready)) == (503, "draining")
        assert httpx2.get(f"{url}/livez").status_code == 200
        assert relay.wait(60) in (0, -signal.SIGTERM)
    finally:
        relay.kill()
        relay.wait()


def test_the_relay_refuses_settings_that_it_does_not_use(tmp_path: Path) -> None:
    config = tmp_path / "relay.toml"
    config.write_text('[relay]\nlisten = "127.0.0.1:8804"\n')
    assert host_and_port(load_config(config, RelayConfig).listen)[1] == 8804
    for setting in ('operators_listen = "127.0.0.1:8814"', 'store = "sqlite:store.db"'):
        config.write_text(f"[relay]\n{setting}\n")
        with pytest.raises(ConfigError, match=r"\[relay\] has no setting"):
            load_config(config, RelayConfig)


def _nobody(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("away")
