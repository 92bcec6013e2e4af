"""A device needs `shuffledp[client]` and nothing that only servers use."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from logged_tasks import proof_of
from service_trio import Trio

ROOT = Path(__file__).resolve().parents[2]
SERVER_PACKAGES = ("uvicorn", "starlette", "httptools", "uvloop", "apsw", "asyncpg", "psycopg")
SENDING = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[3].split(",")):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import httpx2
from fractions import Fraction
from shuffledp.tasks.task import task_from_json
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
from shuffledp.tasks.log import TaskProof
import shuffledp.cli.send, shuffledp.cli.device

proof = TaskProof.from_json(open(sys.argv[1] + ".proof").read())
task = task_from_json(open(sys.argv[1], "rb").read())
policy = ClientPolicy(least_users=1)
sent = []
transport = httpx2.MockTransport(lambda request: sent.append(request) or httpx2.Response(201))
with Client(
    task, task.shuffler, "token", sys.argv[2], policy=policy, proof=proof, transport=transport
) as one:
    one.send(1)
print(len(sent[0].content), sorted(set(sys.argv[3].split(",")) & set(sys.modules)))
"""


def sending(task: Path, box: Path, missing: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Sends a value in a program in which these packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", SENDING, str(task), str(box), ",".join(missing)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_device_sends_without_any_package_of_the_servers(tmp_path: Path) -> None:
    task, file = Trio(tmp_path).task(cell="bounded"), tmp_path / "task.json"
    file.write_bytes(task.canonical())
    Path(f"{file}.proof").write_text(proof_of(task).to_json())
    done = sending(file, tmp_path / "box", SERVER_PACKAGES)
    assert done.stdout.split(" ", 1) == [str(task.report_bytes), "[]\n"], done.stderr
    # the twin: without what the extra brings nothing is sent
    refused = sending(file, tmp_path / "other", ("httpx2",))
    assert refused.returncode != 0 and "httpx2" in refused.stderr


def test_the_extra_names_no_server_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = {re.split("[^a-z0-9]", need)[0] for need in extras["client"]}
    assert names == {"cryptography", "httpx2", "tenacity"} and not names & set(SERVER_PACKAGES)
    assert "shuffledp[client]" in extras["service"]
