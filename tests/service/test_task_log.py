"""The log of tasks at the analyzer, its witness at the shuffler, and what both refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from logged_tasks import KEYS
from service_programs import Programs
from service_trio import COLLECTOR, MADE, TRUSTING, Trio, as_collector, bearing

from shuffledp.cli.main import main
from shuffledp.service.client.collector import register_everywhere, signature_headers
from shuffledp.service.client.connection import BlockingConnection
from shuffledp.service.client.sending import AsyncClient
from shuffledp.service.client.task_log import Log, same_questions
from shuffledp.service.errors import ConfigError, Refused
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.log import Head, TaskProof, log_entry, read_path
from shuffledp.tasks.merkle import EMPTY_ROOT, MerkleTree
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.task import Task

Walk = Callable[[Trio], Awaitable[None]]


def walk_with(trio: Trio, walk: Walk) -> None:
    async def run() -> None:
        async with trio.running():
            await walk(trio)

    asyncio.run(run())


async def head_of(server: httpx2.AsyncClient) -> Head:
    answer = (await server.get("/log/head")).json()
    fields = ("size", "root", "analyzer_key", "analyzer_signature")
    head = Head.from_dict({name: answer[name] for name in fields})
    head.check()
    return head


async def put(server: httpx2.AsyncClient, task: Task, **headers: str) -> httpx2.Response:
    signed = as_collector(task.id) | headers
    return await server.put(f"/tasks/{task.id.hex()}", content=task.canonical(), headers=signed)


def problem_of(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_the_log_grows_and_survives_a_restart(tmp_path: Path, stores: dict[str, str]) -> None:
    trio = Trio(tmp_path, stores)
    tasks = [trio.task(f"task {number}") for number in range(5)]
    heads: list[Head] = []

    async def first(trio: Trio) -> None:
        heads.append(await head_of(trio.to_analyzer))
        for task in tasks[:3]:
            await trio.register(task)
            heads.append(await head_of(trio.to_analyzer))
        await trio.register(tasks[0])  # known already: no second entry
        assert await head_of(trio.to_analyzer) == heads[-1]
        assert [head.size for head in heads] == [0, 1, 2, 3]

    async def second(trio: Trio) -> None:
        assert await head_of(trio.to_analyzer) == heads[-1]
        for task in tasks[3:]:
            await trio.register(task)
        head = await head_of(trio.to_analyzer)
        assert head.size == 5 and await head_of(trio.to_shuffler) == head
        for old in heads:
            answer = (await trio.to_analyzer.get(f"/log/consistency/{old.size}")).json()
            assert Head.from_dict(answer["head"]) == head
            head.check_extends(old.size, old.root, read_path(answer["path"]))
        listed = (await trio.to_analyzer.get("/log/entries/0")).json()["entries"]
        assert [entry["task"] for entry in listed] == [task.id.hex() for task in tasks]
        assert {entry["collector_key"] for entry in listed} == {KEYS["collector"].public.hex()}
        for task in tasks:
            answer = await trio.to_shuffler.get(f"/tasks/{task.id.hex()}/proof")
            assert "immutable" in answer.headers["cache-control"]
            TaskProof.from_json(answer.content).check(task.id)

    walk_with(trio, first)
    walk_with(trio, second)


def test_places_that_the_log_does_not_have(tmp_path: Path) -> None:
    async def walk(trio: Trio) -> None:
        task, other = trio.task(), trio.task("other")
        await trio.register(task)
        for path, code in (
            ("/log/consistency/2", "log-place"),
            ("/log/consistency/x", "log-place"),
            ("/log/entries/9", "log-place"),
            (f"/log/inclusion/{task.id.hex()}/2", "log-place"),
            (f"/log/inclusion/{task.id.hex()}/0", "task-unlogged"),
            (f"/log/inclusion/{other.id.hex()}/1", "task-unlogged"),
            ("/log/inclusion/zz/1", "task-unlogged"),
        ):
            assert problem_of(await trio.to_analyzer.get(path)) == (404, code)
        for name in (other.id.hex(), "zz"):
            answer = await trio.to_shuffler.get(f"/tasks/{name}/proof")
            assert problem_of(answer) == (404, "task-unknown")
        fresh = await trio.to_analyzer.get("/log/entries/1")
        assert fresh.json() == {"entries": []}

    walk_with(Trio(tmp_path), walk)


def test_a_task_needs_the_collectors_signature(tmp_path: Path) -> None:
    async def walk(trio: Trio) -> None:
        task, stranger = trio.task(), SigningKey.generate()
        path, refused = f"/tasks/{task.id.hex()}", (422, "unsigned")
        for server in (trio.to_analyzer, trio.to_shuffler):
            bare = await server.put(path, content=task.canonical(), headers=bearing(COLLECTOR))
            assert problem_of(bare) == refused
            for headers in (
                {"X-Collector-Signature": "00" * 64},
                {"X-Collector-Key": "zz"},
                signature_headers(bytes(32), KEYS["collector"]),
                signature_headers(task.id, stranger),  # not the pinned collector
            ):
                assert problem_of(await put(server, task, **headers)) == refused
        assert (await head_of(trio.to_analyzer)).size == 0
        await trio.register(task)

    trio = Trio(tmp_path, collector_signing_key=KEYS["collector"].public.hex())
    pinned = KEYS["collector"].public.hex()
    trio.analyzer_config = replace(trio.analyzer_config, collector_signing_key=pinned)
    walk_with(trio, walk)


def test_the_shuffler_refuses_what_is_not_logged(tmp_path: Path) -> None:
    async def walk(trio: Trio) -> None:
        task = trio.task()
        assert problem_of(await put(trio.to_shuffler, task)) == (422, "task-unlogged")
        assert (await trio.to_shuffler.get(f"/tasks/{task.id.hex()}")).status_code == 404
        answer = await trio.to_shuffler.get(f"/tasks/{task.id.hex()}/proof")
        assert answer.status_code == 404
        assert (await put(trio.to_analyzer, task)).status_code == 201
        other = signature_headers(task.id, SigningKey.generate())  # not the one that is logged
        assert problem_of(await put(trio.to_shuffler, task, **other)) == (422, "task-unlogged")
        assert (await put(trio.to_shuffler, task)).status_code == 201

    walk_with(Trio(tmp_path), walk)


def test_tasks_that_are_registered_together(tmp_path: Path) -> None:
    """However their requests interleave, each gets a proof under a head that was witnessed."""

    async def walk(trio: Trio) -> None:
        tasks = [trio.task(f"task {number}") for number in range(4)]
        await asyncio.gather(*(trio.register(task) for task in tasks))
        for task in tasks:
            answer = await trio.to_shuffler.get(f"/tasks/{task.id.hex()}/proof")
            TaskProof.from_json(answer.content).check(task.id)
        assert (await head_of(trio.to_shuffler)).size >= 1
        assert (await head_of(trio.to_analyzer)).size == 4

    walk_with(Trio(tmp_path), walk)


@pytest.mark.parametrize("change", ["forgets", "rewrites", "other key"])
def test_the_shuffler_witnesses_one_log_only(tmp_path: Path, change: str) -> None:
    """An analyzer that forgets entries, changes one, or begins a log under another key."""
    trio = Trio(tmp_path)
    tasks = [trio.task(f"task {number}") for number in range(3)]

    async def honest(trio: Trio) -> None:
        for task in tasks[:2]:
            await trio.register(task)
        database = trio.analyzer.database
        if change == "forgets":
            await database.rows("DELETE FROM task_log")
            await database.rows("DELETE FROM tasks")
        if change == "rewrites":
            await database.rows("UPDATE task_log SET entry=$1 WHERE place=0", bytes(128))

    async def dishonest(trio: Trio) -> None:
        before = await head_of(trio.to_shuffler)
        assert (await put(trio.to_analyzer, tasks[2])).status_code == 201
        assert problem_of(await put(trio.to_shuffler, tasks[2])) == (409, "log-forked")
        assert await head_of(trio.to_shuffler) == before
        answer = await trio.to_shuffler.get(f"/tasks/{tasks[2].id.hex()}/proof")
        assert answer.status_code == 404

    walk_with(trio, honest)
    if change == "other key":
        file = Path(trio.analyzer_config.signing_key_file)
        file.unlink()
        other = SigningKey.create(file)
    walk_with(trio, dishonest)
    if change == "other key":  # the operator may decide that this is the analyzer's key now
        trio.shuffler_config = replace(
            trio.shuffler_config, analyzer_signing_key=other.public.hex()
        )

        async def anew(trio: Trio) -> None:
            await trio.register(tasks[2])
            assert (await head_of(trio.to_shuffler)).log_key == other.public

        walk_with(trio, anew)


def test_a_restored_log_continues_when_its_tasks_are_registered_again(tmp_path: Path) -> None:
    """Signatures are the same every time, so the same tasks in the same order give the same log."""
    trio = Trio(tmp_path)
    tasks = [trio.task(f"task {number}") for number in range(3)]

    async def lose(trio: Trio) -> None:
        for task in tasks[:2]:
            await trio.register(task)
        await trio.analyzer.database.rows("DELETE FROM task_log WHERE place=1")
        await trio.analyzer.database.rows("DELETE FROM tasks WHERE id=$1", tasks[1].id)

    async def again(trio: Trio) -> None:
        assert (await head_of(trio.to_analyzer)).size == 1
        for task in tasks[1:]:
            await trio.register(task)
        assert await head_of(trio.to_shuffler) == await head_of(trio.to_analyzer)

    walk_with(trio, lose)
    walk_with(trio, again)


def test_a_lost_signing_key_is_not_replaced_in_silence(tmp_path: Path) -> None:
    trio = Trio(tmp_path)

    async def walk(trio: Trio) -> None:
        await trio.register(trio.task())

    walk_with(trio, walk)
    for config in (trio.shuffler_config, trio.analyzer_config):
        file = Path(config.signing_key_file)
        kept = file.rename(file.with_suffix(".kept"))
        with pytest.raises(ConfigError, match="restore it from a copy"):
            walk_with(trio, walk)
        kept.rename(file)
    walk_with(trio, walk)


def test_an_analyzer_without_a_log_is_waited_for(tmp_path: Path) -> None:
    class WithoutLog(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path.startswith("/log/"):
                if away:
                    raise httpx2.ConnectError("away")
                return httpx2.Response(404, json={"detail": "another server"})
            return await trio.analyzer_transport.handle_async_request(request)

    async def walk() -> None:
        async with trio.analyzer_running(), trio.shuffler_running(WithoutLog()):
            task = trio.task()
            assert (await put(trio.to_analyzer, task)).status_code == 201
            answer = await put(trio.to_shuffler, task)
            assert problem_of(answer) == (503, "analyzer-away")

    for away in (True, False):
        trio = Trio(tmp_path / str(away))
        trio.folder.mkdir(exist_ok=True)
        asyncio.run(walk())


def test_a_device_asks_the_shuffler_for_the_proof(tmp_path: Path) -> None:
    async def walk(trio: Trio) -> None:
        task, unlogged = trio.task(), trio.task("unlogged")
        await trio.register(task)
        (token,) = await trio.enrol()
        for asked, box in ((task, "a"), (unlogged, "b")):
            async with AsyncClient(
                asked,
                "http://shuffler",
                token,
                tmp_path / box,
                policy=TRUSTING,
                transport=httpx2.ASGITransport(trio.shuffler_app),
            ) as client:
                if asked is task:
                    await client.send(1)
                else:
                    with pytest.raises(Refused, match="public log"):
                        await client.send(1)
        keys = client.device.keys()
        assert keys == {}

    walk_with(Trio(tmp_path), walk)


def test_anybody_can_watch_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trio = Trio(tmp_path)
    tasks = [trio.task("a", question="Bikes?"), trio.task("b", question="Cats?")]
    twin = trio.task("c", question="Bikes?")
    seen = tmp_path / "head.json"
    with Programs(trio).both() as (shuffler, analyzer):
        programs_register(shuffler, analyzer, tasks)
        words = ["task", "log", "--analyzer", analyzer, "--shuffler", shuffler]
        words += ["--seen", str(seen)]
        assert main([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [one["question"] for one in found["tasks"]] == ["Bikes?", "Cats?"]
        assert not any(one["same_question_as"] for one in found["tasks"])
        assert found["head"]["size"] == 2 == json.loads(seen.read_text())["size"]
        programs_register(shuffler, analyzer, [twin])
        assert main(words) == 0
        said = capsys.readouterr().out
        assert "3 tasks, all signed" in said and "ask the collector why" in said
        other = SigningKey.generate()
        for forged in (Head.sign(other, 1, bytes(32)), Head.sign(other, 0, EMPTY_ROOT)):
            seen.write_text(json.dumps(forged.to_dict()))
            assert main(words) == 2
            assert "another key" in capsys.readouterr().err
        own = SigningKey.load(trio.analyzer_config.signing_key_file)
        for size, root in ((3, bytes(32)), (4, bytes(32))):
            seen.write_text(json.dumps(Head.sign(own, size, root).to_dict()))
            assert main(words) == 2
            assert "does not continue" in capsys.readouterr().err
        seen.write_text("{}")
        assert main(words) == 2 and "not the head" in capsys.readouterr().err


def programs_register(shuffler: str, analyzer: str, tasks: list[Task]) -> None:
    servers, tokens = {"shuffler": shuffler, "analyzer": analyzer}, ("shuffler", "analyzer")
    for task in tasks:
        register_everywhere(task, servers, dict.fromkeys(tokens, COLLECTOR), KEYS["collector"])


def test_a_log_that_hides_or_changes_entries_is_found_out(tmp_path: Path) -> None:
    """Each thing that a dishonest analyzer may answer, and the honest answers as a twin."""
    tasks = [Trio(tmp_path).task(name) for name in "abc"]
    key, collector = SigningKey.generate(), KEYS["collector"]
    signatures = [collector.sign_task(task.id) for task in tasks]
    tree = MerkleTree(log_entry(task.id, *one) for task, one in zip(tasks, signatures, strict=True))
    entries = [
        {
            "task": task.id.hex(),
            "collector_key": one.key.hex(),
            "collector_signature": one.signature.hex(),
        }
        for task, one in zip(tasks, signatures, strict=True)
    ]
    head = Head.sign(key, 3, tree.root(3)).to_dict()

    def read(head: dict[str, Any], entries: list[dict[str, str]]) -> Log:
        def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/log/head"):
                return httpx2.Response(200, json=head)
            place = int(request.url.path.rpartition("/")[2])
            return httpx2.Response(200, json={"entries": entries[place:]})

        with BlockingConnection(httpx2.MockTransport(answer)) as connection:
            return Log("http://analyzer/", connection)

    assert [entry.task_id for entry in read(head, entries).entries] == [one.id for one in tasks]
    assert len(read(head, [*entries, entries[0]]).entries) == 3  # it has grown meanwhile
    swapped = [entries[1], entries[0], entries[2]]
    unsigned = [entries[0] | {"task": tasks[1].id.hex()}, *entries[1:]]
    for wrong in (entries[:2], swapped, unsigned, [{}, *entries[1:]]):
        with pytest.raises(ProofError):
            read(head, wrong)
    with pytest.raises(ProofError):
        read(head | {"size": 2}, entries)


def test_tasks_that_ask_the_same_at_the_same_time_are_found(tmp_path: Path) -> None:
    trio, day = Trio(tmp_path), 86_400

    def task(question: str, first: int, last: int) -> Task:
        begin, end = (int(MADE) + days * day for days in (first, last))
        return trio.task(question, question=question, not_before=begin, expires=end)

    tasks = [
        task("bikes?", 0, 2),
        task("tea?", 0, 2),
        None,
        task("bikes?", 1, 3),
        task("bikes?", 2, 4),
        task("bikes?", 5, 6),
    ]
    assert same_questions(tasks) == {0: [3], 3: [0, 4], 4: [3]}
