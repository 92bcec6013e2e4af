"""The token that a report carries: of an enrolment, or a one-time token of the task."""

from __future__ import annotations

from typing import NamedTuple

from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.arrivals import ALL_TASKS, Verdict
from shuffledp.service.shuffler.enrolments import Enrolments
from shuffledp.service.tokens import ONCE_PREFIX, token_hash
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.tokens import TaskToken, task_challenge


class Admission(NamedTuple):
    """What the shuffler knows about the token of an upload."""

    token: bytes
    """The name under which it is remembered as spent."""
    scope: int | None
    """The scope in which it may be used once, as in `Arrival`."""
    proved: bool
    """Whether its signature shows that it is valid."""

    async def check(self, enrolments: Enrolments) -> None:
        """Refuses a token that is neither proved nor enrolled."""
        if not (self.proved or await enrolments.enrolled(self.token)):
            raise not_enrolled()


def admission(entry: RegisteredTask, token: str) -> Admission:
    """Reads the token of an upload; refuses an invalid token if the task has an issuer."""
    if entry.task.issuer is None:
        once = token.startswith(ONCE_PREFIX)
        scope = ALL_TASKS if once else None if entry.task.repeat else entry.number
        return Admission(token_hash(token), scope, False)
    try:
        found = TaskToken.from_text(token)
        valid = found.valid(entry.task.issuer.key, task_challenge(entry.task))
    except TaskError:
        valid = False
    if not valid:
        raise Problem(
            403,
            "token-invalid",
            "This is not a token for this task; get one from the task's issuer.",
        )
    return Admission(found.name, entry.number, True)


def not_enrolled() -> Problem:
    """The refusal of a token that nobody enrolled."""
    return Problem(
        403, Verdict.UNKNOWN_TOKEN.value, "This token is not enrolled; ask the operator."
    )
