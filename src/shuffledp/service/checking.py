"""Checks whether a server can start: opens everything that its configuration names, and changes
nothing except a lock file next to an SQLite store."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from shuffledp.errors import ShuffleDPError
from shuffledp.release.ledger import Ledger
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.errors import ConfigError
from shuffledp.service.http.config import ServerConfig, read_config, read_tables
from shuffledp.service.http.lifecycle import bound_socket
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.relay.config import RelayConfig
from shuffledp.service.roles import ROLE_CONFIGS
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.store import check_database
from shuffledp.service.store.spool import is_bucket, open_spool
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.signing import SigningKey


def checked_config(role: str, path: str | Path | None) -> ServerConfig:
    """A server's configuration; raises `ConfigError` if the server could not start with it, with
    one sentence for each reason. `path` is the configuration file."""
    config = read_config(path, ROLE_CONFIGS[role])
    found = [f"{problem}." for problem in config.problems()]
    found = found or [*_problems(config), *_tokens(path)]
    if found:
        raise ConfigError("\n".join(found))
    return config


def _problems(config: ServerConfig) -> Iterator[str]:
    yield from _tls(config)
    yield from _listen("listen", config.listen)
    if config.operators_listen:
        yield from _listen("operators_listen", config.operators_listen)
    if not isinstance(config, RelayConfig):
        yield from _spool("spool", config.spool)
        yield from _trial("store", lambda: asyncio.run(check_database(config.store, config.table)))
    if isinstance(config, ShufflerConfig | AnalyzerConfig):
        yield from _signing_key(Path(config.signing_key_file))
    if isinstance(config, ShufflerConfig):
        if config.exports:
            yield from _spool("exports", config.exports)
        if not config.keys_command:
            yield from _folder("report_keys", config.report_keys_folder)
        elif shutil.which(config.keys_command) is None:
            yield (
                f"keys_command: there is no program {config.keys_command} that this user may run; "
                "correct its path, or make the file executable."
            )
        yield from _folder("gateway_keys", config.gateway_keys_folder)
        yield from _folder("memory", config.memory_folder)
    if isinstance(config, IssuerConfig):
        yield from _folder("keys", config.keys)
    if isinstance(config, AnalyzerConfig):
        yield from _trial("keys", lambda: _active_key(config.keys))
        yield from _ledger(Path(config.ledger))


def _trial(name: str, trial: Callable[[], object]) -> Iterator[str]:
    """Reports what a trial raises."""
    try:
        trial()
    except (ShuffleDPError, OSError) as error:
        yield f"{name}: {error}"


def _tls(config: ServerConfig) -> Iterator[str]:
    if config.tls_certificate:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(config.tls_certificate, config.tls_key)
        except OSError as error:
            yield (
                f"tls_certificate {config.tls_certificate} and tls_key {config.tls_key} cannot be "
                f"used ({error.strerror}); put the PEM files of a certificate and its key there."
            )


def _listen(name: str, address: str) -> Iterator[str]:
    try:
        bound_socket(address).close()
    except OSError as error:
        yield (
            f"{name} = {address} cannot be used ({error.strerror}); stop the program that uses it, "
            "or choose another address."
        )


def _folder(name: str, path: str | Path, *, made: bool = True) -> Iterator[str]:
    """Reports a folder that cannot be written to; if `made`, the server makes a missing one."""
    folder = Path(path).absolute()
    while made and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        yield (
            f"{name}: nothing can be written in {folder} ({error.strerror}); make the folder, or "
            "give the server's user the right to write there."
        )


def _spool(name: str, path: str) -> Iterator[str]:
    if is_bucket(path):
        return _trial(name, open_spool(path).prepare)
    return _folder(name, path)


def _signing_key(file: Path) -> Iterator[str]:
    if file.exists():
        return _trial("signing_key", lambda: SigningKey.load(file))
    return _folder("signing_key", file.absolute().parent)


def _ledger(file: Path) -> Iterator[str]:
    yield from _folder("ledger", file.absolute().parent, made=False)
    if file.exists():
        yield from _trial("ledger", Ledger(file).remaining)


def _active_key(folder: str) -> None:
    if not any(key.state == "active" for key in KeyFolder(folder).all()):
        raise TaskError(
            f"there is no active key in {folder}; make one with `shuffledp keys new {folder}`."
        )


def _tokens(path: str | Path | None) -> Iterator[str]:
    """Reports that the collector has the same token at two servers."""
    found = (
        str(table.get("collector_token_sha256", "")).lower() for table in read_tables(path).values()
    )
    hashes = [text for text in found if text]
    if len(set(hashes)) < len(hashes):
        yield (
            "collector_token_sha256 is the same for two servers, so each could act as the "
            "collector at the other; make a token for each with `shuffledp keys token`."
        )
