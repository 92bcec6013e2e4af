"""A task at a shuffler and an analyzer: what it is for, creating it, and its progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import show
from shuffledp.service.client.collector import ask, call, register_everywhere
from shuffledp.studio.examples import answer_lines, answer_range
from shuffledp.studio.fields import Form, whole_number
from shuffledp.studio.kept import data_folder
from shuffledp.tasks.clock import system_clock
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.series import EVERY_DAYS, Series
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import NOT_NAMED, Operators, Task

UNNAMED = "Collection without a name"
MOST_TIMES = 400
DATED = ("place", "task", "not_before", "expires")
"""What a result of a series has from its task."""


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """The texts of the first step; each may be empty."""

    name: str = ""
    question: str = ""
    """What people are asked."""
    collector: str = ""
    """Who asks; then who runs the two servers."""
    shuffler: str = ""
    analyzer: str = ""
    decided: str = ""
    """Who decided ε, and why."""
    afterwards: str = ""
    """What becomes of the data."""

    @classmethod
    def of(cls, given: object) -> Purpose:
        """The texts in a request; missing ones are empty."""
        words: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        return cls(**{one.name: str(words.get(one.name) or "").strip() for one in fields(cls)})

    @property
    def title(self) -> str:
        """The name, for a heading."""
        return self.name or self.question or UNNAMED

    @property
    def operators(self) -> Operators:
        """Who runs what, for the task."""
        return Operators(
            self.collector or NOT_NAMED, self.shuffler or NOT_NAMED, self.analyzer or NOT_NAMED
        )


Facts = dict[str, Any]


@dataclass(frozen=True)
class ServerUrls:
    """The addresses of a shuffler and an analyzer."""

    shuffler: str
    analyzer: str
    operator_token: str = ""
    """The shuffler's operator token, of the servers of a trial."""


def make_task(
    plan: str,
    key: PublicKey,
    purpose: Purpose,
    *,
    publish_noise: bool,
    shuffler: str,
    batch: BatchRule | None = None,
) -> Task:
    """The task of a plan, with the texts that people see."""
    data = json.loads(plan)
    return Task.create(
        data,
        key,
        purpose.title,
        batch,
        question=purpose.question or purpose.title,
        operators=purpose.operators,
        shuffler=shuffler,
        publish_noise="full" if publish_noise else "none",
    )


def newest_key(analyzer: str) -> PublicKey:
    """The analyzer's newest active key."""
    found = ask(analyzer, "/keys", fields=["keys"])["keys"]
    active = [key for key in found if key.get("state") == "active"]
    if not active:
        raise ParameterError(
            "The analyzer has no active key; ask its operator to run `shuffledp keys new`."
        )
    return PublicKey.from_dict(active[-1])


def connect(asked: Mapping[str, Any], plan: str, publish_noise: bool) -> tuple[ServerUrls, Task]:
    """Creates the task, or all tasks of a series, with the analyzer's key and registers them at
    both servers; returns the first one. The tokens are not kept."""
    servers = server_urls(asked)
    tokens = {role: str(asked.get(f"{role}_token") or "") for role in ("analyzer", "shuffler")}
    if not all(tokens.values()):
        raise ParameterError(
            "A token is missing; give the collector's token at each of the two servers."
        )
    if tokens["analyzer"] == tokens["shuffler"]:
        raise ParameterError(
            "The two tokens are the same, so each server could act as the collector at the other; "
            "create one for each with `shuffledp keys token`."
        )
    key, purpose = newest_key(servers.analyzer), Purpose.of(asked.get("purpose"))
    task = make_task(plan, key, purpose, publish_noise=publish_noise, shuffler=servers.shuffler)
    urls = {"analyzer": servers.analyzer, "shuffler": servers.shuffler}
    tasks = series_of(task, asked)
    for one in tasks:
        register_everywhere(one, urls, tokens, collector_key())
    return servers, tasks[0]


def series_of(task: Task, asked: Mapping[str, Any]) -> list[Task]:
    """The tasks that ask the question again as often as the form says: only this one, or one for
    every day or week from now on."""
    every = str(asked.get("every") or "")
    if every not in EVERY_DAYS:
        return [task]
    series = Series(
        name=task.name, every=every, tasks=whole_number(asked, "times", most=MOST_TIMES), place=1
    )
    return [
        task.in_series(
            replace(series, place=place + 1),
            task.not_before + place * series.seconds,
            task.key,
            task.issuer,
        )
        for place in range(series.tasks)
    ]


def collector_key() -> SigningKey:
    """The key with which this person signs tasks, in their data folder; created on first use."""
    file = data_folder() / "collector-signing.json"
    return SigningKey.load(file) if file.exists() else SigningKey.create(file)


def server_urls(asked: Mapping[str, Any]) -> ServerUrls:
    """The servers that a form names."""
    urls = {role: str(asked.get(role) or "").strip() for role in ("shuffler", "analyzer")}
    for role, url in urls.items():
        if not url.startswith(("https://", "http://")):
            raise ParameterError(
                f"The address of the {role} must begin with https:// (or http:// on this machine)."
            )
    return ServerUrls(urls["shuffler"].rstrip("/"), urls["analyzer"].rstrip("/"))


def progress(servers: ServerUrls, task: Task, form: Form) -> Facts:
    """The progress of a task: waiting reports, batches, results with intervals, and their ε. The
    servers of a trial say it exactly, others as coarsely and as late as to everybody."""
    name, results, unpublished = _at_analyzer(servers, task)
    at_shuffler = _at_shuffler(servers, name)
    arrived = [*results, *unpublished]
    return {
        "task": name,
        "name": task.name,
        "have": at_shuffler["have"],
        "need": at_shuffler["need"],
        "exact": bool(servers.operator_token),
        "batches": _batches(at_shuffler["batches"], arrived),
        "results": [_shown(result, form) for result in results],
        "scale": answer_range(form, max((one["reports"] for one in results), default=2)),
        "published": results,
        "spent": show(len(results) * task.protocol.epsilon),
    }


def log_proof(servers: ServerUrls, task: Task) -> TaskProof:
    """The proof that the task is in the public log, as the shuffler gives it, checked."""
    answer = call("GET", f"{servers.shuffler}/tasks/{task.id.hex()}/proof")
    proof = TaskProof.from_json(answer.content)
    proof.check(task.id)
    return proof


def _at_analyzer(servers: ServerUrls, task: Task) -> tuple[str, list[Facts], list[Facts]]:
    """(the id of the task that takes reports now; published results; what is not published yet).
    Those of a series have the dates of their task."""
    if task.series is None:
        fields = ["results", "unpublished"]
        found = ask(servers.analyzer, f"/tasks/{task.id.hex()}/results", fields=fields)
        return task.id.hex(), found["results"], found["unpublished"]
    path = f"/series/{task.series_id}/results"
    members = ask(servers.analyzer, path, fields=["members"])["members"]
    now = system_clock()
    begun = [one for one in members if one["not_before"] <= now] or members[:1]
    dated = [
        {**published, **{name: member[name] for name in DATED}}
        for member in members
        for published in member["results"]
    ]
    return begun[-1]["task"], dated, []


def when(result: Mapping[str, Any]) -> str:
    """Which batch a result is of; in a series, when its task began."""
    batch = f"batch {result['number']}"
    if "not_before" not in result:
        return batch
    day = datetime.fromtimestamp(result["not_before"], UTC).strftime("%Y-%m-%d")
    return day if result["number"] == 1 else f"{day}, {batch}"


def _at_shuffler(servers: ServerUrls, name: str) -> Facts:
    """What the shuffler says about a task: have, need, batches."""
    if not servers.operator_token:
        path, fields = f"/tasks/{name}/progress", ["have", "need"]
        return {**ask(servers.shuffler, path, fields=fields), "batches": []}
    token = servers.operator_token
    tasks = ask(servers.shuffler, "/status", token, fields=["tasks"])["tasks"]
    found: Facts = next(task for task in tasks if task["task"] == name)
    return found


def _batches(sent: list[Facts], received: list[Facts]) -> list[Facts]:
    """Every batch with the state that it has at the analyzer, or else at the shuffler."""
    states = {batch["batch"]: batch for batch in [*sent, *received]}
    return [
        {
            "when": when(batch),
            "state": batch.get("state", "published"),
            "reports": batch["reports"],
            "problem": batch.get("problem") or batch.get("reason") or "",
        }
        for batch in sorted(states.values(), key=_order)
    ]


def _order(batch: Facts) -> tuple[int, int]:
    return int(batch.get("place", 0)), int(batch["number"])


def _shown(result: Mapping[str, Any], form: Form) -> Facts:
    return {
        "number": result["number"],
        "when": when(result),
        "reports": result["reports"],
        "confidence": result["result"]["confidence"],
        "implausible": result["implausible"],
        "lines": [
            [line.label, line.estimate, line.low, line.high] for line in answer_lines(form, result)
        ],
    }
