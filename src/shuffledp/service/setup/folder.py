"""The folder of one organisation: made by `shuffledp init`, completed by the introductions of the
others, and served by `shuffledp start`.

    service.toml            the server's settings, each explained; paths are relative to the folder
    secrets.env             tokens that the server itself presents
    operator-token.txt      the operator's token
    collector.env           the collector's tokens
    signing.json, keys/ …   private keys
    introduction.json       for the other organisations; contains no secrets
    known/                  what the others said about themselves
    compose.yaml            runs the server in a container
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shuffledp.documents.files import write_whole
from shuffledp.documents.json_text import read_json_file
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import positive
from shuffledp.service.http.config import ServerConfig, is_address, is_store
from shuffledp.service.roles import ROLE_CONFIGS
from shuffledp.service.setup.compose import compose_text
from shuffledp.service.setup.explained import explained_toml
from shuffledp.service.setup.introduction import (
    COLLECTOR,
    INTRODUCTION,
    KNOWN,
    SERVERS,
    Introduction,
)
from shuffledp.service.tokens import ONCE_PREFIX, new_token, token_hash
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.signing import SigningKey
from shuffledp.tasks.tokens import IssuerKeyFolder

PORTS = {"shuffler": 8801, "analyzer": 8802, "issuer": 8803, "relay": 8804}
REHEARSAL_REPORTS = 125
LOOPBACK = ("127.0.0.1", "localhost", "::1")
AWAITED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "shuffler": {
        "analyzer": ("analyzer", "url"),
        "analyzer_signing_key": ("analyzer", "signing_key"),
        "collector_signing_key": (COLLECTOR, "signing_key"),
        "collector_token_sha256": (COLLECTOR, "token_sha256"),
    },
    "analyzer": {
        "collector_signing_key": (COLLECTOR, "signing_key"),
        "collector_token_sha256": (COLLECTOR, "token_sha256"),
        "shuffler_token_sha256": ("shuffler", "delivery_sha256"),
    },
    "issuer": {
        "collector_signing_key": (COLLECTOR, "signing_key"),
        "collector_token_sha256": (COLLECTOR, "token_sha256"),
    },
    "relay": {"shuffler": ("shuffler", "url")},
}
"""Settings of each server that others decide: which role, and which field of its introduction."""


@dataclass(frozen=True, kw_only=True)
class Organisation:
    """The arguments of `shuffledp init`."""

    folder: Path
    name: str
    roles: Sequence[str]
    url: str = ""
    """The server's public URL."""
    listen: str = ""
    behind_proxy: bool = False
    budget: str = "10"
    store: str = ""

    @property
    def server(self) -> str | None:
        """The role that has a server; None for a collector alone."""
        return next((role for role in self.roles if role in SERVERS), None)

    def check(self) -> None:
        """Raises `ParameterError` if the roles cannot be combined or something is missing."""
        servers = [role for role in self.roles if role in SERVERS]
        if len(set(self.roles)) < len(self.roles) or len(servers) > 1:
            raise ParameterError(
                "A folder is for one server; make another folder for each further one."
            )
        if COLLECTOR in self.roles and servers and servers != ["analyzer"]:
            raise ParameterError(
                f"The collector must not run the {servers[0]}, because it could then single people "
                "out; another organisation runs it. The analyzer and the collector may be one."
            )
        if servers and not self.url:
            raise ParameterError(f"The {servers[0]}'s public URL is missing; add --url https://… .")
        if not servers and (self.url or self.listen or self.store):
            raise ParameterError(
                "A collector has no server; leave --url, --listen and --store out."
            )
        positive(self.budget, "budget")
        if self.listen and not is_address(self.listen):
            raise ParameterError("--listen must be host:port, for example 0.0.0.0:8801.")
        if self.store and not is_store(self.store):
            raise ParameterError("--store must be sqlite:<path> or postgresql://….")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ParameterError(
                f"{self.folder} is not empty, and keys are never overwritten; name a new folder."
            )

    def create(self) -> Introduction:
        """Makes the folder; returns what to send to the others."""
        self.check()
        os.umask(0o077)
        self.folder.mkdir(parents=True, exist_ok=True)
        said: dict[str, Mapping[str, Any]] = {}
        if COLLECTOR in self.roles:
            said[COLLECTOR] = self._make_collector()
        if self.server is not None:
            said[self.server] = self._make_server(self.server)
        introduction = Introduction(self.name, said)
        INTRODUCTION.check(json.loads(introduction.to_json()), "introduction")
        write_whole(self.folder / "introduction.json", introduction.to_json(), durable=True)
        Folder(self.folder).learn(introduction)
        return introduction

    def _make_collector(self) -> dict[str, Any]:
        tokens = {server: new_token() for server in ("shuffler", "analyzer", "issuer")}
        variables = {
            f"SHUFFLEDP_COLLECTOR_TOKEN_{server.upper()}": token for server, token in tokens.items()
        }
        self._write_secrets("collector.env", variables)
        rehearsal = [new_token(ONCE_PREFIX) for _ in range(REHEARSAL_REPORTS)]
        self._write("rehearsal-tokens.txt", "\n".join(rehearsal) + "\n")
        return {
            "signing_key": SigningKey.create(self.folder / "collector-signing.json").public.hex(),
            "token_sha256": {server: token_hash(token).hex() for server, token in tokens.items()},
            "rehearsal_sha256": [token_hash(token).hex() for token in rehearsal],
        }

    def _make_server(self, role: str) -> dict[str, Any]:
        said: dict[str, Any] = {"url": self.url}
        given: dict[str, Any] = self._addresses(role)
        if role != "relay":
            operator = new_token()
            self._write("operator-token.txt", f"{operator}\n")
            given |= {
                "store": self.store or "sqlite:store.db",
                "spool": "spool",
                "operator_token_sha256": token_hash(operator).hex(),
            }
        if role in ("shuffler", "analyzer"):
            given["signing_key"] = "signing.json"
            said["signing_key"] = SigningKey.create(self.folder / "signing.json").public.hex()
        if role == "shuffler":
            delivery = new_token()
            self._write_secrets("secrets.env", {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": delivery})
            said["delivery_sha256"] = token_hash(delivery).hex()
            given |= {"report_keys": "report-keys", "gateway_keys": "gateway-keys"}
            given |= {"memory": "memory"}
        if role == "analyzer":
            said["key"] = KeyFolder(self.folder / "keys").new().public.to_dict()
            given |= {"keys": "keys", "ledger": "ledger.json", "budget": self.budget}
        if role == "issuer":
            said["issuer_key"] = IssuerKeyFolder(self.folder / "issuer-keys").new().spki.hex()
            given["keys"] = "issuer-keys"
        awaited = {name: f"{who}'s introduction" for name, (who, _) in AWAITED[role].items()}
        text = explained_toml(ROLE_CONFIGS[role], given, awaited)
        self._write("service.toml", TOML_HEAD.format(role=role, organisation=self.name) + text)
        self._write("compose.yaml", compose_text(role, given["listen"], "tls_key" in given))
        return said

    def _addresses(self, role: str) -> dict[str, Any]:
        """Where the server listens, and whether it speaks TLS itself."""
        parts = urlsplit(self.url)
        local = parts.hostname in LOOPBACK and parts.port is not None
        default = f"127.0.0.1:{parts.port}" if local else f"0.0.0.0:{PORTS[role]}"
        given: dict[str, Any] = {"listen": self.listen or default, "drain_seconds": 5}
        if self.behind_proxy:
            given["most_connections_per_address"] = ServerConfig.most_connections
            if role != "relay":
                given["operators_listen"] = f"127.0.0.1:{PORTS[role] + 10}"
        elif parts.scheme == "https":
            given |= {"tls_certificate": "tls/certificate.pem", "tls_key": "tls/key.pem"}
            (self.folder / "tls").mkdir()
        return given

    def _write(self, name: str, text: str) -> None:
        write_whole(self.folder / name, text, durable=True, secret=True)

    def _write_secrets(self, name: str, variables: Mapping[str, str]) -> None:
        self._write(name, "".join(f"{key}={value}\n" for key, value in variables.items()))


TOML_HEAD = """# The {role} of {organisation}.
# Every setting is here. A line that begins with "# name =" shows the default; take the # away to
# change it. SHUFFLEDP_{role}_NAME in the environment (all in capitals) overrides a setting.
# Paths are relative to this folder. Check with: shuffledp start FOLDER --check

"""


class Folder:
    """A folder that `shuffledp init` made."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / "introduction.json").exists():
            raise ParameterError(
                f"{self.path} was not made by `shuffledp init`; use the folder that it made."
            )
        self.own = Introduction.load(self.path / "introduction.json")

    @property
    def server(self) -> str | None:
        """The role whose server is in this folder; None for a collector alone."""
        return next((role for role in self.own.roles if role in SERVERS), None)

    def learn(self, other: Introduction) -> None:
        """Takes in what an organisation said: pins its keys, fills in the settings that wait for
        it, and writes the collector's policy for devices.

        Ensures: nothing that was known before is replaced; a different value is refused.
        """
        for role, facts in other.roles.items():
            file = self.path / "known" / f"{role}.json"
            said = {"organisation": other.organisation, **facts}
            if file.exists() and read_json_file(file) != said:
                raise ParameterError(
                    f"This introduction names a different {role} from {file}; ask both "
                    "organisations which one is right before you delete that file and its settings."
                )
            file.parent.mkdir(exist_ok=True, mode=0o700)
            write_whole(file, json.dumps(said, indent=2, ensure_ascii=False), durable=True)
        if self.server is not None:
            self._fill(self.server, other)
        if COLLECTOR in self.own.roles:
            self._write_policy()

    def _fill(self, server: str, other: Introduction) -> None:
        """Writes what an organisation decides into service.toml."""
        file = self.path / "service.toml"
        text = file.read_text("utf-8")
        for name, (who, fact) in AWAITED[server].items():
            if who in other.roles:
                value = other.roles[who][fact]
                text = filled(text, name, value[server] if isinstance(value, Mapping) else value)
        write_whole(file, text, durable=True, secret=True)
        tokens = other.roles.get(COLLECTOR, {}).get("rehearsal_sha256")
        if server == "shuffler" and tokens and not self.enrolled.exists():
            write_whole(self.to_enrol, "\n".join(tokens) + "\n", durable=True)

    @property
    def to_enrol(self) -> Path:
        """Hashes of the rehearsal's tokens, until they are enrolled."""
        return self.path / "rehearsal-tokens.sha256"

    @property
    def enrolled(self) -> Path:
        """The same file afterwards: a token is never enrolled twice."""
        return self.to_enrol.with_suffix(".enrolled")

    def known(self, role: str) -> dict[str, Any] | None:
        """The introduction of a role's organisation; None if it has not introduced itself."""
        file = self.path / "known" / f"{role}.json"
        if not file.exists():
            return None
        found = read_json_file(file)
        try:
            KNOWN[role].check(found, role)
        except ParameterError as error:
            raise ParameterError(
                f"{file} is damaged: {error} Remove it, and give that organisation's introduction "
                "again with --with."
            ) from None
        return dict(found)

    def missing(self) -> list[str]:
        """The roles whose introductions are still needed, in the order of their names."""
        if self.server is None:
            needed = {"shuffler", "analyzer"}
        else:
            needed = {who for who, _ in AWAITED[self.server].values()}
        if COLLECTOR in self.own.roles:
            needed.add("shuffler")
        return sorted(role for role in needed if self.known(role) is None)

    def _write_policy(self) -> None:
        """What devices pin, once all three signers are known."""
        said = {role: self.known(role) for role in (COLLECTOR, "shuffler", "analyzer")}
        if all(said.values()):
            policy = {
                "analyzer_keys": [said["analyzer"]["key"]["public"]],  # type: ignore[index]
                "signing_keys": {
                    role: [facts["signing_key"]] for role, facts in said.items() if facts
                },
            }
            write_whole(self.path / "policy.json", json.dumps(policy, indent=2), durable=True)
            key = json.dumps(said["analyzer"]["key"])  # type: ignore[index]
            write_whole(self.path / "analyzer-key.json", key, durable=True)

    def secrets(self, name: str) -> dict[str, str]:
        """The variables in one of the folder's files of secrets."""
        file = self.path / name
        try:
            lines = file.read_text("utf-8").splitlines() if file.exists() else []
        except UnicodeDecodeError:
            raise ParameterError(f"{file} is damaged; restore it from a backup.") from None
        return dict(line.split("=", 1) for line in lines if line.partition("=")[0].isidentifier())


def filled(text: str, name: str, value: str) -> str:
    """A TOML file with this value for a setting; refuses to change a different value."""
    line = re.compile(rf'^{name} = "(.*)"$', re.M)
    found = line.search(text)
    if found is None or found[1] not in ("", value):
        raise ParameterError(
            f"service.toml has a different {name} from this introduction; correct the file, or ask "
            "the organisation for its right introduction."
        )
    return line.sub(f'{name} = "{value}"', text, count=1)
