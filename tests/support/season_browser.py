"""Devices of a season in a real browser: the JavaScript client on a page of its own origin."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from browsers import Browser
from season_devices import Person, insist
from season_stage import Stage

from shuffledp.service.errors import PolicyRefused, Unreachable

OPEN = """
    const [server, name, token, value, database, relay, policy, ahead] = args;
    const { loadCurrentTask, createClient, BrowserStorage } = await import("/client.js");
    const kept = ((window.kept ??= {})[database] ??= {});
    class KeptStorage extends BrowserStorage {  // the test keeps what must be counted
        update(change) {
            return super.update((record) => {
                const result = change(record);
                for (const [id, body] of Object.entries(record.reports))
                    if (body) (kept[id] ??= {}).body = [...body];
                for (const [id, one] of Object.entries(record.tokens ?? {}))
                    if (one.token) (kept[id] ??= {}).token = one.token;
                return result;
            });
        }
    }
    const clock = () => Date.now() + ahead;
    // the server is the analyzer: the shuffler sees no address, and needs no relay for the list
    const task = await loadCurrentTask(server, name, { policy, relay, clock, direct: true });
    const storage = new KeptStorage(database);
    const client = createClient(task, { token, storage, attempts: 3 });
    if ((await client.state()) === "none") await client.send(value);
    else await client.resume();
    return { id: task.id, state: await client.state(), ...kept[task.id] };
"""
CHARGES = """
    const { BrowserStorage } = await import("/client.js");
    return new BrowserStorage(args[0]).update((record) => record.charges.map((one) => one.epsilon));
"""
AWAY = ("network", "script timeout")
ONE_WINDOW = threading.Lock()


@dataclass(kw_only=True)
class BrowserPerson(Person):
    """Somebody who answers on a page; all of them share one window, one after the other."""

    browser: Browser

    @property
    def _database(self) -> str:
        return f"person {self.number}"

    async def answer(self, stage: Stage, name: str) -> bytes:
        found = await insist(lambda: asyncio.to_thread(self._work, stage, name))
        assert found["state"] == "sent"
        task_id = bytes.fromhex(found["id"])
        self.tokens[task_id] = found["token"]
        self.outbox.bodies[task_id] = bytes(found["body"])
        return task_id

    def _work(self, stage: Stage, name: str) -> dict[str, Any]:
        urls, ahead = stage.urls, stage.milliseconds_ahead
        args = [urls["analyzer"], name, self.secret, self.value, self._database, urls["relay"]]
        with ONE_WINDOW:
            found = self.browser.work(OPEN, *args, _camel_case(self.policy.to_dict()), ahead)
        if found.get("error") in AWAY:
            raise Unreachable("A server is away.")
        if found.get("error") == "policy":
            raise PolicyRefused(found["message"])
        assert "error" not in found, found
        return dict(found)

    def charges(self) -> list[Fraction]:
        return [Fraction(one) for one in self.browser.work(CHARGES, self._database)]


def _camel_case(settings: dict[str, Any]) -> dict[str, Any]:
    """A policy's settings as JavaScript names them."""
    return {
        re.sub("_(.)", lambda found: found[1].upper(), name): value
        for name, value in settings.items()
    }
