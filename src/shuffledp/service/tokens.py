"""Bearer tokens, of which servers store only hashes.

Enrolment tokens begin with how often they may be used: `once-…` for one report in total, `each-…`
for one report in every task, or in every batch of a task that takes repeated answers. The hash
covers this prefix, too.
"""

from __future__ import annotations

import hashlib
import secrets

ONCE_PREFIX, EACH_PREFIX = "once-", "each-"


def new_token(prefix: str = "") -> str:
    """A fresh token of 256 random bits; it does not begin like an option of a command."""
    token = prefix + secrets.token_urlsafe(32)
    return new_token(prefix) if token.startswith("-") else token


def token_hash(token: str) -> bytes:
    """The SHA-256 of a token: what servers store."""
    return hashlib.sha256(token.encode()).digest()
