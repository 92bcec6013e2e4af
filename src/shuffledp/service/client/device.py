"""What a device remembers: its reports, their exact cost in ε, and the keys it has seen.

It is one JSON file in the outbox, changed under a lock and on disk before a report leaves, so all
tasks and programs that use the same outbox share one budget. If the file is lost while the outbox
shows that reports were sent, nothing more is sent until a person decides to start over. The purpose
of reports can be wiped at any time; their cost and time stay, so that the budget holds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from shuffledp.documents.files import lock, write_whole
from shuffledp.numbers.exact import show
from shuffledp.service.client.one_time import forget_expired, tokens_kept
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.errors import DeviceRecordLost, PolicyRefused
from shuffledp.tasks.clock import DAY_SECONDS, Clock, system_clock
from shuffledp.tasks.signing import SIGNERS
from shuffledp.tasks.task import Task

DEVICE_FORMAT = "shuffledp device 2"
DEVICE_FILE = "device.json"
ENCRYPTION = "encryption"
KEY_NAMES = {
    ENCRYPTION: "the analyzer's encryption key",
    **{role: f"the {role}'s signing key" for role in SIGNERS},
}
"""The keys that are remembered, in words."""
_LOGGER = logging.getLogger("shuffledp.client")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One report of this device, and what it cost."""

    report: str
    """The report's id; empty after it was wiped."""
    task: str
    """The task's id; empty after it was wiped and the task has expired."""
    epsilon: Fraction
    when: int
    """Seconds since 1970, by the device's clock."""
    expires: int
    """When the task can no longer be answered."""
    about: dict[str, Any] | None
    """What the person was asked and to whom the report went; None after it was wiped."""


class Wiped(NamedTuple):
    """What was wiped, and what had to stay."""

    reports: int
    """Reports of which only ε and the time are left."""
    waiting: int
    """Reports that wait to be sent."""
    tasks: int
    """Tasks that have not expired, whose ids stay."""


@dataclass
class _Record:
    """The contents of the file."""

    charges: list[Charge]
    keys: dict[str, dict[str, str]]
    """The keys that were first seen at each shuffler: see `Device.trust`."""


class Device:
    """The record of one device, in the folder of its outbox."""

    def __init__(self, folder: Path, clock: Clock = system_clock) -> None:
        self.folder, self._file, self._clock = folder, folder / DEVICE_FILE, clock

    def charge(
        self,
        task: Task,
        report_id: bytes,
        policy: ClientPolicy,
        store: Callable[[], None] = lambda: None,
        *,
        shuffler: str = "",
    ) -> None:
        """Durably records what a report costs and then has it stored, once per report, however
        often it is sent. `shuffler` overrides the task's shuffler.

        Ensures: raises `PolicyRefused` and records nothing if it is more than the policy allows,
        even if several programs ask at the same time. If `store` fails, because the task was
        answered in the meantime or the disk is full, the charge is undone: a stored report is
        charged again before it is sent.
        """
        with self._locked():
            record = self._read()
            if any(charge.report == report_id.hex() for charge in record.charges):
                return
            cost, now = task.protocol.epsilon, int(self._clock())
            self._check(record, task, policy, now)
            fresh = Charge(
                report=report_id.hex(),
                task=task.id.hex(),
                epsilon=cost,
                when=now,
                expires=task.expires,
                about=_about(task, shuffler or task.shuffler),
            )
            self._write(_Record([*record.charges, fresh], record.keys))
            try:
                store()
            except BaseException:
                self._write(record)
                raise

    def check(self, task: Task, policy: ClientPolicy) -> None:
        """Raises `PolicyRefused` if one more report for this task is more than the policy allows
        now."""
        with self._locked():
            self._check(self._read(), task, policy, int(self._clock()))

    @staticmethod
    def _check(record: _Record, task: Task, policy: ClientPolicy, now: int) -> None:
        cost = task.protocol.epsilon
        same = _sum(charge for charge in record.charges if charge.task == task.id.hex())
        if same + cost > policy.most_epsilon_per_task:
            raise PolicyRefused(
                f"This device has spent ε = {show(same)} on this task, and your policy allows "
                f"{show(policy.most_epsilon_per_task)} per task; do not answer it again, or raise "
                "most_epsilon_per_task in your policy."
            )
        begin = now - policy.period_days * DAY_SECONDS
        recent = [charge for charge in record.charges if charge.when > begin]
        spent = _sum(iter(recent))
        if spent + cost > policy.most_epsilon_per_period:
            days = _days(recent, begin)
            raise PolicyRefused(
                f"This task costs ε = {show(cost)}; this device has spent {show(spent)} of the "
                f"{show(policy.most_epsilon_per_period)} that it allows in {policy.period_days} "
                + (f"days: wait at least {days} days, " if recent else "days: ")
                + "or raise most_epsilon_per_period in your policy."
            )

    def trust(
        self, shuffler: str, task: Task, signers: Mapping[str, bytes], policy: ClientPolicy
    ) -> None:
        """Trust on first use: compares a task's encryption key and signing keys with those first
        seen at this shuffler, and remembers the first ones. Keys named in a policy were checked
        before."""
        given = {} if policy.analyzer_keys else {ENCRYPTION: task.key.raw.hex()}
        given |= {
            role: key.hex() for role, key in signers.items() if not policy.signing_keys.get(role)
        }
        with self._locked():
            record = self._read()
            known = record.keys.get(shuffler, {})
            for name, key in given.items():
                if known.get(name, key) != key:
                    raise _other_key(name, shuffler, key)
            fresh = {name: key for name, key in given.items() if name not in known}
            if fresh:
                _LOGGER.warning(
                    "This device trusts these keys from now on (trust on first use: %s); "
                    "compare them with what the operators publish, or name the right keys in your "
                    "policy.",
                    "; ".join(f"{KEY_NAMES[name]} {key}" for name, key in fresh.items()),
                )
                self._write(_Record(record.charges, record.keys | {shuffler: known | fresh}))

    def charges(self) -> list[Charge]:
        """All charged reports, oldest first."""
        return self._read().charges

    def keys(self) -> dict[str, dict[str, str]]:
        """The keys that are remembered for each shuffler."""
        return self._read().keys

    def spent(self, days: int) -> Fraction:
        """The ε of the last days' reports, added up."""
        begin = int(self._clock()) - days * DAY_SECONDS
        return _sum(charge for charge in self.charges() if charge.when > begin)

    def history(self) -> list[dict[str, Any]]:
        """What this device has sent or has stored to send, oldest first, for its person. The values
        are not known: they were never stored."""
        record = self._read()
        last = {charge.task: number for number, charge in enumerate(record.charges)}
        return [
            {
                "when": charge.when,
                "state": self._state(charge, last[charge.task] == number),
                "epsilon": str(charge.epsilon),
                "task": charge.task,
                "report": charge.report,
                **(charge.about or {}),
            }
            for number, charge in enumerate(record.charges)
        ]

    def _state(self, charge: Charge, last: bool) -> str:
        if charge.about is None:
            return "wiped"
        return "waiting" if last and self._waits(charge) else "sent"

    def _waits(self, charge: Charge) -> bool:
        return bool(charge.task) and (self.folder / f"{charge.task}.report").exists()

    def wipe(self, *, keys: bool = False) -> Wiped:
        """Deletes what reports were for: questions, names, addresses, ids, and the one-time tokens
        of tasks that have expired; with `keys` also the keys that were remembered.

        Ensures: what every report cost, and when, stays, so that the budget holds. The ids of tasks
        that have not expired stay, so that none is answered twice, and so do reports that wait to
        be sent, with everything about them.
        """
        now = int(self._clock())
        with self._locked():
            record = self._read()
            waiting = [charge for charge in record.charges if self._waits(charge)]
            charges = [
                charge if charge in waiting else _wiped(charge, now) for charge in record.charges
            ]
            self._write(_Record(charges, {} if keys else record.keys))
            known = {charge.task for charge in charges}
            for mark in self.folder.glob("*.done"):
                if mark.stem not in known:
                    mark.unlink()
            forget_expired(self.folder, now)
        return Wiped(
            reports=len(charges) - len(waiting),
            waiting=len(waiting),
            tasks=len({charge.task for charge in charges if charge.task}),
        )

    def tokens(self) -> list[str]:
        """The ids of the tasks for which one-time tokens are stored; the tokens themselves are
        secret."""
        return tokens_kept(self.folder)

    def begin_anew(self) -> None:
        """Starts an empty record after the old one was lost; refuses if there is one."""
        with self._locked():
            if self._file.exists():
                raise PolicyRefused(
                    f"{self._file} exists; remove it yourself first if you want to replace it."
                )
            self._write(_Record([], {}))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock(self.folder / f"{DEVICE_FILE}.lock", secret=True):
            yield

    def _read(self) -> _Record:
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
            if data["format"] != DEVICE_FORMAT:
                raise ValueError
            charges = [
                Charge(
                    report=str(row["report"]),
                    task=str(row["task"]),
                    epsilon=Fraction(row["epsilon"]),
                    when=int(row["when"]),
                    expires=int(row["expires"]),
                    about=None if row["about"] is None else dict(row["about"]),
                )
                for row in data["charges"]
            ]
            keys = {
                str(shuffler): {str(name): str(key) for name, key in known.items()}
                for shuffler, known in data["keys"].items()
            }
            return _Record(charges, keys)
        except FileNotFoundError:
            if any(self.folder.glob("*.done")) or any(self.folder.glob("*.report")):
                raise DeviceRecordLost(
                    f"The record {self._file} of what this device has spent is missing, although "
                    "reports were made; restore it from a copy, or start over with `shuffledp "
                    "device begin-anew`."
                ) from None
            return _Record([], {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
            raise DeviceRecordLost(
                f"The record {self._file} of what this device has spent cannot be read; nothing "
                "was sent: restore the file from a copy, or remove it and start over "
                "with `shuffledp device begin-anew`."
            ) from None

    def _write(self, record: _Record) -> None:
        rows = [asdict(charge) | {"epsilon": str(charge.epsilon)} for charge in record.charges]
        data = {"format": DEVICE_FORMAT, "charges": rows, "keys": record.keys}
        write_whole(self._file, json.dumps(data, indent=2), durable=True, secret=True)


def _about(task: Task, shuffler: str) -> dict[str, Any]:
    """The description of a report that the person can read later."""
    return {
        "name": task.name,
        "question": task.question,
        "shuffler": shuffler,
        "operators": asdict(task.operators),
        "bytes": task.report_bytes,
    }


def _wiped(charge: Charge, now: int) -> Charge:
    """A charge reduced to what the budget needs."""
    task = charge.task if now < charge.expires else ""
    return replace(charge, report="", task=task, about=None)


def _other_key(name: str, shuffler: str, key: str) -> PolicyRefused:
    option = "analyzer_keys" if name == ENCRYPTION else "signing_keys"
    return PolicyRefused(
        f"This task has a different key from the one this device has remembered for {shuffler}: "
        f"{KEY_NAMES[name]} is said to be {key}; ask the operator whether it is theirs now, and if "
        f"so name it under {option} in your policy."
    )


def _days(recent: list[Charge], begin: int) -> int:
    """Days until the oldest of the recent charges no longer counts."""
    oldest = min((charge.when for charge in recent), default=begin)
    return -(-(oldest - begin) // DAY_SECONDS)


def _sum(charges: Iterator[Charge]) -> Fraction:
    return sum((charge.epsilon for charge in charges), start=Fraction(0))
