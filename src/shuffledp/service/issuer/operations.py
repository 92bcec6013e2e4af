"""Requests and responses of the issuer's own routes."""

from __future__ import annotations

from shuffledp.service.http.operations import (
    COUNT,
    HASH_HEX,
    NEEDS_BODY,
    NEEDS_JSON,
    NEEDS_TASK,
    Content,
    Operation,
    array,
    json_object,
    one_of,
    post,
)
from shuffledp.service.issuer.attestation import MOST_EVIDENCE_BYTES

MOST_TOKENS = 100_000
BINARY = {"type": "string", "format": "binary"}

ISSUE = post(
    "/tasks/{task}/tokens",
    "Signs one blinded message per enrolment and task; repeating it changes nothing",
    Content("application/private-token-response", BINARY),
    who="client",
    body=Content("application/private-token-request", BINARY),
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
    inside=True,
    body=json_object(
        sha256=array(HASH_HEX, minItems=1, maxItems=MOST_TOKENS), attested={"type": "boolean"}
    ),
    answers={201: json_object(new=COUNT)},
    problems={**NEEDS_JSON, 422: ("tokens",)},
)
ATTEST = Operation(
    method="POST",
    path="/enrolments",
    summary="Enrols a device by evidence, which the operator's command checks",
    body=json_object(
        sha256=HASH_HEX, evidence={"type": "string", "maxLength": MOST_EVIDENCE_BYTES // 6}
    ),
    answers={201: json_object(state=one_of("enrolled"))},
    problems={
        **NEEDS_JSON,
        403: ("not-attested",),
        409: ("token-taken",),
        422: ("tokens", "attest-off"),
        503: ("busy", "attest"),
    },
)
