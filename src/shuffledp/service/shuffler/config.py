"""The shuffler's configuration."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import ClassVar

from shuffledp.service.http.config import ServerConfig, is_store
from shuffledp.service.http.origins import is_server

STORE_NAME = re.compile("[a-z0-9-]{1,30}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ShufflerConfig(ServerConfig):
    """The table [shuffler]."""

    table: ClassVar[str] = "shuffler"
    analyzer: str = "http://127.0.0.1:8802"
    """Where batches are delivered."""
    analyzer_signing_key: str = ""
    """The public key of the analyzer's log of tasks; if empty, the first one seen is kept."""
    deliver_token: str = ""
    """The shuffler's own token at the analyzer; best given as SHUFFLEDP_SHUFFLER_DELIVER_TOKEN."""
    report_keys: str = ""
    """The folder of the keys under which reports are stored; empty: beside `spool`."""
    processes: int = 1
    """How many processes answer the public address and store reports; if more than 1, another one
    closes and delivers batches."""
    more_stores: tuple[str, ...] = ()
    """Further stores over which new tasks are spread, each as name=URL; a task stays where it is.
    In the environment, separated by commas."""
    gateway_keys: str = ""
    """The folder of the keys for requests that come through a relay; empty: beside `spool`."""
    queue: int = 4096
    """Uploads that may wait for the disk; beyond that clients are told 429."""
    token_requests_per_minute: int = 0
    """Uploads with one token; more are told 429. 0: no limit."""
    token_days: int = 0
    """Enrolled tokens are deleted after so many days; 0: never."""
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
    def lanes(self) -> range:
        """The numbers of the processes at the public address, if there are several."""
        return range(1, self.processes + 1)

    @property
    def store_urls(self) -> dict[str, str]:
        """The further stores by their names."""
        return {name: url for name, _, url in (one.partition("=") for one in self.more_stores)}

    def problems(self) -> list[str]:
        found = super().problems()
        urls = self.store_urls
        if not all(STORE_NAME.fullmatch(name) and is_store(url) for name, url in urls.items()):
            found.append(
                "more_stores must be a list of name=URL, for example b=sqlite:/data/b.db; names "
                "are of small letters, digits and -"
            )
        if len({self.store, *urls.values()}) <= len(self.more_stores):
            found.append("store and more_stores must name each store, and each name, once")
        if not is_server(self.analyzer):
            found.append("analyzer must be a URL like https://analyzer.example:8802")
        if not self.deliver_token:
            found.append("deliver_token is missing; set SHUFFLEDP_SHUFFLER_DELIVER_TOKEN")
        if self.processes < 1 or (self.processes > 1 and not hasattr(socket, "SO_REUSEPORT")):
            found.append("processes must be at least 1, and is 1 on this operating system")
        if self.queue < 1 or self.retry_seconds < 1:
            found.append("queue and retry_seconds must be at least 1")
        return found
