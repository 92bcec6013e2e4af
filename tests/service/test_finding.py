"""Open tasks are found directly or through a relay, and neither list nor relay is believed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_issuer import ByHost
from service_relay import Relayed, relayed
from service_trio import TRUSTING, Trio

from shuffledp.cli.main import main
from shuffledp.errors import ParameterError
from shuffledp.queries.count.planner import plan_count
from shuffledp.service.binary_http import BinaryResponse, read_request
from shuffledp.service.client import relaying
from shuffledp.service.client.collector import call, enrol, gateway_key, register
from shuffledp.service.client.finding import TaskFinder
from shuffledp.service.client.sending import Client
from shuffledp.service.demo import Servers, free_port, local_servers
from shuffledp.service.errors import Refused, Unreachable
from shuffledp.service.relay import app as relay_app
from shuffledp.service.shuffler import gateway as gateway_module
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder, PrivateKey
from shuffledp.tasks.oblivious import GatewayKey, open_request, seal_answer
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task

SHUFFLER, RELAY = "http://shuffler", "http://relay"
ANSWER_OVERHEAD = 32
"""The nonce and the tag of a sealed answer."""


class FromThread(httpx2.BaseTransport):
    """Carries requests of a program that waits, in a thread, to servers in the event loop."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner, self._loop = inner, asyncio.get_running_loop()
        self.sizes: list[int] = []
        """Of the answers."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = asyncio.run_coroutine_threadsafe(self._asked(request), self._loop).result(60)
        self.sizes.append(len(answer.content))
        return answer

    async def _asked(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        content = await answer.aread()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=content)


def looking(key: GatewayKey | None, transport: httpx2.BaseTransport) -> TaskFinder:
    """What finds tasks through a relay."""
    return TaskFinder(SHUFFLER, relay=RELAY, gateway=key, transport=transport)


def finder(one: Relayed, key: GatewayKey | None) -> TaskFinder:
    """What finds tasks through the relay; no other server can be reached from it."""
    return looking(key, FromThread(ByHost({"relay": one.to_relay})))


@pytest.mark.attack("a shuffler that looks for the addresses of those who look for tasks")
def test_list_and_task_come_through_the_relay(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            tasks = [await one.task(name=f"bikes {place}") for place in range(3)]
            later = one.trio.task("bikes later", gateway=await one.key(), not_before=2_000_000_000,
                                  expires=2_000_086_400)  # fmt: skip
            await one.trio.register(later)
            look = finder(one, tasks[0].gateway)
            found = await asyncio.to_thread(look.open, "bikes")
            direct = await one.trio.to_shuffler.get("/current")
            assert found == direct.json()["tasks"] and len(found) == 4
            task = await asyncio.to_thread(look.now, "bikes 2")
            assert task == tasks[2]
            with pytest.raises(ParameterError, match="3 such tasks can be answered now"):
                await asyncio.to_thread(look.now, "bikes")
            with pytest.raises(ParameterError, match="0 such tasks"):
                await asyncio.to_thread(look.now, "bikes later")
            sizes = {len(body) for _, body in one.to_relay.seen}
            assert len(sizes) == 1  # whatever is asked for
            answers = look.transport.sizes  # type: ignore[union-attr]
            assert {
                (size - ANSWER_OVERHEAD) % gateway_module.ANSWER_MULTIPLE for size in answers
            } == {0}
            for (headers, body), (asked, sealed) in zip(
                one.to_gateway.seen, one.to_relay.seen, strict=True
            ):
                assert body == sealed and headers["user-agent"] == "relay"
                for secret in ("bikes", "current", task.id.hex()):
                    assert secret.encode() not in sealed and secret not in str(asked)
            # the twin: without the relay it is the shuffler that is asked, which is not there
            plain = replace(look, relay="", gateway=None)
            with pytest.raises(KeyError, match="shuffler"):
                await asyncio.to_thread(plain.open)

    asyncio.run(run())


def test_the_key_must_come_from_elsewhere() -> None:
    key = GatewayKey(1, bytes(31) + b"\x09")
    with pytest.raises(ParameterError, match=r"from another source.*--gateway-key.*--task"):
        TaskFinder(SHUFFLER, relay=RELAY)
    with pytest.raises(ParameterError, match="name the relay"):
        TaskFinder(SHUFFLER, gateway=key)
    for wrong in ("shuffler.example", "ftp://shuffler", "http://"):
        for server, relay in ((wrong, RELAY), (SHUFFLER, wrong)):
            with pytest.raises(ParameterError, match="not a URL"):
                TaskFinder(server, relay=relay, gateway=key)


def own_gateway(key: PrivateKey, read: list[str]) -> Callable[[httpx2.Request], httpx2.Response]:
    """A relay that tries to open requests with a key of its own, and answers them itself."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        try:
            opened, context = open_request(lambda _: key.secret, request.content)
        except TaskError:
            return httpx2.Response(400)
        read.append(read_request(opened).path)
        made = BinaryResponse(200, [], json.dumps({"tasks": []}).encode()).to_bytes(1024)
        return httpx2.Response(200, content=seal_answer(context, made))

    return answer


@pytest.mark.attack("a relay that answers with its own key or list")
def test_a_relay_that_replaces_key_or_answer_is_noticed(tmp_path: Path) -> None:
    keys = [KeyFolder(tmp_path / name).new() for name in ("shuffler", "relay")]
    pinned, own = (GatewayKey(1, key.public.raw) for key in keys)
    read: list[str] = []
    evil = own_gateway(keys[1], read)
    with pytest.raises(Refused, match="Through http://relay"):
        looking(pinned, httpx2.MockTransport(evil)).open()
    assert read == []
    # the twin: whoever took the relay's key would be read, and believe its list
    assert looking(own, httpx2.MockTransport(evil)).open() == []
    assert read == ["/current"]

    honest = own_gateway(keys[0], [])
    old: list[bytes] = []

    def again(request: httpx2.Request) -> httpx2.Response:
        """Answers every request with the sealed answer to the first one."""
        old.append(honest(request).content)
        return httpx2.Response(200, content=old[0])

    def changed(request: httpx2.Request) -> httpx2.Response:
        content = bytearray(honest(request).content)
        content[-1] ^= 1
        return httpx2.Response(200, content=bytes(content))

    look = looking(pinned, httpx2.MockTransport(again))
    assert look.open() == []  # the answer to this very request
    fakes: list[Callable[[httpx2.Request], httpx2.Response]] = [
        again,
        changed,
        lambda _: httpx2.Response(200, json={"tasks": []}),
        lambda _: httpx2.Response(201, content=b""),
        lambda _: httpx2.Response(302, headers={"Location": SHUFFLER}),
        lambda _: httpx2.Response(200, content=bytes(relaying.MOST_RELAYED_BYTES + 1)),
    ]
    for fake in fakes:
        with pytest.raises(Unreachable, match="no answer from the gateway"):
            replace(look, transport=httpx2.MockTransport(fake)).open()


def test_a_key_that_the_gateway_does_not_have(tmp_path: Path) -> None:
    async def run() -> None:
        async with relayed(tmp_path) as one:
            key = await one.key()
            other = GatewayKey((key.number + 1) % 256, key.public)
            with pytest.raises(Refused, match="get the task, or the key, again"):
                await asyncio.to_thread(finder(one, other).open)
            assert await asyncio.to_thread(finder(one, key).open) == []

    asyncio.run(run())


def many(count: int) -> list[dict[str, Any]]:
    """So many entries of a list, as long as any can be."""
    text = "\N{BICYCLE}" * 100
    series = {"series": "0" * 64, "name": text, "place": 1000, "tasks": 1000}
    dates = {"not_before": 2_000_000_000, "expires": 2_000_604_800}
    return [
        {"task": f"{one:064x}", "name": text, **dates, "series": series} for one in range(count)
    ]


def test_a_long_list_fits_and_a_longer_one_is_refused_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven whole series fit through relay and client; what is too long the gateway refuses."""
    most = gateway_module.MOST_CONTENT_BYTES + 4 * gateway_module.ANSWER_MULTIPLE
    assert most < relaying.MOST_RELAYED_BYTES < relay_app.MOST_ANSWER_BYTES

    async def run() -> None:
        async with relayed(tmp_path) as one:
            look, tasks = finder(one, await one.key()), one.trio.shuffler.tasks
            monkeypatch.setattr(tasks, "current", lambda: many(7_000))
            assert len(await asyncio.to_thread(look.open)) == 7_000
            monkeypatch.setattr(tasks, "current", lambda: many(8_000))
            with pytest.raises(Refused, match="longer than what goes through a relay") as caught:
                await asyncio.to_thread(look.open)
            assert caught.value.status == 413

    asyncio.run(run())


def lying(trio: Trio, listed: Task, given: Task, **change: Any) -> TaskFinder:
    """What asks a server whose list names one task, changed, and that gives another one."""
    series = {"series": "0" * 64, "name": "cars", "place": 1, "tasks": 1}
    entry = {"task": listed.id.hex(), "name": listed.name, "not_before": listed.not_before,
             "expires": listed.expires, "series": series, **change}  # fmt: skip

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/current":
            return httpx2.Response(200, json={"tasks": [entry]})
        return httpx2.Response(200, content=given.canonical())

    return TaskFinder(SHUFFLER, transport=httpx2.MockTransport(answer))


def test_a_list_that_lies_is_found_out(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task, other = trio.task("bikes"), trio.task("boats")
    over = trio.task("bikes", not_before=1, expires=2)
    assert lying(trio, task, task).now("bikes") == task
    for look, name, series in (
        (lying(trio, task, other), "bikes", None),
        (lying(trio, task, task, name="cars"), "cars", None),
        (lying(trio, task, task), "", "cars"),  # it belongs to no series
        (lying(trio, over, over, expires=4_000_000_000), "bikes", None),
    ):
        with pytest.raises(TaskError):
            look.now(name, series)
    for change in ({"name": "a\x1b[2J"}, {"task": "../x"}, {"expires": -1}, {"more": 1}):
        with pytest.raises(ParameterError, match="no list of open tasks"):
            lying(trio, task, task, **change).open()
    broken = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"<html>"))
    with pytest.raises(ParameterError, match="no list of open tasks"):
        TaskFinder(SHUFFLER, transport=broken).open()


@contextlib.contextmanager
def season(folder: Path) -> Iterator[tuple[Servers, list[Path]]]:
    """All servers as programs, and the files of three weekly tasks, of which the first is open."""
    with local_servers(folder, more=("relay",)) as servers:
        key = KeyFolder(folder / "keys").all()[-1].public
        pattern = Task.create(
            plan_count(20, 2, mse_overhead=2, cell="bounded").to_dict(),
            key,
            "dark mode",
            BatchRule(20),
            shuffler=servers.shuffler,
            gateway=gateway_key(servers.shuffler),
        )
        (folder / "pattern.json").write_bytes(pattern.canonical())
        (folder / "key.json").write_text(json.dumps(key.to_dict()))
        begin = datetime.now(UTC) - timedelta(hours=1)
        words = ["--begin", begin.isoformat(), "--until", (begin + timedelta(days=20)).isoformat()]
        words += ["--key", str(folder / "key.json"), "--folder", str(folder / "season")]
        made = ["task", "series", str(folder / "pattern.json"), "--every", "week", *words]
        assert main([*made, "--device-budget", "9"]) == 0
        files = sorted((folder / "season").iterdir())
        for file in files:
            task = _read(file)
            for role, url in (("analyzer", servers.analyzer), ("shuffler", servers.shuffler)):
                signer = servers.signing_keys["collector"]
                register(task, url, servers.collector_tokens[role], signer)
        yield servers, files


def _read(file: Path) -> Task:
    from shuffledp.cli.task import read_task

    return read_task(str(file))


def test_the_command_looks_through_the_relay_and_never_talks_to_the_shuffler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The named shuffler is an address where nobody listens: what comes, the relay has brought."""
    with season(tmp_path) as (servers, files):
        capsys.readouterr()
        nobody = f"http://127.0.0.1:{free_port()}"
        ask = ["task", "current", "--shuffler", nobody, "--series", "dark mode"]
        through = [*ask, "--relay", servers.relay]
        assert main(ask) == 2  # the twin: directly nobody answers
        assert "does not answer" in capsys.readouterr().err
        assert main(through) == 2
        assert "must come from another source" in capsys.readouterr().err
        assert main([*ask, "--task", str(files[1])]) == 2
        assert "name the relay" in capsys.readouterr().err
        assert main(["relay", "key", "--shuffler", servers.shuffler]) == 0
        (tmp_path / "gateway-key.json").write_text(capsys.readouterr().out)
        for key in (["--task", str(files[1])], ["--gateway-key", f"{tmp_path}/gateway-key.json"]):
            assert main([*through, *key, "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert [one["task"] for one in found] == [_read(file).id.hex() for file in files]
        target = tmp_path / "now.json"
        assert main([*through, "--task", str(files[1]), "--output", str(target)]) == 0
        assert "dark mode" in capsys.readouterr().out
        assert target.read_bytes() == files[0].read_bytes()
        (token,) = enrol(servers.shuffler, servers.operator_token, 1, EACH_PREFIX)
        outbox, now = tmp_path / "outbox", _read(target)
        with Client(now, nobody, token, outbox, policy=TRUSTING, relay=servers.relay) as client:
            client.send(1)
        url = f"{servers.shuffler}/status"
        status = call("GET", url, servers.operator_token).json()["tasks"]
        assert [one["have"] for one in status] == [1, 0, 0]
        without = replace(_read(files[0]), gateway=None)
        (tmp_path / "without.json").write_bytes(without.canonical())
        assert main([*through, "--task", str(tmp_path / "without.json")]) == 2
        assert "names no gateway key" in capsys.readouterr().err
