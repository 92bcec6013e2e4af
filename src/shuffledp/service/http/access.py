"""The tokens that requests carry, and refusing a request without the right one."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.requests import Request

from shuffledp.service.http.problems import Problem
from shuffledp.service.tokens import token_hash


def bearer(headers: Headers) -> str:
    """The token that a request carries."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem(401, "token-missing", "Send your token as `Authorization: Bearer …`.")
    return token


def carries(request: Request, sha256_hex: str) -> bool:
    """Whether a request carries the token with this hash."""
    _, _, token = request.headers.get("authorization", "").partition(" ")
    given = token_hash(token).hex()
    return bool(token and sha256_hex) and hmac.compare_digest(given, sha256_hex.lower())


def require(request: Request, sha256_hex: str, who: str) -> None:
    """Refuses a request that does not carry the token of `who`."""
    bearer(request.headers)
    if not carries(request, sha256_hex):
        raise Problem(403, "token-wrong", f"Only the {who} may do this; use the {who}'s token.")
