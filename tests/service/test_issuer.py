"""One-time tokens: from enrolment over the issuer to a counted report, also after interruptions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_issuer import IssuerParty, code, kill_the_issuer
from service_trio import OPERATOR, USERS, Trio, bearing, sha

from shuffledp.service.errors import Refused, Unreachable
from shuffledp.service.tokens import EACH_PREFIX, new_token
from shuffledp.tasks.blind_rsa import BlindPrivateKey
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import REQUEST_BYTES, TokenRequest, task_challenge

STORE = {"url": ""}
"""The issuer's store in the test that runs; empty: an SQLite file."""


@pytest.fixture(autouse=True, params=["sqlite", "postgres"])
def issuer_store(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test runs on both kinds of stores."""
    fresh = request.param == "postgres" and request.getfixturevalue("postgres_database")
    STORE["url"] = fresh() if fresh else ""
    yield STORE["url"]
    STORE["url"] = ""


@contextlib.asynccontextmanager
async def everything(folder: Path, **settings: Any) -> AsyncIterator[IssuerParty]:
    trio = Trio(folder)
    async with trio.running(), IssuerParty(trio, STORE["url"], **settings).running() as party:
        yield party


@contextlib.asynccontextmanager
async def registered(
    folder: Path, attested: bool = False, **settings: Any
) -> AsyncIterator[tuple[IssuerParty, Task]]:
    """Everything, with a task that all servers know."""
    async with everything(folder, **settings) as party:
        task = party.task(attested=attested)
        await party.register(task)
        yield party, task


def request_of(task: Task) -> bytes:
    """A fresh request for a token of a task."""
    assert task.issuer is not None
    return TokenRequest.make(task.issuer.key, task_challenge(task)).to_bytes()


async def all_stored(party: IssuerParty) -> bytes:
    """All bytes and texts in the issuer's tables."""
    found = []
    for table in ("enrolments", "issued", "issuer_keys", "tasks"):
        for row in await party.issuer.database.rows(f"SELECT * FROM {table}"):
            found += [cell.encode() if isinstance(cell, str) else cell for cell in row]
    files = [file.read_bytes() for file in party.trio.folder.glob("issuer.db*")]
    return b" ".join([*(one for one in found if isinstance(one, bytes)), *files])


def test_a_killed_issuer_on_either_store(tmp_path: Path, issuer_store: str) -> None:
    kill_the_issuer(tmp_path, issuer_store)


def test_an_issuer_has_no_key_to_sign_tasks(tmp_path: Path) -> None:
    async def run() -> None:
        async with everything(tmp_path) as party:
            assert not Path(party.config.signing_key_file).exists()
            assert not hasattr(party.issuer, "signing")

    asyncio.run(run())


def test_a_whole_batch_with_one_time_tokens(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            secrets = await party.enrol(USERS)
            for user, secret in enumerate(secrets):
                async with party.device(task, secret, f"device{user}") as device:
                    await device.send(user % 2)
                assert not list((tmp_path / f"device{user}").glob("*.token*"))
            (result,) = await party.trio.results(task)
            assert result["task"] == task.id.hex()
            said = bearing(OPERATOR)
            status = (await party.client.get("/status", headers=said)).json()["tasks"][0]
            assert status["issued"] == USERS
            page = (await party.client.get("/", headers=said)).text
            assert f"{USERS} tokens issued to enrolments" in page
            public = await party.client.get("/status")
            assert "issued" not in public.json()["tasks"][0]  # not who asked when
            assert "issued to" not in (await party.client.get("/")).text
            await enrolments_are_unknown_at_the_shuffler(party, secrets)

    asyncio.run(run())


async def enrolments_are_unknown_at_the_shuffler(party: IssuerParty, secrets: list[str]) -> None:
    """Nothing that identifies an enrolment ever reached the shuffler, and no token the issuer."""
    files = [file.read_bytes() for file in party.trio.folder.glob("shuffler.db*")]
    stores = {"shuffler": b"".join(files), "issuer": await all_stored(party)}
    for secret in secrets:
        assert bytes.fromhex(sha(secret)) in stores["issuer"]
        assert bytes.fromhex(sha(secret)) not in stores["shuffler"]
    spent = await party.trio.shuffler.database.rows("SELECT name FROM used")
    names = [bytes(name) for (name,) in spent if len(bytes(name)) == 32]
    assert len(names) == len(secrets)
    assert not any(name in stores["issuer"] for name in names)


def test_a_retry_counts_once_and_another_report_not_at_all(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            (secret,) = await party.enrol()
            token = (await party.token(task, secret)).text
            body = encrypt_report(task, 1)
            answers = [await party.trio.post(task, body, token) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [201, 200, 200]
            other = await party.trio.post(task, encrypt_report(task, 0), token)
            assert (other.status_code, code(other)) == (409, "token-used")
            assert (await party.trio.status(task))["have"] == 1

    asyncio.run(run())


def test_one_request_per_enrolment_and_task_is_answered_however_often(tmp_path: Path) -> None:
    async def run() -> None:
        async with everything(tmp_path) as party:
            first, second = party.task(), party.task("another")
            for task in (first, second):
                await party.register(task)
            (secret,) = await party.enrol()
            for task in (first, second):
                request = request_of(task)
                answers = [await party.ask(task, secret, request) for _ in range(2)]
                assert {answer.status_code for answer in answers} == {200}
                assert answers[0].content == answers[1].content
                refused = await party.ask(task, secret, request_of(task))
                assert (refused.status_code, code(refused)) == (409, "token-issued")

    asyncio.run(run())


@pytest.mark.attack("one enrolment that asks many times at once")
def test_many_concurrent_requests_of_one_enrolment_get_one_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            (secret,) = await party.enrol()
            requests = [request_of(task) for _ in range(8)]
            answers = await asyncio.gather(
                *(party.ask(task, secret, request) for request in requests)
            )
            assert sorted(answer.status_code for answer in answers) == [200] + 7 * [409]

    asyncio.run(run())


@pytest.mark.attack("one enrolment that keeps the issuer busy with signatures")
def test_a_request_that_is_refused_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = []
    sign = BlindPrivateKey.sign

    def counting(key: BlindPrivateKey, blinded: bytes) -> bytes:
        signed.append(blinded)
        return sign(key, blinded)

    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            (secret,) = await party.enrol()
            monkeypatch.setattr(BlindPrivateKey, "sign", counting)
            codes = []
            for _ in range(5):
                request = request_of(task)
                codes.append((await party.ask(task, secret, request)).status_code)
            assert codes == [200, 409, 409, 409, 409] and len(signed) == 1
            malformed = request[:3] + b"\xff" * (len(request) - 3)  # above the modulus
            (other,) = await party.enrol()
            assert (await party.ask(task, other, malformed)).status_code == 400
            assert (await party.ask(task, other, request)).status_code == 200  # it cost no token

    asyncio.run(run())


def test_a_device_asks_again_with_the_same_request(tmp_path: Path) -> None:
    """Whatever is lost on the way: the answer of the issuer, or the program itself."""

    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            (secret,) = await party.enrol()
            lost = Losing(party.transport)
            async with party.device(task, secret, issuer=lost, attempts=1) as device:
                with pytest.raises(Unreachable):
                    await device.send(1)
                assert not list((tmp_path / "device").glob("*.report"))
            async with party.device(task, secret) as device:
                await device.prepare()
                await device.prepare()
            async with party.device(task, secret) as device:
                await device.send(1)
            assert [len(body) for body in lost.seen] == [REQUEST_BYTES]
            assert (await party.trio.status(task))["have"] == 1

    asyncio.run(run())


class Losing(httpx2.AsyncBaseTransport):
    """Carries requests, and loses the answers."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.seen: list[bytes] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(await request.aread())
        await self._inner.handle_async_request(request)
        raise httpx2.ReadError("lost")


def test_a_wrong_answer_of_the_issuer_is_not_used(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            wrong = httpx2.MockTransport(lambda _: httpx2.Response(200, content=bytes(256)))
            (secret,) = await party.enrol()
            async with party.device(task, secret, issuer=wrong) as device:
                with pytest.raises(TaskError, match="not a signature"):
                    await device.send(1)
            assert (await party.trio.status(task))["have"] == 0

    asyncio.run(run())


def test_who_is_not_enrolled_gets_no_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            answer = await party.client.post(f"/tasks/{task.id.hex()}/tokens", content=bytes(259))
            assert answer.status_code == 401
            async with party.device(task, "each-nobody") as device:
                with pytest.raises(Refused, match=r"The issuer gave no token: .* not enrolled"):
                    await device.send(1)

    asyncio.run(run())


def test_other_requests_are_refused_and_cost_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            (secret,) = await party.enrol()
            (late,) = await party.enrol()
            for body in (b"", bytes(258), bytes(259), b"\x00\x02" + bytes(257)):
                answer = await party.ask(task, secret, body)
                assert (answer.status_code, code(answer)) == (400, "malformed")
            assert (await party.token(task, secret)).text
            archived = await party.client.post(
                f"/tasks/{task.id.hex()}/archive",
                json={"discard": True},
                headers=bearing(OPERATOR),
            )
            assert archived.status_code == 200, archived.text
            closed = await party.ask(task, late, bytes(259))
            assert (closed.status_code, code(closed)) == (410, "task-closed")

    asyncio.run(run())


@pytest.mark.attack("two tasks with one issuer key, to use two tokens in one")
def test_an_issuer_key_belongs_to_one_task(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path) as (party, task):
            assert (await party.put(task)).status_code == 200
            twin = party.trio.task("twin", issuer=task.issuer)
            answer = await party.put(twin)
            assert (answer.status_code, code(answer)) == (409, "key-taken")
            plain = await party.put(party.trio.task("no issuer"))
            assert (plain.status_code, code(plain)) == (422, "key-unknown")

    asyncio.run(run())


def test_who_had_tokens_is_forgotten_when_the_task_is_over(tmp_path: Path) -> None:
    async def run() -> None:
        trio = Trio(tmp_path)
        party = IssuerParty(trio)
        async with trio.running():
            async with party.running():
                task = party.task()
                await party.register(task)
                (secret,) = await party.enrol()
                await party.token(task, secret)
                number = party.issuer.tasks.by_id[task.id].number
                assert await party.issuer.store.issued(number) == 1
            trio.seconds_ahead = 100 * 86_400
            async with party.running():
                for _ in range(600):
                    if not await party.issuer.store.issued(number):
                        break
                    await asyncio.sleep(0.1)
                assert await party.issuer.store.issued(number) == 0
                answer = await party.ask(task, secret, bytes(259))
                assert (answer.status_code, code(answer)) == (410, "task-expired")

    asyncio.run(run())


ATTEST = """
import sys
said = sys.stdin.read()
if said.startswith("good "):
    print(said.removeprefix("good "))
sys.exit({"good": 0, "bad": 1}.get(said.partition(" ")[0], 7))
"""


def attest_command(folder: Path) -> str:
    script = folder / "attest.py"
    script.write_text(ATTEST)
    return f"'{sys.executable}' '{script}'"


async def attest(party: IssuerParty, evidence: str) -> tuple[str, httpx2.Response]:
    secret = new_token(EACH_PREFIX)
    answer = await party.client.post(
        "/enrolments", json={"sha256": sha(secret), "evidence": evidence}
    )
    return secret, answer


def test_attested_enrolments_alone_answer_a_task_that_asks_for_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path, True, attest=attest_command(tmp_path)) as (party, task):
            (plain,) = await party.enrol()
            refused = await party.ask(task, plain, bytes(259))
            assert (refused.status_code, code(refused)) == (403, "not-attested")
            secret, answer = await attest(party, "good Ada")
            assert answer.status_code == 201
            async with party.device(task, secret) as device:
                await device.send(1)
            for evidence, status, reason in (("bad", 403, "not-attested"), ("??", 503, "attest")):
                _, answer = await attest(party, evidence)
                assert (answer.status_code, code(answer)) == (status, reason)
            stored = await all_stored(party)
            assert b"Ada" not in stored

    asyncio.run(run())


@pytest.mark.attack("one person with many enrolments, where they are attested")
def test_one_person_with_many_enrolments_gets_one_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with registered(tmp_path, True, attest=attest_command(tmp_path)) as (party, task):
            first, _ = await attest(party, "good Ada")
            again, _ = await attest(party, "good Ada")
            other, _ = await attest(party, "good Ben")
            assert (await party.token(task, first)).text
            refused = await party.ask(task, again, request_of(task))
            assert (refused.status_code, code(refused)) == (409, "token-issued")
            assert (await party.token(task, other)).text
            taken = await party.client.post(
                "/enrolments", json={"sha256": sha(first), "evidence": "good Ben"}
            )
            assert (taken.status_code, code(taken)) == (409, "token-taken")

    asyncio.run(run())


@pytest.mark.parametrize("command", ["", "/no/such/program", "sleep 60"])
def test_without_a_command_that_decides_nobody_is_enrolled(tmp_path: Path, command: str) -> None:
    async def run() -> None:
        party = IssuerParty(Trio(tmp_path), attest=command, attest_seconds=1)
        async with party.running():
            secret, answer = await attest(party, "good Ada")
            wanted = (503, "attest") if command else (422, "attest-off")
            assert (answer.status_code, code(answer)) == wanted
            task = party.task()
            await party.put(task)
            assert (await party.ask(task, secret, bytes(259))).status_code == 403

    asyncio.run(run())


def test_wrong_enrolments_are_refused(tmp_path: Path) -> None:
    short = {"sha256": ["00"], "attested": True}
    wrong: tuple[Any, ...] = ({}, [], {"sha256": []}, short, {"sha256": "0" * 64})

    async def run() -> None:
        async with IssuerParty(Trio(tmp_path)).running() as party:
            for data in wrong:
                for path, headers in (("/tokens", bearing(OPERATOR)), ("/enrolments", {})):
                    answer = await party.client.post(
                        path, content=json.dumps(data), headers=headers
                    )
                    assert (answer.status_code, code(answer)) == (422, "tokens")

    asyncio.run(run())


def test_devices_are_enrolled_at_the_address_for_operators_alone(tmp_path: Path) -> None:
    party = IssuerParty(Trio(tmp_path), operators_listen="127.0.0.1:8813")

    async def run() -> None:
        async with party.running():
            hashes = {"sha256": ["0" * 64], "attested": False}
            answer = await party.client.post("/tokens", json=hashes, headers=bearing(OPERATOR))
            assert answer.status_code == 404
            transport = httpx2.ASGITransport(party.issuer.operators_app())
            async with httpx2.AsyncClient(transport=transport, base_url="http://inside") as inside:
                answer = await inside.post("/tokens", json=hashes, headers=bearing(OPERATOR))
                assert answer.status_code == 201, answer.text

    asyncio.run(run())
