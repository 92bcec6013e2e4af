"""What the JSON of a task and of an analyzer's key may hold."""

from __future__ import annotations

from shuffledp.cells.report_size import PADDINGS
from shuffledp.documents.schema import Choice, Flag, Pattern, Record, Text, Whole
from shuffledp.plans.certificate_schema import CERTIFICATE
from shuffledp.tasks.encryption import SUITE_NAME
from shuffledp.tasks.oblivious import GATEWAY_KEY_BYTES
from shuffledp.tasks.rules import LONGEST_WAIT_SECONDS, PUBLISH_NOISES, TOP_UPS
from shuffledp.tasks.series import EVERY_DAYS, MOST_TASKS
from shuffledp.tasks.task_tokens import SPKI_BYTES
from shuffledp.tasks.wire import MOST_BATCH_REPORTS, MOST_REPORT_SIZE

TASK_FORMAT = "shuffledp task 3"
BATCH_ORDERS = ("canonical", "uniform")
LONGEST_TASK_NAME, LONGEST_QUESTION, LONGEST_OPERATOR, LONGEST_URL = 100, 1_000, 200, 300
LATEST_SECOND = 253_402_300_799
"""The end of the year 9999."""
SHOWN = Pattern(
    r"[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*",
    "a text on one line, without control characters",
)
"""Texts that people are shown: also nothing that turns the direction of writing round."""
SHUFFLER_URL = Pattern(
    r"(https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"|http://(127\.0\.0\.1|localhost|\[::1\]))"
    r"(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~-]+)*",
    "a URL like https://shuffler.example, or http:// on this machine, without a slash at its end",
)
MOST_TASK_BYTES = 8 << 20
KEY_STATES = ("active", "retired")
LARGEST_KEY_ID, LARGEST_EPOCH = (1 << 16) - 1, (1 << 32) - 1
KEY_TEXT = Text(64, 64, Pattern("[0-9a-f]{64}"))

PUBLIC_KEY = Record(
    {"key_id": Whole(1, LARGEST_KEY_ID), "epoch": Whole(1, LARGEST_EPOCH), "public": KEY_TEXT}
)
OPERATOR = Text(LONGEST_OPERATOR, 1, SHOWN)
OPERATORS = Record({"collector": OPERATOR, "shuffler": OPERATOR, "analyzer": OPERATOR})
BATCH_RULE = Record(
    {
        "reports": Whole(1, MOST_BATCH_REPORTS),
        "top_up": Choice(TOP_UPS),
        "at_least": Whole(0, MOST_BATCH_REPORTS),
        "wait_seconds": Whole(0, LONGEST_WAIT_SECONDS),
    }
)
ISSUER = Record(
    {
        "url": Text(LONGEST_URL, 1, SHUFFLER_URL),
        "key": Text(2 * SPKI_BYTES, 2 * SPKI_BYTES, Pattern("[0-9a-f]*", "hexadecimal digits")),
        "attested": Flag(),
    }
)
GATEWAY = Text(2 * GATEWAY_KEY_BYTES, 2 * GATEWAY_KEY_BYTES, Pattern("[0-9a-f]*", "hex digits"))
SERIES = Record(
    {
        "name": Text(LONGEST_TASK_NAME, 1, SHOWN),
        "every": Choice(tuple(EVERY_DAYS)),
        "tasks": Whole(1, MOST_TASKS),
        "place": Whole(1, MOST_TASKS),
    }
)
TASK = Record(
    {
        "format": Choice((TASK_FORMAT,)),
        "name": Text(LONGEST_TASK_NAME, 1, SHOWN),
        "question": Text(LONGEST_QUESTION, 1, SHOWN),
        "operators": OPERATORS,
        "shuffler": Text(LONGEST_URL, 1, SHUFFLER_URL),
        "not_before": Whole(0, LATEST_SECOND),
        "expires": Whole(1, LATEST_SECOND),
        "certificate": CERTIFICATE,
        "report_size": Whole(1, MOST_REPORT_SIZE),
        "padding": Choice(PADDINGS),
        "batch": BATCH_RULE,
        "order": Choice(BATCH_ORDERS),
        "repeat": Flag(),
        "publish_noise": Choice(PUBLISH_NOISES),
        "suite": Choice((SUITE_NAME,)),
        "analyzer_key": PUBLIC_KEY,
    },
    {"issuer": ISSUER, "gateway": GATEWAY, "series": SERIES},
)
