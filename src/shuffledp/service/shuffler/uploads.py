"""Uploads: checks of a request before its report is stored, and the responses to clients. The store
decides whether a report counts."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.access import bearer
from shuffledp.service.http.bodies import Arriving, declared_length, next_part, rest_of_body
from shuffledp.service.http.metrics import Counts, Metrics
from shuffledp.service.http.problems import Problem, answer_fault, answer_storage
from shuffledp.service.http.rates import Rate
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.admission import Admission, admission, not_enrolled
from shuffledp.service.shuffler.arrivals import Arrival, Verdict
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.enrolments import Enrolments
from shuffledp.service.shuffler.intake import Intake
from shuffledp.tasks.clock import CLOCK_SECONDS, Clock
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.wire import Upload, read_upload

UPLOAD_PATH = re.compile(r"/tasks/([0-9a-f]+)/reports")
STORED_ANSWER, DUPLICATE_ANSWER = Response(status_code=201), Response(status_code=200)
"""Responses without bodies need only one write to the network, which saves an eighth of an upload's
CPU time."""
REJECTED = Counts("rejected", "Uploads that were refused unread, by reason", ("task", "reason"))
REFUSALS = {
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


def over(entry: RegisteredTask, now: float) -> Verdict | None:
    """Why a task takes no more reports at this time; None if it does."""
    if entry.state != "open":
        return Verdict.TASK_CLOSED
    return Verdict.TASK_EXPIRED if now >= entry.task.expires + CLOCK_SECONDS else None


def refusal(verdict: Verdict, holder: Admission) -> Problem:
    """The response to a client whose report was not stored."""
    if verdict is Verdict.UNKNOWN_TOKEN:
        return not_enrolled()
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

    async def answer(self, task: str, headers: Headers, receive: Receive) -> Response:
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

    async def _upload(self, entry: RegisteredTask, headers: Headers, receive: Receive) -> Verdict:
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
        self, entry: RegisteredTask, holder: Admission, headers: Headers, receive: Receive
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
