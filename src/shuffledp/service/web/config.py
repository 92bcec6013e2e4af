"""One TOML file with a table per role; the environment has the last word.

`SHUFFLEDP_SHUFFLER_STORE` overrides `store` in `[shuffler]`, and so on. Secrets belong in the
environment; of tokens that others present, the file holds SHA-256 hashes only.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from shuffledp.sealed.errors import ConfigError


@dataclass(frozen=True)
class Listening:
    """Where and how a role listens."""

    listen: str = "127.0.0.1:8800"
    store: str = "sqlite:store.db"
    spool: str = "spool"
    """A folder for batches on their way."""
    collector_token_sha256: str = ""
    """Hash of the token with which the collector registers tasks."""
    tls_certificate: str = ""
    tls_key: str = ""
    drain_seconds: int = 1
    """From SIGTERM on, /readyz says 503 for so long before the port closes."""
    memory_mb: int = 256
    """Batches above this size are sorted on disk."""

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    def problems(self) -> list[str]:
        """What is wrong, in words; nothing if all is well."""
        found = []
        if not re.fullmatch(r".+:\d{1,5}", self.listen) or self.port > 65535:
            found.append("listen must be host:port, for example 127.0.0.1:8801")
        if not self.store.startswith(("sqlite:", "postgresql://", "postgres://")):
            found.append("store must be sqlite:<path> or postgresql://…")
        if bool(self.tls_certificate) != bool(self.tls_key):
            found.append("tls_certificate and tls_key go together")
        if self.memory_mb < 1 or self.drain_seconds < 0:
            found.append("memory_mb must be at least 1 and drain_seconds at least 0")
        for name in (field.name for field in fields(self) if field.name.endswith("_sha256")):
            if not re.fullmatch(r"[0-9a-fA-F]{64}", getattr(self, name)):
                found.append(
                    f"{name} must be 64 hexadecimal digits: `shuffledp keys token` "
                    "prints a token and its hash"
                )
        return found


@dataclass(frozen=True)
class ShufflerConfig(Listening):
    """The table [shuffler]."""

    analyzer: str = "http://127.0.0.1:8802"
    """Where batches are delivered."""
    deliver_token: str = ""
    """The shuffler's own token at the analyzer; best given as SHUFFLEDP_SHUFFLER_DELIVER_TOKEN."""
    operator_token_sha256: str = ""
    """Hash of the token with which clients are enrolled."""
    queue: int = 4096
    """Uploads that may wait for the disk; beyond that clients are told 429."""
    retry_seconds: int = 60
    """The longest pause between two attempts to deliver."""

    def problems(self) -> list[str]:
        found = super().problems()
        if not self.analyzer.startswith(("http://", "https://")):
            found.append("analyzer must be a URL")
        if not self.deliver_token:
            found.append("deliver_token is missing; set SHUFFLEDP_SHUFFLER_DELIVER_TOKEN")
        if self.queue < 1 or self.retry_seconds < 1:
            found.append("queue and retry_seconds must be at least 1")
        return found


@dataclass(frozen=True)
class AnalyzerConfig(Listening):
    """The table [analyzer]."""

    keys: str = "keys"
    """The folder of the analyzer's keys."""
    shuffler_token_sha256: str = ""
    """Hash of the token with which the shuffler delivers."""
    workers: int = 0
    """Opening runs on so many cores; 0: on all."""
    ledger: str = "ledger.json"
    """Where every release is recorded."""
    budget: str = "10"
    """ε in all, for a ledger that does not exist yet."""
    confidence_percent: int = 95
    most_batch_mb: int = 4096
    """Larger deliveries are refused."""

    def problems(self) -> list[str]:
        found = super().problems()
        if not 1 <= self.confidence_percent <= 99:
            found.append("confidence_percent must lie in 1..99")
        if self.workers < 0 or self.most_batch_mb < 1:
            found.append("workers must be at least 0 and most_batch_mb at least 1")
        return found


ROLES: dict[str, type[Listening]] = {"shuffler": ShufflerConfig, "analyzer": AnalyzerConfig}
Role = TypeVar("Role", bound=Listening)


def load(
    path: str | Path | None, kind: type[Role], environ: Mapping[str, str] | None = None
) -> Role:
    """A role's configuration; raises `ConfigError` with everything that is wrong."""
    config = read(path, kind, environ)
    found = config.problems()
    if found:
        raise ConfigError(f"The {_name(kind)}'s configuration: " + "; ".join(found) + ".")
    return config


def read(
    path: str | Path | None, kind: type[Role], environ: Mapping[str, str] | None = None
) -> Role:
    """The file's table, then the environment, then the defaults; types checked only."""
    table = _table(path, _name(kind))
    known = {field.name: type(field.default) for field in fields(kind)}
    unknown = table.keys() - known.keys()
    if unknown:
        raise ConfigError(
            f"[{_name(kind)}] has no setting {', '.join(sorted(unknown))}; "
            f"there are {', '.join(known)}."
        )
    surroundings = os.environ if environ is None else environ
    for name, wanted in known.items():
        given = surroundings.get(f"SHUFFLEDP_{_name(kind)}_{name}".upper())
        if given is not None:
            table[name] = given
        if name in table:
            table[name] = _typed(table[name], wanted, name)
    return kind(**table)


def _name(kind: type[Listening]) -> str:
    return next(name for name, role in ROLES.items() if role is kind)


def _table(path: str | Path | None, name: str) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}.") from None
    foreign = data.keys() - ROLES.keys()
    if foreign:
        raise ConfigError(f"{path} has a table [{min(foreign)}]; there are [shuffler], [analyzer].")
    return dict(data.get(name, {}))


def _typed(value: Any, wanted: type, name: str) -> Any:
    if wanted is int and isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)
    if type(value) is not wanted:
        raise ConfigError(f"{name} must be {'a whole number' if wanted is int else 'a text'}.")
    return value
