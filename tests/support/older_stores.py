"""Older copies of a PostgreSQL store that take its place, and what uploads are answered then."""

from __future__ import annotations

import asyncio
import subprocess
from urllib.parse import urlsplit

import postgres_server as postgres
from service_replicas import Replicas
from service_trio import Trio

from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task


def pg(program: str, *words: str) -> None:
    place = postgres.programs()
    assert place is not None
    subprocess.run([place / program, *words], check=True)


def psql(url: str, sql: str) -> None:
    pg("psql", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql, url)


def swapped(url: str, older: str) -> None:
    """Gives an older database the name of the one in use, and ends all sessions."""
    names = [urlsplit(one).path.strip("/") for one in (url, older)]
    other = url.replace(f"/{names[0]}", "/postgres")
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
    psql(other, f"ALTER DATABASE {names[0]} ALLOW_CONNECTIONS false")
    psql(other, f"{end}'{names[0]}'")
    psql(other, f"ALTER DATABASE {names[0]} RENAME TO {names[0]}_new")
    psql(other, f"ALTER DATABASE {names[1]} RENAME TO {names[0]}")


async def answers(trio: Trio, task: Task, bodies: list[bytes], tokens: list[str]) -> list[int]:
    """The final answers to uploads, each tried again while the store is away."""
    codes = []
    for body, token in zip(bodies, tokens, strict=True):
        code = 503
        for _ in range(1200):
            code = (await trio.post(task, body, token)).status_code
            if code != 503:
                break
            await asyncio.sleep(0.05)
        codes.append(code)
    return codes


async def served(found: Replicas, at: int, task: Task, tokens: list[str], value: int) -> list[int]:
    """The answers of one of several shufflers to an upload with each token."""
    return [
        (await found.post(at, task, encrypt_report(task, value), token)).status_code
        for token in tokens
    ]
