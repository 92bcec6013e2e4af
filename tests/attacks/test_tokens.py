"""Attacks on one-time tokens: forged, reused, of another task; an issuer that is killed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from service_issuer import IssuerParty, code, kill_the_issuer
from service_trio import Trio

from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import IssuerKeyFolder, TaskToken, TokenRequest, task_challenge


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
    kill_the_issuer(tmp_path)
