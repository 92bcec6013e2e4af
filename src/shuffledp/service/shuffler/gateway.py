"""The shuffler's gateway of Oblivious HTTP (RFC 9458): requests that a relay passed on.

It answers uploads and requests for tasks, their proofs and the list of open tasks, like the
shuffler itself, with the same limits on bodies and tokens, and nothing else. It does not know who
sent a request; the relay does, but cannot read it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from shuffledp.documents.files import lock
from shuffledp.errors import ParameterError
from shuffledp.service.binary_http import BinaryRequest, BinaryResponse, read_request
from shuffledp.service.http.bodies import Arriving, read_body
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import TaskRegistry
from shuffledp.service.store.private import private_folder
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder, PrivateKey
from shuffledp.tasks.oblivious import (
    KEY_IDS,
    REQUEST_OVERHEAD,
    GatewayKey,
    open_request,
    seal_answer,
)
from shuffledp.tasks.task import MOST_TASK_BYTES

PATH = re.compile(r"/tasks/(?P<task>[0-9a-f]{64})(?P<end>/reports|/proof|)|(?P<whole>/current)")
REQUEST_ROOM = 2048
"""How many bytes a request may be longer than its report."""
ANSWER_MULTIPLE = 1024
MOST_CONTENT_BYTES = MOST_TASK_BYTES
"""The longest answer: sealed and padded, it is less than what relays and devices take."""
PASSED_IN = frozenset({b"authorization", b"content-type", b"if-none-match"})
PASSED_OUT = frozenset({b"content-type", b"retry-after", b"etag", b"cache-control"})
RESPONSE_TYPE, KEYS_TYPE = "message/ohttp-res", "application/ohttp-keys"
Answers = Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]]
"""What answers each method and end of a task's path, or path without a task."""


class Gateway:
    """Opens requests, gets their responses, and seals these."""

    def __init__(self, folder: str, tasks: TaskRegistry, arriving: Arriving) -> None:
        self._folder, self._tasks, self._arriving = Path(folder), tasks, arriving
        self._keys: dict[int, PrivateKey] = {}

    def open(self) -> None:
        """Reads the keys, and makes one if there is none."""
        private_folder(self._folder)
        with lock(self._folder / "lock", secret=True):
            folder = KeyFolder(self._folder)
            if not any(key.state == "active" for key in folder.all()):
                folder.new()
            self._keys = {key.key_id % KEY_IDS: key for key in folder.all()}

    def public(self) -> list[GatewayKey]:
        """The public halves of the active keys, newest first."""
        active = [(number, key) for number, key in self._keys.items() if key.state == "active"]
        active.sort(key=lambda pair: -pair[1].key_id)
        return [GatewayKey(number, key.public.raw) for number, key in active]

    def configurations(self) -> Response:
        """The key configurations in the format of RFC 9458 §3.2."""
        parts = (key.to_bytes() for key in self.public())
        data = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
        return Response(data, media_type=KEYS_TYPE)

    def check(self, key: GatewayKey | None) -> None:
        """Refuses a new task with a gateway key that is not one of these."""
        if key is not None and key not in self.public():
            raise Problem(
                422,
                "key-unknown",
                "The task's gateway key is not one of this shuffler's; make the task with the key "
                "that `shuffledp relay key` prints.",
            )

    def _most(self) -> int:
        """The longest request that any task needs."""
        sizes = (entry.task.report_bytes for entry in self._tasks.by_id.values())
        return max(sizes, default=0) + REQUEST_ROOM + REQUEST_OVERHEAD

    async def answer(self, request: Request, answers: Answers) -> Response:
        """The sealed answer to a sealed request."""
        need = self._most()
        body = await read_body(request, need, self._arriving)
        try:
            opened, context = open_request(self._secret, body)
            inner = read_request(opened)
        except (TaskError, ParameterError) as error:
            raise Problem(400, "malformed", str(error)) from None
        answer = await _answered(inner, answers)
        fields = [(name, value) for name, value in answer.raw_headers if name in PASSED_OUT]
        response = BinaryResponse(answer.status_code, fields, bytes(answer.body))
        return Response(
            seal_answer(context, response.to_bytes(ANSWER_MULTIPLE)),
            media_type=RESPONSE_TYPE,
            headers={"Cache-Control": "no-store"},
        )

    def _secret(self, number: int) -> bytes | None:
        key = self._keys.get(number)
        return None if key is None else key.secret


async def _answered(inner: BinaryRequest, answers: Answers) -> Response:
    """What the shuffler answers to the request inside."""
    found = PATH.fullmatch(inner.path)
    end = (found["whole"] or found["end"]) if found else ""
    answer = answers.get((inner.method, end)) if found else None
    try:
        if found is None or answer is None:
            raise Problem(
                404, "task-unknown", "The gateway answers only requests for tasks, and uploads."
            )
        return _bounded(await answer(_request(inner, found["task"] or "")))
    except Problem as problem:
        return problem.response()


def _bounded(answer: Response) -> Response:
    """The answer; a 413 if it is too long, which only the list of very many tasks is."""
    if len(answer.body) > MOST_CONTENT_BYTES:
        raise Problem(
            413,
            "size",
            "The answer is longer than what goes through a relay; tell the shuffler's operator "
            "that too many tasks are open.",
            have=len(answer.body),
            need=MOST_CONTENT_BYTES,
        )
    return answer


def _request(inner: BinaryRequest, task: str) -> Request:
    """The request inside as the shuffler's own routes take it: without a sender, and with the
    length that its content really has."""
    fields = [(name.lower(), value) for name, value in inner.fields]
    headers = [(name, value) for name, value in fields if name in PASSED_IN]
    headers.append((b"content-length", str(len(inner.content)).encode()))

    async def receive() -> Message:
        return {"type": "http.request", "body": inner.content, "more_body": False}

    scope = {
        "type": "http",
        "method": inner.method,
        "path": inner.path,
        "headers": headers,
        "query_string": b"",
        "path_params": {"task": task},
    }
    return Request(scope, receive)
