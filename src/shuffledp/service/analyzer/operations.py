"""Requests and responses of the analyzer's own routes."""

from __future__ import annotations

from shuffledp.documents.schema import JsonSchema
from shuffledp.service.http.bodies import LONGEST_REASON
from shuffledp.service.http.operations import (
    BATCH_ID,
    COUNT,
    KEY_HEX,
    NEEDS_BODY,
    NEEDS_JSON,
    NEEDS_TASK,
    PAGE,
    PLAIN,
    SERIES_ID,
    SIGNATURE_HEX,
    TASK_ID,
    TEXT,
    Content,
    Operation,
    array,
    get,
    json_object,
    one_of,
    post,
)
from shuffledp.tasks.keys import KEY_STATES, PUBLIC_KEY
from shuffledp.tasks.log import HEAD, PATH
from shuffledp.tasks.results import PUBLISHED
from shuffledp.tasks.series import EVERY_DAYS

_key = PUBLIC_KEY.json_schema()
KEY: JsonSchema = {
    **_key,
    "properties": {**_key["properties"], "state": one_of(*KEY_STATES)},
    "required": [*_key["required"], "state"],
}
UNPUBLISHED: JsonSchema = json_object(
    number=COUNT, batch=BATCH_ID, state=TEXT, reports=COUNT, problem=TEXT, reason=TEXT
).schema
PUBLISHED_RESULTS = array(PUBLISHED.json_schema())
BYTES = Content("application/octet-stream", {"type": "string", "format": "binary"})
CSV = Content("text/csv")

KEYS = get(
    "/keys",
    "The public halves of all keys and their states",
    json_object(keys=array(KEY)),
)
DELIVER = Operation(
    method="PUT",
    path="/batches/{batch}",
    summary="Takes a batch's manifest and says which parts are missing, until it is complete",
    who="shuffler",
    body=Content("application/json", {"type": "object"}),
    headers={"X-Content-SHA256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    answers={
        **dict.fromkeys((200, 201), json_object(state=TEXT)),
        202: json_object(state=one_of("receiving"), missing=array(COUNT)),
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
    body=BYTES,
    answers=dict.fromkeys((200, 201), json_object(state=TEXT)),
    problems={
        **NEEDS_BODY,
        400: ("batch-name", "interrupted"),
        409: ("batch-differs",),
        422: ("digest",),
    },
)
BATCH_STATE = get(
    "/batches/{batch}",
    "Whether a batch is complete at the analyzer",
    json_object(state=TEXT, sha256=TEXT),
    who="shuffler",
    problems={404: ("batch-unknown",)},
)
DISCARD = post(
    "/batches/{batch}/discard",
    "Gives up a batch that is not published",
    json_object(batch=BATCH_ID, state=one_of("discarded"), reason={"type": ["string", "null"]}),
    who="operator",
    inside=True,
    body=json_object(reason={"type": "string", "minLength": 1, "maxLength": LONGEST_REASON}),
    problems={
        **NEEDS_JSON,
        404: ("batch-unknown",),
        409: ("not-discarded",),
        422: ("reason",),
    },
)
RESTORE = post(
    "/ledger/restore",
    "Rewrites the entries of published batches in a lost ledger",
    json_object(lines=COUNT),
    who="operator",
    inside=True,
    problems={422: ("invalid",)},
)
RESULTS = get(
    "/tasks/{task}/results",
    "Everything that was published for a task, and why other batches are not",
    json_object(
        task=TASK_ID,
        name=TEXT,
        results=PUBLISHED_RESULTS,
        unpublished=array(UNPUBLISHED),
        forgotten={"type": "integer", "description": "results older than result_days"},
    ),
    problems=NEEDS_TASK,
)
RESULTS_CSV = get(
    "/tasks/{task}/results.csv",
    "The same as CSV, one line per number",
    CSV,
    problems=NEEDS_TASK,
)
NEEDS_SERIES = {404: ("series-unknown",)}
SERIES = get("/series/{series}", "A series of results as a page", PAGE, problems=NEEDS_SERIES)
SERIES_RESULTS = get(
    "/series/{series}/results",
    "Everything that was published for the tasks of a series, in the order of their dates",
    json_object(
        series=SERIES_ID,
        name=TEXT,
        question=TEXT,
        query=TEXT,
        every=one_of(*EVERY_DAYS),
        seconds=COUNT,
        tasks=COUNT,
        begin=COUNT,
        epsilon=TEXT,
        epsilon_in_all=TEXT,
        confidence={"type": "number"},
        members=array(
            json_object(
                place=COUNT,
                task=TASK_ID,
                name=TEXT,
                not_before=COUNT,
                expires=COUNT,
                state=TEXT,
                results=PUBLISHED_RESULTS,
                forgotten=COUNT,
            ).schema
        ),
    ),
    problems=NEEDS_SERIES,
)
SERIES_CSV = get(
    "/series/{series}/results.csv",
    "The same as CSV, one line per number",
    CSV,
    problems=NEEDS_SERIES,
)
HEAD_SCHEMA: JsonSchema = HEAD.json_schema()
PATH_SCHEMA: JsonSchema = PATH.json_schema()
OUTSIDE_LOG = {404: ("log-place",)}
_SIGNED_BY_COLLECTOR: dict[str, JsonSchema] = {
    "collector_key": KEY_HEX,
    "collector_signature": SIGNATURE_HEX,
}
LOG_HEAD = get(
    "/log/head",
    "The head of the log of tasks, signed",
    Content("application/json", HEAD_SCHEMA),
)
LOG_CHECKPOINT = get(
    "/log/checkpoint",
    "The head of the log as a signed note, with the cosignatures of witnesses",
    PLAIN,
)
LOG_TILE = get(
    "/log/tile/{tile:path}",
    "A tile of the log's Merkle tree, or of its entries, as c2sp.org/tlog-tiles describes",
    BYTES,
    problems=OUTSIDE_LOG,
)
LOG_CONSISTENCY = get(
    "/log/consistency/{first}",
    "The head, and a path that proves that the log extends an earlier one",
    json_object(head=HEAD_SCHEMA, path=PATH_SCHEMA),
    problems=OUTSIDE_LOG,
)
LOG_INCLUSION = get(
    "/log/inclusion/{task}/{size}",
    "The position of a task in the log of a given size, with its inclusion path",
    json_object(
        index=COUNT, path=PATH_SCHEMA, analyzer_signature=SIGNATURE_HEX, **_SIGNED_BY_COLLECTOR
    ),
    problems={404: ("log-place", "task-unlogged")},
)
LOG_ENTRIES = get(
    "/log/entries/{first}",
    "Entries of the log, starting at a position",
    json_object(entries=array(json_object(task=TASK_ID, **_SIGNED_BY_COLLECTOR).schema)),
    problems=OUTSIDE_LOG,
)
