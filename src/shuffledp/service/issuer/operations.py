"""Requests and responses of the issuer's own routes."""

from __future__ import annotations

from shuffledp.service.http.operations import (
    NEEDS_BODY,
    NEEDS_JSON,
    NEEDS_TASK,
    Content,
    Operation,
    json_object,
)
from shuffledp.service.issuer.attestation import MOST_EVIDENCE_BYTES

MOST_TOKENS = 100_000
TOKEN_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
BINARY = {"type": "string", "format": "binary"}

ISSUE = Operation(
    method="POST",
    path="/tasks/{task}/tokens",
    summary="Signs one blinded message per enrolment and task; repeating it changes nothing",
    who="client",
    body=Content("application/private-token-request", BINARY),
    answers={200: Content("application/private-token-response", BINARY)},
    problems={
        **NEEDS_TASK,
        **NEEDS_BODY,
        400: ("interrupted", "malformed"),
        403: ("token-unknown", "not-attested"),
        409: ("token-issued",),
        410: ("task-closed", "task-expired", "tokens-forgotten"),
        503: ("record-missing",),
    },
)
ENROL = Operation(
    method="POST",
    path="/tokens",
    summary="Enrols devices by the hashes of their tokens",
    who="operator",
    body=json_object(
        sha256={"type": "array", "items": TOKEN_HASH, "minItems": 1, "maxItems": MOST_TOKENS},
        attested={"type": "boolean"},
    ),
    answers={201: json_object(new={"type": "integer"})},
    problems={**NEEDS_JSON, 422: ("tokens",)},
)
ATTEST = Operation(
    method="POST",
    path="/enrolments",
    summary="Enrols a device by evidence, which the operator's command checks",
    body=json_object(
        sha256=TOKEN_HASH, evidence={"type": "string", "maxLength": MOST_EVIDENCE_BYTES // 6}
    ),
    answers={201: json_object(state={"enum": ["enrolled"]})},
    problems={
        **NEEDS_JSON,
        403: ("not-attested",),
        409: ("token-taken",),
        422: ("tokens", "attest-off"),
        503: ("busy", "attest"),
    },
)
