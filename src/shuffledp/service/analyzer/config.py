"""The analyzer's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import positive
from shuffledp.service.http.config import ServerConfig
from shuffledp.tasks.rules import IMPLAUSIBLE_RULES


@dataclass(frozen=True, kw_only=True)
class AnalyzerConfig(ServerConfig):
    """The table [analyzer]."""

    table: ClassVar[str] = "analyzer"
    keys: str = "keys"
    """The folder of the analyzer's keys."""
    shuffler_token_sha256: str = ""
    """Hash of the token with which the shuffler delivers."""
    engine: str = "processes"
    """Where messages are opened: processes (of this machine) or spark."""
    workers: int = 0
    """Processes that open messages; 0 means one per core."""
    spark_master: str = ""
    """The Spark master, for example spark://host:7077, if engine = spark; empty: this machine."""
    ledger: str = "ledger.json"
    """Where every release is recorded."""
    budget: str = "10"
    """ε in all, for a ledger that does not exist yet."""
    implausible: str = "mark"
    """What becomes of a batch whose total honest clients would not send: mark (it is published
    with a mark) or hold."""
    result_days: int = 0
    """Published results and their counts are deleted after this number of days; 0: never."""
    confidence_percent: int = 95
    """Of the intervals that are published."""
    most_batch_mb: int = 2_097_152
    """Larger batches are refused, and so are those that do not fit on the disk."""
    parts: str = ""
    """The bucket that is shared with the shuffler (its `spool`), for example s3://…; empty: parts
    come by HTTP."""

    def problems(self) -> list[str]:
        found = super().problems()
        if not 1 <= self.confidence_percent <= 99:
            found.append("confidence_percent must lie in 1..99")
        if self.implausible not in IMPLAUSIBLE_RULES:
            found.append(f"implausible must be one of {', '.join(IMPLAUSIBLE_RULES)}")
        if self.engine not in ("processes", "spark"):
            found.append("engine must be processes or spark")
        if self.parts.startswith("file:"):
            found.append("parts must be empty or a bucket like s3://…, the shuffler's spool")
        try:
            positive(self.budget, "budget")
        except ParameterError as error:
            found.append(str(error).rstrip("."))
        if self.workers < 0 or self.most_batch_mb < 1:
            found.append("workers must be at least 0 and most_batch_mb at least 1")
        return found
