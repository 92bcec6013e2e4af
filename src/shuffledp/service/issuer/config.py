"""The issuer's configuration."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from shuffledp.service.http.config import ServerConfig


@dataclass(frozen=True, kw_only=True)
class IssuerConfig(ServerConfig):
    """The table [issuer]."""

    table: ClassVar[str] = "issuer"
    unused: ClassVar[frozenset[str]] = frozenset({"signing_key"})
    keys: str = "issuer-keys"
    """The folder of the issuer's private keys, one per task."""
    attest: str = ""
    """The command that decides who may enrol by evidence; if empty, nobody may."""
    attest_seconds: int = 10
    """How many seconds that command may take."""

    def problems(self) -> list[str]:
        found = super().problems()
        if self.signing_key:
            found.append("signing_key: the issuer signs no tasks; leave it out")
        try:
            shlex.split(self.attest)
        except ValueError:
            found.append("attest must be a command, with quotation marks in pairs")
        if self.attest_seconds < 1:
            found.append("attest_seconds must be at least 1")
        return found
