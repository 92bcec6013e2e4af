"""Configurations from a file and the environment, and what is said about wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from service_trio import COLLECTOR, DELIVERY, OPERATOR, sha

from shuffledp.cli.config import without_secrets
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.checking import checked_config
from shuffledp.service.errors import ConfigError
from shuffledp.service.http.config import host_and_port, load_config
from shuffledp.service.roles import serve_role
from shuffledp.service.shuffler.config import ShufflerConfig

GOOD = f"""
[shuffler]
store = "sqlite:here.db"
collector_token_sha256 = "{sha(COLLECTOR)}"
operator_token_sha256 = "{sha(OPERATOR)}"

[analyzer]
collector_token_sha256 = "{sha(COLLECTOR)}"
shuffler_token_sha256 = "{sha(DELIVERY)}"
operator_token_sha256 = "{sha(OPERATOR)}"
"""


def test_one_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD)
    environ = {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d",
        "SHUFFLEDP_SHUFFLER_QUEUE": "7",
        "SHUFFLEDP_SHUFFLER_STORE": "postgresql://x/y",
    }
    config = load_config(file, ShufflerConfig, environ)
    assert (config.queue, config.store, config.deliver_token) == (7, "postgresql://x/y", "d")
    assert host_and_port(config.listen) == ("127.0.0.1", 8800)
    assert load_config(file, AnalyzerConfig, {}).confidence_percent == 95


@pytest.mark.parametrize(
    ("text", "environ", "says"),
    [
        (GOOD, {}, "deliver_token is missing"),
        ("", {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d"}, "64 hexadecimal digits"),
        (GOOD + "\n[other]\n", {}, r"a table \[other\]"),
        ("[shuffler]\nspeed = 3\n", {}, "no setting speed"),
        ("[shuffler]\nqueue = 'x'\n", {}, "queue must be a whole number"),
        ("[shuffler\n", {}, "not valid TOML"),
        ("shuffler = 5\n", {}, r"must be a table; begin it with a line \[shuffler\]"),
        ("[shuffler]\nqueue = 10000000000\n", {}, "queue is too large"),
        (GOOD, {"SHUFFLEDP_SHUFFLER_QUEUE": "--5"}, "queue must be a whole number"),
        (GOOD, {"SHUFFLEDP_SHUFFLER_QUEUE": "10000000000"}, "queue is too large"),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_SPOOL": "file:///here"},
            "spool must be a folder's path",
        ),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_STORE": "mysql://"},
            "store must be",
        ),
        *(
            (
                GOOD,
                {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_STORE": store},
                "store must be sqlite:<path of a file>",
            )
            for store in ("sqlite:", "sqlite::memory:")
        ),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_LISTEN": "8800"},
            "listen must be",
        ),
        (
            GOOD,
            {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d", "SHUFFLEDP_SHUFFLER_TLS_KEY": "k"},
            "must be set together",
        ),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(
    tmp_path: Path, text: str, environ: dict[str, str], says: str
) -> None:
    file = tmp_path / "service.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_config(file, ShufflerConfig, environ)


def test_a_file_in_another_encoding_is_refused_and_a_byte_order_mark_accepted(
    tmp_path: Path,
) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD, "utf-16")
    with pytest.raises(ConfigError, match="save it as UTF-8"):
        load_config(file, AnalyzerConfig, {})
    file.write_text(GOOD, "utf-8-sig")
    load_config(file, AnalyzerConfig, {})


def test_the_check_finds_that_the_program_of_the_keys_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_DELIVER_TOKEN", "d")
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_LISTEN", "127.0.0.1:0")
    Path("service.toml").write_text(GOOD.partition("[analyzer]")[0])
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_KEYS_COMMAND", sys.executable)
    checked_config("shuffler", "service.toml")
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_KEYS_COMMAND", "./keys")
    with pytest.raises(ConfigError, match="keys_command: there is no program"):
        checked_config("shuffler", "service.toml")


def test_the_example_configuration_has_no_unknown_settings() -> None:
    file = Path(__file__).parents[2] / "deploy" / "service.toml"
    environ = {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "d"}
    assert host_and_port(load_config(file, ShufflerConfig, environ).listen)[1] == 8801
    assert host_and_port(load_config(file, AnalyzerConfig, environ).listen)[1] == 8802


def test_no_workers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "service.toml"
    file.write_text(GOOD)
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_DELIVER_TOKEN", "d")
    with pytest.raises(ConfigError, match="workers must be at least 1"):
        serve_role("shuffler", str(file), workers=0)


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("postgresql://u:s3cret@h:5432/db", "postgresql://u:(set)@h:5432/db"),
        ("postgresql://u:s3cret:@h@h/db", "postgresql://u:(set)@h/db"),
        ("postgresql://h/db?user=u&password=s3cret&x=1", None),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("sqlite:a@b.db", "sqlite:a@b.db"),
    ],
)
def test_settings_are_shown_without_their_secrets(store: str, shown: str | None) -> None:
    config = ShufflerConfig(store=store, deliver_token="s3cret", token_days=3)
    found = without_secrets(config)
    assert found["store"] == (shown or "postgresql://h/db?user=u&password=(set)&x=1")
    assert found["deliver_token"] == "(set)" and found["token_days"] == 3
    assert "s3cret" not in str(found)
