"""`shuffledp init` and the exchange of introductions: complete, without secrets, and pinned."""

from __future__ import annotations

import json
import os
import re
import stat
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shuffledp.cli.main import main
from shuffledp.errors import ParameterError
from shuffledp.service import demo
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.errors import Unreachable
from shuffledp.service.http.config import load_config
from shuffledp.service.roles import ROLE_CONFIGS
from shuffledp.service.setup import rehearsal
from shuffledp.service.setup.explained import explained_toml, settings
from shuffledp.service.setup.folder import REHEARSAL_REPORTS, Folder, Organisation
from shuffledp.service.setup.introduction import Introduction
from shuffledp.tasks.clock import DAY_SECONDS
from shuffledp.tasks.keys import PublicKey

yaml: Any = pytest.importorskip("yaml")
URLS = {
    "shuffler": "https://mixing.example:8801",
    "analyzer": "https://statistics.example",
    "issuer": "https://issuer.example",
    "relay": "https://relay.example",
}


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


def made(folder: Path, *roles: str) -> Folder:
    url = next((URLS[role] for role in roles if role in URLS), "")
    Organisation(folder=folder, name=f"Example {roles[0]}", roles=roles, url=url).create()
    return Folder(folder)


@pytest.mark.parametrize("role", ROLE_CONFIGS)
def test_every_setting_is_explained_and_the_file_can_be_read(role: str) -> None:
    kind = ROLE_CONFIGS[role]
    names = [one.name for one in settings(kind)]
    defaults = {name for name in vars(kind()) if name not in kind.unused}
    assert set(names) == defaults and all(one.meaning.endswith(".") for one in settings(kind))
    text = explained_toml(kind, {"listen": "127.0.0.1:1"}, {"allow_origins": "somebody"})
    given = tomllib.loads(text)[role]
    assert given == {"listen": "127.0.0.1:1", "allow_origins": ""}
    everything = re.sub(r'^# (\w+ = (?:["\[]|\d).*)$', r"\1", text, flags=re.M)
    assert set(tomllib.loads(everything)[role]) == defaults


def test_two_organisations_need_one_file_of_each(tmp_path: Path, monkeypatch: Any) -> None:
    mixing = made(tmp_path / "mixing", "shuffler")
    statistics = made(tmp_path / "statistics", "analyzer", "collector")
    assert mixing.missing() == ["analyzer", "collector"] and statistics.missing() == ["shuffler"]
    mixing.learn(statistics.own)
    statistics.learn(mixing.own)
    assert mixing.missing() == statistics.missing() == []
    for folder, role in ((mixing, "shuffler"), (statistics, "analyzer")):
        environ = folder.secrets("secrets.env")
        config = load_config(folder.path / "service.toml", ROLE_CONFIGS[role], environ)
        assert config.tls_key == "tls/key.pem"
        assert config.collector_signing_key == statistics.own.roles["collector"]["signing_key"]
        compose = yaml.safe_load((folder.path / "compose.yaml").read_text("utf-8"))
        service = compose["services"][role]
        assert service["command"] == ["start", "/data"] and service["read_only"]
        assert service["cap_drop"] == ["ALL"] and not service["user"].startswith("0:")
    policy = ClientPolicy.load(statistics.path / "policy.json")
    key = PublicKey.from_dict(statistics.own.roles["analyzer"]["key"])
    assert policy.analyzer_keys == (key.raw.hex(),)
    assert policy.signing_keys["shuffler"] == (mixing.own.roles["shuffler"]["signing_key"],)
    assert len(mixing.to_enrol.read_text().split()) == REHEARSAL_REPORTS


@pytest.mark.parametrize("roles", [("issuer",), ("relay",), ("collector",), ("shuffler",)])
def test_every_role_can_be_set_up_alone(tmp_path: Path, roles: tuple[str, ...]) -> None:
    others = [
        made(tmp_path / name, *of)
        for name, of in (("s", ("shuffler",)), ("a", ("analyzer",)), ("c", ("collector",)))
        if not set(of) & set(roles)
    ]
    folder = made(tmp_path / "mine", *roles)
    for other in others:
        folder.learn(other.own)
    assert folder.missing() == []
    if folder.server:
        environ = folder.secrets("secrets.env")
        load_config(folder.path / "service.toml", ROLE_CONFIGS[folder.server], environ)


def test_an_introduction_has_no_secrets_and_secrets_are_private(tmp_path: Path) -> None:
    for name, roles in (("one", ("shuffler",)), ("two", ("analyzer", "collector"))):
        folder = made(tmp_path / name, *roles)
        public = (folder.path / "introduction.json").read_text("utf-8")
        for file in folder.path.rglob("*"):
            if file.is_file() and file.name not in ("introduction.json", "compose.yaml"):
                if file.parent.name == "known":
                    continue
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        for secret in (
            "operator-token.txt",
            "secrets.env",
            "collector.env",
            "rehearsal-tokens.txt",
        ):
            path = folder.path / secret
            for line in path.read_text("utf-8").split() if path.exists() else []:
                assert line.rpartition("=")[2] not in public
        signing = json.loads((folder.path / "signing.json").read_text("utf-8"))
        assert signing["secret"] not in public


def test_another_introduction_is_refused_later(tmp_path: Path) -> None:
    mixing = made(tmp_path / "mixing", "shuffler")
    statistics, stranger = (
        made(tmp_path / name, "analyzer", "collector") for name in ("statistics", "stranger")
    )
    mixing.learn(statistics.own)
    mixing.learn(statistics.own)  # the same again changes nothing
    before = (mixing.path / "service.toml").read_text("utf-8")
    with pytest.raises(ParameterError, match="names a different"):
        mixing.learn(stranger.own)
    (mixing.path / "known" / "analyzer.json").unlink()
    (mixing.path / "known" / "collector.json").unlink()
    with pytest.raises(ParameterError, match=r"service\.toml has a different"):
        mixing.learn(stranger.own)
    assert (mixing.path / "service.toml").read_text("utf-8") == before


def test_damaged_files_of_the_folder_are_named(tmp_path: Path) -> None:
    folder = made(tmp_path / "mixing", "shuffler")
    folder.learn(made(tmp_path / "statistics", "analyzer", "collector").own)
    known = folder.path / "known" / "analyzer.json"
    for text in ("null", "5", "{}", '{"organisation": "Example"}'):
        known.write_text(text)
        with pytest.raises(ParameterError, match=r"analyzer\.json is damaged: .*--with"):
            folder.missing()
    (folder.path / "secrets.env").write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match=r"secrets\.env is damaged; restore it"):
        folder.secrets("secrets.env")
    (folder.path / "secrets.env").write_text("=\nNAME=a=b\n")
    assert folder.secrets("secrets.env") == {"NAME": "a=b"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"roles": ("shuffler", "analyzer")}, "one server"),
        ({"roles": ("shuffler", "collector")}, "single people out"),
        ({"url": ""}, "public URL is missing"),
        ({"roles": ("collector",)}, "has no server"),
        ({"budget": "0"}, "budget"),
        ({"listen": "nonsense"}, "--listen must be host:port"),
        ({"store": "mysql://x"}, "--store must be"),
    ],
)
def test_roles_that_do_not_go_together_are_refused(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    good = Organisation(
        folder=tmp_path / "new", name="Example", roles=("shuffler",), url=URLS["shuffler"]
    )
    with pytest.raises(ParameterError, match=says):
        replace(good, **changes).create()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("roles"),
        lambda data: data["roles"]["shuffler"].update(url="javascript:x"),
        lambda data: data["roles"]["shuffler"].update(signing_key="00"),
        lambda data: data["roles"].update(owner={}),
        lambda data: data.update(organisation='x"\nbudget = "100'),
    ],
)
def test_a_malformed_introduction_is_refused(tmp_path: Path, change: Any) -> None:
    folder = made(tmp_path / "mixing", "shuffler")
    data = json.loads(folder.own.to_json())
    change(data)
    (tmp_path / "bad.json").write_text(json.dumps(data))
    with pytest.raises(ParameterError, match="is not an introduction"):
        Introduction.load(tmp_path / "bad.json")


def test_the_commands_say_what_to_do_next(tmp_path: Path, capsys: Any) -> None:
    folder = str(tmp_path / "mixing")
    said = ["--role", "shuffler", "--name", "Example", "--url", URLS["shuffler"]]
    for wrong in ([*said[:-1], "mixing.example:8801"], [*said, "--name", "two\nlines"]):
        assert main(["init", folder, *wrong]) == 2
        assert re.match(r"--(url|name) must be [^;]*\.\n$", capsys.readouterr().err)
        assert not (tmp_path / "mixing").exists()
    assert main(["init", folder, *said]) == 0
    assert "introduction.json to the other organisations" in capsys.readouterr().out
    assert main(["init", folder, *said]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["start", folder, "--check"]) == 2
    assert "of the analyzer and the collector is missing" in capsys.readouterr().err
    assert main(["start", str(tmp_path)]) == 2
    assert "was not made by" in capsys.readouterr().err
    assert main(["rehearse", folder]) == 2
    assert "needs the collector's folder" in capsys.readouterr().err


def test_a_rehearsal_that_expired_shows_its_result_or_says_how_to_start_anew(
    tmp_path: Path, monkeypatch: Any
) -> None:
    folder = made(tmp_path / "statistics", "analyzer", "collector")
    folder.learn(made(tmp_path / "mixing", "shuffler").own)
    published: list[dict[str, Any]] = [{"number": 1}]
    monkeypatch.setattr(rehearsal, "wait_ready", lambda *_: None)
    monkeypatch.setattr(rehearsal, "results", lambda *_: published)
    shuffler, analyzer = folder.known("shuffler"), folder.known("analyzer")
    assert shuffler is not None and analyzer is not None
    rehearsal._task(folder, shuffler, analyzer)
    monkeypatch.setattr(rehearsal, "system_clock", lambda: time.time() + DAY_SECONDS)
    found = rehearsal.rehearse(folder, lambda _: None)
    assert found == {"truth": REHEARSAL_REPORTS // 2, "number": 1}
    published.clear()
    with pytest.raises(ParameterError, match=r"expired after a day.*delete rehearsal-task\.json"):
        rehearsal.rehearse(folder, lambda _: None)


def test_a_rehearsal_asks_a_server_that_is_not_ready_four_times_a_second(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Each question is a line in the server's log."""
    folder = made(tmp_path / "statistics", "analyzer", "collector")
    folder.learn(made(tmp_path / "mixing", "shuffler").own)
    folder.to_enrol.write_text("")
    pauses: list[float] = []

    def silent(*_: Any, **__: Any) -> None:
        raise Unreachable("away")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise InterruptedError

    monkeypatch.setattr(demo, "call", silent)
    monkeypatch.setattr(time, "sleep", sleep)
    for work in (
        lambda: rehearsal.rehearse(folder, lambda _: None),
        lambda: rehearsal.enrol_for_rehearsal(folder, "https://mixing.example", lambda _: None),
    ):
        with pytest.raises(InterruptedError):
            work()
    assert pauses == [0.25, 0.25]


def test_a_rehearsal_names_the_file_that_lacks_tokens(tmp_path: Path, monkeypatch: Any) -> None:
    folder = made(tmp_path / "statistics", "analyzer", "collector")
    folder.learn(made(tmp_path / "mixing", "shuffler").own)
    monkeypatch.setattr(rehearsal, "wait_ready", lambda *_: None)
    monkeypatch.setattr(rehearsal, "register_everywhere", lambda *_: None)
    for name in ("rehearsal-tokens.txt", "collector.env"):
        (folder.path / name).write_text("")
        with pytest.raises(ParameterError, match=name):
            rehearsal.rehearse(folder, lambda _: None)
