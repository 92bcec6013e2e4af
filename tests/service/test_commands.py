"""The service's commands, and the demo."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from service_programs import Programs
from service_trio import COLLECTOR, OPERATOR, Trio, sha, small_plan

from shuffledp.cli.main import main
from shuffledp.errors import ShuffleDPError
from shuffledp.service.demo import free_port
from shuffledp.service.errors import AlreadyAnswered, ConfigError, PolicyRefused

Run = Callable[..., str]
MODULES = ("task", "keys", "send", "serve", "result", "config", "demo")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command and gives what it printed."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for name in MODULES:
        importlib.import_module(f"shuffledp.cli.{name}").add_to(commands)

    def command(*words: object) -> str:
        args = parser.parse_args([str(word) for word in words])
        args.run(args)
        return str(capsys.readouterr().out)

    return command


def test_from_a_plan_to_a_result(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUFFLEDP_COLLECTOR_TOKEN_SHUFFLER", COLLECTOR)
    monkeypatch.setenv("SHUFFLEDP_COLLECTOR_TOKEN_ANALYZER", "another")
    monkeypatch.setenv("SHUFFLEDP_OPERATOR_TOKEN", OPERATOR)
    trio = Trio(tmp_path)
    trio.analyzer_config = replace(trio.analyzer_config, collector_token_sha256=sha("another"))
    plan, key, task = tmp_path / "plan.json", tmp_path / "key.json", tmp_path / "task.json"
    plan.write_text(json.dumps(small_plan()))
    key.write_text(run("keys", "show", tmp_path / "keys"))
    made = run(
        "task",
        "create",
        "--plan",
        plan,
        "--key",
        key,
        "--name",
        "dark mode",
        "--question",
        "Do you use dark mode?",
        "--analyzer-operator",
        "the university",
        "--shuffler",
        "https://shuffler.example/",
        "--expires",
        "30d",
        "--reports",
        20,
        "--output",
        task,
        "--json",
    )
    number = json.loads(made)["task"]
    assert json.loads(run("task", "show", task, "--json"))["name"] == "dark mode"
    shown = run("task", "show", task)
    assert all(text in shown for text in ("dark mode", "the university", "shuffler.example", "UTC"))
    assert "Verified" in run("task", "verify", task)
    with Programs(trio).both() as (shuffler, analyzer):
        public = run("keys", "signing", tmp_path / "collector.json").strip()
        assert json.loads(run("keys", "signing", tmp_path / "collector.json", "--json")) == {
            "public": public,
            "new": False,
        }
        words = ["task", "register", task, "--shuffler", shuffler, "--analyzer", analyzer]
        said = run(*words, "--signing-key", tmp_path / "collector.json")
        assert "Registered" in said and public in said
        run("shuffler", "enrol", "--shuffler", shuffler, "--count", 20, "--output", tmp_path / "t")
        tokens = (tmp_path / "t").read_text().split()
        assert "Nothing is published" in run("result", "--task", task, "--analyzer", analyzer)
        for user, token in enumerate(tokens):
            box = tmp_path / "boxes" / str(user)
            words = ["send", "--task", task, "--shuffler", shuffler]
            words += ["--token", token, "--outbox", box, "--least-users", 20]
            words += ["--signing-key", f"collector={public}"]
            monkeypatch.setenv("SHUFFLEDP_VALUE", str(user % 2))
            run(*words)
        with pytest.raises(AlreadyAnswered):
            run(*words)
        with pytest.raises(PolicyRefused, match="signing_keys"):
            run(*words[:-1], f"collector={'0' * 64}", "--outbox", tmp_path / "another")
        run(*words, "--resume")
        while not json.loads(run("result", "--task", number, "--analyzer", analyzer, "--json")):
            pass
        assert "count ≈" in run("result", "--task", task, "--analyzer", analyzer)
        assert run("result", "--task", task, "--analyzer", analyzer, "--csv").count("\n") == 2
        assert "no more" in run("task", "close", task, "--shuffler", shuffler)


def test_keys_and_tokens(tmp_path: Path, run: Run) -> None:
    first = json.loads(run("keys", "new", tmp_path))
    assert first["key_id"] == 1
    assert "retired" in run("keys", "retire", tmp_path, "--id", 1)
    with pytest.raises(ShuffleDPError, match="no active key"):
        run("keys", "show", tmp_path)
    run("keys", "destroy", tmp_path, "--id", 1, "--yes")
    assert json.loads(run("keys", "new", tmp_path))["key_id"] == 2
    made = json.loads(run("keys", "token", "--json"))
    assert len(made["sha256"]) == 64 and made["token"] not in made["sha256"]


def test_config_check_says_what_is_wrong(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "service.toml"
    file.write_text("[shuffler]\n")
    with pytest.raises(ConfigError, match="deliver_token"):
        run("config", "check", "shuffler", "--config", file)
    trio = Trio(tmp_path)
    file.write_text(Programs(trio).toml())
    with pytest.raises(ConfigError, match="same for two servers"):
        run("config", "check", "shuffler", "--config", file)
    trio.analyzer_config = replace(trio.analyzer_config, collector_token_sha256=sha("another"))
    file.write_text(Programs(trio).toml())
    shown = run("config", "check", "shuffler", "--config", file)
    assert "can start" in shown and "delivery-secret" not in shown


def test_a_missing_token_is_said(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHUFFLEDP_COLLECTOR_TOKEN_SHUFFLER", raising=False)
    task = tmp_path / "task.json"
    task.write_bytes(Trio(tmp_path).task().canonical())
    with pytest.raises(ShuffleDPError, match="SHUFFLEDP_COLLECTOR_TOKEN_SHUFFLER"):
        run("task", "close", task, "--shuffler", "http://127.0.0.1:1")
    with pytest.raises(ShuffleDPError, match="does not answer"):
        run("task", "close", task, "--shuffler", "http://127.0.0.1:1", "--token", "t")


def test_values_are_read_as_the_protocol_wants_them(tmp_path: Path) -> None:
    protocol = Trio(tmp_path).task().protocol
    assert protocol.parse("1") == 1
    with pytest.raises(ShuffleDPError, match="number"):
        protocol.parse("yes")


def test_the_demo_ends_with_the_estimate_and_cleans_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = json.loads(run("demo", "--users", 30, "--epsilon", 2, "--json"))
    assert 0 <= found["truth"] <= 30 and found["reports"] == 30
    assert abs(found["result"]["estimate"] - found["truth"]) < 25
    assert list(Path(tmp_path).glob("shuffledp-demo-*")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing keeps a port")
def test_a_free_port_is_kept_for_the_server_that_is_started_next() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", ports[0]))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", ports[0]))
        server.listen()


def test_sigterm_ends_the_demo_and_its_servers(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    code = "import sys; from shuffledp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "demo", "--users", "20000", "--issuer", "--relay"]
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        said = [demo.stderr.readline() for _ in range(3)]
        ports = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", " ".join(said))]
        assert len(ports) == 4, said
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(60) == 128 + signal.SIGTERM
        for port in ports:
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert list(tmp_path.glob("shuffledp-demo-*")) == []


@pytest.mark.parametrize("option", ["--name", "--question", "--collector-operator"])
def test_a_text_that_is_too_long_for_a_task_is_named_by_its_option(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["task", "create", "--plan", "none", "--key", "none", "--name", "x", "--output", "-"]
    assert main([*words, "--shuffler", "https://s.example", option, "x" * 2000]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{option} must be a text of 1 to ") and "author" not in said
