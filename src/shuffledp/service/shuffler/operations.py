"""Requests and responses of the shuffler's own routes."""

from __future__ import annotations

from shuffledp.service.http.operations import (
    EMPTY,
    KEY_HEX,
    NEEDS_BODY,
    NEEDS_JSON,
    NEEDS_TASK,
    SIGNATURE_HEX,
    Content,
    Operation,
    json_object,
)
from shuffledp.tasks.log import HEAD, TASK_PROOF

MOST_TOKENS = 100_000

UPLOAD = Operation(
    method="POST",
    path="/tasks/{task}/reports",
    summary="Stores one encrypted report; sending the same again changes nothing",
    who="client",
    body=Content("application/octet-stream", {"type": "string", "format": "binary"}),
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
CLOSE = Operation(
    method="POST",
    path="/tasks/{task}/close",
    summary="Takes no more reports for a task",
    who="collector",
    answers={200: json_object(state={"enum": ["closed"]})},
    problems=NEEDS_TASK,
)
GATEWAY_PATH = "/.well-known/ohttp-gateway"
GATEWAY_KEYS = Operation(
    method="GET",
    path=GATEWAY_PATH,
    summary="The gateway's key configurations (RFC 9458)",
    answers={200: Content("application/ohttp-keys", {"type": "string", "format": "binary"})},
)
GATEWAY = Operation(
    method="POST",
    path=GATEWAY_PATH,
    summary="Answers a request that came through a relay (RFC 9458): an upload, a task, its proof "
    "or the list of open tasks",
    body=Content("message/ohttp-req", {"type": "string", "format": "binary"}),
    answers={200: Content("message/ohttp-res", {"type": "string", "format": "binary"})},
    problems={**NEEDS_BODY, 400: ("interrupted", "malformed"), 503: ("busy",)},
)
TOKENS = Operation(
    method="POST",
    path="/tokens",
    summary="Enrols clients by the hashes of their tokens",
    who="operator",
    inside=True,
    body=json_object(
        sha256={
            "type": "array",
            "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "minItems": 1,
            "maxItems": MOST_TOKENS,
        }
    ),
    answers={201: json_object(new={"type": "integer"})},
    problems={**NEEDS_JSON, 422: ("tokens",)},
)
PROOF = Operation(
    method="GET",
    path="/tasks/{task}/proof",
    summary="Who has signed a task, and its position in the log; it never changes",
    answers={200: Content("application/json", TASK_PROOF.json_schema())},
    problems=NEEDS_TASK,
)
WITNESSED_HEAD = Operation(
    method="GET",
    path="/log/head",
    summary="The newest head of the analyzer's log that this shuffler has witnessed",
    answers={
        200: json_object(
            **HEAD.json_schema()["properties"],
            shuffler_key=KEY_HEX,
            shuffler_signature=SIGNATURE_HEX,
        )
    },
    problems={404: ("log-place",), 503: ("witness-lost",)},
)
