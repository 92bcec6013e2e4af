"""Nothing that the shuffler or an onlooker can see depends on a value."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from service_trio import OPERATOR, USERS, Trio, bearing

from shuffledp import plan_count
from shuffledp.cells.base import independent_cell
from shuffledp.service.http.logs import JsonLines, log
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.wire import ENCAPSULATED_KEY_BYTES, MESSAGE_BYTES, read_upload


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Everything that is logged, as it would stand on standard error."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)
    logging.getLogger("shuffledp.service").setLevel(logging.INFO)
    yield out
    logging.getLogger().removeHandler(handler)


def artefacts(tmp_path: Path, value: int, lines: io.StringIO) -> dict[str, Any]:
    """(sizes, logs, metrics, status) of a round in which everybody holds `value`."""
    lines.truncate(0)
    lines.seek(0)
    found: dict[str, Any] = {}

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            bodies: list[bytes] = []
            for _ in range(USERS + 3):
                bodies += await trio.upload(task, [value])
            await trio.results(task)
            status = await trio.deleted(task)
            metrics = (await trio.to_shuffler.get("/metrics", headers=bearing(OPERATOR))).text
            found.update(
                sizes=[len(body) for body in bodies],
                metrics=neutral(metrics),
                status=neutral(json.dumps(status)),
            )

    asyncio.run(walk())
    found["logs"] = sorted(neutral(lines.getvalue()).splitlines())  # uploads and delivery race
    return found


def neutral(text: str) -> str:
    """The text without random ids, times, and figures of the machine."""
    text = re.sub(r"[0-9a-f]{32,64}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text)
    # of the whole program or the machine, not of tasks
    others = re.compile("seconds_|^(# (HELP|TYPE) )?process_|_spool_free_bytes ")
    return "\n".join(line for line in text.splitlines() if not others.search(line))


@pytest.mark.attack("by-products that depend on a value")
def test_artefacts_are_the_same_for_zero_and_one(tmp_path: Path, lines: io.StringIO) -> None:
    zero, one = (artefacts(tmp_path / str(value), value, lines) for value in (0, 1))
    assert zero == one
    assert len(set(zero["sizes"])) == 1


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / name).mkdir()


def test_an_unpadded_report_would_give_the_value_away(tmp_path: Path) -> None:
    """Why K: the parity of the number of messages is the value, nearly always."""
    (use,) = plan_count(10_000, 1).protocol.members
    cell, values = independent_cell(use.cell), np.repeat([0, 1], 2000)
    parity = np.array([sum(cell.randomize(value)) for value in values.tolist()]) % 2
    right = (parity == values).mean()
    # 0.999 but for the noise of the few; where the base is odd, the parity is the other value
    assert max(right, 1 - right) > 0.99


@pytest.mark.attack("ciphertexts that tell values apart")
def test_ciphertexts_look_the_same(tmp_path: Path) -> None:
    """Dummies, pluses and minuses have one length, and bytes that no count tells apart."""
    task = Trio(tmp_path).task()
    means = []
    for value in (0, 1):
        messages = b"".join(read_upload(encrypt_report(task, value)).messages for _ in range(60))
        rows = np.frombuffer(messages, np.uint8).reshape(-1, MESSAGE_BYTES)
        means.append(rows[:, ENCAPSULATED_KEY_BYTES:].mean())
    assert abs(means[0] - means[1]) < 5 * 74 * (2 / (60 * task.report_size * 20)) ** 0.5 + 0.5


def test_encrypting_takes_the_same_time(tmp_path: Path) -> None:
    """CPU time per report in buckets of 10 ms; ranks of 0 and 1 mix (Mann–Whitney)."""
    task = Trio(tmp_path).task()
    encrypt_report(task, 1)
    values = np.random.default_rng(5).permutation(np.repeat([0, 1], 150))
    times = []
    for value in values:
        begin = time.process_time()
        encrypt_report(task, int(value))
        times.append(time.process_time() - begin)
    ranks = np.argsort(np.argsort(times))
    rank_sum = ranks[values == 1].sum()
    mean, deviation = 150 * 299 / 2, (150 * 150 * 301 / 12) ** 0.5
    assert abs(rank_sum - mean) < 5.5 * deviation


@pytest.mark.attack("addresses, tokens or report ids in logs and files")
def test_no_address_token_or_report_id_anywhere(tmp_path: Path, lines: io.StringIO) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            tokens = await trio.enrol(2)
            body = encrypt_report(task, 1)
            headers = {"Authorization": f"Bearer {tokens[0]}", "X-Forwarded-For": "203.0.113.7"}
            path = f"/tasks/{task.id.hex()}/reports"
            answers = [
                await trio.to_shuffler.post(path, content=body, headers=headers) for _ in range(2)
            ]
            answers.append(await trio.post(task, encrypt_report(task, 1), tokens[0]))
            answers.append(await trio.post(task, body[:-1], tokens[1]))
            answers.append(await trio.post(task, body, "stranger-token"))
            texts = [answer.text for answer in answers]
            texts.append((await trio.to_shuffler.get("/metrics", headers=bearing(OPERATOR))).text)
            texts.append((await trio.to_shuffler.get("/status", headers=bearing(OPERATOR))).text)
            texts.append((await trio.to_shuffler.get("/")).text)
            report = read_upload(body).report_id
            for text in [*texts, lines.getvalue()]:
                for secret in (*tokens, "203.0.113.7", "127.0.0.1:", report.hex(), "stranger"):
                    assert secret not in text.replace("127.0.0.1:8800", "")

    asyncio.run(walk())


def test_a_fault_of_ours_says_nothing_about_the_request(
    tmp_path: Path, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)

            def broken(*_: object) -> None:
                raise RuntimeError("secret-of-a-user")

            monkeypatch.setattr(trio.shuffler.intake, "submit", broken)
            (token,) = await trio.enrol()
            answer = await trio.post(task, encrypt_report(task, 1), token)
            assert answer.status_code == 500
            assert "secret-of-a-user" not in answer.text + lines.getvalue()
            assert "RuntimeError" in lines.getvalue()

    asyncio.run(walk())


def test_there_is_no_field_to_log_an_identifier_in() -> None:
    for field in ("ip", "client", "token", "report", "report_id", "body", "address"):
        with pytest.raises(ValueError, match="Not a log field"):
            log("upload", **{field: "x"})


def test_other_libraries_lines_lose_their_text() -> None:
    record = logging.LogRecord(
        "uvicorn.error", logging.WARNING, "", 1, "Invalid request from 203.0.113.7", (), None
    )
    line = json.loads(JsonLines().format(record))
    assert line["library"] == "uvicorn.error" and "203" not in json.dumps(line["event"])


def test_servers_do_not_say_who_they_are_made_by(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            answer: httpx2.Response = await trio.to_shuffler.get("/")
            assert "default-src 'self'" in answer.headers["content-security-policy"]

    asyncio.run(walk())
