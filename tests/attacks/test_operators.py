"""Operators who are told nothing, too little or the wrong thing."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_programs import Programs
from service_trio import Trio, bearing, known_report, sha

from shuffledp.cli.main import main
from shuffledp.service.client.collector import register
from shuffledp.service.demo import local_servers, new_tokens, wait_ready
from shuffledp.service.errors import Refused
from shuffledp.service.tokens import new_token
from shuffledp.tasks.keys import KeyFolder

ANOTHER = "another-collector-secret"


def configured(tmp_path: Path, **changes: Any) -> Path:
    """A configuration of both servers that works, except for the changes: `role_name=value`."""
    trio = Trio(tmp_path)
    tables = {
        "shuffler": vars(trio.shuffler_config) | {"listen": "127.0.0.1:0"},
        "analyzer": vars(trio.analyzer_config)
        | {"listen": "127.0.0.1:0", "collector_token_sha256": sha(ANOTHER)},
    }
    for name, value in changes.items():
        role, _, setting = name.partition("_")
        tables[role][setting] = value
    lines = []
    for role, table in tables.items():
        lines += [f"[{role}]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    file = tmp_path / "service.toml"
    file.write_text("\n".join(lines))
    return file


def started(role: str, file: Path) -> list[dict[str, Any]]:
    """What a server that cannot start logs."""
    words = [sys.executable, "-m", "shuffledp.cli.main", role, "serve", "--config", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return [
        json.loads(line) if line.startswith("{") else {"event": "said", "reason": line}
        for line in done.stderr.splitlines()
    ]


@pytest.mark.attack("a server that cannot start and does not say why")
@pytest.mark.parametrize("trouble", ["folder", "no database", "port", "spool", "tls"])
def test_the_reason_is_in_the_log(tmp_path: Path, trouble: str) -> None:
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen()
    (tmp_path / "text.db").write_text("no database " * 1000)
    changes: dict[str, dict[str, Any]] = {
        "folder": {"shuffler_store": f"sqlite:{tmp_path}/none/s.db"},
        "no database": {"shuffler_store": f"sqlite:{tmp_path}/text.db"},
        "port": {"shuffler_listen": f"127.0.0.1:{busy.getsockname()[1]}"},
        "spool": {"shuffler_spool": "/dev/null/spool"},
        "tls": {"shuffler_tls_certificate": "none.pem", "shuffler_tls_key": "none.key"},
    }
    expected = {
        "folder": "No such file or directory",
        "no database": "not an SQLite database",
        "port": "address already in use",
        "spool": "Not a directory",
        "tls": "No such file or directory",
    }
    lines = started("shuffler", configured(tmp_path, **changes[trouble]))
    busy.close()
    reasons = [line.get("reason", "") for line in lines]
    assert any(expected[trouble] in reason for reason in reasons), lines


@pytest.mark.attack("a configuration that is called good and is not")
def test_config_check_opens_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen()
    (tmp_path / "text.db").write_text("no database " * 1000)
    (tmp_path / "bad.pem").write_text("no certificate")
    (tmp_path / "badkeys").mkdir()
    (tmp_path / "badkeys" / "key-1.json").write_text("{}")
    (tmp_path / "badledger.json").write_text("{}")
    bad = str(tmp_path / "bad.pem")
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("analyzer", {"analyzer_budget": "abc"}, "budget"),
        ("analyzer", {"analyzer_budget": "-1"}, "budget"),
        ("analyzer", {"analyzer_keys": str(tmp_path / "nokeys")}, "no active key"),
        ("analyzer", {"analyzer_keys": str(tmp_path / "badkeys")}, "cannot be read"),
        ("analyzer", {"analyzer_ledger": f"{tmp_path}/none/ledger.json"}, "ledger: nothing can"),
        ("analyzer", {"analyzer_ledger": str(tmp_path / "badledger.json")}, "ledger:"),
        ("shuffler", {"shuffler_store": f"sqlite:{tmp_path}/none/s.db"}, "store:"),
        ("shuffler", {"shuffler_store": f"sqlite:{tmp_path}/text.db"}, "store:"),
        ("shuffler", {"shuffler_store": "postgresql://x@127.0.0.1:1/y"}, "PostgreSQL cannot"),
        ("shuffler", {"shuffler_spool": "/dev/null/spool"}, "spool:"),
        ("shuffler", {"shuffler_tls_certificate": bad, "shuffler_tls_key": bad}, "tls_"),
        ("shuffler", {"shuffler_analyzer": "http://"}, "analyzer must be a URL"),
        ("shuffler", {"shuffler_analyzer": "https://host:99999"}, "analyzer must be a URL"),
        ("shuffler", {"shuffler_listen": f"127.0.0.1:{busy.getsockname()[1]}"}, "listen ="),
        ("shuffler", {"analyzer_collector_token_sha256": ""}, ""),
    ]
    for role, changes, says in cases:
        file = configured(tmp_path, **changes)
        code = main(["config", "check", role, "--config", str(file)])
        said = capsys.readouterr()
        assert code == (2 if says else 0), (changes, said)
        assert says in said.err
        assert all(line.endswith(".") for line in said.err.splitlines())
    busy.close()
    both = configured(tmp_path, analyzer_budget="abc", analyzer_confidence_percent=0)
    assert main(["config", "check", "analyzer", "--config", str(both)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_config_check_is_content_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twin: what works is called good, and nothing is made by checking."""
    file = configured(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for role in ("shuffler", "analyzer"):
        assert main(["config", "check", role, "--config", str(file)]) == 0
        assert "can start" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.attack("a full disk behind a server that says it is ready")
def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task, programs = trio.task(users=400), Programs(trio)
    url = programs.urls["shuffler"]

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    try:
        programs.start("analyzer")
        programs.start("shuffler", before=small_disk)
        for server in programs.urls.values():
            wait_ready(server)  # twin: with room it is ready
        programs.register(task)
        path = f"{url}/tasks/{task.id.hex()}/reports"
        with httpx2.Client() as client:
            for token in programs.enrol(300):
                body = known_report(task, 1)[0]
                status = client.post(path, content=body, headers=bearing(token)).status_code
                if status == 503:
                    break
            assert status == 503
            for _ in range(1200):
                ready = client.get(f"{url}/readyz")
                if ready.status_code == 503:
                    break
                time.sleep(0.05)
        assert ready.status_code == 503 and "free space" in ready.json()["detail"]
        assert httpx2.get(f"{url}/livez").status_code == 200
    finally:
        programs.stop()


@pytest.mark.attack("a server that uses the collector's token at the other")
def test_collector_tokens_are_valid_at_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trio = Trio(tmp_path)
    (tmp_path / "demo").mkdir()
    with local_servers(tmp_path / "demo") as servers:
        trio.keys = KeyFolder(tmp_path / "demo" / "keys")
        task = trio.task()
        tokens, key = servers.collector_tokens, servers.signing_keys["collector"]
        for own, other in (("analyzer", "shuffler"), ("shuffler", "analyzer")):
            with pytest.raises(Refused, match="Only the collector"):
                register(task, getattr(servers, own), tokens[other], key)
            assert register(task, getattr(servers, own), tokens[own], key)
    file = tmp_path / "task.json"
    file.write_bytes(task.canonical())
    for server in ("SHUFFLER", "ANALYZER"):
        monkeypatch.setenv(f"SHUFFLEDP_COLLECTOR_TOKEN_{server}", "same")
    words = ["task", "register", str(file), "--shuffler", "http://s", "--analyzer", "http://a"]
    words += ["--signing-key", str(tmp_path / "demo" / "collector-signing.json")]
    assert main(words) == 2


def test_tokens_never_look_like_options() -> None:
    assert not any(new_token().startswith("-") for _ in range(2000))
    tokens = new_tokens()
    assert len(set(tokens.values())) == len(tokens)
