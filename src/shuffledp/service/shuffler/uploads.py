"""Uploads: checks of a request and its token before its report is stored, and the responses to
clients. The store decides whether a report counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import Receive

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.access import bearer
from shuffledp.service.http.bodies import Arriving, declared_length, next_part, rest_of_body
from shuffledp.service.http.metrics import Counts, Metrics
from shuffledp.service.http.problems import Problem, answer_fault, answer_storage
from shuffledp.service.http.rates import Rate
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.arrivals import ALL_TASKS, Arrival, Verdict
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.intake import Intake
from shuffledp.service.store.database import Database, Row, Transaction
from shuffledp.service.tokens import ONCE_PREFIX, token_hash
from shuffledp.tasks.clock import CLOCK_SECONDS, DAY_SECONDS, Clock
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.tokens import TaskToken, task_challenge
from shuffledp.tasks.wire import Upload, read_upload

UPLOAD_PATH = re.compile(r"/tasks/([0-9a-f]+)/reports")
STORED_ANSWER, DUPLICATE_ANSWER = Response(status_code=201), Response(status_code=200)
"""Responses without bodies need only one write to the network, which saves an eighth of an upload's
CPU time."""
REJECTED = Counts("rejected", "Uploads that were refused unread, by reason", ("task", "reason"))
REFUSALS = {
    Verdict.UNKNOWN_TOKEN: (403, "This token is not enrolled; ask the operator."),
    Verdict.REPORT_DIFFERS: (
        409,
        "Another report has this id; a retry sends the same bytes, a new report a new id.",
    ),
    Verdict.TOKEN_USED: (
        409,
        "This token has already sent its report; one report per token counts.",
    ),
    Verdict.TASK_CLOSED: (410, "This task takes no more reports."),
    Verdict.TASK_EXPIRED: (410, "This task has expired; it takes no more reports."),
    Verdict.KEY_RETIRED: (
        410,
        "The analyzer has retired this task's key; ask the collector for the task that follows.",
    ),
}


class Enrolments:
    """The tokens in the shuffler's store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def enrolled(self, token: bytes) -> bool:
        """Whether the holder of the token with this hash may upload."""
        return bool(await self._database.rows("SELECT 1 FROM tokens WHERE token=$1", token))

    async def enrol(self, hashes: Sequence[bytes]) -> int:
        """Lets the holders of the tokens with these hashes upload; returns how many were new."""
        today = int(self._clock()) // DAY_SECONDS

        async def store(transaction: Transaction) -> int:
            ((lost,),) = await transaction.rows("SELECT lost FROM store WHERE id = 1")
            rows: list[Row] = [(value, today, lost) for value in sorted(set(hashes))]
            return len(await transaction.insert("tokens", ("token", "enrolled", "losses"), rows))

        return await self._database.run(store)


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
            raise refusal(Verdict.UNKNOWN_TOKEN, self)


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


def over(entry: RegisteredTask, now: float) -> Verdict | None:
    """Why a task takes no more reports at this time; None if it does."""
    if entry.state != "open":
        return Verdict.TASK_CLOSED
    return Verdict.TASK_EXPIRED if now >= entry.task.expires + CLOCK_SECONDS else None


def refusal(verdict: Verdict, holder: Admission) -> Problem:
    """The response to a client whose report was not stored."""
    status, words = REFUSALS[verdict]
    if verdict is Verdict.TOKEN_USED and holder.scope is None:
        words = "This token has sent its report for this batch; send the same again for the next."
    return Problem(status, verdict.value, words)


class Uploads:
    """Reads uploads, has them stored, and answers."""

    def __init__(
        self,
        config: ShufflerConfig,
        tasks: TaskRegistry,
        intake: Intake,
        enrolments: Enrolments,
        figures: Metrics,
        clock: Clock,
    ) -> None:
        self._tasks, self._intake, self._enrolments = tasks, intake, enrolments
        self._figures, self._clock = figures, clock
        self.arriving = Arriving()
        self._token_rate = Rate(config.token_requests_per_minute, "token", figures)

    async def answer(self, task: str, headers: Mapping[str, str], receive: Receive) -> Response:
        """Stores a report and acknowledges it, after it is durable and never before."""
        entry: RegisteredTask | None = None
        try:
            entry = await self._tasks.lookup(task)
            verdict = await self._upload(entry, headers, receive)
            return STORED_ANSWER if verdict is Verdict.ACCEPTED else DUPLICATE_ANSWER
        except Problem as problem:
            if entry is not None:
                self._figures.count("rejected", task=str(entry.number), reason=problem.code)
            return problem.response()
        except StorageUnavailable as error:
            return await answer_storage(None, error)
        except Exception as error:
            return await answer_fault(None, error)

    async def _upload(
        self, entry: RegisteredTask, headers: Mapping[str, str], receive: Receive
    ) -> Verdict:
        holder = admission(entry, bearer(headers))
        self._token_rate.check(holder.token)
        upload = await self._read(entry, holder, headers, receive)
        late = over(entry, self._clock())
        if late is not None:
            raise refusal(late, holder)
        verdict = await self._intake.submit(
            Arrival(
                task=entry.number,
                report=upload.report_id,
                token=holder.token,
                scope=holder.scope,
                messages=upload.messages,
                proved=holder.proved,
            ),
        )
        if verdict not in (Verdict.ACCEPTED, Verdict.DUPLICATE):
            raise refusal(verdict, holder)
        return verdict

    async def _read(
        self, entry: RegisteredTask, holder: Admission, headers: Mapping[str, str], receive: Receive
    ) -> Upload:
        """The report in a request; a `Problem` unless it is one of this task and has its size."""
        need = entry.task.report_bytes
        length = declared_length(headers, need)
        if length != need:
            raise Problem(
                413, "size", "Every report of this task has the same size.", have=length, need=need
            )
        try:
            upload = read_upload(await self._body(receive, need, holder))
        except TaskError as error:
            raise Problem(400, "malformed", str(error)) from None
        if upload.task_id != entry.task.id:
            raise Problem(422, "wrong-task", "The report belongs to another task; send it there.")
        if upload.key_id != entry.task.key.key_id:
            raise Problem(
                422, "wrong-key", "The report is encrypted for another key; get the task again."
            )
        return upload

    async def _body(self, receive: Receive, need: int, holder: Admission) -> bytes:
        """A request's whole body. If it does not arrive at once, the token is looked up before more
        of it is read, and the total size of such bodies is limited."""
        first = await next_part(receive)
        if not first.get("more_body", False):
            return bytes(first.get("body", b""))
        await holder.check(self._enrolments)
        return await rest_of_body(receive, first.get("body", b""), need, self.arriving)
