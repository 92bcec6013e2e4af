"""Results of a series of tasks, by date: as JSON, as CSV and as a page, for anyone."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from shuffledp.numbers.exact import show
from shuffledp.service.analyzer import operations
from shuffledp.service.analyzer.store import AnalyzerStore
from shuffledp.service.http.operations import Served
from shuffledp.service.http.page import PAGE_HEADERS
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.series_page import render_series
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.results import series_csv
from shuffledp.tasks.task import Task


async def take_place(transaction: Transaction, task: Task) -> None:
    """Stores the task's position in its series when the task is registered; refuses a second task
    for the same position, so that a page's result for a date cannot be replaced or duplicated."""
    if task.series is None:
        return
    row = (bytes.fromhex(task.series_id), task.series.place, task.id)
    if not await transaction.insert("series", ("series", "place", "task"), [row], key=2):
        raise Problem(
            409,
            "series-place",
            f"Another task is registered as number {task.series.place} of this series; make a "
            "series with another name.",
        )


class SeriesResults:
    """The routes of series."""

    _tasks: TaskRegistry
    _store: AnalyzerStore

    def __init__(self, confidence: float) -> None:
        self._confidence = confidence

    def open(self, tasks: TaskRegistry, store: AnalyzerStore) -> None:
        """Sets the registered tasks and the store of their results."""
        self._tasks, self._store = tasks, store

    def routes(self) -> list[Served]:
        """The public routes."""
        return [
            Served(operations.SERIES, self.answer_page),
            Served(operations.SERIES_RESULTS, self.answer_json),
            Served(operations.SERIES_CSV, self.answer_csv),
        ]

    async def answer_page(self, request: Request) -> Response:
        """The series as a page."""
        return HTMLResponse(render_series(await self._found(request)), headers=PAGE_HEADERS)

    async def answer_json(self, request: Request) -> Response:
        """The series as JSON."""
        return JSONResponse(await self._found(request))

    async def answer_csv(self, request: Request) -> Response:
        """The series as CSV, to be saved as a file."""
        series = await self._found(request)
        name = f"series-{series['series'][:16]}.csv"
        return PlainTextResponse(
            series_csv(series["members"]),
            media_type="text/csv",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def _found(self, request: Request) -> dict[str, Any]:
        wanted = request.path_params["series"]
        entries = {
            entry.task.series.place: entry
            for entry in self._tasks.by_id.values()
            if entry.task.series is not None and entry.task.series_id == wanted
        }
        if not entries:
            raise Problem(404, "series-unknown", "No task of such a series is registered here.")
        one = next(iter(entries.values())).task
        assert one.series is not None
        epsilon = one.protocol.epsilon
        return {
            "series": wanted,
            "name": one.series.name,
            "question": one.question,
            "query": one.protocol.query,
            "every": one.series.every,
            "seconds": one.series.seconds,
            "tasks": one.series.tasks,
            "begin": one.series.begin(one.not_before),
            "epsilon": show(epsilon),
            "epsilon_in_all": show(one.series.tasks * epsilon),
            "confidence": self._confidence,
            "members": [await self._member(place, entries[place]) for place in sorted(entries)],
        }

    async def _member(self, place: int, entry: RegisteredTask) -> dict[str, Any]:
        results, forgotten = await self._store.published(entry.number)
        return {
            "place": place,
            "task": entry.task.id.hex(),
            "name": entry.task.name,
            "not_before": entry.task.not_before,
            "expires": entry.task.expires,
            "state": entry.state,
            "results": results,
            "forgotten": forgotten,
        }
