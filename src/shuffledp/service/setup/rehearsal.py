"""A rehearsal: simulated devices answer a made-up question through the real servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from shuffledp.documents.files import write_whole
from shuffledp.errors import ParameterError
from shuffledp.queries.count.planner import plan_count
from shuffledp.service.client.collector import ask, first_result, register_everywhere, results
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
from shuffledp.service.demo import wait_ready
from shuffledp.service.errors import AlreadyAnswered, Refused
from shuffledp.service.setup.folder import REHEARSAL_REPORTS, Folder
from shuffledp.tasks.clock import DAY_SECONDS, system_clock
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Operators, Task, task_from_json

Say = Callable[[str], None]
USERS, EPSILON = 100, "1"
READY_SECONDS, RESULT_SECONDS = 600.0, 300.0
ENROLMENT_SECONDS, PAUSE_SECONDS = 60.0, 0.25
NOT_ENROLLED = 403
QUESTION = "Rehearsal with simulated devices: heads or tails?"


def rehearse(folder: Folder, say: Say) -> dict[str, Any]:
    """Registers a task, sends the reports of simulated devices, and waits for the result; returns
    it with the truth. An interrupted rehearsal continues where it stopped, until its task expires.
    Afterwards it returns the result again; raises `ParameterError` if there was none."""
    missing = folder.missing()
    if "collector" not in folder.own.roles or missing:
        raise ParameterError(
            "A rehearsal needs the collector's folder and the introductions of "
            "shuffler and analyzer; import them with `shuffledp start FOLDER --with FILE`."
        )
    shuffler, analyzer = folder.known("shuffler"), folder.known("analyzer")
    assert shuffler is not None and analyzer is not None
    servers = {"shuffler": shuffler["url"], "analyzer": analyzer["url"]}
    for role, url in servers.items():
        say(f"Waiting for the {role} at {url}")
        wait_ready(url, READY_SECONDS, PAUSE_SECONDS)
    task = _task(folder, shuffler, analyzer)
    if system_clock() >= task.expires:
        return {"truth": REHEARSAL_REPORTS // 2, **_earlier(folder, servers["analyzer"], task)}
    secrets = folder.secrets("collector.env")
    tokens = {
        role: secrets.get(f"SHUFFLEDP_COLLECTOR_TOKEN_{role.upper()}", "") for role in servers
    }
    if not all(tokens.values()):
        raise ParameterError(
            f"{folder.path}/collector.env lacks a token of the collector; restore the file from a "
            "backup."
        )
    key = SigningKey.load(folder.path / "collector-signing.json")
    register_everywhere(task, servers, tokens, key)
    say("Both servers have registered the rehearsal's task")
    truth = _send(folder, task)
    say(f"{REHEARSAL_REPORTS} simulated devices have sent their reports")
    trouble = (
        f"The analyzer at {servers['analyzer']} has published nothing after {RESULT_SECONDS:.0f} "
        "s; look at the status of both servers."
    )
    found = first_result(servers["analyzer"], task, RESULT_SECONDS, PAUSE_SECONDS, trouble)
    return {"truth": truth, **found}


def _task(folder: Folder, shuffler: dict[str, Any], analyzer: dict[str, Any]) -> Task:
    """The rehearsal's task; the same one if it was interrupted."""
    file = folder.path / "rehearsal-task.json"
    if file.exists():
        return task_from_json(file.read_bytes())
    task = Task.create(
        plan_count(USERS, EPSILON, padded=True).to_dict(),
        PublicKey.from_dict(analyzer["key"]),
        "rehearsal",
        BatchRule(REHEARSAL_REPORTS),
        question=QUESTION,
        operators=Operators(
            folder.own.organisation, shuffler["organisation"], analyzer["organisation"]
        ),
        shuffler=shuffler["url"],
        expires=int(system_clock()) + DAY_SECONDS,
    )
    write_whole(file, task.canonical(), durable=True)
    return task


def _earlier(folder: Folder, analyzer: str, task: Task) -> dict[str, Any]:
    """The result of a rehearsal whose task has expired."""
    with suppress(Refused):  # the analyzer does not know the task
        for found in results(analyzer, task.id.hex()):
            return found
    raise ParameterError(
        f"The rehearsal that began in {folder.path} expired after a day without a result. To start "
        "a new one, delete rehearsal-task.json and the folder rehearsal there, and run `shuffledp "
        f"rehearse {folder.path}`. If the servers then refuse a token as used, ask the shuffler's "
        f"operator for new ones (`shuffledp shuffler enrol --shuffler {task.shuffler} --once "
        f"--count {REHEARSAL_REPORTS} --output rehearsal-tokens.txt`) and put that file there."
    )


def _send(folder: Folder, task: Task) -> int:
    """Sends the reports of all simulated devices; returns how many of them say yes."""
    policy = ClientPolicy.load(folder.path / "policy.json")
    file = folder.path / "rehearsal-tokens.txt"
    tokens = file.read_text("utf-8").split() if file.exists() else []
    if len(tokens) < REHEARSAL_REPORTS:
        raise ParameterError(
            f"{file} holds {len(tokens)} tokens, and a rehearsal needs {REHEARSAL_REPORTS}; ask "
            f"the shuffler's operator for them (`shuffledp shuffler enrol --shuffler "
            f"{task.shuffler} --once --count {REHEARSAL_REPORTS} --output {file.name}`)."
        )

    def send(number: int, end: float = 0.0) -> None:
        outbox = folder.path / "rehearsal" / str(number)
        with Client(task, task.shuffler, tokens[number], outbox, policy=policy) as client:
            try:
                client.send(number % 2)
            except AlreadyAnswered:
                client.resume()
            except Refused as error:
                if error.status != NOT_ENROLLED or time.monotonic() > end:
                    raise
                time.sleep(PAUSE_SECONDS)
                send(number, end)

    send(0, time.monotonic() + ENROLMENT_SECONDS)  # the shuffler may still be enrolling the tokens
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send, range(1, REHEARSAL_REPORTS)))
    return REHEARSAL_REPORTS // 2


def enrol_for_rehearsal(folder: Folder, url: str, say: Say) -> None:
    """Enrols the collector's tokens for a rehearsal at this folder's shuffler, once. Each is for
    one report in total."""
    if not folder.to_enrol.exists():
        return
    wait_ready(url, READY_SECONDS, PAUSE_SECONDS)
    hashes = folder.to_enrol.read_text("utf-8").split()
    token = (folder.path / "operator-token.txt").read_text("utf-8").strip()
    folder.to_enrol.rename(folder.enrolled)  # first: a token is never enrolled twice
    ask(url, "/tokens", token, fields=["new"], method="POST", json={"sha256": hashes})
    say(f"Enrolled {len(hashes)} tokens for the collector's rehearsal")
