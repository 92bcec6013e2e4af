"""The analyzer's keys in their folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shuffledp.cli.main import main
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder, PublicKey


def test_keys_are_private_files_and_can_be_destroyed(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys")
    first = folder.new()
    file = tmp_path / "keys" / "key-1.json"
    assert file.stat().st_mode & 0o777 == 0o600 and "secret" in file.read_text()
    assert first.secret.hex() not in repr(first) and first.noise_secret.hex() not in repr(first)
    assert folder.retire(1).noise_secret == first.noise_secret == folder.known(1).noise_secret
    folder.destroy(1)
    assert folder.all() == [] and folder.new().key_id == 2
    for left in (tmp_path / "keys").iterdir():
        assert first.secret.hex() not in left.read_text()
        assert first.noise_secret.hex() not in left.read_text()
    with pytest.raises(TaskError, match="no key 9"):
        folder.retire(9)


@pytest.mark.parametrize("left", ["key-1.old", ".key-1.json.0123456789abcdef"])
@pytest.mark.parametrize("retired", [False, True])
def test_no_copy_that_a_killed_process_left_outlives_its_key(
    tmp_path: Path, left: str, retired: bool
) -> None:
    """The other name of an erased file shows that its bytes were overwritten, too."""
    folder = KeyFolder(tmp_path / "keys")
    first, file = folder.new(), tmp_path / "keys" / "key-1.json"
    (tmp_path / "keys" / left).write_bytes(file.read_bytes())
    (tmp_path / "seen").hardlink_to(tmp_path / "keys" / left)
    if retired:
        folder.retire(1)
    folder.destroy(1)
    assert [one.name for one in (tmp_path / "keys").iterdir()] == ["key-1.destroyed"]
    assert first.secret.hex() not in (tmp_path / "seen").read_text()


def test_a_second_name_of_the_key_itself_is_not_erased(tmp_path: Path) -> None:
    """A process was killed after it had given the file that it would replace another name."""
    folder = KeyFolder(tmp_path)
    first = folder.new()
    (tmp_path / "key-1.old").hardlink_to(tmp_path / "key-1.json")
    assert folder.retire(1).secret == first.secret == folder.known(1).secret
    assert [one.name for one in tmp_path.iterdir()] == ["key-1.json"]


def test_a_destruction_that_was_killed_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes were overwritten, but the file has its old name. Twin: there is no such key."""
    folder = KeyFolder(tmp_path)
    folder.new()

    def killed(*_: object) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        folder.destroy(1)
    assert main(["keys", "destroy", str(tmp_path), "--id", "1", "--yes"]) == 0
    assert folder.destroyed(1) and folder.all() == []
    with pytest.raises(TaskError, match="no key 1"):
        folder.destroy(1)
    assert main(["keys", "destroy", str(tmp_path), "--id", "1", "--yes"]) == 2


def test_a_public_key_is_read_back_and_other_json_is_refused(tmp_path: Path) -> None:
    key = KeyFolder(tmp_path).new().public
    assert PublicKey.from_dict(key.to_dict()) == key
    for change in ({"key_id": 0}, {"epoch": 1 << 32}, {"public": "00"}, {"public": None}):
        with pytest.raises(TaskError):
            PublicKey.from_dict(key.to_dict() | change)


def test_a_damaged_key_file_is_named(tmp_path: Path) -> None:
    KeyFolder(tmp_path).new()
    file = tmp_path / "key-1.json"
    good = json.loads(file.read_text())
    without = {name: good[name] for name in good if name != "noise_secret"}
    for text in (
        "{",
        json.dumps(without),
        json.dumps(good | {"noise_secret": ""}),
        json.dumps(good | {"format": "shuffledp analyzer key 1"}),
    ):
        file.write_text(text)
        with pytest.raises(TaskError, match=r"key-1\.json cannot be read"):
            KeyFolder(tmp_path).all()
    file.write_text(json.dumps(good))
    assert len(KeyFolder(tmp_path).all()) == 1
