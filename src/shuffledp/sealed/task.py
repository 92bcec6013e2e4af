"""A task: everything that the three roles agree on, named by the SHA-256 of its canonical text.

Nobody can be made to use other parameters: the id is part of every ciphertext, and every role
proves the certificate again before it uses the task.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.exact.json_text import read_json
from shuffledp.privacy.certificate import Certificate, verify
from shuffledp.protocols import protocol_from_dict
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.results import Result
from shuffledp.sealed.encryption import SUITE_NAME
from shuffledp.sealed.errors import BatchRefused, TaskError
from shuffledp.sealed.keys import PublicKey
from shuffledp.sealed.rules import BatchRule, check_header, check_publish_noise, check_rule
from shuffledp.sealed.schema import (
    BATCH_ORDERS,
    LONGEST_TASK_NAME,
    MOST_TASK_BYTES,
    TASK,
    TASK_FORMAT,
)
from shuffledp.sealed.wire import MOST_CELLS, MOST_REPORT_SIZE, BatchHeader, report_bytes


@dataclass(frozen=True, kw_only=True)
class Task:
    """One question, its protocol with the proof of its privacy, and how its reports travel."""

    name: str
    certificate: dict[str, Any]
    report_size: int
    """K: every report holds exactly so many messages."""
    padding: str
    """How K was chosen, which decides the guarantee (`shuffledp.protocols.report_size`)."""
    batch: BatchRule
    key: PublicKey
    order: str = "canonical"
    repeat: bool = False
    """Whether a client may answer more than once; every answer then costs ε again."""
    publish_noise: str = "full"
    """Which noise the analyzer adds before it publishes (`shuffledp.sealed.rules`)."""

    @classmethod
    def create(
        cls,
        plan: Mapping[str, Any],
        key: PublicKey,
        name: str,
        batch: BatchRule | None = None,
        *,
        padding: str | None = None,
        order: str = "canonical",
        repeat: bool = False,
        publish_noise: str = "full",
    ) -> Task:
        """The task of a plan's JSON, with its certificate proved again and K computed."""
        certificate = verify(plan)
        protocol = certificate.protocol
        batch = batch or BatchRule(protocol.users)
        padding = padding or protocol.best_padding(batch.reports)
        task = cls(
            name=name,
            certificate=certificate.to_dict(),
            report_size=checked_report_size(protocol, batch.reports, padding),
            padding=padding,
            batch=batch,
            key=key,
            order=order,
            repeat=repeat,
            publish_noise=publish_noise,
        )
        task.verify()
        return task

    @cached_property
    def protocol(self) -> Protocol[Result]:
        """The protocol that the certificate describes."""
        return protocol_from_dict(self.certificate.get("protocol"))

    @property
    def report_bytes(self) -> int:
        """Bytes of every report."""
        return report_bytes(self.report_size)

    @property
    def publish_shares(self) -> int:
        """How many users' shares of noise the analyzer adds before it publishes."""
        return self.protocol.users if self.publish_noise == "full" else 0

    def forecast_rmse(self) -> float:
        """The error of a full batch's published result, with all noise that is added."""
        protocol, rule = self.protocol, self.batch
        added = rule.top_up_shares(rule.reports, protocol.users) + self.publish_shares
        return protocol.rmse(rule.reports + added)

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON holds it: no floats, so that its text is unique."""
        return {
            "format": TASK_FORMAT,
            "name": self.name,
            "certificate": self.certificate,
            "report_size": self.report_size,
            "padding": self.padding,
            "batch": asdict(self.batch),
            "order": self.order,
            "repeat": self.repeat,
            "publish_noise": self.publish_noise,
            "suite": SUITE_NAME,
            "analyzer_key": self.key.to_dict(),
        }

    def canonical(self) -> bytes:
        """The one text of this task: sorted names, no spaces, UTF-8."""
        return canonical_text(self.to_dict())

    @cached_property
    def id(self) -> bytes:
        """The SHA-256 of the canonical text."""
        return hashlib.sha256(self.canonical()).digest()

    def verify(self) -> Certificate:
        """The certificate, proved again, of a task whose every number follows from it.

        Ensures: raises unless the protocol is ε-DP for these very parameters, K is as large as the
        padding asks for, and no batch has less noise than the proof needs.
        """
        certificate = verify(self.certificate)
        protocol = certificate.protocol
        check_rule(self.batch, protocol)
        check_publish_noise(self.publish_noise, protocol)
        need = checked_report_size(protocol, self.batch.reports, self.padding)
        if self.report_size < need:
            raise TaskError(
                f"Reports of {self.report_size:,} messages would overflow too often; "
                f"at least {need:,} are needed."
            )
        cells = len(protocol.cells) + protocol.roll_call
        if cells > MOST_CELLS:
            raise TaskError(
                f"The protocol has {cells:,} cells and a message can name "
                f"{MOST_CELLS:,}; plan with fewer buckets."
            )
        self._check_words()
        return certificate

    def _check_words(self) -> None:
        if self.order not in BATCH_ORDERS:
            raise TaskError(f"order must be one of {', '.join(BATCH_ORDERS)}.")
        if not 0 < len(self.name) <= LONGEST_TASK_NAME or not self.name.isprintable():
            raise TaskError(
                f"A task needs a name of 1 to {LONGEST_TASK_NAME} printable characters."
            )

    def check_batch(self, header: BatchHeader, length: int) -> None:
        """Raises unless a batch of `length` bytes is one of this task, as its rule allows."""
        if header.task_id != self.id:
            raise TaskError("The batch belongs to another task; give the task of its own.")
        check_header(header, self.batch, self.protocol)
        need = header.batch_bytes(self.report_size)
        if need != length:
            raise BatchRefused(
                "batch-size",
                "The batch is not as long as its header says; deliver it again whole.",
                have=length,
                need=need,
            )


def checked_report_size(
    protocol: Protocol[Result], reports: int, padding: str | None = None
) -> int:
    """K for batches of so many reports; raises `TaskError` if a report cannot hold as many."""
    size = protocol.report_size(reports, padding)
    if size > MOST_REPORT_SIZE:
        raise TaskError(
            f"A report would need {size:,} messages to hide how many it holds, and can have "
            f"{MOST_REPORT_SIZE:,}; plan with padded, for a larger error, fewer cells or, for "
            "large values, a sum by digits."
        )
    return size


def canonical_text(data: Mapping[str, Any]) -> bytes:
    """JSON with sorted names and without spaces, in UTF-8."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _checked_json(text: str | bytes) -> dict[str, Any]:
    """The JSON of a task, with every field within its bounds."""
    try:
        data: dict[str, Any] = read_json(text, "The task", MOST_TASK_BYTES)
        TASK.check(data, "task")
    except ParameterError as error:
        raise TaskError(str(error)) from None
    return data


def task_from_json(text: str | bytes, expected_id: bytes | None = None) -> Task:
    """The task in a file or answer; its text must be exactly what its parts say.

    Ensures: raises unless the id of what was read is `expected_id`, where one is given.
    """
    data = _checked_json(text)
    try:
        task = Task(
            name=data["name"],
            certificate=data["certificate"],
            report_size=data["report_size"],
            padding=data["padding"],
            batch=BatchRule(**data["batch"]),
            key=PublicKey.from_dict(data["analyzer_key"]),
            order=data["order"],
            repeat=data["repeat"],
            publish_noise=data["publish_noise"],
        )
        same = canonical_text(data) == task.canonical()
    except ShuffleDPError:
        raise
    except (ValueError, KeyError, TypeError):
        raise TaskError(
            "This is no task; give a file that `shuffledp task create` wrote."
        ) from None
    if not same:
        raise TaskError(
            "The task holds something that this version does not know, or is of another format "
            f"than {TASK_FORMAT!r}; use the version of shuffledp that made it."
        )
    if expected_id is not None and task.id != expected_id:
        raise TaskError("The task's content does not match its id; it was changed on its way.")
    return task
