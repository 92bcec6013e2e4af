"""Checks whether a server can start: opens everything that its configuration names, and changes
nothing except a lock file next to an SQLite store."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shuffledp.errors import ShuffleDPError
from shuffledp.release.ledger import Ledger
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.http.config import ServerConfig, place, read_tables
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.relay.config import RelayConfig
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.store import check_database
from shuffledp.service.store.spool import is_bucket, open_spool
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.signing import SigningKey


def check_config(config: ServerConfig, path: str | Path | None = None) -> list[str]:
    """The problems that prevent a server with this configuration from starting, one sentence each.
    `path` is the configuration file."""
    settings = [f"{problem}." for problem in config.problems()]
    if settings:
        return settings
    found = [*_tls(config), *_listen("listen", config.listen)]
    if config.operators_listen:
        found += _listen("operators_listen", config.operators_listen)
    if not isinstance(config, RelayConfig):
        found += [*_spool(config.spool), *_store(config.store, config.table, "store")]
    if isinstance(config, ShufflerConfig | AnalyzerConfig):
        found += _signing(config)
    if isinstance(config, ShufflerConfig):
        found += _spool(config.exports, "exports") if config.exports else []
        found += _folder("report_keys", config.report_keys_folder, made=True)
        found += _folder("gateway_keys", config.gateway_keys_folder, made=True)
        found += _folder("memory", config.memory_folder, made=True)
    if isinstance(config, IssuerConfig):
        found += _folder("keys", config.keys, made=True)
    if isinstance(config, AnalyzerConfig):
        found += [*_keys(config), *_ledger(config)]
    return [*found, *_tokens(path)]


def _tls(config: ServerConfig) -> Iterator[str]:
    if config.tls_certificate:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(config.tls_certificate, config.tls_key)
        except OSError as error:
            yield (
                f"tls_certificate and tls_key cannot be used ({error.strerror}); use PEM files of "
                "a certificate and its key."
            )


def _listen(name: str, address: str) -> Iterator[str]:
    host, port = place(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        yield (
            f"{name} = {address} cannot be used ({error.strerror}); stop the program that uses it, "
            "or choose another address."
        )


def _folder(name: str, path: str, *, made: bool = False) -> Iterator[str]:
    """Reports a folder that cannot be written to; with `made` the server creates it if needed."""
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


def _spool(place: str, name: str = "spool") -> Iterator[str]:
    if not is_bucket(place):
        yield from _folder(name, place, made=True)
        return
    try:
        open_spool(place).prepare()
    except ShuffleDPError as error:
        yield f"{name}: {error}"


def _signing(config: ServerConfig) -> Iterator[str]:
    file = Path(config.signing_key_file)
    if file.exists():
        try:
            SigningKey.load(file)
        except ShuffleDPError as error:
            yield f"signing_key: {error}"
    else:
        yield from _folder("signing_key", str(file.absolute().parent), made=True)


def _store(url: str, role: str, name: str) -> Iterator[str]:
    try:
        asyncio.run(check_database(url, role))
    except ShuffleDPError as error:
        yield f"{name}: {error}"


def _keys(config: AnalyzerConfig) -> Iterator[str]:
    try:
        active = [key for key in KeyFolder(config.keys).all() if key.state == "active"]
    except (ShuffleDPError, OSError) as error:
        yield f"keys: {error}"
        return
    if not active:
        yield (
            f"keys: there is no active key in {config.keys}; make one with `shuffledp keys new "
            f"{config.keys}`."
        )


def _ledger(config: AnalyzerConfig) -> Iterator[str]:
    yield from _folder("ledger", str(Path(config.ledger).absolute().parent))
    if Path(config.ledger).exists():
        try:
            Ledger(config.ledger).remaining()
        except ShuffleDPError as error:
            yield f"ledger: {error}"


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
