"""Bearer tokens, of which only hashes are stored.

Enrolment tokens say in their first letters how far they reach: `once-…` is good for one report in
all, `each-…` for one report in every task. The hash covers these letters too.
"""

from __future__ import annotations

import hashlib
import secrets

ONCE, EACH = "once-", "each-"


def new_token(prefix: str = "") -> str:
    """A fresh token of 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).digest()
