"""What a device agrees to: limits that no task can raise, with safe defaults.

A collector chooses ε, the number of users and how often it asks. The policy belongs to the person
whose value it is: a task beyond it is refused before anything is randomized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp.documents.json_text import read_json_file
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, positive, show, whole
from shuffledp.service.errors import PolicyRefused
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.notes import VerifierKey
from shuffledp.tasks.signing import SIGNERS
from shuffledp.tasks.task import Task

MOST_EPSILON_PER_TASK = Fraction(2)
MOST_EPSILON_PER_PERIOD = Fraction(4)
PERIOD_DAYS = 30
LEAST_USERS = 100
LARGEST_POLICY_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ClientPolicy:
    """The limits of one device."""

    most_epsilon_per_task: Fraction = MOST_EPSILON_PER_TASK
    """The most ε for all reports for one task together."""
    most_epsilon_per_period: Fraction = MOST_EPSILON_PER_PERIOD
    """The most ε for all reports within `period_days` days, for any tasks."""
    period_days: int = PERIOD_DAYS
    least_users: int = LEAST_USERS
    """The smallest number of reports among which this one may hide."""
    allow_repeat: bool = False
    """Whether to answer tasks that take more than one report of the same device."""
    allow_short_batches: bool = False
    """Whether to answer tasks whose batches may leave early (`at_least`), so that the shuffler has
    to be trusted to add the missing noise."""
    analyzer_keys: tuple[str, ...] = ()
    """The analyzer keys that this device encrypts for, in hexadecimal digits; if there are none,
    the first key that a shuffler's task carries is remembered, and another one is refused."""
    signing_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys that must have signed a task, in hexadecimal digits, by role: collector, shuffler,
    analyzer; for a role without any, the first key seen is remembered, and another one is
    refused."""

    witnesses: tuple[str, ...] = ()
    """Verifier keys (name+id+key, of type 4) of witnesses of the log of tasks."""
    least_witnesses: int = 0
    """How many of `witnesses` must have cosigned the log that contains a task."""

    def __post_init__(self) -> None:
        try:
            keys = {one.public for one in self._witness_keys() if not one.signs_log}
        except ProofError:
            keys = set()
        if len(keys) < len(self.witnesses) or not 0 <= self.least_witnesses <= len(keys):
            raise ParameterError(
                "witnesses must be different verifier keys of type 4 (name+id+key), and "
                "least_witnesses at most their number."
            )
        positive(self.most_epsilon_per_task, "most_epsilon_per_task")
        positive(self.most_epsilon_per_period, "most_epsilon_per_period")
        whole(self.period_days, "period_days", most=36_500)
        whole(self.least_users, "least_users")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ClientPolicy:
        """The policy in a JSON object; missing fields have their defaults."""
        if not isinstance(data, Mapping) or data.keys() - READERS.keys():
            raise ParameterError(f"A policy is a JSON object with: {', '.join(sorted(READERS))}.")
        return cls(**{name: READERS[name](value, name) for name, value in data.items()})

    @classmethod
    def load(cls, path: str | Path) -> ClientPolicy:
        """The policy in a JSON file."""
        return cls.from_dict(read_json_file(path, LARGEST_POLICY_BYTES))

    def to_dict(self) -> dict[str, Any]:
        """The policy as a JSON object."""
        names = ("most_epsilon_per_task", "most_epsilon_per_period")
        return asdict(self) | {name: str(getattr(self, name)) for name in names}

    def check(self, task: Task) -> None:
        """Raises `PolicyRefused` if the task asks for more than this device agrees to."""
        protocol = task.protocol
        if protocol.epsilon > self.most_epsilon_per_task:
            raise PolicyRefused(
                f"This task costs ε = {show(protocol.epsilon)}, but this device allows "
                f"{show(self.most_epsilon_per_task)} per task; ask the collector for a task with a "
                "smaller ε, or raise most_epsilon_per_task in your policy."
            )
        if protocol.users < self.least_users:
            raise PolicyRefused(
                f"This task hides your value among {counted(protocol.users, 'user')}, but this "
                f"device requires {self.least_users:,}; ask the collector for a task with more "
                "users, or lower least_users in your policy."
            )
        if task.repeat and not self.allow_repeat:
            raise PolicyRefused(
                "This task takes more than one answer, and each costs ε again; answer a task "
                "without repeats, or set allow_repeat in your policy."
            )
        if task.batch.fewest < task.batch.reports and not self.allow_short_batches:
            raise PolicyRefused(
                f"This task's batches may leave with {task.batch.fewest:,} of "
                f"{task.batch.reports:,} reports, with noise that the shuffler adds; answer a task "
                "without at_least, or set allow_short_batches in your policy."
            )
        if self.analyzer_keys and task.key.raw.hex() not in self.analyzer_keys:
            raise PolicyRefused(
                "This task is encrypted for an analyzer key that your policy does not name; ask "
                "the analyzer's operator for their key, and add it to analyzer_keys if it is this "
                f"one: {task.key.raw.hex()}."
            )

    def _witness_keys(self) -> list[VerifierKey]:
        return [VerifierKey.parse(text) for text in self.witnesses]

    def check_witnesses(self, proof: TaskProof) -> None:
        """Raises `ProofError` if too few witnesses have cosigned the log."""
        proof.check_witnesses(self._witness_keys(), self.least_witnesses)

    def check_signers(self, keys: Mapping[str, bytes]) -> None:
        """Raises `PolicyRefused` if a role has signed with a key that this policy does not name."""
        for role, allowed in self.signing_keys.items():
            if allowed and keys[role].hex() not in allowed:
                raise PolicyRefused(
                    f"This task is signed with a key of the {role} that your policy does not name; "
                    f"ask the {role}'s operator for their signing key, and add it to signing_keys "
                    f"if it is this one: {keys[role].hex()}."
                )


def _flag(given: Any, name: str) -> bool:
    if not isinstance(given, bool):
        raise ParameterError(f"{name} must be true or false.")
    return given


def _witnesses(given: Any, name: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise ParameterError(f"{name} must be a list of verifier keys.")
    return tuple(given)


def _signing_keys(given: Any, name: str) -> dict[str, tuple[str, ...]]:
    """The signing keys of each role."""
    if not isinstance(given, Mapping) or given.keys() - set(SIGNERS):
        raise ParameterError(
            f"{name} must be an object with a list of keys for each of: {', '.join(SIGNERS)}."
        )
    return {role: _keys(keys, name) for role, keys in given.items()}


def _keys(given: Any, name: str) -> tuple[str, ...]:
    """Public keys in hexadecimal digits, or as the objects that `keys show` prints."""
    if not isinstance(given, list | tuple):
        raise ParameterError(f"{name} must be a list of keys.")
    found = []
    for key in given:
        text = PublicKey.from_dict(key).raw.hex() if isinstance(key, Mapping) else str(key).lower()
        if len(text) != 64 or set(text) - set("0123456789abcdef"):
            raise ParameterError(
                f"Each of {name} is 64 hexadecimal digits, or what `shuffledp keys show` prints."
            )
        found.append(text)
    return tuple(found)


READERS: dict[str, Callable[[Any, str], Any]] = {
    "most_epsilon_per_task": positive,
    "most_epsilon_per_period": positive,
    "period_days": whole,
    "least_users": whole,
    "allow_repeat": _flag,
    "allow_short_batches": _flag,
    "analyzer_keys": _keys,
    "signing_keys": _signing_keys,
    "witnesses": _witnesses,
    "least_witnesses": lambda given, name: whole(given, name, 0),
}
"""How each field is read from JSON."""
