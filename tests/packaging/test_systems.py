"""Systems without fcntl, without forks, or whose folders cannot be made durable."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shuffledp.documents import files
from shuffledp.documents.files import lock, sync, write_whole
from shuffledp.errors import ParameterError

POSIX_ONLY = """
import os, sys
import platformdirs  # chooses its file for this system when it is imported
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("register_at_fork", "geteuid", "getuid", "fork"):
    if hasattr(os, name):
        delattr(os, name)
opened = os.open
def no_folders(path, flags, *more, **named):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *more, **named)
os.open = no_folders
import warnings
warnings.simplefilter("ignore")  # filelock says that it has no fcntl
"""
LIBRARY = """
import shuffledp.documents.files as files
files.WINDOWS = True
from pathlib import Path
import shuffledp
from shuffledp.cli.main import main
from shuffledp.tasks.keys import KeyFolder
here = Path(sys.argv[1])
ledger = shuffledp.Ledger.create(here / "budget.json", 2)
assert 0 < shuffledp.count([True] * 50 + [False] * 50, epsilon=1, ledger=ledger).value < 100
assert ledger.remaining() == 1
folder = KeyFolder(here / "keys")
key = folder.new()
assert folder.retire(key.key_id).state == "retired"
folder.destroy(key.key_id)
assert folder.destroyed(key.key_id) and not folder.all()
assert main(["plan", "count", "--users", "100", "--epsilon", "1", "--output", str(here / "p")]) == 0
"""
CLIENT = """
import shuffledp.documents.files as files
files.WINDOWS = True
from pathlib import Path
import httpx2
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
import shuffledp, shuffledp.service.roles, shuffledp.service.store.sqlite
here = Path(sys.argv[1])
plan = shuffledp.plan_count(100, 1, padded=True).to_dict()
task = Task.create(
    plan, KeyFolder(here / "keys").new().public, "name", BatchRule(100), shuffler="https://s.example"
)
taken = httpx2.MockTransport(lambda request: httpx2.Response(201))
policy = ClientPolicy()
sys.path.insert(0, sys.argv[2])
from logged_tasks import proof_of
proof = proof_of(task)
with Client(
    task, task.shuffler, "t", here / "box", policy=policy, proof=proof, transport=taken
) as one:
    one.send(1)
    assert len(one.device.charges()) == 1
"""

SUPPORT = str(Path(__file__).parents[1] / "support")


def test_nothing_is_imported_that_only_posix_has() -> None:
    pattern = re.compile(r"^(import|from) (fcntl|resource|pwd|grp|termios)\b|os\.fchmod", re.M)
    sources = Path(files.__file__).parents[1].rglob("*.py")
    assert not [str(path) for path in sources if pattern.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("code", [LIBRARY, CLIENT], ids=["library", "client"])
def test_without_what_only_posix_has(tmp_path: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", POSIX_ONLY + code, str(tmp_path), SUPPORT],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_folder_that_cannot_be_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if os.fstat(handle).st_mode & 0o040000:
            raise OSError(number, "no")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(tmp_path / "a", "text", durable=True)
    assert (tmp_path / "a").read_text() == "text"


def test_a_file_that_cannot_be_made_durable_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: what a ledger or a device promises to have on disk is there, or it is refused."""

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ParameterError, match="cannot be written"):
        write_whole(tmp_path / "a", "text", durable=True)
    assert not list(tmp_path.iterdir())
    (tmp_path / "b").touch()
    for path in (tmp_path, tmp_path / "b"):
        with pytest.raises(OSError, match="no"):
            sync(path)


def test_windows_waits_for_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "being read")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ParameterError, match="being read"):
        write_whole(tmp_path / "a", "text")  # elsewhere that is no reason to wait
    monkeypatch.setattr(files, "WINDOWS", True)
    tries.clear()
    write_whole(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text" and len(tries) == 3


ADDING = """
import sys, time
from pathlib import Path
from shuffledp.documents.files import lock
number, path = Path(sys.argv[1]), Path(sys.argv[1] + ".lock")
Path(sys.argv[1] + ".ready" + sys.argv[2]).touch()
while len(list(number.parent.glob("*.ready*"))) < 4:
    time.sleep(0.001)
for _ in range(10):
    with lock(path):
        found = int(number.read_text() or "0")
        time.sleep(0.01)
        number.write_text(str(found + 1))
"""


def test_locks_are_exclusive_between_programs(tmp_path: Path) -> None:
    """Four programs start together and add one, ten times each; without the lock some is lost."""
    found = []
    for name, code in (
        ("locked", ADDING),
        ("free", ADDING.replace("with lock(path):", "if True:")),
    ):
        number = tmp_path / name / "number"
        number.parent.mkdir()
        number.write_text("0")
        running = [
            subprocess.Popen([sys.executable, "-c", code, str(number), str(one)])
            for one in range(4)
        ]
        codes = [one.wait(120) for one in running]
        found.append((codes, number.read_text()))
    assert found[0] == ([0] * 4, "40")
    assert found[1] != ([0] * 4, "40")


def test_a_killed_program_releases_its_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom shuffledp.documents.files import lock\n"
        "with lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError):
            lock(path, 0.05).acquire()
        holder.kill()
        holder.wait(30)
    with lock(path, 10):
        assert path.exists()


def test_a_lock_makes_no_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lock(tmp_path / "none" / "lock")
    assert not list(tmp_path.iterdir())
