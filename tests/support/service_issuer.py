"""An issuer beside a `Trio`, in the same program, joined without sockets."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from described_answers import described_by
from service_trio import COLLECTOR, OPERATOR, TRUSTING, Trio, as_collector, bearing, sha

from shuffledp.service.client.sending import AsyncClient
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.issuer.app import Issuer
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.tokens import EACH_PREFIX, new_token
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import (
    IssuerKeyFolder,
    TaskToken,
    TokenIssuer,
    TokenRequest,
    task_challenge,
)

ISSUER_URL = "http://127.0.0.1:8803"
COMMAND = ("-m", "shuffledp.cli.main")


class ByHost(httpx2.AsyncBaseTransport):
    """Carries requests to the server of their host and port."""

    def __init__(self, servers: Mapping[str, httpx2.AsyncBaseTransport]) -> None:
        self._servers = servers

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._servers[request.url.netloc.decode()].handle_async_request(request)


class IssuerParty:
    """An issuer, started, with a client to talk to it."""

    def __init__(self, trio: Trio, store: str = "", **settings: Any) -> None:
        self.trio = trio
        folder = trio.folder
        self.keys = IssuerKeyFolder(folder / "issuer-keys")
        self.config = IssuerConfig(
            store=store or f"sqlite:{folder}/issuer.db",
            spool=f"{folder}/issuer",
            keys=f"{folder}/issuer-keys",
            collector_token_sha256=sha(COLLECTOR),
            operator_token_sha256=sha(OPERATOR),
            **settings,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[IssuerParty]:
        """The issuer while it runs."""
        self.issuer = Issuer(self.config, self.trio.clock)
        self.transport = httpx2.ASGITransport(self.issuer.app())
        await self.issuer.start()
        try:
            async with httpx2.AsyncClient(
                transport=self.transport,
                base_url="http://issuer",
                timeout=60,
                event_hooks={"response": [described_by(self.issuer)]},
            ) as self.client:
                yield self
        finally:
            await self.issuer.stop()

    def task(self, name: str = "with tokens", attested: bool = False, **options: Any) -> Task:
        """A task whose reports carry this issuer's tokens."""
        issuer = TokenIssuer(ISSUER_URL, self.keys.new(), attested)
        return self.trio.task(name, issuer=issuer, **options)

    async def put(self, task: Task) -> httpx2.Response:
        """The issuer's answer to a task's registration."""
        return await self.client.put(
            f"/tasks/{task.id.hex()}", content=task.canonical(), headers=as_collector(task.id)
        )

    async def register(self, task: Task) -> None:
        """Registers a task at all three servers."""
        answer = await self.put(task)
        assert answer.status_code in (200, 201), answer.text
        await self.trio.register(task)

    async def enrol(self, count: int = 1, attested: bool = False) -> list[str]:
        """Fresh secrets, enrolled here."""
        secrets = [new_token(EACH_PREFIX) for _ in range(count)]
        answer = await self.client.post(
            "/tokens",
            json={"sha256": [sha(secret) for secret in secrets], "attested": attested},
            headers=bearing(OPERATOR),
        )
        assert answer.json() == {"new": count}, answer.text
        return secrets

    async def ask(self, task: Task, secret: str, request: bytes) -> httpx2.Response:
        """The issuer's answer to a request for a token."""
        return await self.client.post(
            f"/tasks/{task.id.hex()}/tokens", content=request, headers=bearing(secret)
        )

    async def token(self, task: Task, secret: str, challenge: bytes | None = None) -> TaskToken:
        """A token of a task; `challenge` is another one than the task's, for attacks."""
        assert task.issuer is not None
        request = TokenRequest.make(task.issuer.key, challenge or task_challenge(task))
        answer = await self.ask(task, secret, request.to_bytes())
        assert answer.status_code == 200, answer.text
        return request.finish(answer.content)

    def device(self, task: Task, secret: str, name: str = "device", **options: Any) -> AsyncClient:
        """A device that is enrolled here; `issuer` carries its requests to the issuer."""
        servers = {
            "shuffler": httpx2.ASGITransport(self.trio.shuffler_app),
            "127.0.0.1:8803": options.pop("issuer", self.transport),
        }
        return AsyncClient(
            task,
            "http://shuffler",
            secret,
            self.trio.folder / name,
            policy=TRUSTING,
            **{"transport": ByHost(servers), **options},
        )


def code(answer: httpx2.Response) -> str:
    """The code of a refusal."""
    return str(answer.json()["type"].rpartition(":")[2])


class IssuerProgram:
    """An issuer as a program of its own."""

    def __init__(self, folder: Path, store: str = "", **more: Any) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.http = httpx2.Client(base_url=self.url, timeout=60)
        settings = {
            "listen": f"127.0.0.1:{port}",
            "store": store or f"sqlite:{folder}/issuer.db",
            "spool": f"{folder}/issuer",
            "keys": f"{folder}/issuer-keys",
            "collector_token_sha256": sha(COLLECTOR),
            "operator_token_sha256": sha(OPERATOR),
            **more,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        self.config = folder / "issuer.toml"
        self.config.write_text("\n".join(["[issuer]", *lines, "drain_seconds = 0"]))

    def start(self, *program: str) -> None:
        """Starts the issuer, or a program that takes the same words."""
        words = [sys.executable, *(program or COMMAND), "issuer", "serve"]
        words += ["--config", str(self.config)]
        with open(self.folder / "issuer.log", "ab") as log:
            self.program = subprocess.Popen(words, stderr=log)
        wait_ready(self.url, 60)

    def kill(self) -> None:
        self.program.send_signal(signal.SIGKILL)
        self.program.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.program.terminate()
            self.program.wait(60)
            self.http.close()

    def register(self, task: Task) -> None:
        self.http.put(
            f"/tasks/{task.id.hex()}", content=task.canonical(), headers=as_collector(task.id)
        ).raise_for_status()

    def prepare(self, task: Task, count: int) -> list[str]:
        self.register(task)
        secrets = [new_token(EACH_PREFIX) for _ in range(count)]
        self.http.post(
            "/tokens",
            json={"sha256": [sha(one) for one in secrets], "attested": False},
            headers=bearing(OPERATOR),
        ).raise_for_status()
        return secrets

    def ask(self, task: Task, secret: str, request: TokenRequest) -> httpx2.Response | None:
        with contextlib.suppress(httpx2.TransportError):
            return self.http.post(
                f"/tasks/{task.id.hex()}/tokens",
                content=request.to_bytes(),
                headers=bearing(secret),
            )
        return None


def kill_the_issuer(folder: Path, store: str = "") -> None:
    """SIGKILL while requests are on their way; asserts what holds afterwards."""
    task = IssuerParty(Trio(folder)).task()
    assert task.issuer is not None
    key, challenge = task.issuer.key, task_challenge(task)
    program = IssuerProgram(folder, store)
    with program.running():
        secrets = program.prepare(task, 24)
        requests = [TokenRequest.make(key, challenge) for _ in secrets]
        with ThreadPoolExecutor(4) as threads:
            first = [
                threads.submit(program.ask, task, secret, request)
                for secret, request in zip(secrets, requests, strict=True)
            ]
            end = time.monotonic() + 60
            while not any(one.done() for one in first) and time.monotonic() < end:
                time.sleep(0.001)
            program.kill()
            answered = [one.result() for one in first]
        assert any(answer is not None for answer in answered)
        program.start()
        for secret, request, before in zip(secrets, requests, answered, strict=True):
            again = program.ask(task, secret, request)
            assert again is not None and again.status_code == 200
            assert before is None or before.content == again.content
            assert request.finish(again.content).valid(key, challenge)
            other = program.ask(task, secret, TokenRequest.make(key, challenge))
            assert other is not None and (other.status_code, code(other)) == (409, "token-issued")
    said = (folder / "issuer.log").read_text()
    assert "enrolled" in said and "tokens stopped" not in said
    for secret, request in zip(secrets, requests, strict=True):
        assert secret not in said and sha(secret) not in said
        assert request.blinded.hex() not in said
