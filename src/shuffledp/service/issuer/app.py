"""The issuer's routes: enrolment, one-time tokens, status."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.service.http.access import bearer, require
from shuffledp.service.http.bodies import read_body, read_json_body
from shuffledp.service.http.logs import log
from shuffledp.service.http.metrics import Counts
from shuffledp.service.http.operations import Served
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.role import Role
from shuffledp.service.http.tasks import RegisteredTask, Storing
from shuffledp.service.issuer import operations
from shuffledp.service.issuer.attestation import MOST_EVIDENCE_BYTES, AttestationCommand
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.issuer.issuing import Issuing
from shuffledp.service.issuer.operations import MOST_TOKENS
from shuffledp.service.issuer.store import (
    ISSUER_SCHEMA,
    IssuerRetention,
    IssuerStore,
    Verdict,
)
from shuffledp.service.tokens import token_hash
from shuffledp.tasks.clock import CLOCK_SECONDS, Clock, system_clock
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.signing import TaskSignature
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import REQUEST_BYTES, IssuerKeyFolder, read_request

MOST_TOKENS_BYTES = 80 * MOST_TOKENS
RESPONSE_TYPE = "application/private-token-response"


class Issuer(Role):
    """The server that knows who is enrolled, and signs tokens that it cannot recognize."""

    name = "issuer"
    about = "gives every enrolment one token per task, without seeing it"
    schema = ISSUER_SCHEMA
    signs = False
    figures = (Counts("requests", "Requests for tokens, by outcome", ("verdict",)),)

    def __init__(self, config: IssuerConfig, clock: Clock = system_clock) -> None:
        super().__init__(config, clock)
        self.config = config
        self.keys = IssuerKeyFolder(config.keys)

    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        self.store = IssuerStore(self.database)
        self.retention = IssuerRetention(self.store, self.tasks, self.clock)
        self.attestation = AttestationCommand(
            self.config.attest, self.config.attest_seconds, self.config.keys
        )
        self.tasks.admit = self._admit
        self.issuing = Issuing(self.store, self.config.keys)
        await self.issuing.open([one for one in self.tasks.by_id.values() if self._takes(one)])
        return []

    async def stop(self) -> None:
        await super().stop()
        self.issuing.close()

    async def measure(self) -> None:
        """The issuer has no levels to measure."""

    def _expired(self, entry: RegisteredTask) -> bool:
        return self.clock() >= entry.task.expires + CLOCK_SECONDS

    def _takes(self, entry: RegisteredTask) -> bool:
        """Whether tokens of a task can be requested."""
        return entry.state == "open" and not self._expired(entry)

    async def _admit(self, task: Task, _: TaskSignature) -> Storing:
        """Refuses a new task unless its issuer's key is here and belongs to no other task."""
        if task.issuer is None or self.keys.find(task.issuer.key) is None:
            raise Problem(
                422,
                "key-unknown",
                "The task names no issuer key of this issuer; make it with a key that `shuffledp "
                "issuer new-key` prints.",
            )
        if not await self.store.claim_key(task.issuer.key.id, task.id):
            raise Problem(
                409,
                "key-taken",
                "Another task has this issuer key, and tokens of both would count in either; make "
                "the task with a new key.",
            )
        return await self.issuing.begin(task)

    def own_routes(self) -> list[Served]:
        return [
            Served(operations.ISSUE, self.answer_issue),
            Served(operations.ENROL, self.answer_enrol),
            Served(operations.ATTEST, self.answer_attest),
        ]

    async def answer_put_task(self, request: Request) -> Response:
        """Registers a task; its key may have signed tokens already of which the store knows
        nothing, because it was restored from before the task's first registration."""
        answer = await super().answer_put_task(request)
        entry = self.tasks.find(request.path_params["task"])
        if self._takes(entry):
            await self.issuing.compare(entry)
        return answer

    async def answer_issue(self, request: Request) -> Response:
        """Signs a blinded message, once per holder of an enrolment and task."""
        token = token_hash(bearer(request.headers))
        entry = self.tasks.find(request.path_params["task"])
        issuer = entry.task.issuer
        assert issuer is not None
        body = await read_body(request, REQUEST_BYTES)
        self._refuse(await self.store.admitted(token, issuer.attested))
        if entry.state != "open":
            raise Problem(410, "task-closed", "This task takes no more reports.")
        if self._expired(entry):
            raise Problem(410, "task-expired", "This task has expired; it takes no more reports.")
        private = self.keys.find(issuer.key)
        assert private is not None
        try:
            blinded = read_request(body, issuer.key)
            private.check(blinded)
        except TaskError as error:
            raise Problem(400, "malformed", str(error)) from None
        # checked and recorded first: a signature costs far more than a refusal, and a retry of the
        # same request gets the same signature
        verdict = await self.issuing.issue(entry, token, hashlib.sha256(body).digest())
        self.metrics.count("requests", verdict=verdict.value)
        self._refuse(verdict)
        answer = await asyncio.to_thread(private.sign, blinded)
        return Response(answer, media_type=RESPONSE_TYPE)

    @staticmethod
    def _refuse(verdict: Verdict) -> None:
        if verdict is Verdict.UNKNOWN_TOKEN:
            raise Problem(403, "token-unknown", "This token is not enrolled; ask the operator.")
        if verdict is Verdict.NOT_ATTESTED:
            raise Problem(
                403,
                "not-attested",
                "This task is for attested enrolments only; enrol with evidence.",
            )
        if verdict is Verdict.ISSUED:
            raise Problem(
                409,
                "token-issued",
                "This enrolment already has its token for this task; retry with the same request.",
            )
        if verdict is Verdict.FORGOTTEN:
            raise Problem(
                410,
                "tokens-forgotten",
                "The issuer's store was restored from an older copy and does not know who has "
                "a token for this task, so it issues no more of them; answer the next task.",
            )
        if verdict is Verdict.RECORD_MISSING:
            raise Problem(
                503,
                "record-missing",
                "The issuer's record of the tokens for this task is missing, so it issues none; "
                "its operator must bring the folder of its keys back.",
                retry_after=60,
            )

    async def answer_enrol(self, request: Request) -> Response:
        """Enrols devices by the hashes of their tokens."""
        require(request, self.config.operator_token_sha256, "operator")
        data = _object(await read_json_body(request, MOST_TOKENS_BYTES))
        hashes, attested = _hashes(data.get("sha256")), data.get("attested")
        if not 0 < len(hashes) <= MOST_TOKENS or not isinstance(attested, bool):
            raise Problem(
                422,
                "tokens",
                'Send {"sha256": […], "attested": false} with hashes of 64 digits.',
                need=MOST_TOKENS,
            )
        new = await self.store.enrol(hashes, attested)
        log("enrolled", tokens=new)
        return JSONResponse({"new": new}, 201)

    async def answer_attest(self, request: Request) -> Response:
        """Enrols a device whose evidence the operator's command accepts."""
        data = _object(await read_json_body(request, MOST_EVIDENCE_BYTES))
        hashes, evidence = _hashes([data.get("sha256")]), data.get("evidence")
        if len(hashes) != 1 or not isinstance(evidence, str):
            raise Problem(422, "tokens", 'Send {"sha256": a hash of 64 digits, "evidence": …}.')
        holder = await self.attestation.holder(evidence)
        if not await self.store.enrol_holder(hashes[0], holder):
            raise Problem(
                409, "token-taken", "This hash belongs to another enrolment; draw another token."
            )
        return JSONResponse({"state": "enrolled"}, 201)

    async def task_status(self, entry: RegisteredTask) -> dict[str, Any]:
        issuer = entry.task.issuer
        return {
            "issued": await self.store.issued(entry.number),
            "stopped": await self.issuing.stopped(entry),
            "attested": issuer is not None and issuer.attested,
            "batches": [],
        }

    async def public_status(self, entry: RegisteredTask) -> dict[str, Any]:
        return {"stopped": await self.issuing.stopped(entry), "batches": []}


def _object(data: Any) -> dict[str, Any]:
    """The object in a request; an empty one if there is something else."""
    return data if isinstance(data, dict) else {}


def _hashes(texts: Any) -> list[bytes]:
    """The hashes in a list of texts; none if one of them is not a hash."""
    try:
        hashes = [bytes.fromhex(text) for text in texts]
    except (ValueError, TypeError):
        return []
    return hashes if {len(value) for value in hashes} == {32} else []
