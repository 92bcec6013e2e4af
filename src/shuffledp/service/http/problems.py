"""Refusals as RFC 9457 problem details: what was wrong, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.errors import ShuffleDPError
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.logs import log

ExceptionAnswer = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
PROBLEM_TITLES = {
    400: "Malformed request",
    401: "Token missing",
    403: "Not allowed",
    404: "Not found",
    405: "Wrong method",
    408: "Too slow",
    409: "Conflict",
    410: "Gone",
    411: "Length missing",
    413: "Wrong size",
    414: "URL too long",
    422: "Not acceptable here",
    429: "Too busy or too fast",
    431: "Headers too long",
    500: "Internal fault",
    503: "Not available now",
}


class Problem(Exception):
    """A refusal with its reason; `extra` may contain have, need and retry_after."""

    def __init__(self, status: int, code: str, detail: str, **extra: Any) -> None:
        super().__init__(code)
        self.status, self.code, self.detail, self.extra = status, code, detail, extra

    def response(self) -> Response:
        """The refusal as it is sent."""
        body = {
            "type": f"urn:shuffledp:problem:{self.code}",
            "title": PROBLEM_TITLES.get(self.status, "Refused"),
            "status": self.status,
            "detail": self.detail,
            **self.extra,
        }
        headers = (
            {"Retry-After": str(self.extra["retry_after"])} if "retry_after" in self.extra else None
        )
        return JSONResponse(body, self.status, headers, "application/problem+json")


async def answer_problem(_: Request, error: Exception) -> Response:
    """The answer to a refusal that a route raised."""
    assert isinstance(error, Problem)
    return error.response()


async def answer_http(_: Request, error: Exception) -> Response:
    """The answer to Starlette's own refusals: no such page, wrong method."""
    status = getattr(error, "status_code", 400)
    return Problem(
        status, "http", "There is nothing at this address; see the documentation."
    ).response()


async def answer_storage(_: Request | None, error: Exception) -> Response:
    """The answer when the store is full or cannot be reached: nothing was acknowledged."""
    log("store unavailable", level="error")
    return Problem(
        503,
        "store",
        "The store is full or cannot be reached; nothing was stored: send the same again later.",
        retry_after=5,
    ).response()


async def answer_known(_: Request, error: Exception) -> Response:
    """The answer to an error that the package raises on purpose: its text, which never contains a
    user's value."""
    return Problem(422, "invalid", str(error)).response()


async def answer_fault(_: Request | None, error: Exception) -> Response:
    """The answer to any other exception. Its class is logged, never its text, which might contain
    an identifier."""
    log("fault", level="error", error=type(error).__name__)
    return Problem(
        500, "fault", "An internal error occurred; send the same again later."
    ).response()


def exception_answers() -> dict[Any, ExceptionAnswer]:
    """The function that answers each class of exceptions, as Starlette takes them."""
    from starlette.exceptions import HTTPException

    return {
        Problem: answer_problem,
        HTTPException: answer_http,
        StorageUnavailable: answer_storage,
        ShuffleDPError: answer_known,
        Exception: answer_fault,
    }
