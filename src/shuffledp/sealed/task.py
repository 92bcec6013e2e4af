"""A task: everything that the three roles agree on, named by the SHA-256 of its canonical text.

Nobody can be talked into other parameters: the id stands in every ciphertext's `info`, and every
role proves the certificate again before it believes the task.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from shuffledp.errors import ShuffleDPError
from shuffledp.exact.numbers import whole
from shuffledp.privacy.certificate import Certificate, verify
from shuffledp.protocols import protocol_from_dict
from shuffledp.protocols.base import Protocol
from shuffledp.sealed.encryption import SUITE_NAME, PublicKey
from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.wire import MOST_CELLS, MOST_EXTRA, MOST_MESSAGES, MOST_REPORTS, report_bytes

FORMAT = "shuffledp task 1"
TOP_UPS = ("none", "missing", "full")
ORDERS = ("canonical", "uniform")
LONGEST_NAME = 100


@dataclass(frozen=True)
class BatchRule:
    """When a batch may leave the shuffler."""

    reports: int
    """A batch holds so many reports; left-overs wait for the next one."""
    top_up: str = "none"
    """none: a short batch waits. missing: after `wait_seconds` the shuffler adds the noise of the
    users who did not come. full: it adds one full set of noise to every batch."""
    at_least: int = 0
    """With a top-up, the fewest reports that leave after `wait_seconds`; 0: `reports`."""
    wait_seconds: int = 0

    def __post_init__(self) -> None:
        if not all(type(n) is int for n in (self.reports, self.at_least, self.wait_seconds)):
            raise TaskError("A batch rule's numbers must be whole numbers.")
        whole(self.reports, "reports per batch", most=MOST_REPORTS)
        whole(self.at_least, "at_least", least=0, most=self.reports)
        whole(self.wait_seconds, "wait_seconds", least=0, most=10**8)
        if self.top_up not in TOP_UPS:
            raise TaskError(f"top_up must be one of {', '.join(TOP_UPS)}.")
        if self.top_up == "none" and (self.at_least or self.wait_seconds):
            raise TaskError(
                "Without a noise top-up a short batch never leaves; drop at_least and "
                "wait_seconds, or choose top_up missing or full."
            )

    def enough(self, reports: int, waited: float) -> bool:
        """Whether so many reports may leave after so many seconds."""
        early = self.top_up != "none" and self.at_least and waited >= self.wait_seconds
        return reports >= (self.at_least if early else self.reports)

    def extra_shares(self, reports: int, users: int) -> int:
        """How many users' shares of noise the shuffler adds to a batch of so many reports."""
        if self.top_up == "full":
            return users
        return max(0, users - reports) if self.top_up == "missing" else 0


@dataclass(frozen=True)
class Task:
    """One question, its protocol and proof, and how its reports travel."""

    name: str
    certificate: dict[str, Any]
    report_size: int
    """K: every report carries exactly so many messages."""
    batch: BatchRule
    key: PublicKey
    order: str = "canonical"
    repeat: bool = False
    """Whether a client may answer more than once; every answer then costs ε again."""

    @classmethod
    def create(
        cls,
        plan: Any,
        key: PublicKey,
        name: str,
        batch: BatchRule | None = None,
        *,
        order: str = "canonical",
        repeat: bool = False,
    ) -> Task:
        """The task behind a plan's JSON, with its certificate proved again and K computed."""
        certificate = verify(plan)
        batch = batch or BatchRule(certificate.protocol.users)
        messages = checked_report_size(certificate.protocol, batch.reports)
        task = cls(name, certificate.to_dict(), messages, batch, key, order, repeat)
        task.verify()
        return task

    @cached_property
    def protocol(self) -> Protocol:
        return protocol_from_dict(self.certificate.get("protocol"))

    @property
    def report_bytes(self) -> int:
        """Bytes of every report."""
        return report_bytes(self.report_size)

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON holds it: no floats, so that its text is unique."""
        return {
            "format": FORMAT,
            "name": self.name,
            "certificate": self.certificate,
            "report_size": self.report_size,
            "batch": asdict(self.batch),
            "order": self.order,
            "repeat": self.repeat,
            "suite": SUITE_NAME,
            "analyzer_key": self.key.to_dict(),
        }

    def canonical(self) -> bytes:
        """The one text of this task: sorted names, no spaces, UTF-8."""
        return canonical_text(self.to_dict())

    @cached_property
    def id(self) -> bytes:
        return hashlib.sha256(self.canonical()).digest()

    def verify(self) -> Certificate:
        """The certificate, proved again, of a task whose every number follows from it.

        Ensures: raises unless the protocol is ε-DP for these very parameters, a report holds K
        messages with overflow of a batch below 2⁻⁶⁴, and no batch is smaller than the proof needs.
        """
        certificate = verify(self.certificate)
        protocol = certificate.protocol
        if self.batch.reports < protocol.users:
            raise TaskError(
                f"A batch of {self.batch.reports:,} reports is smaller than the {protocol.users:,} "
                "that the certificate needs; raise reports, or plan for fewer users."
            )
        need = checked_report_size(protocol, self.batch.reports)
        if self.report_size < need:
            raise TaskError(
                f"Reports of {self.report_size:,} messages would overflow too often; "
                f"at least {need:,} are needed."
            )
        if len(protocol.cells) > MOST_CELLS:
            raise TaskError("The protocol has more cells than a message can name.")
        self._check_top_up(protocol)
        self._check_words()
        return certificate

    def _check_top_up(self, protocol: Protocol) -> None:
        """A noise top-up that protocol and wire can take."""
        if self.batch.top_up != "none" and not protocol.allows_top_up:
            raise TaskError("Quantiles need every report's own noise; choose top_up none.")
        fewest = self.batch.at_least or self.batch.reports
        added = self.batch.extra_shares(fewest, protocol.users)
        if added and protocol.top_up_size(added) > MOST_EXTRA:
            raise TaskError(
                "A noise top-up of this task has more messages than a batch can say; "
                "choose top_up none, or plan for fewer users or a larger error."
            )

    def _check_words(self) -> None:
        if self.order not in ORDERS:
            raise TaskError(f"order must be one of {', '.join(ORDERS)}.")
        if not 0 < len(self.name) <= LONGEST_NAME or not self.name.isprintable():
            raise TaskError(f"A task needs a name of 1 to {LONGEST_NAME} printable characters.")


def checked_report_size(protocol: Protocol, reports: int) -> int:
    """K for batches of so many reports, if a report can hold as many."""
    messages = protocol.report_size(reports)
    if messages > MOST_MESSAGES:
        raise TaskError(
            f"A report would need {messages:,} messages to hide how many it holds, and can have "
            f"{MOST_MESSAGES:,}; plan with padded, for a larger error, fewer cells or, for large "
            "values, a sum by digits."
        )
    return messages


def canonical_text(data: Any) -> bytes:
    """JSON with sorted names and without spaces, in UTF-8."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def task_from_json(text: str | bytes, expected_id: bytes | None = None) -> Task:
    """The task in a file or answer; its text must be exactly what its parts say.

    Ensures: raises unless the id of what was read is `expected_id`, where one is given.
    """
    try:
        data = json.loads(text)
        task = Task(
            str(data["name"]),
            dict(data["certificate"]),
            int(data["report_size"]),
            BatchRule(**data["batch"]),
            PublicKey.from_dict(data["analyzer_key"]),
            str(data["order"]),
            bool(data["repeat"]),
        )
        same = canonical_text(data) == task.canonical()
    except ShuffleDPError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TaskError(
            "This is no task; give a file that `shuffledp task create` wrote."
        ) from None
    if not same:
        raise TaskError("The task holds something this version does not know; update shuffledp.")
    if expected_id is not None and task.id != expected_id:
        raise TaskError("The task's content does not match its id; it was changed on its way.")
    return task
