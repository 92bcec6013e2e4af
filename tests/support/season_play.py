"""The play of a season: a series from the command line, people who answer it in waves of one batch
each, and kill −9 meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx2
from browsers import Browser
from raw_sockets import wait_for
from season_backup import Backups
from season_browser import BrowserPerson
from season_devices import FalseClient, Person
from season_stage import KILLED, PATIENCE_SECONDS, Stage, command

from shuffledp.service.client.policy import ClientPolicy
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Task, task_from_json

DEVICES, GUESTS, FALSE = 300, 4, 60
"""Devices of this program, devices in a browser, and clients of the false crowd."""
BATCH, WEEKS = 100, 3
FRUGAL = 5
"""Every fifth device has the default policy, whose budget lasts for two of the three weeks."""
SERIES, OTHER = "way to work", "something else"
LABELS = ("bike", "walk", OTHER)
AT_ONCE = 24
KILLS_PER_WAVE = 2


@dataclass
class Wave:
    """The reports of one batch: what must be counted, and what the people in it said."""

    task: Task
    people: list[Person] = field(default_factory=list)
    forged: dict[bytes, str] = field(default_factory=dict)
    """Reports that the forger made up, and what each says."""

    @property
    def truth(self) -> Counter[str]:
        said = [person.value for person in self.people] + list(self.forged.values())
        return Counter(value if value in LABELS else OTHER for value in said)

    @property
    def bodies(self) -> list[bytes]:
        return [*(one.outbox.bodies[self.task.id] for one in self.people), *self.forged]


class Season:
    """The stage, the people and what has happened so far."""

    def __init__(self, folder: Path, stage: Stage, backups: Backups, browser: Browser) -> None:
        self.folder, self.stage, self.backups = folder, stage, backups
        self._browser = browser
        self.waves: list[Wave] = []
        self._kills = itertools.cycle(random.sample(KILLED, len(KILLED)))
        self.tasks: list[Task] = []
        self.people: list[Person] = []
        self.guests: list[Person] = []
        self.crowd: list[Person] = []

    # before the season

    def prepare(self) -> None:
        """The collector's, the operators' and the people's part, on the command line."""
        self.tasks = make_series(self.stage, self.folder)
        files = {
            "collector": self.folder / "collector.json",
            "shuffler": self.stage.folder / "shuffler-signing.json",
            "analyzer": self.stage.folder / "analyzer-signing.json",
        }
        self._signers = {
            role: (SigningKey.load(file).public.hex(),) for role, file in files.items()
        }
        secret_file = str(self.folder / "tokens.txt")
        count = DEVICES + GUESTS + FALSE
        words = ["--issuer", self.stage.urls["issuer"], "--count", str(count)]
        command("issuer", "enrol", *words, "--output", secret_file)
        tokens = Path(secret_file).read_text().split()
        Path(secret_file).unlink()
        people = [self._person(number, token) for number, token in enumerate(tokens)]
        self.people, self.guests = people[:DEVICES], people[DEVICES : DEVICES + GUESTS]
        self.crowd = people[DEVICES + GUESTS :]
        for person in self.crowd:
            person.client = FalseClient

    def _person(self, number: int, token: str) -> Person:
        value = ("bike", "walk", f"way-of-my-own-{secrets.token_hex(12)}")[random.randrange(3)]
        keys = tuple(task.key.raw.hex() for task in self.tasks)
        more: dict[str, Any] = (
            {} if number % FRUGAL == 0 else {"most_epsilon_per_period": Fraction(6)}
        )
        policy = ClientPolicy(analyzer_keys=keys, signing_keys=self._signers, **more)
        folder = self.folder / "devices" / str(number)
        facts: dict[str, Any] = {"number": number, "secret": token, "value": value}
        facts |= {"policy": policy, "folder": folder}
        if number in range(DEVICES, DEVICES + GUESTS):
            return BrowserPerson(**facts, browser=self._browser)
        return Person(**facts)

    # during the season

    def wave(self, people: Sequence[Person], task: Task, kills: int = KILLS_PER_WAVE) -> Wave:
        """Lets people answer this week's task, while servers are killed."""
        wave = Wave(task, list(people))
        with self.stage.telling():
            asyncio.run(self._answer(wave, kills))
        return wave

    async def _answer(self, wave: Wave, kills: int) -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def answer(person: Person) -> None:
            async with places:
                assert await person.answer(self.stage, SERIES) == wave.task.id

        async def kill() -> None:
            for name in itertools.islice(self._kills, kills):
                await asyncio.sleep(random.uniform(0.1, 1.0))
                await asyncio.to_thread(self.stage.kill, name)

        await asyncio.gather(kill(), *map(answer, wave.people))

    def batch(self, *waves: Wave) -> None:
        """Notes what a batch consists of, and waits for its result."""
        task = waves[0].task
        whole = Wave(task)
        for wave in waves:
            whole.people += wave.people
            whole.forged |= wave.forged
        self.waves.append(whole)
        self.stage.results(task.id, sum(wave.task == task for wave in self.waves))

    def shuffler_has_deleted(self, task: Task) -> None:
        """Waits until the shuffler has deleted all delivered reports of a task."""
        url = f"{self.stage.urls['shuffler']}/status"
        said = {"Authorization": f"Bearer {self.stage.tokens['operator']}"}

        def deleted() -> bool:
            with contextlib.suppress(httpx2.TransportError):
                tasks = self.stage.http.get(url, headers=said).json()["tasks"]
                found = next(one for one in tasks if one["task"] == task.id.hex())
                return {batch["state"] for batch in found["batches"]} == {"deleted"}
            return False

        with self.stage.telling():
            assert wait_for(deleted, PATIENCE_SECONDS), "a delivered batch is not deleted"


def make_series(stage: Stage, folder: Path) -> list[Task]:
    """Three weekly tasks from the command line, registered at all servers ahead of time."""

    def keep(name: str, text: str) -> str:
        (folder / name).write_text(text)
        return str(folder / name)

    command(
        "plan", "histogram", "--users", str(BATCH), "--epsilon", "2", "--mse-overhead", "4",
        "--padded", "--labels", ",".join(LABELS), "--other", OTHER,
        "--output", str(folder / "plan.json"),
    )  # fmt: skip
    keys, issuer_keys = [], []
    for week in range(WEEKS):
        keys.append(keep(f"key-{week}.json", command("keys", "new", f"{stage.folder}/keys")))
        made = command("issuer", "new-key", f"{stage.folder}/issuer-keys")
        issuer_keys.append(keep(f"issuer-key-{week}.json", made))
    gateway = keep("gateway.json", command("relay", "key", "--shuffler", stage.urls["shuffler"]))
    command(
        "task", "create", "--plan", str(folder / "plan.json"), "--key", keys[0],
        "--name", SERIES, "--question", "How do you get to work?",
        "--shuffler", stage.urls["shuffler"], "--gateway-key", gateway,
        "--issuer", stage.urls["issuer"], "--issuer-key", issuer_keys[0],
        "--reports", str(BATCH), "--output", str(folder / "pattern.json"),
    )  # fmt: skip
    begin = datetime.now(UTC) - timedelta(hours=1)
    words = ["--begin", begin.isoformat(), "--until", (begin + timedelta(days=20)).isoformat()]
    for key, issuer_key in zip(keys, issuer_keys, strict=True):
        words += ["--key", key, "--issuer-key", issuer_key]
    command(
        "task", "series", str(folder / "pattern.json"), "--every", "week", *words,
        "--device-budget", "6", "--folder", str(folder / "season"),
    )  # fmt: skip
    command("keys", "signing", str(folder / "collector.json"))
    files = sorted((folder / "season").iterdir())
    for file in files:
        command(
            "task", "register", str(file), "--analyzer", stage.urls["analyzer"],
            "--signing-key", str(folder / "collector.json"),
        )  # fmt: skip
    return [task_from_json(file.read_bytes()) for file in files]
