"""What clients and servers raise on purpose.

ShuffleDPError
└── ServiceError
    ├── AlreadyAnswered       this device already has a report for this task
    ├── PolicyRefused         the task asks for more than this device agrees to; nothing was sent
    ├── DeviceRecordLost      the record of what this device spent is lost; nothing was sent
    ├── Unreachable           no answer; the encrypted report is stored and can be sent again
    │   └── UntrustedServer   the server's TLS certificate is not trusted
    ├── Refused               the other side refused, with its reason
    ├── ConfigError           the configuration is incomplete or contradicts itself
    └── StorageUnavailable    nothing was stored; try again later
        └── KeyTaken          … because another process stored one of the keys first
"""

from __future__ import annotations

import ssl

from shuffledp.errors import ShuffleDPError


class ServiceError(ShuffleDPError):
    """Root of the errors that clients and servers raise."""


class AlreadyAnswered(ServiceError):
    """A second value for the same task would weaken the guarantee; nothing was randomized."""


class PolicyRefused(ServiceError):
    """The task asks for more than this device agrees to; nothing was randomized or sent."""


class DeviceRecordLost(ServiceError):
    """The record of what this device has spent is lost; nothing was sent."""


class Unreachable(ServiceError):
    """The other side did not answer in time; what was to be sent is kept."""


class UntrustedServer(Unreachable):
    """The other side's TLS certificate is not trusted; what was to be sent is kept."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url} answers, but its TLS certificate is not trusted here; check the address, and "
            "if it is signed by an authority of your own, set SSL_CERT_FILE to that authority's "
            "certificate."
        )


def untrusted_certificate(error: BaseException | None) -> bool:
    """Whether a connection failed because the other side's TLS certificate is not trusted."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


class Refused(ServiceError):
    """The other side refused permanently, and said why."""

    def __init__(self, message: str, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ConfigError(ServiceError):
    """The configuration is incomplete or contradicts itself."""


class StorageUnavailable(ServiceError):
    """The storage is full or cannot be reached; nothing was stored and nothing acknowledged."""


class KeyTaken(StorageUnavailable):
    """Another process stored one of these keys first; nothing was stored: look again."""
