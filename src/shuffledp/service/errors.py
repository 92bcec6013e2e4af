"""What clients and servers raise on purpose.

ShuffleDPError
└── ServiceError
    ├── AlreadyAnswered       this device has a report for this task already
    ├── Unreachable           no answer; the encrypted report is stored and can be sent again
    ├── Refused               the other side said no, with its reason
    ├── ConfigError           the configuration is incomplete or contradicts itself
    └── StorageUnavailable    nothing was stored; try again later
"""

from __future__ import annotations

from shuffledp.errors import ShuffleDPError


class ServiceError(ShuffleDPError):
    """Root of the errors that clients and servers raise."""


class AlreadyAnswered(ServiceError):
    """A second value for the same task would weaken the guarantee; nothing was randomized."""


class Unreachable(ServiceError):
    """The other side did not answer in time; what was to be sent is kept."""


class Refused(ServiceError):
    """The other side refused for good, and said why."""

    def __init__(self, message: str, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ConfigError(ServiceError):
    """The configuration is incomplete or contradicts itself."""


class StorageUnavailable(ServiceError):
    """The storage is full or cannot be reached; nothing was stored and nothing acknowledged."""
