"""The batch rule: when a batch may leave the shuffler, and which batches the analyzer refuses.

The shuffler closes no batch that the rule does not allow, and the analyzer checks the same rule
again: a batch with less noise than the certificate needs must pass neither.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from shuffledp.exact.numbers import whole
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.results import Result
from shuffledp.sealed.errors import BatchRefused, TaskError
from shuffledp.sealed.wire import MOST_BATCH_REPORTS, MOST_TOP_UP_MESSAGES, BatchHeader

TOP_UPS = ("none", "missing", "full")
LONGEST_WAIT_SECONDS = 10**8


@dataclass(frozen=True)
class BatchRule:
    """How many reports a batch holds, and what the shuffler does when fewer arrive."""

    reports: int
    """Reports in a full batch; left-overs wait for the next one."""
    _: KW_ONLY
    top_up: str = "none"
    """none: a short batch waits. missing: after `wait_seconds` the shuffler adds the noise of the
    users who did not report. full: it adds one full set of noise to every batch."""
    at_least: int = 0
    """With a top-up, the fewest reports that leave after `wait_seconds`; 0 means `reports`."""
    wait_seconds: int = 0

    def __post_init__(self) -> None:
        if not all(type(n) is int for n in (self.reports, self.at_least, self.wait_seconds)):
            raise TaskError("A batch rule's numbers must be whole numbers.")
        whole(self.reports, "reports per batch", most=MOST_BATCH_REPORTS)
        whole(self.at_least, "at_least", least=0, most=self.reports)
        whole(self.wait_seconds, "wait_seconds", least=0, most=LONGEST_WAIT_SECONDS)
        if self.top_up not in TOP_UPS:
            raise TaskError(f"top_up must be one of {', '.join(TOP_UPS)}.")
        if self.top_up == "none" and (self.at_least or self.wait_seconds):
            raise TaskError(
                "Without a noise top-up a short batch never leaves; drop at_least and "
                "wait_seconds, or choose top_up missing or full."
            )

    @property
    def fewest(self) -> int:
        """The fewest reports that a batch may ever hold."""
        return self.reports if self.top_up == "none" else self.at_least or self.reports

    def leaving(self, waiting: int, waited: float) -> int:
        """How many of the waiting reports may leave as a batch after `waited` seconds; 0 if none.

        Ensures: 0, or a number in `fewest`..`reports`.
        """
        if waiting >= self.reports:
            return self.reports
        early = self.fewest < self.reports and waited >= self.wait_seconds
        return waiting if early and waiting >= self.fewest else 0

    def top_up_shares(self, reports: int, users: int) -> int:
        """How many users' shares of noise the shuffler adds to a batch of so many reports."""
        if self.top_up == "full":
            return users
        return max(0, users - reports) if self.top_up == "missing" else 0


def check_rule(rule: BatchRule, protocol: Protocol[Result]) -> None:
    """Raises `TaskError` unless the protocol's certificate covers every batch of this rule, and
    the protocol and the wire format can take its noise top-up."""
    if rule.reports < protocol.users:
        raise TaskError(
            f"A batch of {rule.reports:,} reports is smaller than the {protocol.users:,} "
            "that the certificate needs; raise reports, or plan for fewer users."
        )
    if rule.top_up != "none" and not protocol.allows_top_up:
        raise TaskError(
            f"{protocol.query.capitalize()} need every report's own noise; choose top_up none."
        )
    added = rule.top_up_shares(rule.fewest, protocol.users)
    if added and protocol.top_up_size(added) > MOST_TOP_UP_MESSAGES:
        raise TaskError(
            "A noise top-up of this task has more messages than a batch's header can say; "
            "choose top_up none, or plan for fewer users or a larger error."
        )


def check_header(header: BatchHeader, rule: BatchRule, protocol: Protocol[Result]) -> None:
    """Raises `BatchRefused` unless a batch's header says what the rule asks for.

    Ensures: a batch that passes holds at least as many shares of noise as the certificate needs,
    if the shuffler added those that it says it added.
    """
    if not rule.fewest <= header.reports <= rule.reports:
        short = header.reports < rule.fewest
        raise BatchRefused(
            "short-batch" if short else "long-batch",
            f"{'Fewer' if short else 'More'} reports than the task's rule allows; nothing is "
            "released: deliver a batch that follows the rule.",
            have=header.reports,
            need=rule.fewest if short else rule.reports,
        )
    added = rule.top_up_shares(header.reports, protocol.users)
    messages = protocol.top_up_size(added) if added else 0
    if header.noise_shares != header.reports + added or header.top_up_messages != messages:
        raise BatchRefused(
            "top-up",
            "The noise top-up is not what the task's rule asks for; deliver a batch that follows "
            "the rule.",
            have=header.top_up_messages,
            need=messages,
        )
