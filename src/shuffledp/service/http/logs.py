"""Logs as JSON lines about tasks and batches, never about single reports or their senders.

Only the fields named here can be logged at all: there is none for an address, a token, a report
id or a body.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from shuffledp.errors import ShuffleDPError

LOG_FIELDS = frozenset(
    {
        "role",
        "task",
        "batch",
        "state",
        "store",
        "reports",
        "need",
        "error",
        "library",
        "reason",
        "attempt",
        "seconds",
        "key",
        "process",
        "listen",
        "tokens",
    }
)
_LOGGER = logging.getLogger("shuffledp.service")


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON; from other libraries, only the library's name."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
        }
        if record.name == _LOGGER.name:
            line |= {"event": record.getMessage(), **getattr(record, "fields", {})}
        else:
            line |= {"event": "library notice", "library": record.name}
            if record.name == "uvicorn.error" and isinstance(record.msg, OSError):  # no port
                line |= {"event": "cannot start", "reason": plain_reason(record.msg)}
        return json.dumps(line, ensure_ascii=False)


def log(event: str, level: str = "info", **fields: Any) -> None:
    """Logs an event; raises `ValueError` for a field that is not in `LOG_FIELDS`."""
    unknown = fields.keys() - LOG_FIELDS
    if unknown:
        raise ValueError(f"Not a log field: {', '.join(sorted(unknown))}.")
    _LOGGER.log(logging.getLevelName(level.upper()), event, extra={"fields": fields})


def plain_reason(error: BaseException) -> str:
    """In words, why a server cannot start. Our errors and the operating system's are about the
    operator's files and addresses, never about a request."""
    if isinstance(error, ShuffleDPError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"The operating system says: {error.strerror}{where}."
    return f"An internal fault ({type(error).__name__}); please report it."


def start_logs() -> None:
    """Sends logs to standard error as JSON lines."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(JsonLines())
    logging.getLogger("shuffledp").handlers.clear()  # those of -v would write each line again
    logging.basicConfig(level=logging.WARNING, handlers=[out], force=True)
    _LOGGER.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # no line per malformed request
