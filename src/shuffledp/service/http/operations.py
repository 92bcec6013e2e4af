"""Requests and responses of each route, described once for the routes and the OpenAPI documents.

`Served` pairs an `Operation` with its handler, and `openapi_document` makes
docs/schema/*.openapi.json from all operations of a role. A test compares every response of the
servers in the tests with these descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shuffledp.documents.schema import JsonSchema
from shuffledp.service.http.problems import PROBLEM_TITLES, exception_answers
from shuffledp.version import __version__

Problems = Mapping[int, tuple[str, ...]]

ALWAYS: Problems = {
    400: ("http", "upgrade"),
    408: ("slow",),
    414: ("url",),
    429: ("rate",),
    431: ("headers",),
    500: ("fault",),
    503: ("connections", "store"),
}
"""Refusals that any request may get."""
NEEDS_TOKEN: Problems = {401: ("token-missing",), 403: ("token-wrong",)}
NEEDS_BODY: Problems = {400: ("interrupted",), 411: ("length",), 413: ("size",)}
NEEDS_JSON: Problems = {**NEEDS_BODY, 400: ("interrupted", "json")}
NEEDS_TASK: Problems = {404: ("task-unknown",)}

TEXT: JsonSchema = {"type": "string"}
COUNT: JsonSchema = {"type": "integer"}
HASH_HEX: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
KEY_HEX = TASK_ID = SERIES_ID = HASH_HEX
BATCH_ID: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
LOG_PLACE: JsonSchema = {"type": "integer", "minimum": 0, "maximum": (1 << 53) - 1}
SIGNATURE_HEX: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{128}$"}
PATH_NAMES: dict[str, JsonSchema] = {
    "task": TASK_ID,
    "batch": BATCH_ID,
    "first": LOG_PLACE,
    "size": LOG_PLACE,
    "series": SERIES_ID,
    "digest": HASH_HEX,
    "part": {"type": "string", "pattern": "^[0-9]{1,9}$"},
    "tile": {"type": "string", "pattern": "^[0-9a-z./]{1,80}$"},
}

PROBLEM: JsonSchema = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "pattern": "^urn:shuffledp:problem:[a-z-]+$"},
        "title": TEXT,
        "status": COUNT,
        "detail": TEXT,
        "have": COUNT,
        "need": COUNT,
        "retry_after": COUNT,
    },
    "required": ["type", "title", "status", "detail"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Content:
    """A body: its media type and, for JSON, its schema."""

    media_type: str | None
    """None for an empty body."""
    schema: JsonSchema = field(default_factory=lambda: {"type": "string"})

    def to_dict(self) -> dict[str, Any]:
        """As OpenAPI writes it."""
        if self.media_type is None:
            return {}
        return {"content": {self.media_type: {"schema": self.schema}}}


EMPTY = Content(None)
PLAIN = Content("text/plain")
PAGE = Content("text/html")
ANY_OBJECT: JsonSchema = {"type": "object"}


def json_object(**fields: JsonSchema) -> Content:
    """A JSON object with exactly these fields."""
    return Content(
        "application/json",
        {
            "type": "object",
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    summary: str
    answers: Mapping[int, Content]
    problems: Problems = field(default_factory=dict)
    who: str = ""
    """Whose token it needs; nobody's if empty."""
    inside: bool = False
    """Whether it is answered only at the operators' address, if there is one."""
    body: Content | None = None
    headers: Mapping[str, JsonSchema] = field(default_factory=dict)

    def refusals(self) -> dict[int, tuple[str, ...]]:
        """The codes of every status that refuses."""
        found: dict[int, tuple[str, ...]] = {}
        for part in (self.problems, NEEDS_TOKEN if self.who else {}, ALWAYS):
            for status, codes in part.items():
                known = found.get(status, ())
                found[status] = (*known, *(code for code in codes if code not in known))
        return dict(sorted(found.items()))

    def to_dict(self) -> dict[str, Any]:
        """As OpenAPI writes it."""
        names = re.findall(r"\{([a-z]+)(?::path)?\}", self.path)
        parameters = [_parameter(name, "path", PATH_NAMES[name]) for name in names]
        parameters += [_parameter(name, "header", schema) for name, schema in self.headers.items()]
        answers: dict[str, Any] = {
            str(status): {"description": SUCCESSES[status], **content.to_dict()}
            for status, content in self.answers.items()
        }
        for status, codes in self.refusals().items():
            content = Content(
                "application/problem+json", {"$ref": "#/components/schemas/Problem"}
            ).to_dict()
            said = f"{PROBLEM_TITLES[status]}: {', '.join(codes)}"
            answers[str(status)] = {"description": said, **content}
        described: dict[str, Any] = {"summary": self.summary, "responses": answers}
        if parameters:
            described["parameters"] = parameters
        if self.body is not None:
            described["requestBody"] = {"required": True, **self.body.to_dict()}
        if self.who:
            described["security"] = [{f"{self.who} token": []}]
        return described


SUCCESSES = {
    200: "Done, or already known",
    201: "Stored",
    202: "More is needed",
    304: "Not changed",
}


def _parameter(name: str, place: str, schema: JsonSchema) -> dict[str, Any]:
    return {"name": name, "in": place, "required": True, "schema": schema}


class Served(NamedTuple):
    """An operation and the function that answers it."""

    operation: Operation
    answer: Callable[[Request], Awaitable[Response] | Response]

    def route(self) -> Route:
        """As Starlette takes it."""
        return Route(self.operation.path, self.answer, methods=[self.operation.method])


def operation(method: str, path: str, summary: str, answer: Content, **options: Any) -> Operation:
    """An operation with one answer, of status 200."""
    return Operation(method=method, path=path, summary=summary, answers={200: answer}, **options)


get, post, put = (partial(operation, method) for method in ("GET", "POST", "PUT"))


def array(items: JsonSchema, **options: int) -> JsonSchema:
    """A list of such items."""
    return {"type": "array", "items": items, **options}


def one_of(*texts: str) -> JsonSchema:
    """One of these texts."""
    return {"enum": list(texts)}


COUNT_OR_AWAY: JsonSchema = {
    "type": ["integer", "null"],
    "description": "null: the store of the task cannot be reached",
}
TASK_CONTENT = Content("application/json", {**ANY_OBJECT, "description": "A task; see task.json"})
LISTED_TASK = json_object(
    task=TASK_ID,
    name=TEXT,
    state=one_of("open", "closed", "archived"),
    changed=COUNT,
    not_before=COUNT,
    expires=COUNT,
    waiting=COUNT_OR_AWAY,
    unfinished=COUNT_OR_AWAY,
).schema
IN_SERIES = json_object(series=SERIES_ID, name=TEXT, place=COUNT, tasks=COUNT).schema
CURRENT_TASK = json_object(
    task=TASK_ID,
    name=TEXT,
    not_before=COUNT,
    expires=COUNT,
    series={"anyOf": [IN_SERIES, {"type": "null"}]},
).schema
STATUS_PAGE = get("/", "The status as a page", PAGE, inside=True)
PAGE_STYLE = get("/page.css", "The pages' style", Content("text/css"))
PAGE_SCRIPT = get("/page.js", "The page's script", Content("text/javascript"), inside=True)
STATUS = get(
    "/status",
    "Tasks, their progress and their results; exact counts only for operators",
    json_object(role=TEXT, tasks=array(ANY_OBJECT)),
    inside=True,
)
ALIVE = get("/livez", "Whether the server runs", PLAIN)
READY = get(
    "/readyz",
    "Whether the server can answer requests",
    PLAIN,
    problems={503: ("draining", "stopped", "store", "spool")},
)
METRICS = get("/metrics", "Metrics for Prometheus", PLAIN, inside=True, who="operator")
CURRENT = get(
    "/current",
    "The tasks that are or will be open, by date",
    json_object(tasks=array(CURRENT_TASK)),
)
LIST_TASKS = get(
    "/tasks",
    "All tasks and their states, including archived ones",
    json_object(tasks=array(LISTED_TASK)),
    who="operator",
    inside=True,
)
ARCHIVE_TASK = post(
    "/tasks/{task}/archive",
    "Ends a task permanently: nothing more is accepted for it",
    json_object(task=TASK_ID, state=one_of("archived")),
    who="operator",
    inside=True,
    body=json_object(discard={"type": "boolean"}),
    problems={
        **NEEDS_TASK,
        **NEEDS_JSON,
        409: ("task-open", "task-waiting", "task-busy"),
        422: ("archive",),
    },
)
DELETE_TASK = operation(
    "DELETE",
    "/tasks/{task}",
    "Deletes an archived task and everything stored about it",
    json_object(task=TASK_ID, state=one_of("deleted")),
    who="operator",
    inside=True,
    problems={**NEEDS_TASK, 409: ("task-not-archived",)},
)
PUT_TASK = Operation(
    method="PUT",
    path="/tasks/{task}",
    summary="Registers a task that the collector has signed; it is verified first",
    who="collector",
    body=TASK_CONTENT,
    headers={"X-Collector-Key": KEY_HEX, "X-Collector-Signature": SIGNATURE_HEX},
    answers=dict.fromkeys((200, 201), json_object(task=TASK_ID, new={"type": "boolean"})),
    problems={
        **NEEDS_BODY,
        400: ("interrupted", "task-id"),
        409: ("key-taken", "log-forked", "store-older", "series-place"),
        410: ("key-retired", "task-deleted", "task-expired"),
        422: ("invalid", "key-unknown", "task-unlogged", "unsigned"),
        503: ("busy", "draining", "analyzer-away"),
    },
)
GET_TASK = Operation(
    method="GET",
    path="/tasks/{task}",
    summary="A task in its canonical text; it never changes",
    answers={200: TASK_CONTENT, 304: EMPTY},
    problems=NEEDS_TASK,
)


def application(served: Sequence[Served]) -> Starlette:
    """An application with these routes, which answers every error as a problem."""
    app = Starlette(routes=[one.route() for one in served], exception_handlers=exception_answers())
    app.router.redirect_slashes = False  # a redirect would name the host that the client sent
    return app


def openapi_document(name: str, about: str, operations: list[Operation]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server."""
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path.replace(":path", ""), {})[operation.method.lower()] = (
            operation.to_dict()
        )
    people = sorted({operation.who for operation in operations if operation.who})
    return {
        "openapi": "3.1.0",
        "info": {"title": f"shuffledp {name}", "version": __version__, "description": about},
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                f"{who} token": {"type": "http", "scheme": "bearer"} for who in people
            },
        },
    }
