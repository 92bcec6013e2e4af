"""The analyzer's configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import positive
from shuffledp.service.analyzer.witnesses import witness_of
from shuffledp.service.http.config import ServerConfig
from shuffledp.tasks.errors import ProofError
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
    """The total ε of a new ledger."""
    implausible: str = "mark"
    """What to do with a batch whose total is implausible for honest clients: mark (publish it with
    a mark) or hold."""
    result_days: int = 0
    """Published results and their counts are deleted after this number of days; 0: never."""
    confidence_percent: int = 95
    """The confidence of published intervals, in percent."""
    most_batch_mb: int = 2_097_152
    """Larger batches are refused, and so are those that do not fit on the disk."""
    parts: str = ""
    """The bucket that is shared with the shuffler (its `spool`), for example s3://…; empty: parts
    come by HTTP."""

    log_origin: str = ""
    """The name of this analyzer's log of tasks in checkpoints, for example
    statistics.example/tasks; empty: a name made of the signing key. Never change it."""
    witnesses: tuple[str, ...] = ()
    """Witnesses (c2sp.org/tlog-witness) that are asked to cosign every head of the log: the
    verifier key, a space, and the URL to which add-checkpoint is appended."""

    def problems(self) -> list[str]:
        found = super().problems()
        if not 1 <= self.confidence_percent <= 99:
            found.append("confidence_percent must lie in 1..99")
        if self.implausible not in IMPLAUSIBLE_RULES:
            found.append(f"implausible must be one of {', '.join(IMPLAUSIBLE_RULES)}")
        if re.search(r"[\s+]", self.log_origin):
            found.append("log_origin must be empty or a name without spaces and +")
        try:
            for one in self.witnesses:
                witness_of(one)
        except ProofError:
            found.append(
                "witnesses must be texts like 'name+id+key https://witness.example', with a "
                "verifier key of type 4"
            )
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
