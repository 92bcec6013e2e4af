"""Reads the public log of tasks and checks that it is one signed, append-only list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from shuffledp.documents.schema import HASH_TEXT, Record
from shuffledp.errors import ParameterError
from shuffledp.service.client.collector import ask, call
from shuffledp.service.client.connection import BlockingConnection
from shuffledp.service.errors import Refused
from shuffledp.tasks.errors import ProofError, TaskError
from shuffledp.tasks.log import SIGNATURE_TEXT, Head, log_entry
from shuffledp.tasks.merkle import MerkleTree
from shuffledp.tasks.signing import SHUFFLER, TaskSignature, head_text, signed
from shuffledp.tasks.task import Task, task_from_json

_ENTRY = Record(
    {"task": HASH_TEXT, "collector_key": HASH_TEXT, "collector_signature": SIGNATURE_TEXT}
)


class Entry(NamedTuple):
    """A task in the log, and the collector who has signed it."""

    task_id: bytes
    collector: TaskSignature


class Log:
    """The whole log of an analyzer, with its head and every entry checked."""

    def __init__(self, analyzer: str, connection: BlockingConnection) -> None:
        """Reads the log; raises `ProofError` unless the entries are signed and are those of the
        head. All its requests use the connection."""
        self._analyzer, self._connection = analyzer.rstrip("/"), connection
        self.head = Head.from_dict(self._ask(self._analyzer, "/log/head", "root"))
        self.head.check()
        self.entries = list(self._read())
        self._tree = MerkleTree(
            log_entry(entry.task_id, *entry.collector) for entry in self.entries
        )
        if self._tree.root(self.head.size) != self.head.root:
            raise _forked("The analyzer's log is not the one whose head it has signed")

    def _ask(self, server: str, path: str, *fields: str) -> dict[str, Any]:
        return ask(server, path, fields=fields, connection=self._connection)

    def _read(self) -> Iterator[Entry]:
        """All entries up to the head."""
        place = 0
        while place < self.head.size:
            answer = self._ask(self._analyzer, f"/log/entries/{place}")
            given = list(answer.get("entries", []))[: self.head.size - place]
            if not given:
                raise _forked("The analyzer does not show all entries of its log")
            for data in given:
                entry = _entry(data)
                if not entry.collector.holds(entry.task_id):
                    raise _forked(f"Entry {place} of the log is not signed by its collector")
                yield entry
                place += 1

    def check_continues(self, size: int, root: bytes, log_key: bytes) -> None:
        """Raises `ProofError` unless this log begins with one that was seen before."""
        if log_key != self.head.log_key:
            raise _forked("The log is signed with another key than before")
        if size > self.head.size or self._tree.root(size) != root:
            raise _forked("The log does not continue the one that was seen before")

    def check_witnessed(self, shuffler: str) -> bytes:
        """The shuffler's key; raises `ProofError` unless what it has witnessed is this log."""
        data = self._ask(shuffler, "/log/head", "root")
        try:
            key, signature = (
                bytes.fromhex(data.pop(name)) for name in ("shuffler_key", "shuffler_signature")
            )
        except (KeyError, ValueError, TypeError):
            raise ProofError("form", "The shuffler's response is not a witnessed head.") from None
        head = Head.from_dict(data)
        head.check()
        if not signed(key, signature, head_text(SHUFFLER, head.log_key, head.size, head.root)):
            raise _forked("The shuffler's signature over its head is not valid")
        self.check_continues(head.size, head.root, head.log_key)
        return key

    def tasks(self, each: Callable[[], None] = lambda: None) -> list[Task | None]:
        """The task of every entry; None if the analyzer no longer has its text."""
        found: list[Task | None] = []
        for entry in self.entries:
            found.append(self._task(entry.task_id))
            each()
        return found

    def _task(self, task_id: bytes) -> Task | None:
        try:
            url = f"{self._analyzer}/tasks/{task_id.hex()}"
            text = call("GET", url, connection=self._connection).content
            return task_from_json(text, task_id)
        except (Refused, TaskError, ParameterError):
            return None


def same_questions(tasks: list[Task | None]) -> dict[int, list[int]]:
    """For each position, the other positions with the same question at the same time; one of them
    might be a task made for a single victim."""
    found: dict[int, list[int]] = {}
    asked: defaultdict[str, list[tuple[int, Task]]] = defaultdict(list)
    for place, task in enumerate(tasks):
        if task is None:
            continue
        for other, known in asked[task.question]:
            if task.not_before < known.expires and known.not_before < task.expires:
                found.setdefault(place, []).append(other)
                found.setdefault(other, []).append(place)
        asked[task.question].append((place, task))
    return found


def _entry(data: object) -> Entry:
    """An entry in a response; raises `ProofError` if it is invalid."""
    try:
        _ENTRY.check(data, "entry")
    except ParameterError:
        raise ProofError("form", "The analyzer's response is not an entry of a log.") from None
    fields: dict[str, str] = data  # type: ignore[assignment]
    task_id, key, signature = (bytes.fromhex(fields[name]) for name in _ENTRY.fields)
    return Entry(task_id, TaskSignature(key, signature))


def _forked(what: str) -> ProofError:
    return ProofError(
        "log-forked", f"{what}, so people could be shown different tasks; tell both operators."
    )
