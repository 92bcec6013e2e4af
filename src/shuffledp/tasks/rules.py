"""The batch rule: when a batch may leave the shuffler, and which batches the analyzer refuses.

The shuffler closes only batches that the rule allows, and the analyzer checks the same rule again:
a batch with less noise than the certificate needs must pass neither check. After a batch is opened,
`check_complete` decides whether the noise that the header promises can be inside.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from shuffledp.documents.schema import OneOf, Record, Whole
from shuffledp.numbers.exact import counted, whole
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.results import Result
from shuffledp.tasks.errors import BatchHeld, BatchRefused, TaskError
from shuffledp.tasks.wire import MOST_BATCH_REPORTS, MOST_TOP_UP_MESSAGES, BatchHeader

TOP_UPS = ("none", "missing", "full")
PUBLISH_NOISES = ("full", "none")
"""full: the analyzer adds the noise of the certified users before it publishes a result, so that a
shuffler that forged all reports but one learns nothing from it. none: it adds nothing."""
AGAINST_WHOM = {
    "full": "for this result against everyone who does not see the analyzer's batches, even a "
    "shuffler that invented all other reports; against the analyzer if the other reports are "
    "honest; no protection against shuffler and analyzer acting together",
    "none": "against everyone but shuffler and analyzer acting together, if the other reports are "
    "honest; a shuffler that invented all other reports can read the value of the last one",
}
"""Against whom the guarantee holds, by the task's `publish_noise`."""
IMPLAUSIBLE_RULES = ("mark", "hold")
"""What the analyzer does with an implausible batch: publish it with a mark, or hold it."""
IMPLAUSIBLE_DEVIATIONS = 6.0
"""A batch whose anomaly (`Protocol.anomaly`) is larger than this is implausible. Batches of honest
users exceed it at most as rarely as a normal law does: two times in 10⁹."""
BAD_CLIENTS, MOST_SLACK_PART = 3, 4
"""By default a batch has slack for this many bad clients, but no more than users / 4 reports unless
one bad client needs more."""
LONGEST_WAIT_SECONDS = 10**8
BATCH_RULE = Record(
    {
        "reports": Whole(1, MOST_BATCH_REPORTS),
        "top_up": OneOf(TOP_UPS),
        "at_least": Whole(0, MOST_BATCH_REPORTS),
        "wait_seconds": Whole(0, LONGEST_WAIT_SECONDS),
    }
)


@dataclass(frozen=True)
class BatchRule:
    """How many reports a batch has, and what the shuffler does if fewer arrive."""

    reports: int
    """Reports in a full batch; further ones wait for the next batch."""
    _: KW_ONLY
    top_up: str = "none"
    """none: a short batch waits. missing: after `wait_seconds` the shuffler adds the noise of the
    users who did not report. full: it adds one full set of noise to every batch."""
    at_least: int = 0
    """With a top-up, the fewest reports that leave after `wait_seconds`; 0 means `reports`."""
    wait_seconds: int = 0

    def __post_init__(self) -> None:
        if not all(type(n) is int for n in (self.reports, self.at_least, self.wait_seconds)):
            raise TaskError("A batch rule has a number that is not whole; use integers.")
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
        """The fewest reports that a batch may have."""
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
        """How many users' shares of noise the shuffler adds to a batch of `reports` reports."""
        if self.top_up == "full":
            return users
        return max(0, users - reports) if self.top_up == "missing" else 0

    def tolerated(self, users: int) -> int:
        """How many bad messages a full batch may have and still be published: its slack, the
        reports and top-up shares beyond the certified users."""
        return self.reports + self.top_up_shares(self.reports, users) - users


def top_up_size(protocol: Protocol[Result], absent: int, report_size: int) -> int:
    """Messages of the noise of `absent` missing users, including dummies: as many as reports that
    fit every draw would have, so their number reveals nothing about the draw."""
    return absent * report_size


def slack_for_bad_clients(users: int, report_size: int) -> int:
    """How many reports beyond the certified users a batch has by default. A client with a broken
    report sends up to `report_size` bad messages, each of which may spoil another report.

    Ensures: enough for one such client, and for up to three if that is at most a quarter of the
    users.
    """
    wanted = min(BAD_CLIENTS * report_size, users // MOST_SLACK_PART)
    return max(report_size, wanted)


def slack_is_large(users: int, report_size: int) -> bool:
    """Whether slack for a single bad client is more than a quarter of the users."""
    return report_size > users // MOST_SLACK_PART


def check_rule(rule: BatchRule, protocol: Protocol[Result], report_size: int) -> None:
    """Raises `TaskError` unless the protocol's certificate covers every batch of this rule, and
    the protocol and the wire format can take its noise top-up."""
    if rule.reports < protocol.users:
        raise TaskError(
            f"A batch of {counted(rule.reports, 'report')} is smaller than the {protocol.users:,} "
            "that the certificate needs; raise reports, or plan for fewer users."
        )
    if rule.top_up != "none" and not protocol.allows_top_up:
        raise TaskError(
            f"{protocol.query.capitalize()} need every report's own noise; choose top_up none."
        )
    added = rule.top_up_shares(rule.fewest, protocol.users)
    if top_up_size(protocol, added, report_size) > MOST_TOP_UP_MESSAGES:
        raise TaskError(
            "A noise top-up of this task has more messages than a batch's header can count; "
            "choose top_up none, or plan for fewer users or a larger error."
        )


def check_header(
    header: BatchHeader, rule: BatchRule, protocol: Protocol[Result], report_size: int
) -> None:
    """Raises `BatchRefused` unless a batch's header follows the rule.

    Ensures: a batch that passes has at least as many shares of noise as the certificate needs, if
    the shuffler added those that it claims.
    """
    if not rule.fewest <= header.reports <= rule.reports:
        short = header.reports < rule.fewest
        raise BatchRefused(
            "short-batch" if short else "long-batch",
            f"The batch has {'fewer' if short else 'more'} reports than the task's rule allows; "
            "nothing was released: deliver a batch that follows the rule.",
            have=header.reports,
            need=rule.fewest if short else rule.reports,
        )
    added = rule.top_up_shares(header.reports, protocol.users)
    messages = top_up_size(protocol, added, report_size)
    if header.noise_shares != header.reports + added or header.top_up_messages != messages:
        raise BatchRefused(
            "top-up",
            "The noise top-up is not what the task's rule requires; deliver a batch that follows "
            "the rule.",
            have=header.top_up_messages,
            need=messages,
        )


def complete_shares(reports: int, bad: int, topped_up: int) -> int:
    """How many shares of noise are guaranteed to be complete in a batch with `bad` bad messages:
    those that did not open, are malformed, or are copies of messages that were counted.

    Requires: every message of the batch belongs to one report, or to the top-up of a shuffler that
    added what it says it added. Ensures: at least this many reports have lost no message. Derived:
    a bad message belongs to at most one report, so d bad messages spoil at most d reports, and
    N − d of N are complete. Which messages belong together cannot be seen (that is what the
    shuffler is for), so no better bound holds: d bad messages can be in d different reports.
    """
    return reports - bad + topped_up


def check_complete(reports: int, bad: int, topped_up: int, users: int) -> None:
    """Raises `BatchHeld` unless the complete reports of a batch contain the certified noise.

    Ensures: a batch that passes has the complete reports of at least `users` users (top-up shares
    included), so each of them is protected as the certificate says. Whether senders of complete
    reports are honest cannot be seen: plan for the guaranteed honest users. A user whose own report
    was partly destroyed in transit, which only the shuffler can do, is not covered. The verdict
    depends on no honest user's value, so holding a batch costs no ε.
    """
    whole_shares = complete_shares(reports, bad, topped_up)
    if whole_shares < users:
        raise BatchHeld(
            "noise-missing",
            f"{counted(bad, 'bad message')} (unopened, malformed or copies), so only "
            f"{max(0, whole_shares):,} of the {users:,} shares of noise that the certificate needs "
            "are guaranteed; nothing was published or charged: discard the batch, and plan more "
            "reports than users as slack for bad messages.",
        )


def check_publish_noise(noise: str, protocol: Protocol[Result]) -> None:
    """Raises `TaskError` unless the analyzer can add this noise before it publishes."""
    if noise not in PUBLISH_NOISES:
        raise TaskError(f"publish_noise must be one of {', '.join(PUBLISH_NOISES)}.")
    if noise != "none" and not protocol.allows_top_up:
        raise TaskError(
            f"{protocol.query.capitalize()} need every report's own noise, so the analyzer cannot "
            "add any; choose publish_noise none, and a shuffler that you trust not to forge "
            "reports."
        )
