"""Both server roles by name: their configurations, and how to run them."""

from __future__ import annotations

from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.web.config import ServerConfig, load_config

ROLE_CONFIGS: dict[str, type[ServerConfig]] = {
    "shuffler": ShufflerConfig,
    "analyzer": AnalyzerConfig,
}


def serve_role(name: str, path: str | None) -> None:
    """Runs the shuffler or the analyzer with the configuration in a TOML file, until SIGTERM."""
    from shuffledp.service.analyzer.app import Analyzer
    from shuffledp.service.shuffler.app import Shuffler
    from shuffledp.service.web.lifecycle import serve

    if name == "shuffler":
        serve(Shuffler(load_config(path, ShufflerConfig)))
    else:
        serve(Analyzer(load_config(path, AnalyzerConfig)))
