"""Everything that shuffledp raises on purpose.

    ShuffleDPError
    ├── InputError              the caller's input is not allowed
    │   ├── ParameterError      ε, a target, a size, a file format … (also a ValueError)
    │   │   └── LedgerBroken    entries of a ledger were edited or removed
    │   ├── DataError           a column or file cannot be used as it is
    │   ├── ValueOutOfRange     a user's value does not fit the protocol (never says which value)
    │   └── SeededError         seeded randomness where only the operating system's is allowed
    ├── ShortBatchError         fewer reports than the guarantee needs
    ├── PlanningError           no parameters reach this target; says why
    ├── CertificateError        a protocol could not be certified
    │   ├── PrivacyViolation    the inequality fails; carries the witness
    │   ├── FalseClaim          a certificate claims what does not follow from its parameters
    │   ├── Undecided           the precision limit was reached first
    │   └── TooCostly           the time limit was reached first
    ├── BudgetExceeded          a ledger refuses to spend
    └── MissingExtra            an optional dependency is not installed

Every message says what was wrong, what is allowed and what to do, in one sentence, and never shows
a user's value.
"""

from __future__ import annotations


class ShuffleDPError(Exception):
    """Root of all errors raised on purpose."""


class InputError(ShuffleDPError):
    """The input is not allowed."""


class ParameterError(InputError, ValueError):
    """A parameter is outside its domain."""


class LedgerBroken(ParameterError):
    """Entries of a ledger were edited or removed; nothing was spent."""


class DataError(InputError):
    """A column or file cannot be used as it is."""


class ValueOutOfRange(InputError, ValueError):
    """A user's value does not fit the protocol; the value itself is not shown."""


class SeededError(InputError):
    """Seeded randomness was used where only the operating system's is allowed."""


class ShortBatchError(ShuffleDPError):
    """Fewer reports than the guarantee needs; nothing was released."""

    def __init__(self, have: int, need: int) -> None:
        super().__init__(
            f"The batch has {have:,} of the {need:,} reports that the privacy guarantee needs; "
            "wait for more reports, or plan for fewer users."
        )
        self.have = have
        self.need = need


class PlanningError(ShuffleDPError):
    """No parameters reach the target."""


class CertificateError(ShuffleDPError):
    """A protocol could not be certified."""


class PrivacyViolation(CertificateError):
    """The certified inequality fails at a named integer: the witness."""

    def __init__(self, message: str, witness: dict[str, object]) -> None:
        super().__init__(message)
        self.witness = witness


class FalseClaim(CertificateError, ParameterError):
    """A certificate claims what does not follow from its parameters."""


class Undecided(CertificateError):
    """The precision limit was reached before the inequality was decided."""


class TooCostly(CertificateError):
    """The time limit was reached before the inequality was decided."""


class BudgetExceeded(ShuffleDPError):
    """A ledger refuses to spend more than its budget; nothing was recorded."""


class MissingExtra(ShuffleDPError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"This needs the package {package}, which is not installed; "
            f'run: pip install "shuffledp[{extra}]"'
        )
