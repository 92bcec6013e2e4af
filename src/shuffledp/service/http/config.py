"""Configuration of a server: one TOML file with a table per role, overridden by the environment.

`SHUFFLEDP_SHUFFLER_STORE` overrides `store` in `[shuffler]`, and so on. Secrets belong in the
environment; the file contains only SHA-256 hashes of the tokens that others present.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from shuffledp.service.errors import ConfigError
from shuffledp.service.http.origins import is_origin

NOT_NEGATIVE = ("_days", "_per_minute")
WHOLE = re.compile(r"-?([0-9]+)")
MOST_DIGITS = 9
CONFIG_TABLES = ("shuffler", "analyzer", "issuer", "relay")


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """The settings that several roles have."""

    table: ClassVar[str]
    """The table's name in the TOML file."""
    unused: ClassVar[frozenset[str]] = frozenset()
    """Settings that this role does not use."""

    listen: str = "127.0.0.1:8800"
    """Where the server listens: host:port. 0.0.0.0 means every address of the machine."""
    operators_listen: str = ""
    """A second address, for operators only: /, /status, /metrics and everything that needs the
    operator's token are then available there and not at `listen`. Without it, exact counts need the
    operator's token."""
    store: str = "sqlite:store.db"
    """Where tasks and reports are kept: sqlite:FILE for one process, or postgresql://…, best set in
    the environment, because it may contain a password."""
    spool: str = "spool"
    """A folder for batches on their way."""
    collector_token_sha256: str = ""
    """Hash of the token with which the collector registers tasks."""
    collector_signing_key: str = ""
    """The public key with which the collector signs tasks; if empty, any key used together with the
    collector's token is accepted."""
    signing_key: str = ""
    """The file of the key with which this server signs tasks; if empty, next to `spool`. It is
    created at the first start."""
    operator_token_sha256: str = ""
    """Hash of the token of the server's operator, who enrols clients, discards batches, restores
    the ledger, and archives and deletes tasks."""
    tls_certificate: str = ""
    """The certificate chain of this server, a PEM file; empty: no TLS, as behind a proxy on the
    same machine."""
    tls_key: str = ""
    """The private key of the certificate, a PEM file."""
    drain_seconds: int = 1
    """Seconds from SIGTERM until the port closes; /readyz says 503 meanwhile."""
    memory_mb: int = 256
    """Batches above this size are sorted on disk."""
    most_connections: int = 1000
    """The most connections at a time; further ones get 503."""
    most_connections_per_address: int = 250
    """The most connections of one address. Behind a proxy, all come from its address: set both to
    the same number."""
    idle_seconds: int = 10
    """A connection is closed after this number of seconds without a byte in the middle of a
    request."""
    request_seconds: int = 30
    """How many seconds a request may take to arrive; long ones get a second more per 64 KiB."""
    address_requests_per_minute: int = 0
    """Requests per minute of one address (for IPv6, one /64 network); more get 429. 0 means no
    limit; use it behind a proxy, from whose address all requests come."""
    replay_days: int = 0
    """Days after a task's end until the record of which reports were counted, and who sent them, is
    deleted; 0 means never."""
    verify_seconds: int = 120
    """How many seconds verifying a task may take, in a separate process."""
    verify_memory_mb: int = 1024
    """How much memory that process may use."""
    allow_origins: tuple[str, ...] = ()
    """Web pages of these origins may talk to this server, for example https://survey.example; "*"
    means all. In the environment, separated by commas."""

    @property
    def signing_key_file(self) -> str:
        """The file of the key with which this server signs."""
        return self.signing_key or f"{self.spool.rstrip('/')}-signing.json"

    def problems(self) -> list[str]:
        """What is wrong with these settings, one sentence each."""
        found = []
        if not is_address(self.listen):
            found.append("listen must be host:port, for example 127.0.0.1:8801")
        if self.operators_listen and (
            not is_address(self.operators_listen) or self.operators_listen == self.listen
        ):
            found.append("operators_listen must be empty or another host:port than listen")
        if not is_store(self.store):
            found.append("store must be sqlite:<path of a file> or postgresql://…")
        if bool(self.tls_certificate) != bool(self.tls_key):
            found.append("tls_certificate and tls_key must be set together")
        if self.spool.startswith("file:"):
            found.append("spool must be a folder's path without file:, or a bucket like s3://…")
        if self.memory_mb < 1 or self.drain_seconds < 0:
            found.append("memory_mb must be at least 1 and drain_seconds at least 0")
        if not all(is_origin(origin) for origin in self.allow_origins):
            found.append(
                "allow_origins must be origins like https://survey.example, without a path, or *"
            )
        connections = (self.most_connections, self.most_connections_per_address)
        seconds = (self.idle_seconds, self.request_seconds, self.verify_seconds)
        if min(*connections, *seconds, self.verify_memory_mb) < 1:
            found.append("limits on connections, seconds and memory must be at least 1")
        return [*found, *self._named_problems()]

    def _named_problems(self) -> list[str]:
        """What is wrong with the settings whose names determine their type."""
        found = []
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if name.endswith(NOT_NEGATIVE) and value < 0:
                found.append(f"{name} must be at least 0, which means no limit")
            if name.endswith("_sha256") and not re.fullmatch(r"[0-9a-fA-F]{64}", value):
                found.append(
                    f"{name} must be 64 hexadecimal digits: `shuffledp keys token` "
                    "prints a token and its hash"
                )
            if name.endswith("_signing_key") and not re.fullmatch(r"(?:[0-9a-f]{64})?", value):
                found.append(
                    f"{name} must be empty or 64 hexadecimal digits: `shuffledp keys signing` "
                    "prints them"
                )
        return found


def is_store(url: str) -> bool:
    """Whether a text names a store. SQLite's `:memory:` would lose every acknowledged report."""
    if url.startswith("sqlite:"):
        return url.removeprefix("sqlite:") not in ("", ":memory:")
    return url.startswith(("postgresql://", "postgres://"))


def host_and_port(listen: str) -> tuple[str, int]:
    """Host and port of an address like 127.0.0.1:8801 or [::1]:8801."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def is_address(listen: str) -> bool:
    """Whether a text is an address to listen at."""
    return bool(re.fullmatch(r".+:\d{1,5}", listen)) and host_and_port(listen)[1] <= 65535


Config = TypeVar("Config", bound=ServerConfig)


def load_config(
    path: str | Path | None,
    kind: type[Config],
    environ: Mapping[str, str] | None = None,
    *,
    allow_origins: Sequence[str] = (),
    **changes: Any,
) -> Config:
    """A role's configuration, with further origins and other changed settings; raises
    `ConfigError` with everything that is wrong."""
    config = read_config(path, kind, environ)
    origins = (*config.allow_origins, *allow_origins)
    config = replace(config, allow_origins=origins, **changes)
    found = config.problems()
    if found:
        raise ConfigError(f"The {kind.table}'s configuration: " + "; ".join(found) + ".")
    return config


def read_config(
    path: str | Path | None, kind: type[Config], environ: Mapping[str, str] | None = None
) -> Config:
    """The settings in environment and file, with defaults for the rest; only types are checked."""
    environ = os.environ if environ is None else environ
    settings = dict(read_tables(path).get(kind.table, {}))
    known = {
        field.name: type(field.default) for field in fields(kind) if field.name not in kind.unused
    }
    unknown = settings.keys() - known.keys()
    if unknown:
        raise ConfigError(
            f"[{kind.table}] has no setting {', '.join(sorted(unknown))}; "
            f"there are {', '.join(known)}."
        )
    for name, wanted in known.items():
        given = environ.get(f"SHUFFLEDP_{kind.table}_{name}".upper())
        if given is not None:
            settings[name] = given
        if name in settings:
            settings[name] = _typed(settings[name], wanted, name)
    return kind(**settings)


def read_tables(path: str | Path | None) -> dict[str, dict[str, Any]]:
    """The tables of a configuration file."""
    if path is None:
        return {}
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))  # editors may add a mark
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text in UTF-8; save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    foreign = data.keys() - set(CONFIG_TABLES)
    if foreign:
        known = ", ".join(f"[{table}]" for table in CONFIG_TABLES)
        raise ConfigError(f"{path} has a table [{min(foreign)}]; there are {known}.")
    for name, table in data.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{name} in {path} must be a table; begin it with a line [{name}].")
    return data


def _typed(value: Any, wanted: type, name: str) -> Any:
    found = WHOLE.fullmatch(str(value)) if type(value) in (int, str) else None
    if wanted is int and found:
        if len(found[1]) > MOST_DIGITS:
            raise ConfigError(
                f"{name} is too large; use a whole number of at most {MOST_DIGITS} digits."
            )
        return int(found[0])
    if wanted is tuple:
        return _texts(value, name)
    if type(value) is not wanted:
        raise ConfigError(f"{name} must be {'a whole number' if wanted is int else 'a text'}.")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{name} must be a list of texts.")
    return tuple(part for part in parts if part)
