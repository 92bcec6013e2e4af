"""Who may do what: bearer tokens, of which only hashes are stored.

Enrolment tokens say in their first letters how far they reach: `once-…` is good for one report in
all, `each-…` for one report in every task. The hash covers these letters too.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.datastructures import Headers
from starlette.requests import Request

from shuffledp.service.problems import Problem

ONCE, EACH = "once-", "each-"


def new_token(prefix: str = "") -> str:
    """A fresh token of 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).digest()


def bearer(headers: Headers) -> str:
    """The token that a request carries."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem(401, "token-missing", "Send your token as `Authorization: Bearer …`.")
    return token


def require(request: Request, sha256_hex: str, who: str) -> None:
    """Refuses a request that does not carry the token of `who`."""
    given = token_hash(bearer(request.headers)).hex()
    if not sha256_hex or not hmac.compare_digest(given, sha256_hex.lower()):
        raise Problem(403, "token-wrong", f"Only the {who} may do this; use the {who}'s token.")
