"""What the JSON of a published result holds, for programs that read it."""

from __future__ import annotations

from shuffledp.cells.base import CELL_EPSILON, MOST_USERS
from shuffledp.documents.schema import (
    Anything,
    Choice,
    Flag,
    Pattern,
    Real,
    Record,
    Schema,
    Tagged,
    Text,
    Whole,
)
from shuffledp.plans.certificate_schema import SENTENCE
from shuffledp.queries.catalogue import QUERIES
from shuffledp.tasks.opening import BAD_MESSAGES
from shuffledp.tasks.rules import PUBLISH_NOISES, TOP_UPS
from shuffledp.tasks.schema import KEY_TEXT, LONGEST_TASK_NAME, SHOWN
from shuffledp.tasks.wire import MOST_BATCH_REPORTS

HASH = KEY_TEXT
BATCH_ID = Text(32, 32, Pattern("[0-9a-f]{32}"))
COUNT = Whole(0, 1 << 62)

PROMISE: dict[str, Schema] = {
    "epsilon": Real(),
    "epsilon_exact": CELL_EPSILON,
    "privacy": SENTENCE,
    "users": Whole(1, 2 * MOST_USERS),
    "neighbours": SENTENCE,
    "confidence": Real(),
    "rmse": Real(),
    "messages_per_user": Real(),
    "seeded": Flag(),
    "clamped": Flag(),
    "certificate": Anything(depth=24, longest=10_000, most_items=10**6),
}

RESULT = Tagged(
    "query",
    {
        name: Record(
            {"query": Choice((name,)), **one.declaration.result_json, **PROMISE},
            one.declaration.result_json_optional,
        )
        for name, one in QUERIES.items()
        if one.declaration.result_json is not None
    },
)
PUBLISHED = Record(
    {
        "task": HASH,
        "name": Text(LONGEST_TASK_NAME, 1, SHOWN),
        "batch": BATCH_ID,
        "number": Whole(1, 1 << 32),
        "reports": Whole(1, MOST_BATCH_REPORTS),
        "noise_shares": COUNT,
        "top_up": Choice(TOP_UPS),
        "publish_noise": Choice(PUBLISH_NOISES),
        "result": RESULT,
        "anomaly": Real(),
        "implausible": Flag(),
        "dropped": Record({name: COUNT for name in BAD_MESSAGES}),
        "guarantee": SENTENCE,
        "note": SENTENCE,
    }
)
