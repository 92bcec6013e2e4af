"""Both server roles by name: their configurations, and how to run them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.errors import ConfigError
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.web.config import ServerConfig, load_config

ROLE_CONFIGS: dict[str, type[ServerConfig]] = {
    "shuffler": ShufflerConfig,
    "analyzer": AnalyzerConfig,
}


def serve_role(
    name: str, path: str | None, allow_origins: Sequence[str] = (), processes: int | None = None
) -> None:
    """Runs the shuffler or the analyzer with the configuration in a TOML file, until SIGTERM. All
    files that it makes can be read by its own user only. `allow_origins` adds to the origins that
    the configuration names; `processes` replaces its number for the shuffler."""
    from shuffledp.service.analyzer.app import Analyzer
    from shuffledp.service.web.lifecycle import serve
    from shuffledp.service.web.logs import plain_reason

    os.umask(0o077)
    try:
        if name == "shuffler":
            _serve_shuffler(
                load_config(path, ShufflerConfig, allow_origins=allow_origins), processes
            )
        else:
            serve(Analyzer(load_config(path, AnalyzerConfig, allow_origins=allow_origins)))
    except OSError as error:  # TLS files that cannot be read, for example
        raise ConfigError(f"The {name} cannot start: {plain_reason(error)}") from None


def _serve_shuffler(config: ShufflerConfig, processes: int | None) -> None:
    from shuffledp.service.shuffler.app import Shuffler
    from shuffledp.service.shuffler.doors import serve_with_doors
    from shuffledp.service.web.lifecycle import serve

    config = replace(config, processes=processes or config.processes)
    found = config.problems()
    if found:
        raise ConfigError("The shuffler's configuration: " + "; ".join(found) + ".")
    if config.processes == 1:
        serve(Shuffler(config))
    else:
        serve_with_doors(config)
