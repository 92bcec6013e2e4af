"""The relay's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shuffledp.service.http.config import ServerConfig
from shuffledp.service.http.origins import is_server


@dataclass(frozen=True, kw_only=True)
class RelayConfig(ServerConfig):
    """The table [relay]. The relay has no store, no folders, no tokens, and nothing that only
    operators may see."""

    table: ClassVar[str] = "relay"
    unused: ClassVar[frozenset[str]] = frozenset(
        {
            "operators_listen",
            "store",
            "spool",
            "signing_key",
            "collector_token_sha256",
            "collector_signing_key",
            "operator_token_sha256",
            "memory_mb",
            "replay_days",
            "verify_seconds",
            "verify_memory_mb",
        }
    )
    shuffler: str = "http://127.0.0.1:8801"
    """The one shuffler to which requests are passed on."""
    most_body_kb: int = 4096
    """Longer requests are refused."""

    def problems(self) -> list[str]:
        found = [one for one in super().problems() if "token_sha256" not in one]
        if not is_server(self.shuffler):
            found.append("shuffler must be a URL like https://shuffler.example:8801")
        if self.most_body_kb < 1:
            found.append("most_body_kb must be at least 1")
        return found
