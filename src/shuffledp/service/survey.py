"""The example survey of `shuffledp demo --browser`: the collector's web site on this machine.

People answer in their browsers, with the client of clients/js, whose bundle is in `pages/client`;
simulated users send the other answers. The page asks this site for a token, as a real site would
once it knows that a person is there. Reports go from the browser straight to the shuffler, or
through a relay.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from shuffledp.queries.count.planner import plan_count
from shuffledp.service.client.collector import ask, results
from shuffledp.service.demo import (
    Say,
    Servers,
    free_port,
    local_servers,
    scratch_folder,
    send_all,
    simulated,
)
from shuffledp.service.http.origins import Origins
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Operators, Task

PAGES = files("shuffledp.service") / "pages"
QUESTION = "Do you cycle to work at least once a week?"
OPERATORS = Operators("the demo", "the demo's shuffler", "the demo's analyzer")
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
STOP_SECONDS = 2
ARRIVAL_SECONDS = 8.0
"""The seconds over which the simulated users' answers are spread."""
MOST_BROWSERS = 1000


@dataclass(frozen=True, kw_only=True)
class Survey:
    """One question, asked on a page; `users` answers make its batch."""

    servers: Servers
    task: Task
    origins: Sequence[str] = ()
    """Other sites whose pages may ask this one for the task and for tokens."""

    def app(self) -> ASGIApp:
        """The collector's site."""
        app = Starlette(
            routes=[
                Route("/", lambda _: self._page("survey.html")),
                Route("/survey.{kind}", self.answer_part),
                Route("/client/{name}.js", self.answer_client),
                Route("/task.json", lambda _: JSONResponse(self._where())),
                Route("/task-text.json", lambda _: Response(self.task.canonical())),
                Route("/live.json", self.answer_live),
                Route("/token", self.answer_token, methods=["POST"]),
            ]
        )
        return Origins(tuple(self.origins)).around(app)

    def _where(self) -> dict[str, str]:
        """The URL from which the page loads the task: this site if a relay hides visitors from the
        shuffler."""
        name, relay = self.task.id.hex(), self.servers.relay
        place = "/task-text.json" if relay else f"{self.servers.shuffler}/tasks/{name}"
        return {"task": place, "id": name, "relay": relay, "analyzer": self.servers.analyzer}

    def _page(self, *path: str) -> Response:
        file = PAGES.joinpath(*path)
        if not file.is_file():
            return Response("There is no such page.\n", 404, media_type="text/plain")
        servers = self.servers
        asked = " ".join(filter(None, (servers.relay or servers.shuffler, servers.issuer)))
        policy = (
            f"default-src 'self'; connect-src 'self' {asked}; img-src data:; frame-ancestors 'none'"
        )
        headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
        kind = KINDS[path[-1].rpartition(".")[2]]
        return Response(file.read_bytes(), headers=headers, media_type=kind)

    async def answer_part(self, request: Request) -> Response:
        """The page's style and program."""
        kind = request.path_params["kind"]
        return self._page(f"survey.{kind}" if kind in KINDS else "none.html")

    async def answer_client(self, request: Request) -> Response:
        """The client's bundle."""
        name = request.path_params["name"]
        return self._page("client", f"{name}.js" if name.isalpha() else "none.js")

    async def answer_token(self, _: Request) -> Response:
        """A token for one more browser. (A real site would first check who it is.)"""
        (token,) = await asyncio.to_thread(self.servers.enrol, 1)
        return JSONResponse({"token": token}, headers={"Cache-Control": "no-store"})

    async def answer_live(self, _: Request) -> Response:
        """How many answers are in, and the result once it is published."""
        return JSONResponse(await asyncio.to_thread(self.live))

    def live(self) -> dict[str, Any]:
        """How many answers are in, and the result once it is published."""
        status = ask(
            self.servers.shuffler, "/status", self.servers.operator_token, fields=["tasks"]
        )["tasks"]
        mine = next(one for one in status if one["task"] == self.task.id.hex())
        published = results(self.servers.analyzer, self.task.id.hex())
        return {
            "answers": min(mine["have"] if not mine["batches"] else mine["need"], mine["need"]),
            "users": self.task.batch.reports,
            "result": published[0]["result"] if published else None,
        }


def make_survey(
    servers: Servers, users: int, epsilon: str, question: str, origins: Sequence[str] = ()
) -> Survey:
    """A survey of `users` people, registered at all servers."""
    plan = plan_count(users, epsilon, padded=True)
    task = Task.create(
        plan.to_dict(),
        KeyFolder(servers.folder / "keys").all()[-1].public,
        "demo survey",
        BatchRule(users),
        question=question,
        operators=OPERATORS,
        shuffler=servers.shuffler,
        **servers.new_parties(),
    )
    servers.register(task)
    return Survey(servers=servers, task=task, origins=origins)


def run_survey(
    users: int,
    epsilon: str,
    say: Say,
    *,
    browsers: int = 1,
    port: int = 0,
    question: str = QUESTION,
    keep: bool = False,
    more: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> None:
    """Serves the survey until it is interrupted, and cleans up; `more` names further servers to
    run, and `origins` other sites whose pages may use the survey.

    Of the users, `browsers` are people who answer on the page; the others are simulated.
    """
    port = port or free_port()
    site = f"http://127.0.0.1:{port}"
    with (
        contextlib.suppress(KeyboardInterrupt),  # the way to end it
        scratch_folder("shuffledp-survey-", say, keep) as folder,
        local_servers(folder, origins=(site, *origins), more=more) as servers,
    ):
        servers.introduce(say)
        survey = make_survey(servers, users, epsilon, question, origins)
        values = simulated(users - browsers)
        ended = threading.Event()
        simulation = threading.Thread(
            target=_send_simulated, args=(survey, values, say, ended), daemon=True
        )
        simulation.start()
        say(f"{sum(values):,} of the {len(values):,} simulated users say yes")
        if origins:
            say(f"Pages of {', '.join(origins)} find the task at {site}/task.json")
        where = "your browser" if browsers == 1 else f"{browsers:,} browsers"
        say(f"Open {site} in {where}; stop with Ctrl-C")
        config = uvicorn.Config(
            survey.app(),
            "127.0.0.1",
            port,
            log_level="warning",
            timeout_graceful_shutdown=STOP_SECONDS,  # an open page must not delay the end
        )
        try:
            uvicorn.Server(config).run()
        finally:  # devices would keep trying to reach servers that are gone
            ended.set()
            simulation.join()


class Ended(Exception):
    """The survey was stopped."""


def _send_simulated(survey: Survey, values: list[int], say: Say, ended: threading.Event) -> None:
    """Sends the simulated users' answers, spread over some seconds, until the survey has ended."""
    pause = ARRIVAL_SECONDS / len(values)

    def before() -> None:
        if ended.wait(pause):
            raise Ended

    with contextlib.suppress(Ended):
        tokens = survey.servers.enrol(len(values))
        send_all(survey.servers, survey.task, values, tokens, say, before)
