"""Nobody is talked into other parameters (must hold 4)."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_trio import Trio, small_plan

from shuffledp import plan_count, plan_quantiles
from shuffledp.cells.paper import PaperCell
from shuffledp.errors import ShuffleDPError
from shuffledp.protocols.integer_sum import Counting
from shuffledp.sealed.encryption import PublicKey, encrypt_all, open_all
from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.task import BatchRule, Task, report_size, task_from_json
from shuffledp.service.client.sending import Client


@pytest.fixture
def task(tmp_path):
    return Trio(tmp_path).task()


def test_id_is_the_hash_of_the_canonical_text(task):
    assert task.id == hashlib.sha256(task.canonical()).digest()
    assert task_from_json(task.canonical()).id == task.id
    pretty = json.dumps(json.loads(task.canonical()), indent=3)
    assert task_from_json(pretty, task.id).id == task.id


def leaves(data, path=()):
    if isinstance(data, dict):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from leaves(value, (*path, place))
    else:
        yield path


def test_every_single_number_is_in_the_id(task):
    data = json.loads(task.canonical())
    changed = 0
    for path in leaves(data):
        other = json.loads(task.canonical())
        target = other
        for step in path[:-1]:
            target = target[step]
        value = target[path[-1]]
        target[path[-1]] = (
            (not value)
            if isinstance(value, bool)
            else value + 1
            if isinstance(value, int)
            else f"{value}1"
        )
        with pytest.raises(ShuffleDPError):
            task_from_json(json.dumps(other), task.id)
        changed += 1
    assert changed > 20


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("certificate", "protocol", "cell", "flood_mean"), "1/2"),
        (("certificate", "protocol", "cell", "input_pairs"), 0),
        (("certificate", "protocol", "cell", "mute_probability"), "1/1000000"),
        (("certificate", "epsilon"), "1"),
        (("report_size",), 10),
        (("batch", "reports"), 19),
    ],
)
def test_a_weakened_task_is_not_believed(task, where, value, tmp_path):
    """A client re-checks the certificate before it sends anything."""
    data = json.loads(task.canonical())
    target = data
    for step in where[:-1]:
        target = target[step]
    target[where[-1]] = value
    weak = task_from_json(json.dumps(data))
    with pytest.raises(ShuffleDPError):
        weak.verify()
    with pytest.raises(ShuffleDPError):
        Client(weak, "http://127.0.0.1:1", "token", tmp_path / "outbox")
    assert not (tmp_path / "outbox").exists()


def test_a_ciphertext_opens_under_its_own_task_only(tmp_path, task):
    key = Trio(tmp_path).keys.all()[0]
    sealed = encrypt_all([1], key.public, task.id)
    assert open_all([sealed], key.secret, key.public.info(task.id)) == ([1], 0)
    other = bytes(32)
    assert open_all([sealed], key.secret, key.public.info(other)) == ([], 1)
    next_epoch = PublicKey(key.key_id, key.epoch + 1, key.public.raw)
    assert open_all([sealed], key.secret, next_epoch.info(task.id)) == ([], 1)


def test_rules_that_make_no_sense_are_refused(task):
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


def test_a_rule_says_when_a_batch_may_leave():
    plain, topped = BatchRule(20), BatchRule(20, "missing", at_least=5, wait_seconds=60)
    assert not plain.enough(19, 10**9) and plain.enough(20, 0)
    assert not topped.enough(19, 59) and topped.enough(20, 0)
    assert not topped.enough(4, 60) and topped.enough(5, 60)
    assert BatchRule(20, "full").enough(19, 10**9) is False
    assert [plain.extra_shares(20, 20), topped.extra_shares(5, 20)] == [0, 15]
    assert BatchRule(20, "full").extra_shares(20, 20) == 20


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_other_json_is_no_task(data):
    with pytest.raises(TaskError):
        task_from_json(json.dumps(data))


def test_a_task_of_a_larger_k_is_fine(task):
    """More padding than needed costs bytes, not privacy."""
    data = json.loads(task.canonical()) | {"report_size": task.report_size + 5}
    task_from_json(json.dumps(data)).verify()


def test_a_report_that_would_be_too_large_is_refused():
    slow = Fraction(1, 10_000)
    cell = PaperCell(
        users=1000,
        largest=1,
        up_epsilon=slow,
        down_epsilon=slow,
        mute_probability=Fraction(1, 100),
        input_pairs=3,
        flood_mean=Fraction(5),
    )
    with pytest.raises(TaskError, match="and can have 65,535; plan with padded"):
        report_size(Counting(Fraction(1), cell), 1000)


def test_top_ups_that_do_not_fit_are_refused(task):
    quantiles = plan_quantiles(20, 2, (0, 1), bins=4, mse_overhead=8).to_dict()
    with pytest.raises(TaskError, match="Quantiles need every report's own noise"):
        Task.create(quantiles, task.key, "x", BatchRule(20, "missing", 10, 60))
    billions = plan_count(2 * 10**9, "0.01").to_dict()
    assert Task.create(billions, task.key, "x", BatchRule(2 * 10**9))
    with pytest.raises(TaskError, match="more messages than a batch can say"):
        Task.create(billions, task.key, "x", BatchRule(2 * 10**9, "full"))
