"""The wire format: reports to the shuffler, batches to the analyzer.

    Report  := "SDP1" version(1) task_id(32) report_id(16) key_id(u16) report_size(u16)
               message_bytes(u16) | report_size × message
    Batch   := "SDPB" version(1) task_id(32) batch_id(16) reports(u32) top_up_messages(u32)
               noise_shares(u32) message_bytes(u16)
               | (reports · report_size + top_up_messages) × message
    message := encapsulated key(32) | ciphertext of the number(4) | tag(16)
    number  := u32: cell·2 + (1 for +1, 0 for −1); 0xFFFFFFFF is a dummy

All integers are big-endian. `top_up_messages` counts the messages that the shuffler added as noise,
and `noise_shares` how many users' shares of noise are in the batch, including those of the
shuffler.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.protocols.report import ENCRYPTED_MESSAGE_BYTES, Messages
from shuffledp.tasks.errors import TaskError

ENCAPSULATED_KEY_BYTES = 32
MESSAGE_BYTES = struct.calcsize(f">{ENCAPSULATED_KEY_BYTES}s4s16s")
assert MESSAGE_BYTES == ENCRYPTED_MESSAGE_BYTES  # which plans use for their forecasts

DUMMY_NUMBER = 0xFFFFFFFF
MOST_REPORT_SIZE = 0xFFFF
"""The most messages in a report."""
MOST_TOP_UP_MESSAGES = 0xFFFFFFFF
MOST_BATCH_REPORTS = 2_000_000_000
"""The most reports in a batch: with a full top-up, twice as many shares must fit into 32 bits."""
MOST_CELLS = 1 << 30
WIRE_VERSION = 1

REPORT_MAGIC, BATCH_MAGIC = b"SDP1", b"SDPB"
REPORT_ID_BYTES = 16
_REPORT = struct.Struct(f">4sB32s{REPORT_ID_BYTES}sHHH")
_BATCH = struct.Struct(">4sB32s16sIIIH")
REPORT_HEADER_BYTES = _REPORT.size
BATCH_HEADER_BYTES = _BATCH.size
_BEFORE_REPORT_ID = struct.calcsize(">4sB32s")
REPORT_ID_PART = slice(_BEFORE_REPORT_ID, _BEFORE_REPORT_ID + REPORT_ID_BYTES)
"""The bytes of a report that contain its id."""


class Upload(NamedTuple):
    """One report as the shuffler gets it."""

    task_id: bytes
    report_id: bytes
    key_id: int
    messages: bytes
    """All encrypted messages, one after the other."""

    def to_bytes(self) -> bytes:
        """The report as it is posted."""
        header = _REPORT.pack(
            REPORT_MAGIC,
            WIRE_VERSION,
            self.task_id,
            self.report_id,
            self.key_id,
            len(self.messages) // MESSAGE_BYTES,
            MESSAGE_BYTES,
        )
        return header + self.messages


def report_bytes(report_size: int) -> int:
    """Bytes of every report with `report_size` messages."""
    return REPORT_HEADER_BYTES + report_size * MESSAGE_BYTES


def read_upload(body: bytes) -> Upload:
    """The report in a request's body; refuses anything that does not follow the layout."""
    if len(body) < REPORT_HEADER_BYTES:
        raise TaskError("The report is shorter than its header; send the whole report again.")
    magic, version, task, report, key, size, width = _REPORT.unpack_from(body)
    if magic != REPORT_MAGIC or version != WIRE_VERSION or width != MESSAGE_BYTES:
        raise TaskError("The report's format is not SDP1; update the client.")
    if len(body) != report_bytes(size):
        raise TaskError(
            "The report's length does not match its header; send the whole report again."
        )
    return Upload(task_id=task, report_id=report, key_id=key, messages=body[REPORT_HEADER_BYTES:])


@dataclass(frozen=True, kw_only=True)
class BatchHeader:
    """The header of a batch, for the analyzer."""

    task_id: bytes
    batch_id: bytes
    reports: int
    top_up_messages: int
    noise_shares: int

    def to_bytes(self) -> bytes:
        """The header as it precedes the messages."""
        return _BATCH.pack(
            BATCH_MAGIC,
            WIRE_VERSION,
            self.task_id,
            self.batch_id,
            self.reports,
            self.top_up_messages,
            self.noise_shares,
            MESSAGE_BYTES,
        )

    def messages(self, report_size: int) -> int:
        """Messages in the batch if every report has `report_size` of them."""
        return self.reports * report_size + self.top_up_messages

    def batch_bytes(self, report_size: int) -> int:
        """Bytes of header and messages if every report has `report_size` messages."""
        return BATCH_HEADER_BYTES + self.messages(report_size) * MESSAGE_BYTES


def read_batch_header(data: bytes) -> BatchHeader:
    """The header in front of a batch's messages; refuses anything that does not follow the
    layout."""
    if len(data) < BATCH_HEADER_BYTES:
        raise TaskError("The batch is shorter than its header; deliver the whole batch again.")
    magic, version, task, batch, reports, added, shares, width = _BATCH.unpack_from(data)
    if magic != BATCH_MAGIC or version != WIRE_VERSION or width != MESSAGE_BYTES:
        raise TaskError("The batch's format is not SDPB; update the shuffler.")
    return BatchHeader(
        task_id=task, batch_id=batch, reports=reports, top_up_messages=added, noise_shares=shares
    )


def plain_numbers(messages: Messages, total: int) -> NDArray[np.uint32]:
    """The messages as the numbers that are encrypted, filled up with dummies to `total`."""
    plain = np.full(total, DUMMY_NUMBER, np.uint32)
    plain[: len(messages)] = messages[:, 0] * 2 + (messages[:, 1] > 0)
    return plain
