"""Logs as JSON lines about tasks and batches, never about single reports or those who send them.

Only the fields named here can be logged at all: there is none for an address, a token, a report
id or a body.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

FIELDS = frozenset(
    {
        "role",
        "task",
        "batch",
        "state",
        "reports",
        "need",
        "messages",
        "kind",
        "reason",
        "attempt",
        "seconds",
        "key",
        "listen",
        "tokens",
    }
)
_LOGGER = logging.getLogger("shuffledp.service")


class JsonLines(logging.Formatter):
    """One JSON object per line; of other libraries' records only the logger's name."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
        }
        if record.name == _LOGGER.name:
            line |= {"event": record.getMessage(), **getattr(record, "fields", {})}
        else:
            line |= {"event": "library notice", "kind": record.name}
        return json.dumps(line, ensure_ascii=False)


def log(event: str, level: str = "info", **fields: Any) -> None:
    """Writes one line; a field without a place in `FIELDS` is a mistake."""
    unknown = fields.keys() - FIELDS
    if unknown:
        raise ValueError(f"Not a log field: {', '.join(sorted(unknown))}.")
    _LOGGER.log(logging.getLevelName(level.upper()), event, extra={"fields": fields})


def start_logs() -> None:
    """Sends logs to standard error as JSON lines."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[out], force=True)
    _LOGGER.setLevel(logging.INFO)
