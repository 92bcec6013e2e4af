"""All server roles by name: their configurations, and how to run them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

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
    from shuffledp.service.analyzer.app import Analyzer
    from shuffledp.service.http.lifecycle import serve
    from shuffledp.service.http.logs import plain_reason
    from shuffledp.service.issuer.app import Issuer
    from shuffledp.service.relay.app import Relay

    os.umask(0o077)
    try:
        if name == "shuffler":
            _serve_shuffler(load_config(path, ShufflerConfig, allow_origins=allow_origins), workers)
        elif name == "issuer":
            serve(Issuer(load_config(path, IssuerConfig, allow_origins=allow_origins)))
        elif name == "relay":
            serve(Relay(load_config(path, RelayConfig, allow_origins=allow_origins)))
        else:
            serve(Analyzer(load_config(path, AnalyzerConfig, allow_origins=allow_origins)))
    except OSError as error:  # TLS files that cannot be read, for example
        raise ConfigError(f"The {name} cannot start: {plain_reason(error)}") from None


def _serve_shuffler(config: ShufflerConfig, workers: int | None) -> None:
    from shuffledp.service.http.lifecycle import serve
    from shuffledp.service.shuffler.app import Shuffler
    from shuffledp.service.workers import serve_workers

    config = replace(config, workers=config.workers if workers is None else workers)
    found = config.problems()
    if found:
        raise ConfigError("The shuffler's configuration: " + "; ".join(found) + ".")
    if config.workers == 1:
        serve(Shuffler(config))
    else:
        serve_workers(config)
