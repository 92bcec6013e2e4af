"""The shuffler's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shuffledp.service.http.config import ServerConfig
from shuffledp.service.http.origins import is_server
from shuffledp.service.store.spool import is_bucket


@dataclass(frozen=True, kw_only=True)
class ShufflerConfig(ServerConfig):
    """The table [shuffler]."""

    table: ClassVar[str] = "shuffler"
    analyzer: str = "http://127.0.0.1:8802"
    """Where batches are delivered."""
    analyzer_signing_key: str = ""
    """The public key of the analyzer's log of tasks; if empty, the first one seen is kept."""
    deliver_token: str = ""
    """The shuffler's token at the analyzer; best set as SHUFFLEDP_SHUFFLER_DELIVER_TOKEN."""
    report_keys: str = ""
    """The folder of the keys that encrypt stored reports; if empty, next to `spool`."""
    keys_command: str = ""
    """A program that keeps batch keys, in a KMS for example (docs/how-to/run-service.md); empty:
    files in `report_keys`."""
    memory: str = ""
    """The folder in which processes remember what they acknowledged; if empty, next to the signing
    key."""
    workers: int = 1
    """Processes that share the public address of this machine; more than 1 need PostgreSQL."""
    deliver: str = "parts"
    """How batches leave: parts (by HTTP), manifest (the analyzer reads the parts from `spool`, a
    bucket that both can use), or export (they are written to `exports`, unsorted, for
    `shuffledp shuffle-batch`)."""
    exports: str = ""
    """The folder or bucket that batches are exported to, if deliver = export."""
    gateway_keys: str = ""
    """The folder of the keys for requests through a relay; if empty, next to `spool`."""
    queue: int = 4096
    """The most uploads that may wait for the disk; beyond that, clients get 429."""
    token_requests_per_minute: int = 0
    """Uploads per minute with one token; more get 429. 0 means no limit."""
    token_days: int = 0
    """Enrolled tokens are deleted after this number of days; 0: never."""
    retry_seconds: int = 60
    """The longest pause between two attempts to deliver."""

    @property
    def report_keys_folder(self) -> str:
        """The folder of the keys under which reports are stored."""
        return self.report_keys or f"{self.spool.rstrip('/')}-keys"

    @property
    def gateway_keys_folder(self) -> str:
        """The folder of the keys for requests that come through a relay."""
        return self.gateway_keys or f"{self.spool.rstrip('/')}-gateway"

    @property
    def memory_folder(self) -> str:
        """The folder in which processes remember what they acknowledged."""
        return self.memory or f"{self.signing_key_file}.seen"

    @property
    def shared(self) -> bool:
        """Whether several processes may use the store."""
        return not self.store.startswith("sqlite:")

    def problems(self) -> list[str]:
        found = super().problems()
        if not is_server(self.analyzer):
            found.append("analyzer must be a URL like https://analyzer.example:8802")
        if not self.deliver_token:
            found.append("deliver_token is missing; set SHUFFLEDP_SHUFFLER_DELIVER_TOKEN")
        if self.workers < 1:
            found.append("workers must be at least 1")
        if self.workers > 1 and not self.shared:
            found.append(
                "workers is more than 1, but only one process can use an SQLite store; set "
                "store = postgresql://…, or workers = 1"
            )
        if self.deliver not in ("parts", "manifest", "export"):
            found.append("deliver must be parts, manifest or export")
        if (self.deliver == "export") != bool(self.exports) or self.exports.startswith("file:"):
            found.append(
                "deliver = export needs exports, a folder's path or a bucket, and vice versa"
            )
        if self.deliver == "manifest" and not is_bucket(self.spool):
            found.append("deliver = manifest needs a bucket as spool, for example s3://…")
        if is_bucket(self.spool) and not (
            self.report_keys and self.gateway_keys and self.signing_key
        ):
            found.append("with a bucket as spool, name report_keys, gateway_keys and signing_key")
        if self.queue < 1 or self.retry_seconds < 1:
            found.append("queue and retry_seconds must be at least 1")
        return found
