"""Requests and responses of the analyzer's own routes."""

from __future__ import annotations

from shuffledp.documents.schema import JsonSchema
from shuffledp.service.http.operations import (
    BATCH_NAME,
    KEY_HEX,
    NEEDS_BODY,
    NEEDS_JSON,
    NEEDS_TASK,
    PLAIN,
    SERIES_NAME,
    SIGNATURE_HEX,
    TASK_NAME,
    Content,
    Operation,
    json_object,
    page,
)
from shuffledp.service.http.reasons import LONGEST_REASON
from shuffledp.tasks.keys import KEY_STATES, PUBLIC_KEY
from shuffledp.tasks.log import HEAD, PATH
from shuffledp.tasks.results import PUBLISHED
from shuffledp.tasks.series import EVERY_DAYS

STATE: JsonSchema = {"type": "string"}
_key = PUBLIC_KEY.json_schema()
KEY: JsonSchema = {
    **_key,
    "properties": {**_key["properties"], "state": {"enum": list(KEY_STATES)}},
    "required": [*_key["required"], "state"],
}
UNPUBLISHED: JsonSchema = json_object(
    number={"type": "integer"},
    batch=BATCH_NAME,
    state=STATE,
    reports={"type": "integer"},
    problem={"type": "string"},
    reason={"type": "string"},
).schema

KEYS = Operation(
    method="GET",
    path="/keys",
    summary="The public halves of all keys and their states",
    answers={200: json_object(keys={"type": "array", "items": KEY})},
)
DELIVER = Operation(
    method="PUT",
    path="/batches/{batch}",
    summary="Takes a batch's manifest and says which parts are missing, until it is complete",
    who="shuffler",
    body=Content("application/json", {"type": "object"}),
    headers={"X-Content-SHA256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    answers={
        **dict.fromkeys((200, 201), json_object(state=STATE)),
        202: json_object(
            state={"enum": ["receiving"]}, missing={"type": "array", "items": {"type": "integer"}}
        ),
    },
    problems={
        **NEEDS_TASK,
        **NEEDS_BODY,
        400: ("batch-name", "interrupted", "malformed"),
        409: ("batch-differs",),
        410: ("task-archived",),
        413: ("batch-size", "size"),
        422: ("bucket", "digest", "invalid", "long-batch", "short-batch", "top-up"),
        503: ("key-missing",),
    },
)
DELIVER_PART = Operation(
    method="PUT",
    path="/batches/{batch}/{digest}/parts/{part}",
    summary="Accepts one part of a batch; repeating it changes nothing",
    who="shuffler",
    body=Content("application/octet-stream", {"type": "string", "format": "binary"}),
    answers=dict.fromkeys((200, 201), json_object(state=STATE)),
    problems={
        **NEEDS_BODY,
        400: ("batch-name", "interrupted"),
        409: ("batch-differs",),
        422: ("digest",),
    },
)
BATCH_STATE = Operation(
    method="GET",
    path="/batches/{batch}",
    summary="Whether a batch is complete at the analyzer",
    who="shuffler",
    answers={200: json_object(state=STATE, sha256={"type": "string"})},
    problems={404: ("batch-unknown",)},
)
DISCARD = Operation(
    method="POST",
    path="/batches/{batch}/discard",
    summary="Gives up a batch that is not published",
    who="operator",
    inside=True,
    body=json_object(reason={"type": "string", "minLength": 1, "maxLength": LONGEST_REASON}),
    answers={
        200: json_object(
            batch=BATCH_NAME, state={"enum": ["discarded"]}, reason={"type": ["string", "null"]}
        )
    },
    problems={
        **NEEDS_JSON,
        404: ("batch-unknown",),
        409: ("not-discarded",),
        422: ("reason",),
    },
)
RESTORE = Operation(
    method="POST",
    path="/ledger/restore",
    summary="Rewrites the entries of published batches in a lost ledger",
    who="operator",
    inside=True,
    answers={200: json_object(lines={"type": "integer"})},
    problems={422: ("invalid",)},
)
RESULTS = Operation(
    method="GET",
    path="/tasks/{task}/results",
    summary="Everything that was published for a task, and why other batches are not",
    answers={
        200: json_object(
            task=TASK_NAME,
            name={"type": "string"},
            results={"type": "array", "items": PUBLISHED.json_schema()},
            unpublished={"type": "array", "items": UNPUBLISHED},
            forgotten={"type": "integer", "description": "results older than result_days"},
        )
    },
    problems=NEEDS_TASK,
)
RESULTS_CSV = Operation(
    method="GET",
    path="/tasks/{task}/results.csv",
    summary="The same as CSV, one line per number",
    answers={200: Content("text/csv")},
    problems=NEEDS_TASK,
)
NEEDS_SERIES = {404: ("series-unknown",)}
_COUNT: JsonSchema = {"type": "integer"}
_TEXT: JsonSchema = {"type": "string"}
SERIES = page(
    "/series/{series}", "text/html", "A series of results as a page", problems=NEEDS_SERIES
)
SERIES_RESULTS = Operation(
    method="GET",
    path="/series/{series}/results",
    summary="Everything that was published for the tasks of a series, in the order of their dates",
    answers={
        200: json_object(
            series=SERIES_NAME,
            name=_TEXT,
            question=_TEXT,
            query=_TEXT,
            every={"enum": list(EVERY_DAYS)},
            seconds=_COUNT,
            tasks=_COUNT,
            begin=_COUNT,
            epsilon=_TEXT,
            epsilon_in_all=_TEXT,
            confidence={"type": "number"},
            members={
                "type": "array",
                "items": json_object(
                    place=_COUNT,
                    task=TASK_NAME,
                    name=_TEXT,
                    not_before=_COUNT,
                    expires=_COUNT,
                    state=STATE,
                    results={"type": "array", "items": PUBLISHED.json_schema()},
                    forgotten=_COUNT,
                ).schema,
            },
        )
    },
    problems=NEEDS_SERIES,
)
SERIES_CSV = page(
    "/series/{series}/results.csv",
    "text/csv",
    "The same as CSV, one line per number",
    problems=NEEDS_SERIES,
)
HEAD_SCHEMA: JsonSchema = HEAD.json_schema()
PATH_SCHEMA: JsonSchema = PATH.json_schema()
_SIGNED_BY_COLLECTOR: dict[str, JsonSchema] = {
    "collector_key": KEY_HEX,
    "collector_signature": SIGNATURE_HEX,
}
LOG_HEAD = Operation(
    method="GET",
    path="/log/head",
    summary="The head of the log of tasks, signed",
    answers={200: Content("application/json", HEAD_SCHEMA)},
)
LOG_CHECKPOINT = Operation(
    method="GET",
    path="/log/checkpoint",
    summary="The head of the log as a signed note, with the cosignatures of witnesses",
    answers={200: PLAIN},
)
LOG_TILE = Operation(
    method="GET",
    path="/log/tile/{tile:path}",
    summary="A tile of the log's Merkle tree, or of its entries, as c2sp.org/tlog-tiles describes",
    answers={200: Content("application/octet-stream", {"type": "string", "format": "binary"})},
    problems={404: ("log-place",)},
)
LOG_CONSISTENCY = Operation(
    method="GET",
    path="/log/consistency/{first}",
    summary="The head, and a path that proves that the log extends an earlier one",
    answers={200: json_object(head=HEAD_SCHEMA, path=PATH_SCHEMA)},
    problems={404: ("log-place",)},
)
LOG_INCLUSION = Operation(
    method="GET",
    path="/log/inclusion/{task}/{size}",
    summary="The position of a task in the log of a given size, with its inclusion path",
    answers={
        200: json_object(
            index={"type": "integer"},
            path=PATH_SCHEMA,
            analyzer_signature=SIGNATURE_HEX,
            **_SIGNED_BY_COLLECTOR,
        )
    },
    problems={404: ("log-place", "task-unlogged")},
)
LOG_ENTRIES = Operation(
    method="GET",
    path="/log/entries/{first}",
    summary="Entries of the log, starting at a position",
    answers={
        200: json_object(
            entries={
                "type": "array",
                "items": json_object(task=TASK_NAME, **_SIGNED_BY_COLLECTOR).schema,
            }
        )
    },
    problems={404: ("log-place",)},
)
