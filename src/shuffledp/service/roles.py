"""All server roles by name: their configurations, and how to run them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.errors import ConfigError
from shuffledp.service.http.config import ServerConfig, load_config
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.relay.config import RelayConfig
from shuffledp.service.shuffler.config import ShufflerConfig

ROLE_CONFIGS: dict[str, type[ServerConfig]] = {
    "shuffler": ShufflerConfig,
    "analyzer": AnalyzerConfig,
    "issuer": IssuerConfig,
    "relay": RelayConfig,
}


def serve_role(
    name: str, path: str | None, allow_origins: Sequence[str] = (), workers: int | None = None
) -> None:
    """Runs a server with the configuration in a TOML file, until SIGTERM. Only its user can read
    the files that it makes. `allow_origins` adds to the origins that the configuration names;
    `workers` replaces its number for the shuffler."""
    from shuffledp.service.http.logs import plain_reason

    os.umask(0o077)
    changes: dict[str, Any] = {} if workers is None else {"workers": workers}
    config = load_config(path, ROLE_CONFIGS[name], allow_origins=allow_origins, **changes)
    try:
        _serve(config)
    except OSError as error:  # TLS files that cannot be read, for example
        raise ConfigError(f"The {name} cannot start: {plain_reason(error)}") from None


def _serve(config: ServerConfig) -> None:
    from shuffledp.service.http.lifecycle import serve

    match config:
        case ShufflerConfig() if config.workers > 1:
            from shuffledp.service.workers import serve_workers

            serve_workers(config)
        case ShufflerConfig():
            from shuffledp.service.shuffler.app import Shuffler

            serve(Shuffler(config))
        case AnalyzerConfig():
            from shuffledp.service.analyzer.app import Analyzer

            serve(Analyzer(config))
        case IssuerConfig():
            from shuffledp.service.issuer.app import Issuer

            serve(Issuer(config))
        case RelayConfig():
            from shuffledp.service.relay.app import Relay

            serve(Relay(config))
