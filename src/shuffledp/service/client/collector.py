"""Requests of the collector and the operators: register a task, enrol clients, read results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import httpx2

from shuffledp.errors import ParameterError
from shuffledp.service.answers import answer_json, lasting_failure, refusal
from shuffledp.service.blocking import run_blocking
from shuffledp.service.client.connection import BlockingConnection, Connection
from shuffledp.service.errors import Refused, Unreachable
from shuffledp.service.tokens import EACH_PREFIX, new_token, token_hash
from shuffledp.tasks.oblivious import GatewayKey
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Task

T = TypeVar("T")
TOKENS_PER_REQUEST = 10_000
CALL_SECONDS = 300
"""Seconds to wait: registering a task takes as long as verifying it."""


def call(
    method: str,
    url: str,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    *,
    connection: Connection | None = None,
    **content: Any,
) -> httpx2.Response:
    """A server's answer to one request; raises `Refused` with the server's reason, or
    `Unreachable`. A `connection` must be a blocking one; it stays open for further calls."""
    given = {"Authorization": f"Bearer {token}"} if token else {}
    if connection is None:
        with BlockingConnection(seconds=CALL_SECONDS) as fresh:
            return call(method, url, token, headers, connection=fresh, **content)
    try:
        answer = run_blocking(
            connection.request(method, url, headers={**given, **(headers or {})}, **content)
        )
    except (httpx2.TransportError, httpx2.InvalidURL, UnicodeError) as error:
        silent = Unreachable(f"{url} does not answer ({type(error).__name__}); is it running?")
        raise lasting_failure(error, url) or silent from None
    if answer.status_code >= 400:
        code, why = refusal(answer)
        raise Refused(
            f"{url} refused (HTTP {answer.status_code}): {why or 'no reason given'}",
            answer.status_code,
            code,
        )
    return answer


def ask(
    server: str,
    path: str,
    token: str = "",
    *,
    fields: Sequence[str],
    method: str = "GET",
    **content: Any,
) -> dict[str, Any]:
    """The JSON object that a server answers; raises as `call` does, and `ParameterError` unless it
    has these fields: another program that answers at that URL must not be believed."""
    answer = answer_json(call(method, server.rstrip("/") + path, token, **content))
    missing = [name for name in fields if name not in answer]
    if missing:
        raise ParameterError(
            f"{server} answered without {missing[0]!r}, so it may be another program; check the "
            "URL."
        )
    return answer


def waited(look: Callable[[], T | None], seconds: float, pause: float, trouble: str) -> T:
    """What `look` returns once that is not None; raises `Unreachable` if it takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found is not None:
            return found
        time.sleep(pause)
    raise Unreachable(trouble)


def signature_headers(task_id: bytes, key: SigningKey) -> dict[str, str]:
    """The collector's signature over a task, as requests carry it."""
    public, signature = key.sign_task(task_id)
    return {"X-Collector-Key": public.hex(), "X-Collector-Signature": signature.hex()}


def register(task: Task, server: str, token: str, key: SigningKey) -> bool:
    """Signs a task as the collector and registers it at a server; False if it was registered
    already. The analyzer comes first: the shuffler asks it whether the task is in its log."""
    answer = ask(
        server,
        f"/tasks/{task.id.hex()}",
        token,
        fields=["new"],
        method="PUT",
        headers=signature_headers(task.id, key),
        content=task.canonical(),
    )
    return bool(answer["new"])


def register_everywhere(
    task: Task, servers: Mapping[str, str], tokens: Mapping[str, str], key: SigningKey
) -> dict[str, bool]:
    """Registers a task at the issuer, if it has one, at the analyzer and then at the shuffler, each
    by its URL and with its own token; returns where it was new."""
    roles = (*(() if task.issuer is None else ("issuer",)), "analyzer", "shuffler")
    return {role: register(task, servers[role], tokens[role], key) for role in roles}


def close(task_id: bytes, shuffler: str, token: str) -> None:
    """Closes a task at a shuffler: it accepts no more reports."""
    ask(shuffler, f"/tasks/{task_id.hex()}/close", token, fields=["state"], method="POST")


def enrol(server: str, token: str, count: int, prefix: str, **said: bool) -> list[str]:
    """Fresh tokens for `count` clients, enrolled at a shuffler or, with `attested` true or false,
    at an issuer; the server learns only their hashes."""
    tokens = [new_token(prefix) for _ in range(count)]
    hashes = [token_hash(one).hex() for one in tokens]
    for start in range(0, count, TOKENS_PER_REQUEST):
        some = {"sha256": hashes[start : start + TOKENS_PER_REQUEST], **said}
        ask(server, "/tokens", token, fields=["new"], method="POST", json=some)
    return tokens


def enrol_by_evidence(issuer: str, evidence: str) -> str:
    """A fresh token of this device, enrolled at an issuer whose operator's command accepts the
    evidence."""
    token = new_token(EACH_PREFIX)
    said = {"sha256": token_hash(token).hex(), "evidence": evidence}
    ask(issuer, "/enrolments", fields=["state"], method="POST", json=said)
    return token


def gateway_key(shuffler: str) -> GatewayKey:
    """The newest key for requests to a shuffler that come through a relay."""
    answer = call("GET", f"{shuffler.rstrip('/')}/.well-known/ohttp-gateway")
    size = int.from_bytes(answer.content[:2], "big")
    return GatewayKey.from_hex(answer.content[2 : 2 + size].hex())


def results(analyzer: str, task_id: str) -> Sequence[dict[str, Any]]:
    """All results that an analyzer has published for a task."""
    answer = ask(analyzer, f"/tasks/{task_id}/results", fields=["results"])
    found: list[dict[str, Any]] = answer["results"]
    return found


def first_result(
    analyzer: str, task: Task, seconds: float, pause: float, trouble: str
) -> dict[str, Any]:
    """The first result of a task, once there is one; raises `Unreachable` if it takes too long."""
    task_id = task.id.hex()
    return waited(lambda: next(iter(results(analyzer, task_id)), None), seconds, pause, trouble)
