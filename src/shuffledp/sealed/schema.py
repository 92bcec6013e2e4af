"""What the JSON of a task and of an analyzer's key may hold."""

from __future__ import annotations

from shuffledp.exact.schema import Choice, Flag, Record, Text, Whole
from shuffledp.privacy.schema import CERTIFICATE
from shuffledp.protocols.report_size import PADDINGS
from shuffledp.sealed.encryption import SUITE_NAME
from shuffledp.sealed.rules import LONGEST_WAIT_SECONDS, PUBLISH_NOISES, TOP_UPS
from shuffledp.sealed.wire import MOST_BATCH_REPORTS, MOST_REPORT_SIZE

TASK_FORMAT = "shuffledp task 2"
BATCH_ORDERS = ("canonical", "uniform")
LONGEST_TASK_NAME = 100
MOST_TASK_BYTES = 8 << 20
KEY_STATES = ("active", "retired")
LARGEST_KEY_ID, LARGEST_EPOCH = (1 << 16) - 1, (1 << 32) - 1
KEY_TEXT = Text(64, 64, "[0-9a-f]{64}")

PUBLIC_KEY = Record(
    {"key_id": Whole(1, LARGEST_KEY_ID), "epoch": Whole(1, LARGEST_EPOCH), "public": KEY_TEXT}
)
BATCH_RULE = Record(
    {
        "reports": Whole(1, MOST_BATCH_REPORTS),
        "top_up": Choice(TOP_UPS),
        "at_least": Whole(0, MOST_BATCH_REPORTS),
        "wait_seconds": Whole(0, LONGEST_WAIT_SECONDS),
    }
)
TASK = Record(
    {
        "format": Choice((TASK_FORMAT,)),
        "name": Text(LONGEST_TASK_NAME, 1),
        "certificate": CERTIFICATE,
        "report_size": Whole(1, MOST_REPORT_SIZE),
        "padding": Choice(PADDINGS),
        "batch": BATCH_RULE,
        "order": Choice(BATCH_ORDERS),
        "repeat": Flag(),
        "publish_noise": Choice(PUBLISH_NOISES),
        "suite": Choice((SUITE_NAME,)),
        "analyzer_key": PUBLIC_KEY,
    }
)
