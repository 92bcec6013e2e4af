"""How often and when a report is sent again: the same for programs that wait and that `await`."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from tenacity import RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_base

from shuffledp.numbers.entropy import Entropy

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 30.0
MOST_DOUBLINGS = 20
TEMPORARY_STATUSES = {408, 425, 429, 500, 502, 503, 504}
"""Answers after which the same is asked or sent again."""


class NotTaken(Exception):
    """The shuffler did not take the report this time; the same bytes may be sent again."""

    def __init__(self, answer: httpx.Response | None) -> None:
        super().__init__()
        self.asked_seconds = 0.0 if answer is None else asked_seconds(answer)


def asked_seconds(answer: httpx.Response) -> float:
    """How long the server asks to wait (Retry-After: seconds or a date); 0 if it does not say."""
    text = answer.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


class Pauses(wait_base):
    """Pauses between attempts, in seconds: doubling up to a longest one, and varied at random, so
    that clients do not all come back at the same time; at least as long as the shuffler asks for,
    within what a person waits."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def __call__(self, state: RetryCallState) -> float:
        doublings = min(state.attempt_number - 1, MOST_DOUBLINGS)
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**doublings)
        pause = longest * (0.5 + self._entropy.below(1024) / 1024)
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.asked_seconds if isinstance(error, NotTaken) else 0.0
        return max(pause, min(asked, LONGEST_PAUSE_SECONDS))


def retry_options(attempts: int, entropy: Entropy) -> dict[str, Any]:
    """What `tenacity.Retrying` and `tenacity.AsyncRetrying` are told: so many attempts, a pause
    before each but the first, and `NotTaken` if none succeeds."""
    return {
        "stop": stop_after_attempt(attempts),
        "wait": Pauses(entropy),
        "retry": retry_if_exception_type(NotTaken),
        "reraise": True,
    }
