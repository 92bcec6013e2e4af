"""What the collector and the operators ask of the servers: register, enrol, read results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from shuffledp.sealed.errors import Refused, Unreachable
from shuffledp.sealed.task import Task
from shuffledp.sealed.tokens import new_token, token_hash


def call(method: str, url: str, token: str = "", **content: Any) -> httpx.Response:
    """One request; a refusal or silence becomes an error with the server's reason."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.request(method, url, headers=headers, timeout=60, **content)
    except httpx.TransportError as error:
        raise Unreachable(
            f"{url} does not answer ({type(error).__name__}); is it running?"
        ) from None
    except httpx.InvalidURL:
        raise Unreachable(f"{url} is no URL; give one like http://127.0.0.1:8801.") from None
    if answer.status_code >= 400:
        try:
            detail = answer.json()["detail"]
        except (ValueError, KeyError, TypeError):
            detail = "no reason given"
        raise Refused(f"{url} refused (HTTP {answer.status_code}): {detail}", answer.status_code)
    return answer


def register(task: Task, server: str, token: str) -> bool:
    """Registers a task at a server; False if it knew it."""
    answer = call(
        "PUT", f"{server.rstrip('/')}/tasks/{task.id.hex()}", token, content=task.canonical()
    )
    return bool(answer.json()["new"])


def close(task_id: bytes, shuffler: str, token: str) -> None:
    """Lets a shuffler take no more reports for a task."""
    call("POST", f"{shuffler.rstrip('/')}/tasks/{task_id.hex()}/close", token)


def enrol(shuffler: str, token: str, count: int, prefix: str) -> list[str]:
    """Fresh enrolment tokens; the shuffler learns only their hashes."""
    tokens = [new_token(prefix) for _ in range(count)]
    hashes = [token_hash(one).hex() for one in tokens]
    for start in range(0, count, 10_000):
        call(
            "POST",
            f"{shuffler.rstrip('/')}/tokens",
            token,
            json={"sha256": hashes[start : start + 10_000]},
        )
    return tokens


def results(analyzer: str, task_id: str) -> Sequence[dict[str, Any]]:
    """Everything that was published for a task."""
    found: list[dict[str, Any]] = call(
        "GET", f"{analyzer.rstrip('/')}/tasks/{task_id}/results"
    ).json()["results"]
    return found
