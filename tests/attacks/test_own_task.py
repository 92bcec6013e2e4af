"""A collector that asks one person a task of their own, and makes up everybody else in a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from logged_tasks import KEYS, proof_of
from service_trio import TRUSTING, Trio, as_collector

from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import PolicyRefused, Refused
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.signing import SIGNERS, SigningKey
from shuffledp.tasks.task import Task

PINNED = ClientPolicy(
    **{**vars(TRUSTING), "signing_keys": {role: (KEYS[role].public.hex(),) for role in SIGNERS}}
)
"""The policy of a device whose owner has compared the three signing keys."""


class Listener:
    """The collector's own server, in the shuffler's place: it gives what proof it likes, and keeps
    the reports."""

    def __init__(self, proof: TaskProof | None) -> None:
        self.proof, self.seen = proof, list[bytes]()

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            self.seen.append(request.read())
            return httpx2.Response(201)
        if self.proof is None:
            return httpx2.Response(404)
        return httpx2.Response(200, text=self.proof.to_json())

    def ask(self, task: Task, box: Path, policy: ClientPolicy = PINNED) -> None:
        """Has the victim's device answer a task."""
        transport = httpx2.MockTransport(self.answer)
        with Client(task, "http://s", "t", box, policy=policy, transport=transport) as client:
            client.send(1)


def with_keys(**strangers: SigningKey) -> dict[str, SigningKey]:
    return KEYS | strangers


FORGERIES: dict[str, Callable[[Task, Task], TaskProof | None]] = {
    "no proof": lambda own, public: None,
    "the proof of the public task": lambda own, public: proof_of(public),
    "without the shuffler": lambda own, public: proof_of(
        own, with_keys(shuffler=SigningKey.generate())
    ),
    "without the analyzer": lambda own, public: proof_of(
        own, with_keys(analyzer=SigningKey.generate())
    ),
    "by another collector": lambda own, public: proof_of(
        own, with_keys(collector=SigningKey.generate())
    ),
    "another head with the honest signatures": lambda own, public: forked(own, public),
}


def forked(own: Task, public: Task) -> TaskProof:
    """A log of the collector and the analyzer together, that the shuffler has not witnessed."""
    made, honest = proof_of(own), proof_of(public)
    return TaskProof(**{**vars(made), "witness": honest.witness})


@pytest.mark.attack("a task of the victim's own")
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_task_that_nobody_else_can_see_is_not_answered(tmp_path: Path, forgery: str) -> None:
    trio = Trio(tmp_path)
    public, own = trio.task("public"), trio.task("public", question="public ")
    listener = Listener(FORGERIES[forgery](own, public))
    with pytest.raises((ProofError, PolicyRefused, Refused)):
        listener.ask(own, tmp_path / "box")
    assert not listener.seen and not list((tmp_path / "box").glob("*.report"))
    # the twin: the public task is answered
    honest = Listener(proof_of(public))
    honest.ask(public, tmp_path / "box")
    assert len(honest.seen) == 1


@pytest.mark.attack("a task of the victim's own")
def test_without_the_check_the_report_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin of the test above: it is this check that keeps the value at home."""
    trio = Trio(tmp_path)
    public, own = trio.task("public"), trio.task("public", question="public ")
    listener = Listener(forked(own, public))
    monkeypatch.setattr(TaskProof, "check", lambda self, task_id: None)
    listener.ask(own, tmp_path / "box")
    assert len(listener.seen) == 1


@pytest.mark.attack("a task of the victim's own")
def test_a_task_that_is_registered_can_be_seen_by_everybody(tmp_path: Path) -> None:
    """Whoever reads the log finds every task that devices answer, with who has signed it."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            public, own = trio.task("public"), trio.task("public", question="public ")
            for task in (public, own):
                await trio.register(task)
            listed = (await trio.to_analyzer.get("/log/entries/0")).json()["entries"]
            assert [entry["task"] for entry in listed] == [public.id.hex(), own.id.hex()]
            for entry in listed:
                text = (await trio.to_analyzer.get(f"/tasks/{entry['task']}")).text
                assert '"name":"public"' in text

    asyncio.run(walk())


@pytest.mark.attack("a forked log of tasks")
def test_an_analyzer_that_forks_its_log_gets_no_witness(tmp_path: Path) -> None:
    """The analyzer shows the shuffler a second log, in which the victim's task stands instead."""
    trio = Trio(tmp_path)
    public, own, later = (trio.task(name) for name in ("public", "own", "later"))

    async def register(server: httpx2.AsyncClient, task: Task) -> int:
        path, headers = f"/tasks/{task.id.hex()}", as_collector(task.id)
        answer = await server.put(path, content=task.canonical(), headers=headers)
        return answer.status_code

    async def honest() -> None:
        async with trio.running():
            await trio.register(public)

    async def forking() -> None:
        async with trio.running():
            assert await register(trio.to_analyzer, own) == 201
            assert await register(trio.to_shuffler, own) == 409
            proof = await trio.to_shuffler.get(f"/tasks/{own.id.hex()}/proof")
            assert proof.status_code == 404

    async def continued() -> None:
        async with trio.running():
            await trio.register(later)  # the twin: the log that was seen goes on

    asyncio.run(honest())
    store = trio.analyzer_config.store
    fork = Trio(tmp_path, {"analyzer": f"{store}.fork", "shuffler": trio.shuffler_config.store})
    trio, kept = fork, trio
    asyncio.run(forking())
    trio = kept
    asyncio.run(continued())
