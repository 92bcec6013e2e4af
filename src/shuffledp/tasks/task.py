"""A task: everything that client, shuffler and analyzer agree on, named by the SHA-256 of its
canonical text.

Nobody can be tricked into using other parameters: the id is part of every ciphertext, and every
role proves the certificate again before it uses the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from shuffledp.cells.report_size import PADDINGS, promise
from shuffledp.documents.json_text import read_json
from shuffledp.documents.schema import ONE_LINE, Flag, OneOf, Record, Text, Whole
from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.plans.certificate import CERTIFICATE, Certificate, verify
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.protocols.results import Result
from shuffledp.tasks.canonical import canonical_text
from shuffledp.tasks.clock import CLOCK_SECONDS, DAY_SECONDS, VALID_DAYS, Clock, system_clock
from shuffledp.tasks.encryption import SUITE_NAME
from shuffledp.tasks.errors import BatchRefused, TaskError, TaskNotNow
from shuffledp.tasks.keys import PUBLIC_KEY, PublicKey
from shuffledp.tasks.oblivious import GATEWAY, GatewayKey
from shuffledp.tasks.rules import (
    AGAINST_WHOM,
    BATCH_RULE,
    PUBLISH_NOISES,
    BatchRule,
    check_header,
    check_publish_noise,
    check_rule,
    slack_for_bad_clients,
    top_up_size,
)
from shuffledp.tasks.series import SERIES, TASK_NAME, Series, series_id
from shuffledp.tasks.tokens import ISSUER, SERVER_URL, TokenIssuer
from shuffledp.tasks.wire import MOST_CELLS, MOST_REPORT_SIZE, BatchHeader, report_bytes

LOCAL_SHUFFLER = "http://127.0.0.1:8801"
"""The default shuffler: one on the same machine."""
NOT_NAMED = "not named"
TASK_FORMAT = "shuffledp task 3"
BATCH_ORDERS = ("canonical", "uniform")
LATEST_SECOND = 253_402_300_799
"""The end of the year 9999."""
MOST_TASK_BYTES = 8 << 20
AS_WRITTEN = (
    "name",
    "question",
    "shuffler",
    "not_before",
    "expires",
    "certificate",
    "report_size",
    "padding",
    "order",
    "repeat",
    "publish_noise",
)
"""Fields that are the same in a `Task` and in its JSON."""
OPERATOR = Text(200, 1, ONE_LINE)
TASK = Record(
    {
        "format": OneOf((TASK_FORMAT,)),
        "name": TASK_NAME,
        "question": Text(1_000, 1, ONE_LINE),
        "operators": Record({"collector": OPERATOR, "shuffler": OPERATOR, "analyzer": OPERATOR}),
        "shuffler": SERVER_URL,
        "not_before": Whole(0, LATEST_SECOND),
        "expires": Whole(1, LATEST_SECOND),
        "certificate": CERTIFICATE,
        "report_size": Whole(1, MOST_REPORT_SIZE),
        "padding": OneOf(PADDINGS),
        "batch": BATCH_RULE,
        "order": OneOf(BATCH_ORDERS),
        "repeat": Flag(),
        "publish_noise": OneOf(PUBLISH_NOISES),
        "suite": OneOf((SUITE_NAME,)),
        "analyzer_key": PUBLIC_KEY,
    },
    {"issuer": ISSUER, "gateway": GATEWAY, "series": SERIES},
)


@dataclass(frozen=True)
class Operators:
    """Who runs the three roles, as shown to the people who are asked."""

    collector: str = NOT_NAMED
    shuffler: str = NOT_NAMED
    analyzer: str = NOT_NAMED


UNNAMED_OPERATORS = Operators()


MOST_PROOF_STEPS = 4_000_000
"""The most exact operations of a proof: a few seconds on a device. All clients have this limit."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One question, its protocol with the proof of its privacy, and how its reports travel."""

    name: str
    """What the operators call it."""
    question: str
    """What people are asked."""
    operators: Operators
    shuffler: str
    """Where reports are sent: the shuffler's URL."""
    not_before: int
    """Devices answer from this time on (seconds since 1970, UTC) …"""
    expires: int
    """… and before this time."""
    certificate: dict[str, Any]
    report_size: int
    """K: the number of messages in every report."""
    padding: str
    """How K was chosen, which decides the guarantee (`shuffledp.cells.report_size`)."""
    batch: BatchRule
    key: PublicKey
    order: str = "canonical"
    repeat: bool = False
    """Whether a client may answer more than once; every answer costs ε again."""
    publish_noise: str = "full"
    """Which noise the analyzer adds before it publishes (`shuffledp.tasks.rules`)."""
    issuer: TokenIssuer | None = None
    """Who issues the one-time tokens that reports carry; None if they carry enrolment tokens."""
    gateway: GatewayKey | None = None
    """The shuffler's key for requests that come through a relay; None if they come directly."""
    series: Series | None = None
    """Its position in a series of tasks; None if it belongs to none."""

    @classmethod
    def create(
        cls,
        plan: Mapping[str, Any],
        key: PublicKey,
        name: str,
        batch: BatchRule | None = None,
        *,
        order: str = "canonical",
        repeat: bool = False,
        publish_noise: str = "full",
        question: str | None = None,
        operators: Operators = UNNAMED_OPERATORS,
        shuffler: str = LOCAL_SHUFFLER,
        not_before: int | None = None,
        expires: int | None = None,
        issuer: TokenIssuer | None = None,
        gateway: GatewayKey | None = None,
        clock: Clock = system_clock,
    ) -> Task:
        """The task of a plan's JSON, with its certificate proved again and K computed.

        `question` defaults to the name, the dates to 90 days from now, and the batch to the
        certified users and slack for a few bad clients (`default_reports`).
        """
        certificate = verify(plan)
        protocol = certificate.protocol
        batch = batch or BatchRule(default_reports(protocol))
        now = int(clock())
        task = cls(
            name=name,
            question=name if question is None else question,
            operators=operators,
            shuffler=shuffler,
            not_before=now - CLOCK_SECONDS if not_before is None else not_before,
            expires=now + VALID_DAYS * DAY_SECONDS if expires is None else expires,
            certificate=certificate.to_dict(),
            report_size=checked_report_size(protocol, batch.reports),
            padding=protocol.padding,
            batch=batch,
            key=key,
            order=order,
            repeat=repeat,
            publish_noise=publish_noise,
            issuer=issuer,
            gateway=gateway,
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

    @property
    def guarantee(self) -> str:
        """What is promised, and against whom."""
        promised = promise(self.padding, full_top_up=self.batch.top_up == "full")
        return f"{promised}, {AGAINST_WHOM[self.publish_noise]}"

    def top_up_size(self, absent: int) -> int:
        """How many messages replace the noise of `absent` missing users, including dummies."""
        return top_up_size(self.protocol, absent, self.report_size)

    def forecast_rmse(self) -> float:
        """The error of a full batch's published result, including all added noise."""
        protocol, rule = self.protocol, self.batch
        added = rule.top_up_shares(rule.reports, protocol.users) + self.publish_shares
        return protocol.rmse(rule.reports + added)

    def to_dict(self) -> dict[str, Any]:
        """The task as a JSON object without floats, so that its text is unique."""
        return {
            **{name: getattr(self, name) for name in AS_WRITTEN},
            "format": TASK_FORMAT,
            "operators": asdict(self.operators),
            "batch": asdict(self.batch),
            "suite": SUITE_NAME,
            "analyzer_key": self.key.to_dict(),
            **({} if self.issuer is None else {"issuer": self.issuer.to_dict()}),
            **({} if self.gateway is None else {"gateway": self.gateway.to_bytes().hex()}),
            **({} if self.series is None else {"series": asdict(self.series)}),
        }

    def canonical(self) -> bytes:
        """The canonical bytes of this task (`shuffledp.tasks.canonical`)."""
        return canonical_text(self.to_dict())

    @cached_property
    def id(self) -> bytes:
        """The SHA-256 of the canonical text."""
        return hashlib.sha256(self.canonical()).digest()

    @cached_property
    def series_id(self) -> str:
        """The id of the series that the task belongs to; empty if it belongs to none."""
        return "" if self.series is None else series_id(self.to_dict())

    def in_series(
        self, series: Series, not_before: int, key: PublicKey, issuer: TokenIssuer | None
    ) -> Task:
        """This task as the one of a series that begins at this time; it ends when the next one
        begins."""
        day = datetime.fromtimestamp(not_before, UTC).strftime("%Y-%m-%d")
        task = replace(
            self,
            name=f"{self.name} {day}",
            not_before=not_before,
            expires=not_before + series.seconds,
            key=key,
            issuer=issuer,
            series=series,
        )
        return task_from_json(task.canonical(), task.id)

    def verify(self) -> Certificate:
        """Proves the certificate again, checks that the task follows from it, and returns it.

        Ensures: raises unless the protocol is ε-DP for these exact parameters, K is as large as the
        padding requires, and no batch has less noise than the proof needs.
        """
        self.check_size()
        certificate = verify(self.certificate)
        protocol = certificate.protocol
        check_publish_noise(self.publish_noise, protocol)
        if self.padding != protocol.padding:
            raise TaskError(
                f"Reports of these cells have the padding {protocol.padding!r}, but the task names "
                "another one; create it again."
            )
        need = checked_report_size(protocol, self.batch.reports)
        if self.report_size < need:
            raise TaskError(
                f"Reports of {self.report_size:,} messages would overflow too often; "
                f"at least {need:,} are needed: create the task again."
            )
        check_rule(self.batch, protocol, self.report_size)
        cells = len(protocol.cells) + protocol.public_counters
        if cells > MOST_CELLS:
            raise TaskError(
                f"The protocol has {cells:,} cells, but a message can name at most "
                f"{MOST_CELLS:,}; plan with fewer buckets."
            )
        return certificate

    def check_size(self) -> None:
        """Checks everything that takes no proof: the form of the task, and that its proof is short
        enough for every device. Raises `TaskError`."""
        self._check_words()
        steps = sum(member.cell.proof_steps for member in self.protocol.members)
        if not steps <= MOST_PROOF_STEPS:
            raise TaskError(
                "The proof of this task takes too long for a device; plan it with another kind of "
                "cell, a larger error or fewer digits, and create the task again."
            )

    def _check_words(self) -> None:
        """Checks the task against its schema, and its dates, issuer and series."""
        try:
            TASK.check(self.to_dict(), "task")
        except ParameterError as error:
            raise TaskError(str(error)) from None
        if self.expires <= self.not_before:
            raise TaskError("The task expires before it begins; choose a later end.")
        if self.issuer is not None and self.repeat:
            raise TaskError(
                "A one-time token is good for one report, but this task takes repeated answers; "
                "create a task for each answer, or leave the issuer out."
            )
        if self.series is not None and not self.series.fits(self.not_before, self.expires):
            raise TaskError(
                "The task's dates do not match its position in its series; create the series with "
                "`shuffledp task series`."
            )
        canonical_text(self.to_dict())

    def check_time(self, now: float) -> None:
        """Raises `TaskNotNow` unless the task is valid at this time."""
        if now < self.not_before:
            raise TaskNotNow(
                "task-early",
                "This task is not valid yet; answer it later, and check this device's clock.",
            )
        if now >= self.expires:
            raise TaskNotNow(
                "task-expired",
                "This task has expired and takes no more answers; ask the collector for its "
                "successor.",
            )

    def check_batch(self, header: BatchHeader, length: int) -> None:
        """Raises unless a batch of `length` bytes belongs to this task and follows its rule."""
        if header.task_id != self.id:
            raise TaskError("The batch belongs to another task; use the task that it was made for.")
        check_header(header, self.batch, self.protocol, self.report_size)
        need = header.batch_bytes(self.report_size)
        if need != length:
            raise BatchRefused(
                "batch-size",
                "The batch is not as long as its header says; deliver the complete batch again.",
                have=length,
                need=need,
            )


def default_reports(protocol: Protocol[Result]) -> int:
    """The default number of reports per batch: the certified users, and slack for a few bad
    clients."""
    size = checked_report_size(protocol, 2 * protocol.users)
    return protocol.users + slack_for_bad_clients(protocol.users, size)


def checked_report_size(protocol: Protocol[Result], reports: int) -> int:
    """K for batches of this many reports; raises `TaskError` if it is more than a report can
    hold."""
    size = protocol.report_size(reports)
    if size > MOST_REPORT_SIZE:
        raise TaskError(
            f"A report would need {size:,} messages to hide how many are sent, but it can have at "
            f"most {MOST_REPORT_SIZE:,}; plan with padded, a larger error, fewer cells or, for "
            "large values, a sum by digits."
        )
    return size


def _checked_json(text: str | bytes) -> dict[str, Any]:
    """The JSON of a task, with every field within its bounds."""
    try:
        data: dict[str, Any] = read_json(text, "The task", MOST_TASK_BYTES)
        TASK.check(data, "task")
    except ParameterError as error:
        raise TaskError(str(error)) from None
    return data


def task_from_json(text: str | bytes, expected_id: bytes | None = None) -> Task:
    """The task in a file or response, whose text must be canonical to the byte.

    Ensures: raises unless the task has the id `expected_id`, if one is given.
    """
    data = _checked_json(text)
    try:
        task = Task(
            **{name: data[name] for name in AS_WRITTEN},
            operators=Operators(**data["operators"]),
            batch=BatchRule(**data["batch"]),
            key=PublicKey.from_dict(data["analyzer_key"]),
            issuer=TokenIssuer.from_dict(data["issuer"]) if "issuer" in data else None,
            gateway=GatewayKey.from_hex(data["gateway"]) if "gateway" in data else None,
            series=Series(**data["series"]) if "series" in data else None,
        )
        same = task.canonical() == (text.encode() if isinstance(text, str) else text)
    except ShuffleDPError:
        raise
    except (ValueError, KeyError, TypeError):
        raise TaskError(
            "This is not a task; use a file that `shuffledp task create` wrote."
        ) from None
    if not same:
        raise TaskError(
            "The task's text is not canonical: it was reformatted, has a field twice, or has a "
            "field that this version does not know; use the file that `shuffledp task create` "
            "wrote, unchanged."
        )
    if expected_id is not None and task.id != expected_id:
        raise TaskError(
            "The task's content does not match its id: it was changed in transit; get it again."
        )
    return task
