"""The bytes that travel: reports to the shuffler, batches to the analyzer.

    Report := "SDP1" version(1) task_id(32) report_id(16) key_id(u16) K(u16) msg_len(u16)
              | K × message
    Batch  := "SDPB" version(1) task_id(32) batch_id(16) reports(u32) extra(u32) shares(u32)
              msg_len(u16) | (reports·K + extra) × message
    message := enc(32) | ciphertext of the plain(4) | tag(16)
    plain   := u32: cell·2 + (1 for +1, 0 for −1); 0xFFFFFFFF is a dummy

All integers are big-endian. `extra` counts the sealed messages of the shuffler's noise top-up, and
`shares` how many users' shares of noise are in the batch, top-up included.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp.protocols.report import Messages
from shuffledp.sealed.errors import TaskError

ENC = 32
MESSAGE = ENC + 4 + 16
"""Bytes of one sealed message."""
DUMMY = 0xFFFFFFFF
MOST_MESSAGES = 0xFFFF
MOST_EXTRA = 0xFFFFFFFF
MOST_REPORTS = 2_000_000_000
"""In a batch: with a full top-up it counts twice as many shares, in 32 bits."""
MOST_CELLS = 1 << 30
VERSION = 1

_REPORT = struct.Struct(">4sB32s16sHHH")
_BATCH = struct.Struct(">4sB32s16sIIIH")
REPORT_HEADER = _REPORT.size
BATCH_HEADER = _BATCH.size


@dataclass(frozen=True)
class Upload:
    """One report on its way: everything the shuffler is told."""

    task_id: bytes
    report_id: bytes
    key_id: int
    sealed: bytes

    def to_bytes(self) -> bytes:
        """The report as it is posted."""
        count = len(self.sealed) // MESSAGE
        header = _REPORT.pack(
            b"SDP1", VERSION, self.task_id, self.report_id, self.key_id, count, MESSAGE
        )
        return header + self.sealed


def report_bytes(messages: int) -> int:
    """Bytes of every report with so many messages."""
    return REPORT_HEADER + messages * MESSAGE


def read_upload(body: bytes) -> Upload:
    """The report in a request's body; refuses whatever does not follow the layout."""
    if len(body) < REPORT_HEADER:
        raise TaskError("The report is shorter than its header; send it again whole.")
    magic, version, task, report, key, count, width = _REPORT.unpack_from(body)
    if magic != b"SDP1" or version != VERSION or width != MESSAGE:
        raise TaskError("The report has another format than SDP1; update the client.")
    if len(body) != report_bytes(count):
        raise TaskError("The report's length does not match its header; send it again whole.")
    return Upload(task, report, key, body[REPORT_HEADER:])


@dataclass(frozen=True)
class BatchHeader:
    """What the analyzer is told about a batch."""

    task_id: bytes
    batch_id: bytes
    reports: int
    extra: int
    shares: int

    def to_bytes(self) -> bytes:
        """The header as it precedes the messages."""
        return _BATCH.pack(
            b"SDPB",
            VERSION,
            self.task_id,
            self.batch_id,
            self.reports,
            self.extra,
            self.shares,
            MESSAGE,
        )

    def size(self, messages: int) -> int:
        """Bytes of the whole batch when every report carries so many messages."""
        return BATCH_HEADER + (self.reports * messages + self.extra) * MESSAGE


def read_batch_header(data: bytes) -> BatchHeader:
    """The header in front of a batch's messages."""
    if len(data) < BATCH_HEADER:
        raise TaskError("The batch is shorter than its header; deliver it again whole.")
    magic, version, task, batch, reports, extra, shares, width = _BATCH.unpack_from(data)
    if magic != b"SDPB" or version != VERSION or width != MESSAGE:
        raise TaskError("The batch has another format than SDPB; update the shuffler.")
    return BatchHeader(task, batch, reports, extra, shares)


def plain_numbers(messages: Messages, total: int) -> NDArray[np.uint32]:
    """The plaintexts of a report: its messages, filled up with dummies to `total`."""
    plain = np.full(total, DUMMY, np.uint32)
    plain[: len(messages)] = messages[:, 0] * 2 + (messages[:, 1] > 0)
    return plain
