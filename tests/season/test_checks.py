"""The checks of a season can fail: each finds what it looks for, where a test has put it."""

from __future__ import annotations

import base64
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import season_checks as checks

from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.service.tokens import EACH_PREFIX, new_token
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.replays import KEPT_KEY_BYTES, ReplayMemory
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.results import OpenedBatch, publish_batch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import INPUT_BYTES, MODULUS_BYTES, TaskToken

USERS, BATCHES = 100, 12
LABELS = ("bike", "walk", "something else")
TRUTH = dict(zip(LABELS, (50, 30, 20), strict=True))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    """The analyzer's keys."""
    found = KeyFolder(tmp_path_factory.mktemp("keys"))
    found.new()
    return found


@pytest.fixture(scope="module")
def task(keys: KeyFolder) -> Task:
    """A task like those of the season."""
    plan = plan_histogram(USERS, 2, LABELS, other=LABELS[-1], mse_overhead=4, padded=True)
    return Task.create(plan.to_dict(), keys.all()[-1].public, "way to work", BatchRule(USERS))


def published(task: Task, keys: KeyFolder) -> tuple[dict[str, object], Tally]:
    """A batch with the counts of `TRUTH`: its result, and what was counted."""
    report = task.protocol.aggregate(np.repeat(np.array(LABELS, object), list(TRUTH.values())))
    tally = Tally(report.plus, report.minus)
    batch = OpenedBatch(id=os.urandom(16), number=1, reports=USERS, noise_shares=USERS, tally=tally)
    key = keys.all()[-1]
    return publish_batch(task, batch, key=lambda: key, ledger=None, confidence=0.95), tally


def test_a_lost_or_doubled_report_is_found(task: Task, tmp_path: Path) -> None:
    bodies = [encrypt_report(task, "bike") for _ in range(4)]
    memory = ReplayMemory(tmp_path / f"seen-{task.key.key_id}-{task.key.epoch}")
    memory.folder.mkdir()

    def count(*batch: bytes) -> str:
        messages = sorted(checks.messages_of(batch).elements())
        memory.run_of(str(len(list(memory.folder.iterdir())))).write_bytes(b"".join(messages))
        counted = checks.counted_messages(tmp_path, task)
        return checks.miscounted(checks.messages_of(bodies[:3]), counted)

    assert count(*bodies[:2]) == f"{task.report_size} messages lost, 0 counted twice, 0 unknown" + (
        " instead of 0"
    )
    assert count(bodies[2]) == ""
    assert f"{task.report_size} counted twice" in count(bodies[0])
    memory.run_of("2").unlink()
    assert f"{task.report_size} unknown" in count(bodies[3])
    assert all(len(name) == KEPT_KEY_BYTES for name in checks.messages_of(bodies))


def test_a_device_beyond_its_budget_is_found() -> None:
    assert not checks.overspent([Fraction(2)] * 2, Fraction(4))
    assert checks.overspent([Fraction(2)] * 3, Fraction(4)) == "ε = 6 of 4"


def test_a_result_outside_its_forecast_is_found(task: Task, keys: KeyFolder) -> None:
    for _ in range(BATCHES):
        result, _ = published(task, keys)
        assert not checks.outside_forecast(task, result, TRUTH)
    others = {"bike": 0, "walk": 100, "something else": 0}
    assert "outside" in checks.outside_forecast(task, result, others)
    assert sum(checks.misses(result, others)) >= 2
    assert not checks.too_often(2, 27, 0.05) and checks.too_often(20, 27, 0.05)


def test_a_result_without_noise_is_found(task: Task, keys: KeyFolder) -> None:
    """The noise that is found is that of the analyzer; a bare result has none."""
    noise = [checks.added_noise(task, *published(task, keys)) for _ in range(BATCHES)]
    assert not checks.too_often_nothing(task, np.concatenate(noise))
    nothing = np.zeros(BATCHES * len(LABELS), np.int64)
    assert checks.too_often_nothing(task, nothing)


def test_one_report_is_what_remains_of_a_batch_without_the_forged_ones(
    task: Task, keys: KeyFolder
) -> None:
    key = keys.holds(task.key)
    assert key is not None
    forged, victim = [encrypt_report(task, "walk") for _ in range(9)], encrypt_report(task, "bike")

    def opened(*bodies: bytes) -> checks.Sums:
        return checks.opened_sum(task, key, bodies)

    assert (opened(*forged, victim) - opened(*forged) == opened(victim)).all()
    assert opened(*forged).sum() > 0
    assert (opened(*forged, victim) - opened(*forged[5:]) != opened(victim)).any()


@pytest.mark.parametrize(
    "form",
    [
        lambda token: token.text.encode(),
        lambda token: token.token_input,
        lambda token: token.token_input[2:34].hex().encode(),
        lambda token: base64.b64encode(token.token_input[2:34]),
        lambda token: token.signature,
        lambda token: base64.urlsafe_b64encode(token.signature),
    ],
)
def test_a_planted_one_time_token_is_found(tmp_path: Path, form: object) -> None:
    token = TaskToken(os.urandom(INPUT_BYTES), os.urandom(MODULUS_BYTES))
    needles = checks.Needles(checks.token_forms("a token", token.text))
    log = tmp_path / "deep" / "shuffler.log"
    log.parent.mkdir()
    rest = os.urandom(100_001)
    log.write_bytes(rest)
    assert needles.search(tmp_path) == {}
    assert callable(form)
    log.write_bytes(rest[:5_003] + form(token) + rest)
    found = needles.search(tmp_path)
    assert list(found) == ["deep/shuffler.log"] and all(
        "a token" in one for one in found.popitem()[1]
    )


@pytest.mark.parametrize("place", range(9))
def test_planted_enrolments_values_and_addresses_are_found(tmp_path: Path, place: int) -> None:
    """Wherever they lie in a file, also at its end."""
    token = new_token(EACH_PREFIX)
    raw = base64.urlsafe_b64decode(token.removeprefix(EACH_PREFIX) + "==")
    names = checks.token_forms("enrolment", token)
    names |= {b"127.77.100.8": "address", b"way-of-my-own-1": "value"}
    needles = checks.Needles(names)
    assert not needles.inside(bytes(place))
    for planted in (token.encode(), raw, raw.hex().encode(), b"127.77.100.8", b"way-of-my-own-1"):
        (tmp_path / "store.db").write_bytes(bytes(place) + planted)
        assert needles.search(tmp_path), planted
        (tmp_path / "store.db").write_bytes(bytes(place) + planted[:-1])
        assert not {"address", "value"} & needles.inside((tmp_path / "store.db").read_bytes())
