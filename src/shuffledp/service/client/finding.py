"""Finding the tasks that a shuffler takes reports for: directly, or through a relay, so that the
shuffler does not learn the address of the device that looks.

    TaskFinder(shuffler, relay=relay, gateway=earlier.gateway).now(series=earlier.series_id)

The list is not trusted: a task is identified by its hash and contains its own name, dates and
series.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import httpx2

from shuffledp.documents.schema import HASH_TEXT, Either, Listing, Nothing, Record, Whole
from shuffledp.errors import ParameterError
from shuffledp.service.answers import answer_json
from shuffledp.service.client.collector import CALL_SECONDS, call
from shuffledp.service.client.connection import BlockingConnection, Connection
from shuffledp.service.client.relaying import RelayedConnection, check_url
from shuffledp.service.errors import Refused, Unreachable, UntrustedServer
from shuffledp.tasks.clock import system_clock
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.oblivious import GatewayKey
from shuffledp.tasks.series import MOST_TASKS, TASK_NAME
from shuffledp.tasks.task import LATEST_SECOND, Task, task_from_json

MOST_LISTED = 100_000
_PLACE = Whole(1, MOST_TASKS)
_SERIES = Record({"series": HASH_TEXT, "name": TASK_NAME, "place": _PLACE, "tasks": _PLACE})
_LISTED = Record(
    {
        "task": HASH_TEXT,
        "name": TASK_NAME,
        "not_before": Whole(0, LATEST_SECOND),
        "expires": Whole(1, LATEST_SECOND),
        "series": Either((_SERIES, Nothing())),
    }
)
_LIST = Record({"tasks": Listing(_LISTED, 0, MOST_LISTED)})
Listed = dict[str, Any]
"""A task as the list names it: task, name, not_before, expires, and series or None."""


@dataclass(frozen=True)
class TaskFinder:
    """Asks a server for its open tasks; a shuffler through a relay, if one is named."""

    server: str
    _: KW_ONLY
    relay: str = ""
    gateway: GatewayKey | None = None
    """The key of the shuffler's gateway, from an earlier task or from the collector; never from the
    relay, which could read everything if it supplied the key."""
    transport: httpx2.BaseTransport | None = None
    """Replaces the network in tests."""

    def __post_init__(self) -> None:
        if self.relay and self.gateway is None:
            raise ParameterError(
                "With a relay, the gateway's key must come from another source, or the relay could "
                "replace it; pass the key that the collector has published (--gateway-key) or a "
                "task of this shuffler that you have (--task)."
            )
        if self.gateway is not None and not self.relay:
            raise ParameterError(
                "A gateway's key is for requests through a relay; name the relay (--relay), or "
                "leave the key out to ask the server directly, which then sees your address."
            )
        check_url(self.server)
        if self.relay:
            check_url(self.relay, "relay")

    def open(self, name: str = "", series: str | None = None) -> list[Listed]:
        """The tasks that are or will be open, by date; only those whose names begin with a text, or
        those of one series, by its id or full name."""
        try:
            data = answer_json(self._ask("/current"))
            _LIST.check(data, "list")
        except ParameterError:
            raise ParameterError(
                f"{self.server} returned no list of open tasks; is this a shuffler's URL?"
            ) from None
        found: list[Listed] = [one for one in data["tasks"] if one["name"].startswith(name)]
        return [one for one in found if series is None or _belongs(one, series)]

    def now(self, name: str = "", series: str | None = None) -> Task:
        """The one task of such a name or series that can be answered now, not yet verified."""
        moment = system_clock()
        found = [
            one for one in self.open(name, series) if one["not_before"] <= moment < one["expires"]
        ]
        if len(found) != 1:
            raise ParameterError(
                f"{len(found)} such tasks can be answered now; name one series or the beginning of "
                "one name, or come back later."
            )
        task = self.task(found[0]["task"])
        own = () if task.series is None else (task.series_id, task.series.name)
        if not task.name.startswith(name) or (series is not None and series not in own):
            raise TaskError(
                "The server listed one task and returned another; do not answer it, and tell the "
                "collector."
            )
        task.check_time(moment)
        return task

    def task(self, task_id: str) -> Task:
        """The task with this id, in hexadecimal digits; the hash of its text is checked."""
        return task_from_json(self._ask(f"/tasks/{task_id}").content, bytes.fromhex(task_id))

    def _ask(self, path: str) -> httpx2.Response:
        server = self.server.rstrip("/")
        with BlockingConnection(
            self.transport, seconds=CALL_SECONDS, bare=self.gateway is not None
        ) as direct:
            if self.gateway is None:
                return call("GET", server + path, connection=direct)
            relayed = RelayedConnection(self.gateway, server, self.relay, direct)
            return self._ask_through(relayed, server, path)

    def _ask_through(self, relayed: Connection, server: str, path: str) -> httpx2.Response:
        """The shuffler's answer through the relay; errors name the relay."""
        try:
            return call("GET", server + path, connection=relayed)
        except UntrustedServer:
            raise
        except Unreachable:
            raise Unreachable(
                f"{self.relay} gave no answer from the gateway of {server}; try again later, or "
                "through another relay."
            ) from None
        except Refused as refused:
            raise Refused(f"Through {self.relay}: {refused}", refused.status) from None


def _belongs(one: Listed, series: str) -> bool:
    return bool(one["series"]) and series in (one["series"]["series"], one["series"]["name"])
