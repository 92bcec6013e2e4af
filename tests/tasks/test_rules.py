"""When a batch may leave the shuffler, and which batches the analyzer refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_trio import USERS, Trio, small_plan

from shuffledp import plan_count, plan_quantiles
from shuffledp.errors import ShuffleDPError
from shuffledp.tasks.errors import BatchHeld, BatchRefused, TaskError
from shuffledp.tasks.reports import encrypted_top_up
from shuffledp.tasks.rules import TOP_UPS, BatchRule, check_complete, complete_shares
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES, BatchHeader


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Trio(tmp_path).task()


def test_rules_that_make_no_sense_are_refused(task: Task) -> None:
    with pytest.raises(TaskError, match="never leaves"):
        BatchRule(20, wait_seconds=5)
    with pytest.raises(ShuffleDPError):
        BatchRule(20, top_up="some")
    with pytest.raises(TaskError, match="smaller than"):
        Task.create(small_plan(), task.key, "short", BatchRule(19))
    with pytest.raises(TaskError, match="order"):
        Task.create(small_plan(), task.key, "x", order="by name")
    with pytest.raises(TaskError, match="name"):
        Task.create(small_plan(), task.key, "")
    with pytest.raises(TaskError, match="publish_noise"):
        Task.create(small_plan(), task.key, "x", publish_noise="some")
    quantiles = plan_quantiles(20, 2, (0, 1), bins=4, mse_overhead=8).to_dict()
    with pytest.raises(TaskError, match="publish_noise none"):
        Task.create(quantiles, task.key, "x")
    assert Task.create(quantiles, task.key, "x", publish_noise="none").publish_shares == 0


@given(st.integers(1, 30), st.integers(1, 6), st.lists(st.integers(0, 10**6), max_size=40))
def test_bad_messages_spoil_at_most_as_many_reports(
    reports: int, size: int, places: list[int]
) -> None:
    """Wherever bad messages lie, at least the promised number of reports has lost none."""
    bad = {place % (reports * size) for place in places}
    whole = sum(not any(message // size == report for message in bad) for report in range(reports))
    assert whole >= complete_shares(reports, len(bad), 0)


def test_a_batch_is_complete_up_to_its_slack() -> None:
    rule = BatchRule(25)
    assert rule.tolerated(20) == 5 and BatchRule(20).tolerated(20) == 0
    assert BatchRule(20, top_up="full").tolerated(20) == 20
    check_complete(25, 5, 0, 20)
    with pytest.raises(BatchHeld, match="19 of the 20"):
        check_complete(25, 6, 0, 20)
    with pytest.raises(BatchHeld, match="19 of the 20"):
        check_complete(5, 1, 15, 20)
    check_complete(5, 0, 15, 20)


def test_a_rule_says_when_a_batch_may_leave() -> None:
    plain = BatchRule(20)
    topped = BatchRule(20, top_up="missing", at_least=5, wait_seconds=60)
    assert plain.leaving(19, 10**9) == 0 and plain.leaving(20, 0) == 20
    assert topped.leaving(19, 59) == 0 and topped.leaving(20, 0) == 20
    assert topped.leaving(4, 60) == 0 and topped.leaving(5, 60) == 5
    assert topped.leaving(25, 60) == 20
    assert BatchRule(20, top_up="full").leaving(19, 10**9) == 0
    assert [plain.top_up_shares(20, 20), topped.top_up_shares(5, 20)] == [0, 15]
    assert BatchRule(20, top_up="full").top_up_shares(20, 20) == 20


@given(
    st.sampled_from(TOP_UPS),
    st.integers(0, 10),
    st.integers(0, 30),
    st.floats(0, 100, allow_nan=False),
)
def test_what_leaves_is_what_the_rule_allows(
    top_up: str, at_least: int, waiting: int, waited: float
) -> None:
    early = top_up != "none"
    rule = BatchRule(
        10, top_up=top_up, at_least=at_least if early else 0, wait_seconds=50 if early else 0
    )
    leaving = rule.leaving(waiting, waited)
    assert leaving == 0 or rule.fewest <= leaving <= min(waiting, rule.reports)
    shares = leaving + rule.top_up_shares(leaving, 10)
    assert leaving == 0 or shares >= 10  # as much noise as the certificate needs


def test_top_ups_that_do_not_fit_are_refused(task: Task) -> None:
    quantiles = plan_quantiles(20, 2, (0, 1), bins=4, mse_overhead=8).to_dict()
    early = BatchRule(20, top_up="missing", at_least=10, wait_seconds=60)
    with pytest.raises(TaskError, match="Quantiles need every report's own noise"):
        Task.create(quantiles, task.key, "x", early)
    billions = plan_count(2 * 10**9, "0.01").to_dict()
    assert Task.create(billions, task.key, "x", BatchRule(2 * 10**9))
    with pytest.raises(TaskError, match="more messages than a batch's header can count"):
        Task.create(billions, task.key, "x", BatchRule(2 * 10**9, top_up="full"))


def header_of(task: Task, reports: int = USERS) -> BatchHeader:
    shares = task.batch.top_up_shares(reports, USERS)
    return BatchHeader(
        task_id=task.id,
        batch_id=bytes(16),
        reports=reports,
        top_up_messages=task.top_up_size(shares),
        noise_shares=reports + shares,
    )


def refusal(task: Task, header: BatchHeader) -> tuple[str, int, int]:
    with pytest.raises(BatchRefused) as refused:
        task.check_batch(header, header.batch_bytes(task.report_size))
    return refused.value.code, refused.value.have, refused.value.need


def test_a_batch_that_follows_its_rule_is_taken(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    early = {"top_up": "missing", "at_least": 5, "wait_seconds": 1}
    for rule, reports in (({}, USERS), (early, 5), (early, USERS), ({"top_up": "full"}, USERS)):
        task = trio.task(batch=rule)
        header = header_of(task, reports)
        task.check_batch(header, header.batch_bytes(task.report_size))


def test_a_batch_that_does_not_follow_its_rule_is_refused(task: Task, tmp_path: Path) -> None:
    good = header_of(task)
    assert refusal(task, header_of(task, USERS - 1)) == ("short-batch", USERS - 1, USERS)
    assert refusal(task, header_of(task, USERS + 1)) == ("long-batch", USERS + 1, USERS)
    assert refusal(task, replace(good, noise_shares=USERS + 1))[0] == "top-up"
    assert refusal(task, replace(good, top_up_messages=1)) == ("top-up", 1, 0)
    full = Trio(tmp_path).task(batch={"top_up": "full"})
    assert refusal(full, replace(header_of(full), top_up_messages=0, noise_shares=USERS))[1] == 0
    with pytest.raises(BatchRefused, match="not as long") as refused:
        task.check_batch(good, good.batch_bytes(task.report_size) - 1)
    assert refused.value.code == "batch-size"
    with pytest.raises(TaskError, match="another task"):
        task.check_batch(replace(good, task_id=bytes(32)), 0)


def test_a_top_up_is_as_long_as_the_missing_reports(task: Task) -> None:
    assert list(encrypted_top_up(task, 0)) == [] and task.top_up_size(0) == 0
    assert task.top_up_size(5) == 5 * task.report_size
    for _ in range(5):
        made = b"".join(encrypted_top_up(task, 5))
        assert len(made) == task.top_up_size(5) * MESSAGE_BYTES
