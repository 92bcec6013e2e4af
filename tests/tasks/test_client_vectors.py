"""The package's own client does what vectors/client.json says that every client does."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from logged_tasks import proof_of
from numpy.typing import NDArray
from rows import for_each
from service_trio import TRUSTING

from shuffledp.errors import ShuffleDPError
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.finite import CutNegativeBinomial, Finite
from shuffledp.numbers.laws import Bernoulli, Law, NegativeBinomial, Poisson
from shuffledp.numbers.sampler import Sampler
from shuffledp.queries.quantiles.protocol import QuantilesProtocol
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client, new_report_id
from shuffledp.service.errors import PolicyRefused
from shuffledp.tasks.canonical import canonical_text
from shuffledp.tasks.encryption import encrypt_all, open_all
from shuffledp.tasks.errors import ProofError, TaskNotNow
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.reports import report_numbers
from shuffledp.tasks.task import Task, task_from_json
from shuffledp.tasks.wire import MESSAGE_BYTES, read_upload

FOLDER = Path(__file__).resolve().parents[2] / "vectors"
VECTORS: dict[str, Any] = json.loads((FOLDER / "client.json").read_text("utf-8"))
SHARED = VECTORS["shared"]
LATER = [VECTORS["frequencies"], VECTORS["groups"], SHARED]
VALUES = [*VECTORS["values"], *(case for step in LATER for case in step["values"])]
REFUSED = [*VECTORS["refused"], *SHARED["refused"]]
REPORTS = [*VECTORS["reports"], *SHARED["reports"]]
TASKS = {
    entry["name"]: entry
    for entry in [*VECTORS["tasks"], *(task for step in LATER for task in step["tasks"])]
}


class GivenWords(Entropy):
    """Random words that are given; none may be left, and none taken beyond them."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self._words = iter([int(word, 16) for word in words])

    def bits(self, count: int) -> int:
        assert count == 64, "a device takes words of 64 bits"
        return next(self._words)

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        assert dtype is np.uint64
        return np.array([next(self._words) for _ in range(count)], dtype)

    def left(self) -> int:
        return len(list(self._words))


def read(name: str) -> Task:
    return task_from_json(TASKS[name]["text"], bytes.fromhex(TASKS[name]["id"]))


def value_of(task: Task, value: Any) -> Any:
    """A value as the package takes it: dates are parsed."""
    protocol = task.protocol
    dated = isinstance(protocol, QuantilesProtocol) and protocol.unit
    return protocol.parse(value) if dated else value


@for_each(VECTORS["canonical"], lambda entry: entry["sha256"][:8])
def test_canonical_texts(entry: dict[str, Any]) -> None:
    text = canonical_text(entry["data"])
    assert text == entry["text"].encode()
    assert hashlib.sha256(text).hexdigest() == entry["sha256"]


@for_each(TASKS)
def test_tasks_are_read_and_proved(name: str) -> None:
    entry, task = TASKS[name], read(name)
    certificate = task.verify()
    assert task.id.hex() == entry["id"] == hashlib.sha256(entry["text"].encode()).hexdigest()
    assert str(certificate.epsilon) == entry["epsilon"]
    assert certificate.protocol.users == entry["users"]
    assert len(task.protocol.cells) == entry["cells"]
    assert task.report_bytes == entry["report_bytes"]
    need = task.protocol.report_size(task.batch.reports)
    assert need == entry["needed_report_size"]
    task.check_time(VECTORS["now"])


@for_each(REFUSED, lambda entry: entry["why"])
def test_tasks_that_must_be_refused(entry: dict[str, Any]) -> None:
    expected = bytes.fromhex(entry["id"])
    with pytest.raises(ShuffleDPError) as caught:
        task = task_from_json(entry["text"], expected)
        task.verify()
        task.check_time(entry["now"])
    assert isinstance(caught.value, TaskNotNow) == (entry["stage"] == "time")
    if entry["stage"] != "hash":
        assert hashlib.sha256(entry["text"].encode()).hexdigest() == entry["id"]


LAWS: dict[str, Callable[[dict[str, Any]], Law]] = {
    "bernoulli": lambda law: Bernoulli(Fraction(law["probability"])),
    "finite": lambda law: Finite(whole(law["weights"])),
    "cut negative binomial": lambda law: CutNegativeBinomial(
        Fraction(law["shape"]), Fraction(law["beta"]), law["cut"]
    ),
    "negative binomial": lambda law: NegativeBinomial(
        Fraction(law["shape"]), Fraction(law["decay"])
    ),
    "poisson": lambda law: Poisson(Fraction(law["mean"])),
}


def whole(weights: list[str]) -> tuple[int, ...]:
    """Weights as whole numbers in the same proportions."""
    fractions = [Fraction(weight) for weight in weights]
    scale = np.lcm.reduce([weight.denominator for weight in fractions])
    return tuple(int(weight * int(scale)) for weight in fractions)


@for_each(VECTORS["draws"], lambda entry: entry["law"])
def test_draws(entry: dict[str, Any]) -> None:
    law = LAWS[entry["law"]["law"]](entry["law"])
    with_table, without = Sampler(law), Sampler(law)
    _ = with_table.table
    without.width = 1 << 40  # too wide for a table to pay
    for case in entry["cases"]:
        for one in (with_table, without):
            words = GivenWords(case["words"])
            assert one.draw_one(words) == case["draw"]
            assert words.left() == 0
    assert without._table is None and with_table._table is not None


@for_each(TASKS)
def test_values(name: str) -> None:
    task, tried = read(name), 0
    for case in VALUES:
        if case["task"] == name:
            words = GivenWords(case["words"])
            assert report_numbers(task, value_of(task, case["value"]), words) == case["numbers"]
            assert words.left() == 0
            tried += 1
    assert tried >= 2


def test_the_cases_hold_what_is_rare() -> None:
    """Muted users, further words, reports and orders that were drawn again, every query."""
    cases = VECTORS["values"]
    queries = {
        json.loads(TASKS[case["task"]]["text"])["certificate"]["protocol"]["query"]
        for case in cases
    }
    assert queries == {"count", "integer-sum", "real-sum", "histogram", "quantiles"}
    sizes = {len(case["words"]) for entry in VECTORS["draws"] for case in entry["cases"]}
    assert {1, 2, 3, 4} <= sizes
    again = [case for case in cases if len(case["words"]) > 2 * len(case["numbers"])]
    assert again


def test_the_shared_cases_hold_what_is_rare() -> None:
    """Every jump of every digit in both directions, every stray jump, noise drawn again."""
    for task in SHARED["tasks"]:
        cells = json.loads(task["text"])["certificate"]["protocol"]["digits"]
        whats = {
            case["what"]
            for case in SHARED["values"]
            if case["task"] == task["name"] and "what" in case
        }
        for place, cell in enumerate(cells):
            for y in range(1, cell["largest"] + 1):
                assert {
                    f"digit {place}: own jump {y}",
                    f"digit {place}: jump {y} downwards",
                } <= whats
        strays = sum(what.startswith("stray jump of digits") for what in whats)
        assert strays == 2 ** len(cells) - len(cells) - 1
        assert {"noise upwards of Z + 1, drawn again", "noise upwards drawn again twice"} <= whats


def test_ciphertexts_open_and_are_bound_to_task_and_key() -> None:
    given = VECTORS["encryption"]
    task, secret = read(given["task"]), bytes.fromhex(given["analyzer_secret"])
    key = PublicKey.from_dict(given["analyzer_key"])
    assert task.key == key and key.info(task.id).hex() == given["info"]
    messages = [bytes.fromhex(case["message"]) for case in given["cases"]]
    numbers = [case["number"] for case in given["cases"]]
    assert open_all(messages, secret, key.info(task.id)) == (numbers, 0)
    assert open_all(messages, secret, key.info(bytes(32))) == ([], len(messages))


@for_each(REPORTS, lambda case: case["task"])
def test_whole_reports(case: dict[str, Any]) -> None:
    task, body = read(case["task"]), bytes.fromhex(case["body"])
    upload = read_upload(body)
    assert len(body) == task.report_bytes and upload.task_id == task.id
    assert upload.report_id.hex() == case["report_id"] and upload.key_id == task.key.key_id
    assert upload.report_id[:8] == new_report_id(case["token"])[:8]
    secret = bytes.fromhex(VECTORS["encryption"]["analyzer_secret"])
    messages = [
        upload.messages[at : at + MESSAGE_BYTES]
        for at in range(0, len(upload.messages), MESSAGE_BYTES)
    ]
    words = GivenWords(case["words"])
    numbers = report_numbers(task, case["value"], words)
    assert open_all(messages, secret, task.key.info(task.id)) == (numbers, 0)
    assert words.left() == 0
    assert upload.to_bytes() == body


def test_the_client_sends_what_the_vectors_describe(tmp_path: Path) -> None:
    """`Client` as it is used, up to the network: address, headers, and messages that open to what
    these words give."""
    case = VECTORS["reports"][0]
    task, sent = read(case["task"]), list[httpx2.Request]()

    def take(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(201)

    class Words(GivenWords):
        def below(self, bound: int) -> int:  # for the pause between attempts, which is not needed
            return 0

    with Client(
        task,
        task.shuffler,
        case["token"],
        tmp_path,
        policy=TRUSTING,
        proof=proof_of(task),
        entropy=Words(case["words"]),
        clock=lambda: VECTORS["now"],
        transport=httpx2.MockTransport(take),
    ) as client:
        client.send(case["value"])
    (request,) = sent
    assert str(request.url) == case["url"]
    assert request.headers["authorization"] == case["authorization"]
    secret = bytes.fromhex(VECTORS["encryption"]["analyzer_secret"])

    def numbers(body: bytes) -> list[int]:
        messages = read_upload(body).messages
        parts = [messages[at : at + MESSAGE_BYTES] for at in range(0, len(messages), MESSAGE_BYTES)]
        return open_all(parts, secret, task.key.info(task.id))[0]

    assert numbers(request.content) == numbers(bytes.fromhex(case["body"]))


@for_each(VECTORS["proofs"]["cases"], lambda case: case["name"])
def test_proofs_of_tasks(case: dict[str, Any]) -> None:
    given = VECTORS["proofs"]
    task_id = bytes.fromhex(TASKS[given["task"]]["id"])
    policy = ClientPolicy.from_dict(
        {"signing_keys": {role: [key] for role, key in given["signing_keys"].items()}}
    )

    def answered() -> bool:
        try:
            proof = TaskProof.from_json(json.dumps(case["proof"]))
            proof.check(task_id)
            policy.check_signers(proof.keys)
        except (ProofError, PolicyRefused):
            return False
        return True

    assert answered() == case["accepted"]


@pytest.fixture
def naive(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """The naive client, and how it encrypts."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module("naive_client"), importlib.import_module("naive_encryption")
    for name in set(sys.modules) - before:
        sys.modules.pop(name)


def test_the_maker_of_the_vectors_agrees_with_itself_and_the_library(
    naive: tuple[Any, Any],
) -> None:
    """The file is what the naive client gives now, and the library opens what it encrypts."""
    client, encryption = naive
    laws = importlib.import_module("naive_laws").LAWS
    for case in SHARED["values"]:
        words = client.Words(int(word, 16) for word in case["words"])
        task = json.loads(TASKS[case["task"]]["text"])
        sent, numbers = client.report_numbers(task, case["value"], words)
        assert [list(pair) for pair in sent] == case["cells"] and numbers == case["numbers"]
    for entry in VECTORS["draws"]:
        for case in entry["cases"][:3]:
            words = client.Words(int(word, 16) for word in case["words"])
            assert laws[entry["law"]["law"]](entry["law"]).draw(words) == case["draw"]
    given = VECTORS["encryption"]
    info, key = bytes.fromhex(given["info"]), bytes.fromhex(given["analyzer_key"]["public"])
    for case in given["cases"]:
        message = encryption.sealed(case["number"], key, info, bytes.fromhex(case["ephemeral"]))
        assert message.hex() == case["message"]
    by_library = encrypt_all([5], PublicKey.from_dict(given["analyzer_key"]), bytes(32))
    assert len(by_library) == len(message) == 52
