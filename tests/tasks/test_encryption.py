"""A ciphertext is bound to its task and its key."""

from __future__ import annotations

from pathlib import Path

from service_trio import Trio

from shuffledp.tasks.encryption import encrypt_all, open_all
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.wire import MESSAGE_BYTES


def test_a_ciphertext_opens_under_its_own_task_only(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task, key = trio.task(), trio.keys.all()[0]
    encrypted = encrypt_all([1], key.public, task.id)
    assert len(encrypted) == MESSAGE_BYTES
    assert open_all([encrypted], key.secret, key.public.info(task.id)) == ([1], 0)
    other = bytes(32)
    assert open_all([encrypted], key.secret, key.public.info(other)) == ([], 1)
    next_epoch = PublicKey(key.key_id, key.epoch + 1, key.public.raw)
    assert open_all([encrypted], key.secret, next_epoch.info(task.id)) == ([], 1)
