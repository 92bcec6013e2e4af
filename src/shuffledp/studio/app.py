"""The studio's routes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from shuffledp.errors import ShuffleDPError
from shuffledp.samples import commute
from shuffledp.service.http.bodies import read_json_body
from shuffledp.service.http.problems import Problem, exception_answers
from shuffledp.studio.exports import EXPORTS
from shuffledp.studio.fields import whole_number
from shuffledp.studio.jobs import JOBS
from shuffledp.studio.questions import page_script
from shuffledp.studio.running import MOST_DEVICES, Running
from shuffledp.studio.uploads import Uploads
from shuffledp.studio.workers import LatestJob, Outdated, WorkerPool

PAGE = Path(__file__).with_name("page")
QUERIES_SCRIPT = "queries.js"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
MOST_FORM_BYTES = 16 << 20
MOST_TABS, MOST_TAB_NAME = 20, 40
FORMATS = ("encoding", "delimiter", "decimal", "sheet")
CHANGES = {
    "connect": Running.connect,
    "watch": Running.watch,
    "unwatch": Running.forget,
    "stop": Running.stop,
}
"""What the page may do with collections, by the last part of its path."""


class Tab:
    """What belongs to one tab of the browser: its file, and its newest job of each kind."""

    def __init__(self, workers: WorkerPool) -> None:
        self.uploads = Uploads()
        self.latest = {name: LatestJob(workers) for name in JOBS}
        self.found: dict[str, Any] = {}
        """What is known about its file."""

    def forget(self) -> None:
        """Removes the file."""
        self.uploads.forget()
        self.found = {}


class Studio:
    """The state of one running studio."""

    def __init__(self) -> None:
        self.workers, self.running = WorkerPool(), Running()
        self._tabs: dict[str, Tab] = {}
        self.rates: dict[str, Any] | None = None
        """How fast this machine encrypts and opens messages, once measured."""

    def app(self) -> Starlette:
        """The ASGI application."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            self.workers.prepare()
            try:
                yield
            finally:
                await self.close()

        posts = {
            "/api/plan": self.answer_plan,
            "/api/frontier": self.answer_frontier,
            "/api/upload": self.answer_upload,
            "/api/sample": self.answer_sample,
            "/api/look": self.answer_look,
            "/api/forget": self.answer_forget,
            "/api/rehearse": self.answer_rehearse,
            "/api/trial": self.answer_trial,
            "/api/export/{kind}": self.answer_export,
            **{f"/api/{change}": self.answer_change for change in CHANGES},
        }
        gets = {
            "/": answer_page,
            "/page/{name}": answer_page,
            "/api/file": self.answer_file,
            "/api/progress": self.answer_progress,
            "/api/collections": self.answer_collections,
        }
        routes = [Route(path, answer, methods=["POST"]) for path, answer in posts.items()]
        routes += [Route(path, answer) for path, answer in gets.items()]
        app = Starlette(routes=routes, exception_handlers=exception_answers(), lifespan=lifespan)
        app.router.redirect_slashes = False
        return app

    def tab(self, request: Request) -> Tab:
        """The tab that a request comes from; the file of the oldest of too many is removed."""
        name = request.headers.get("x-tab", "")[:MOST_TAB_NAME]
        tab = self._tabs.pop(name, None) or Tab(self.workers)
        self._tabs[name] = tab  # the newest is the last
        while len(self._tabs) > MOST_TABS:
            self._tabs.pop(next(iter(self._tabs))).uploads.close()
        return tab

    async def close(self) -> None:
        """Ends all work and removes all files."""
        await asyncio.to_thread(self.running.close)
        await self.workers.close()
        for tab in self._tabs.values():
            tab.uploads.close()

    # plans

    async def answer_plan(self, request: Request) -> Response:
        """Plans for a form, line by line."""
        form = await _object(request)
        return self._stream(self.tab(request), "plan", {"form": form, "rates": self.rates})

    async def answer_frontier(self, request: Request) -> Response:
        """Error against messages, line by line."""
        return self._stream(self.tab(request), "frontier", {"form": await _object(request)})

    # rehearsals

    async def answer_upload(self, request: Request) -> Response:
        """Takes a file, which replaces the one before."""
        tab = self.tab(request)
        tab.forget()
        await tab.uploads.receive(request)
        return JSONResponse({}, 201)

    async def answer_sample(self, request: Request) -> Response:
        """Takes the bundled sample."""
        sample, tab = commute(), self.tab(request)
        tab.forget()
        tab.uploads.keep(sample.name, sample.read_bytes())
        return JSONResponse({}, 201)

    async def answer_file(self, request: Request) -> Response:
        """What is known about the file of this tab, for a page that was loaded again."""
        return JSONResponse(self.tab(request).found)

    async def answer_look(self, request: Request) -> Response:
        """Reads the file: how far it is, line by line, then its columns. The encoding, delimiter,
        decimal sign or sheet may be given."""
        asked, tab = await _object(request), self.tab(request)
        chosen = {name: str(asked[name]) for name in FORMATS if asked.get(name)}
        return self._stream(tab, "look", {"path": str(tab.uploads.required()), "chosen": chosen})

    async def answer_forget(self, request: Request) -> Response:
        """Removes the uploaded file."""
        self.tab(request).forget()
        return JSONResponse({})

    async def answer_rehearse(self, request: Request) -> Response:
        """Many runs on the uploaded file, line by line."""
        asked, tab = await _object(request), self.tab(request)
        given = {name: asked.get(name) for name in ("form", "plan", "runs", "chosen")}
        return self._stream(tab, "rehearse", {**given, "path": str(tab.uploads.required())})

    # collecting

    async def answer_trial(self, request: Request) -> Response:
        """Starts servers and simulated devices on this machine."""
        asked, tab = await _object(request), self.tab(request)
        people = str(whole_number(asked, "people", least=2, most=MOST_DEVICES))
        form = {**asked.get("form", {}), "users": people}
        try:
            (planned,) = [item async for item in tab.latest["trial"].run("trial", {"form": form})]
        except Outdated:
            raise Problem(409, "outdated", "A newer request replaced this one.") from None
        await asyncio.to_thread(self.running.start_trial, asked, planned["json"])
        return JSONResponse({"cautions": planned["cautions"]}, 201)

    async def answer_change(self, request: Request) -> Response:
        """Registers a task at running servers, watches a collection, takes one off the list, or
        stops what runs."""
        change = CHANGES[request.url.path.rpartition("/")[2]]
        await asyncio.to_thread(change, self.running, await _object(request))
        return JSONResponse({})

    async def answer_progress(self, _: Request) -> Response:
        """The progress of the collection."""
        return JSONResponse(await asyncio.to_thread(self.running.progress))

    async def answer_collections(self, _: Request) -> Response:
        """The collections at running servers that were started here."""
        return JSONResponse(self.running.collections())

    async def answer_export(self, request: Request) -> Response:
        """A file to keep: results or the report."""
        kind = request.path_params["kind"]
        if kind not in EXPORTS:
            raise Problem(
                404, "export", f"There is no such export; choose one of {', '.join(EXPORTS)}."
            )
        asked = await _object(request)
        collected = await asyncio.to_thread(self.running.collected)
        media_type, make = EXPORTS[kind]
        content = await asyncio.to_thread(make, asked, collected)
        saved = {"Content-Disposition": f'attachment; filename="{kind}"'}
        return Response(content, media_type=media_type, headers=saved)

    def _stream(self, tab: Tab, job: str, given: dict[str, Any]) -> Response:
        """The items of a job as lines of JSON; the last line says how it ended."""

        async def lines() -> AsyncIterator[bytes]:
            try:
                async with contextlib.aclosing(tab.latest[job].run(job, given)) as items:
                    async for item in items:
                        self.rates = item.pop("rates", self.rates)
                        tab.found = item.get("found", tab.found)
                        yield _line(item)
                yield _line({"end": "done"})
            except ShuffleDPError as error:
                unread = job == "look" and not given["chosen"]
                if unread and given["path"] == str(tab.uploads.file):
                    tab.forget()
                yield _line({"end": "refused", "why": str(error)})
            except Outdated:
                yield _line({"end": "outdated"})

        return StreamingResponse(lines(), media_type="application/x-ndjson")


def _line(item: dict[str, Any]) -> bytes:
    return json.dumps(item).encode() + b"\n"


async def _object(request: Request) -> dict[str, Any]:
    """The JSON object in a request."""
    found = await read_json_body(request, MOST_FORM_BYTES)
    if not isinstance(found, dict):
        raise Problem(400, "json", "The request must be a JSON object.")
    return found


@cache
def _page_text(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


async def answer_page(request: Request) -> Response:
    """The page, or one of its files; queries.js is made from the declarations of the queries."""
    name = request.path_params.get("name", "index.html")
    path = PAGE / name
    if name == QUERIES_SCRIPT:
        return Response(page_script(), media_type=TYPES[path.suffix])
    if path.parent != PAGE or path.suffix not in TYPES or not path.is_file():
        raise Problem(404, "page", "There is no such file.")
    return Response(_page_text(name), media_type=TYPES[path.suffix])
