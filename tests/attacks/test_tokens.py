"""Attacks on one-time tokens: forged, reused, of another task; an issuer that is killed."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from service_issuer import IssuerParty, IssuerProgram, code
from service_trio import Trio, sha

from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.issuer_keys import IssuerKeyFolder
from shuffledp.sealed.reports import encrypt_report
from shuffledp.sealed.task import Task
from shuffledp.sealed.task_tokens import TaskToken, TokenRequest, task_challenge


def forged(task: Task, folder: Path) -> list[str]:
    """Tokens of a task that its issuer did not sign."""
    assert task.issuer is not None
    own = IssuerKeyFolder(folder)
    key = own.new()
    private = own.find(key)
    assert private is not None
    mine = TokenRequest.make(key, task_challenge(task))
    signed = mine.finish(private.sign(mine.blinded))
    claimed = TokenRequest.make(task.issuer.key, task_challenge(task)).token_input
    return [
        signed.text,
        TaskToken(claimed, signed.signature).text,
        TaskToken(claimed, os.urandom(256)).text,
        TaskToken(claimed, bytes(256)).text,
        "task-",
        "task-" + "A" * 472,
    ]


@pytest.mark.attack("forged tokens, tokens of another task, enrolments in place of tokens")
def test_only_tokens_that_the_issuer_signed_for_this_task_count(tmp_path: Path) -> None:
    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.running(), IssuerParty(trio).running() as party:
            task, other, plain = party.task(), party.task("other"), trio.task("plain")
            for one in (task, other):
                await party.register(one)
            await trio.register(plain)
            (secret,) = await party.enrol()
            (enrolled,) = await trio.enrol()
            good, foreign = await party.token(task, secret), await party.token(other, secret)
            (second,) = await party.enrol()
            crossed = await party.token(task, second, task_challenge(other))
            raw = bytearray(good.token_input + good.signature)
            raw[10] ^= 1
            changed = TaskToken(bytes(raw[:98]), bytes(raw[98:])).text
            body = encrypt_report(task, 1)
            wrong = [foreign.text, crossed.text, changed, enrolled, secret, good.text + "="]
            for token in [*wrong, *forged(task, tmp_path / "forger")]:
                answer = await trio.post(task, body, token)
                assert (answer.status_code, code(answer)) == (403, "token-invalid")
            elsewhere = await trio.post(other, encrypt_report(other, 1), crossed.text)
            assert (elsewhere.status_code, code(elsewhere)) == (403, "token-invalid")
            unsigned = await trio.post(plain, encrypt_report(plain, 1), good.text)
            assert (unsigned.status_code, code(unsigned)) == (403, "token-unknown")
            assert (await trio.status(task))["have"] == 0
            assert (await trio.post(task, body, good.text)).status_code == 201  # the twin

    asyncio.run(run())


@pytest.mark.attack("a one-time token used twice, also after a restart")
def test_a_spent_token_stays_spent_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.analyzer_running(), IssuerParty(trio).running() as party:
            task = party.task()
            async with trio.shuffler_running():
                await party.register(task)
                (secret,) = await party.enrol()
                token = (await party.token(task, secret)).text
                body = encrypt_report(task, 1)
                assert (await trio.post(task, body, token)).status_code == 201
            async with trio.shuffler_running():
                assert (await trio.post(task, body, token)).status_code == 200
                other = await trio.post(task, encrypt_report(task, 1), token)
                assert (other.status_code, code(other)) == (409, "token-used")

    asyncio.run(run())


def test_a_task_with_one_time_tokens_takes_one_answer(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="one report"):
        IssuerParty(Trio(tmp_path)).task(repeat=True)


@pytest.mark.attack("kill −9 of the issuer to have a second token signed")
def test_a_killed_issuer_gives_the_same_answers_and_no_others(tmp_path: Path) -> None:
    """SIGKILL while requests are on their way: whoever had an answer gets the same one again,
    whoever had none gets one, and nobody gets a second token."""
    task = IssuerParty(Trio(tmp_path)).task()
    assert task.issuer is not None
    key, challenge = task.issuer.key, task_challenge(task)
    program = IssuerProgram(tmp_path)
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
    said = (tmp_path / "issuer.log").read_text()
    assert "enrolled" in said
    for secret, request in zip(secrets, requests, strict=True):
        assert secret not in said and sha(secret) not in said
        assert request.blinded.hex() not in said
