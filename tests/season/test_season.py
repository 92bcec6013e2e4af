"""A whole season: three weekly tasks of a series, 300 devices, three replicas of the shuffler with
a bucket between them and the analyzer, kill −9 throughout, a restored backup, a shuffler that
forges, and a crowd that poisons. Each server is a separate program."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import httpx2
import numpy as np
import pytest
import season_checks as checks
import season_forger
from bucket_server import held
from raw_sockets import wait_for
from season_browser import BrowserPerson
from season_devices import Person
from season_play import (
    BATCH,
    DEVICES,
    FALSE,
    FRUGAL,
    GUESTS,
    KILLS_PER_WAVE,
    LABELS,
    SERIES,
    WEEKS,
    Season,
    Wave,
)
from season_stage import COMMAND, KILLED, PATIENCE_SECONDS, command
from service_issuer import code

from shuffledp.service.client.one_time import spent_name
from shuffledp.service.errors import PolicyRefused
from shuffledp.service.tokens import token_hash
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import TokenRequest, task_challenge

WEEK_DAYS = 7
FORGER = (str(Path(season_forger.__file__)),)
KNOWN = ((200, ""), (409, "token-used"), (409, "token-issued"))
GONE_FOR_CLOSING = ((410, "task-closed"), (410, "task-closed"), (410, "tokens-forgotten"))
GONE_BY_DATE = ((410, "task-expired"),) * 3
"""What somebody is told who answers again: in the same week, after the task was closed, and when
its week is over."""


@pytest.mark.attack("a season of kill −9, lost stores, forged and poisoned batches")
def test_a_whole_season(season: Season) -> None:
    first_week(season)
    second_week(season)
    third_week(season)
    assert all(season.stage.kills[name] >= 2 for name in KILLED), season.stage.kills
    published = read_results(season)
    every_report_was_counted_once(season)
    nothing_is_left_in_the_bucket(season)
    no_device_is_beyond_its_budget(season)
    results_are_as_forecast_or_marked(season, published)
    the_forger_saw_nothing_but_noise(season, published)
    nothing_secret_is_in_any_file(season)


def first_week(season: Season) -> None:
    """Calm, but for the kills. While the last batch comes in, the stores of shuffler and issuer are
    copied; after the batch was delivered, they are lost and the copies restored."""
    task, people = season.tasks[0], [*season.people[: DEVICES - GUESTS], *season.guests]
    kills, lost = KILLS_PER_WAVE + 1, ("issuer", "shuffler")
    for start in (0, BATCH):
        season.batch(season.wave(people[start : start + BATCH], task, kills))
    last = people[2 * BATCH :]
    with ThreadPoolExecutor(1) as thread:
        copying = thread.submit(season.backups.back_up, season.stage, "old", lost)
        half = season.wave(last[: BATCH // 2], task, kills)
        copying.result()
    season.batch(half, season.wave(last[BATCH // 2 :], task))
    season.shuffler_has_deleted(task)
    with season.stage.telling():
        season.backups.lose_and_restore(season.stage, "old", lost)
        # whether the copies know them or not
        asyncio.run(answers_again(season, people[0], task, (*GONE_FOR_CLOSING[:2], KNOWN[2])))
        asyncio.run(answers_again(season, last[-1], task, GONE_FOR_CLOSING))


def second_week(season: Season) -> None:
    """In the middle of a batch all stores are lost and restored; then the shuffler forges."""
    season.stage.pass_days(WEEK_DAYS)
    task, people = season.tasks[1], season.people
    season.batch(season.wave(people[:BATCH], task))
    half = season.wave(people[BATCH : BATCH + BATCH // 2], task)
    with season.stage.telling():
        season.backups.back_up(season.stage, "new")
        season.backups.lose_and_restore(season.stage, "new")
        asyncio.run(answers_again(season, half.people[0], task, KNOWN))
    season.batch(half, season.wave(people[BATCH + BATCH // 2 : 2 * BATCH], task))
    season.batch(season.wave([*people[2 * BATCH : DEVICES - GUESTS], *season.guests], task))
    season.batch(forged_wave(season, people[-1], task))


async def answers_again(
    season: Season, person: Person, task: Task, expected: Sequence[tuple[int, str]]
) -> None:
    """A person who has answered sends the same report again, and another one, and asks for a second
    token: what each of them is told."""
    stage, path = season.stage, f"/tasks/{task.id.hex()}"
    async with httpx2.AsyncClient(timeout=60) as http:

        async def post(role: str, end: str, token: str, content: bytes) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"}
            answer = await http.post(
                stage.urls[role] + path + end, content=content, headers=headers
            )
            return answer.status_code, "" if answer.is_success else code(answer)

        token, issuer = person.tokens[task.id], task.issuer
        assert issuer is not None
        request = TokenRequest.make(issuer.key, task_challenge(task)).to_bytes()
        told = [
            await post("shuffler", "/reports", token, person.outbox.bodies[task.id]),
            await post("shuffler", "/reports", token, encrypt_report(task, "bike")),
            await post("issuer", "/tokens", person.secret, request),
        ]
    assert told == list(expected)


def forged_wave(season: Season, victim: Person, task: Task) -> Wave:
    """A batch of which the shuffler's operator made up all reports but one."""
    stage = season.stage
    stage.replace_shuffler(*FORGER)
    wave = season.wave([victim], task, kills=0)
    with stage.telling(), httpx2.Client(base_url=stage.urls["shuffler"], timeout=60) as http:
        for number in range(BATCH - 1):
            said = LABELS[number % len(LABELS)]
            body = encrypt_report(task, said)
            headers = {"Authorization": f"Bearer {season_forger.FORGED_PREFIX}{number}"}
            answer = http.post(f"/tasks/{task.id.hex()}/reports", content=body, headers=headers)
            assert answer.status_code == 201, answer.text
            wave.forged[body] = said
    stage.results(task.id, 4)
    stage.replace_shuffler(*COMMAND)
    return wave


def third_week(season: Season) -> None:
    """Some devices refuse, because their budget is spent; the last batch is that of a crowd."""
    season.stage.pass_days(WEEK_DAYS)
    task = season.tasks[2]
    asyncio.run(answers_again(season, season.people[0], season.tasks[1], GONE_BY_DATE))
    frugal = [one for one in (*season.people, *season.guests) if one.number % FRUGAL == 0]
    for person in frugal:
        with pytest.raises(PolicyRefused, match=r"has spent 4 of (the )?4 "):
            asyncio.run(person.answer(season.stage, SERIES))
    others = [one for one in season.people if one.number % FRUGAL]
    guests = [one for one in season.guests if one.number % FRUGAL]
    assert len(frugal) > DEVICES // FRUGAL and guests  # in Python and in the browser
    honest = BATCH - FALSE - len(guests)
    for start in (0, BATCH):
        season.batch(season.wave(others[start : start + BATCH], task))
    last = others[2 * BATCH : 2 * BATCH + honest]
    season.batch(season.wave([*last, *guests, *season.crowd], task))


# what must hold at the end


def read_results(season: Season) -> list[dict[str, Any]]:
    """All results of the series, one for each wave, as the command line reads them."""
    words = ["--series", str(season.folder / "season"), "--analyzer", season.stage.urls["analyzer"]]
    found = json.loads(command("result", *words, "--json"))
    published = [one for task in found for one in task["results"]]
    assert [one["task"] for one in published] == [wave.task.id.hex() for wave in season.waves]
    return published


def every_report_was_counted_once(season: Season) -> None:
    for task in season.tasks:
        waves = [wave for wave in season.waves if wave.task == task]
        sent = checks.messages_of(body for wave in waves for body in wave.bodies)
        counted = checks.counted_messages(season.stage.folder / "analyzer", task)
        assert not checks.miscounted(sent, counted)
        assert all(len(wave.bodies) == BATCH for wave in waves)
    url, token = f"{season.stage.urls['shuffler']}/status", season.stage.tokens["operator"]
    status = season.stage.http.get(url, headers={"Authorization": f"Bearer {token}"}).json()
    assert [task["have"] for task in status["tasks"]] == [0] * WEEKS


def nothing_is_left_in_the_bucket(season: Season) -> None:
    """Batches went from one organisation to the other through it: the analyzer got no part by
    HTTP, and has deleted what it counted."""
    assert wait_for(lambda: held(season.stage.bucket) == [], PATIENCE_SECONDS)
    assert not list((season.stage.folder / "shuffler").glob("**/*"))


def no_device_is_beyond_its_budget(season: Season) -> None:
    answers = Counter(person.number for wave in season.waves for person in wave.people)
    everybody = (*season.people, *season.guests)
    for person in everybody:
        charges = person.charges()
        assert not checks.overspent(charges, person.policy.most_epsilon_per_period)
        assert len(charges) == answers[person.number]
    assert {answers[one.number] for one in everybody if one.number % FRUGAL == 0} == {2}


def results_are_as_forecast_or_marked(season: Season, published: list[dict[str, Any]]) -> None:
    poisoned = {one.number for one in season.crowd}
    missed: list[bool] = []
    for wave, result in zip(season.waves, published, strict=True):
        crowd = any(person.number in poisoned for person in wave.people)
        assert result["implausible"] is crowd
        assert result["reports"] == BATCH and not any(result["dropped"].values())
        if not crowd:
            assert not checks.outside_forecast(wave.task, result, wave.truth)
            missed += checks.misses(result, wave.truth)
    assert not checks.too_often(sum(missed), len(missed), 0.05)


def the_forger_saw_nothing_but_noise(season: Season, published: list[dict[str, Any]]) -> None:
    """The forger knows all reports but one. From the batch it would read that one off; what is
    published is the batch with noise of its own."""
    tallies = stored_tallies(season.stage.folder / "analyzer.db")
    noise = [
        checks.added_noise(wave.task, result, tallies[result["batch"]])
        for wave, result in zip(season.waves, published, strict=True)
    ]
    assert not checks.too_often_nothing(season.tasks[0], np.concatenate(noise))
    (wave,) = [wave for wave in season.waves if wave.forged]
    result = published[season.waves.index(wave)]
    assert result["publish_noise"] == "full" and "invented all other reports" in result["guarantee"]
    key = KeyFolder(season.stage.folder / "keys").holds(wave.task.key)
    assert key is not None and len(wave.forged) == BATCH - 1
    tally = tallies[result["batch"]]
    forged = checks.opened_sum(wave.task, key, wave.forged)
    victim = checks.opened_sum(wave.task, key, wave.bodies[:1])
    assert (tally.plus - tally.minus - forged == victim).all()  # what the noise has to hide


def stored_tallies(store: Path) -> dict[str, Tally]:
    """What the analyzer has counted, by batch, before any noise was added."""
    with apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY) as database:
        rows = database.execute("SELECT hex(id), tally FROM tallies").fetchall()
    return {str(name).lower(): Tally.from_json(str(text)) for name, text in rows}


def nothing_secret_is_in_any_file(season: Season) -> None:
    """Also not in the databases' logs, in the copies, or on the devices."""
    everybody = (*season.people, *season.guests, *season.crowd)
    names: dict[bytes, str] = {}
    for person in everybody:
        names |= checks.token_forms("an enrolment token", person.secret)
        if not isinstance(person, BrowserPerson):  # a browser comes from 127.0.0.1, as servers do
            names[person.address.encode()] = "an address"
        if person.value not in LABELS:
            names[person.value.encode()] = "a value"
        for token in person.tokens.values():
            names |= checks.token_forms("a one-time token", token)
    for who, token in season.stage.tokens.items():
        names |= checks.token_forms(f"the token of the {who}", token)
    secret, postgres = checks.Needles(names), Path(season.backups.socket)
    spent = {spent_name(token): "spent" for one in everybody for token in one.tokens.values()}
    assert secret.search(season.folder, season.stage.temporary, postgres) == {}
    assert checks.Needles(spent).search(postgres / "data" / "pg_wal")
    season.backups.write_all(season.stage)
    assert secret.search(postgres) == {}
    # the search reads what is stored: hashes of the same tokens are found where they must be
    enrolled = {token_hash(person.secret): "enrolled" for person in everybody}
    assert "servers/issuer.db" in checks.Needles(enrolled).search(season.folder)
    assert checks.Needles(spent).search(postgres / "data" / "base")
