"""Holds every answer of a server against the description of its routes."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable

import httpx2

from shuffledp.service.http.operations import Operation
from shuffledp.service.http.role import Role

NO_SUCH_ROUTE = {404, 405}


def check_described(
    operations: list[Operation], method: str, path: str, status: int, code: str | None
) -> None:
    """Raises `AssertionError` unless an answer is described; `code` is that of a problem."""
    found = [
        one for one in operations if _matches(one, "GET" if method == "HEAD" else method, path)
    ]
    if not found:
        assert status in NO_SUCH_ROUTE or (method, status) == ("OPTIONS", 204), (method, path)
        return
    (operation,) = found
    if status in NO_SUCH_ROUTE and code == "http":
        return  # the path has a form that no client sends
    if code is None:
        assert status in operation.answers, f"{method} {path} answered {status}"
    else:
        assert code in operation.refusals().get(status, ()), f"{method} {path}: {status} {code}"


def _matches(operation: Operation, method: str, path: str) -> bool:
    """Whether a request is for this operation."""
    pattern = re.sub(r"\\\{[a-z]+:path\\\}", ".+", re.escape(operation.path))
    pattern = re.sub(r"\\\{[a-z]+\\\}", "[^/]+", pattern)
    return operation.method == method and re.fullmatch(pattern, path) is not None


def described_by(role: Role) -> Callable[[httpx2.Response], Awaitable[None]]:
    """A hook for httpx2 that checks every answer of a server."""
    operations = role.operations()

    async def check(answer: httpx2.Response) -> None:
        code = None
        if answer.headers.get("content-type") == "application/problem+json":
            code = json.loads(await answer.aread())["type"].rpartition(":")[2]
        request = answer.request
        check_described(operations, request.method, request.url.path, answer.status_code, code)

    return check
