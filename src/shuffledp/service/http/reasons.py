"""The reason that an operator gives for discarding something."""

from __future__ import annotations

from starlette.requests import Request

from shuffledp.service.http.bodies import read_json_body
from shuffledp.service.http.problems import Problem

LONGEST_REASON = 200
MOST_REASON_BYTES = 4096


async def given_reason(request: Request) -> str:
    """The reason in a request's JSON; a 422 if it is none."""
    try:
        reason = (await read_json_body(request, MOST_REASON_BYTES))["reason"]
    except (KeyError, TypeError):
        reason = ""
    if not isinstance(reason, str) or not 0 < len(reason) <= LONGEST_REASON:
        reason = ""
    if not reason.isprintable() or not reason.strip():
        raise Problem(
            422,
            "reason",
            f'Send {{"reason": "…"}} with 1 to {LONGEST_REASON} printable characters.',
            need=LONGEST_REASON,
        )
    return reason
