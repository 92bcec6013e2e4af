"""Requests and responses of the shuffler's own routes."""

from __future__ import annotations

from shuffledp.documents.schema import JsonSchema
from shuffledp.service.http.operations import (
    COUNT,
    EMPTY,
    HASH_HEX,
    KEY_HEX,
    NEEDS_BODY,
    NEEDS_JSON,
    NEEDS_TASK,
    SIGNATURE_HEX,
    TASK_ID,
    Content,
    Operation,
    array,
    get,
    json_object,
    one_of,
    post,
)
from shuffledp.tasks.log import HEAD, TASK_PROOF

MOST_TOKENS = 100_000
BINARY: JsonSchema = {"type": "string", "format": "binary"}

UPLOAD = Operation(
    method="POST",
    path="/tasks/{task}/reports",
    summary="Stores one encrypted report; sending the same again changes nothing",
    who="client",
    body=Content("application/octet-stream", BINARY),
    answers={200: EMPTY, 201: EMPTY},
    problems={
        **NEEDS_TASK,
        **NEEDS_BODY,
        400: ("interrupted", "malformed"),
        403: ("token-invalid", "token-unknown"),
        409: ("report-differs", "token-used"),
        410: ("key-retired", "task-closed", "task-expired"),
        422: ("wrong-key", "wrong-task"),
        429: ("busy",),
        503: ("busy", "draining"),
    },
)
CLOSE = post(
    "/tasks/{task}/close",
    "Takes no more reports for a task",
    json_object(state=one_of("closed")),
    who="collector",
    problems=NEEDS_TASK,
)
PROGRESS = get(
    "/tasks/{task}/progress",
    "The progress of a task, rounded down and at least ten minutes old",
    json_object(task=TASK_ID, have=COUNT, need=COUNT, batches=COUNT),
    problems=NEEDS_TASK,
)
GATEWAY_PATH = "/.well-known/ohttp-gateway"
GATEWAY_KEYS = get(
    GATEWAY_PATH,
    "The gateway's key configurations (RFC 9458)",
    Content("application/ohttp-keys", BINARY),
)
GATEWAY = post(
    GATEWAY_PATH,
    "Answers a request that came through a relay (RFC 9458): an upload, a task, its proof "
    "or the list of open tasks",
    Content("message/ohttp-res", BINARY),
    body=Content("message/ohttp-req", BINARY),
    problems={**NEEDS_BODY, 400: ("interrupted", "malformed"), 503: ("busy",)},
)
TOKENS = Operation(
    method="POST",
    path="/tokens",
    summary="Enrols clients by the hashes of their tokens",
    who="operator",
    inside=True,
    body=json_object(sha256=array(HASH_HEX, minItems=1, maxItems=MOST_TOKENS)),
    answers={201: json_object(new=COUNT)},
    problems={**NEEDS_JSON, 422: ("tokens",)},
)
PROOF = get(
    "/tasks/{task}/proof",
    "Who has signed a task, and its position in the log; it never changes",
    Content("application/json", TASK_PROOF.json_schema()),
    problems=NEEDS_TASK,
)
WITNESSED_HEAD = get(
    "/log/head",
    "The newest head of the analyzer's log that this shuffler has witnessed",
    json_object(
        **HEAD.json_schema()["properties"],
        shuffler_key=KEY_HEX,
        shuffler_signature=SIGNATURE_HEX,
    ),
    problems={404: ("log-place",), 503: ("witness-lost",)},
)
