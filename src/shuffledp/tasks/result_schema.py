"""What the JSON of a published result holds, for programs that read it."""

from __future__ import annotations

from shuffledp.cells.base import MOST_USERS
from shuffledp.cells.schema import CELL_EPSILON
from shuffledp.documents.schema import (
    Anything,
    Choice,
    Flag,
    Listing,
    Pattern,
    Real,
    Record,
    Schema,
    Tagged,
    Text,
    Whole,
)
from shuffledp.plans.certificate_schema import SENTENCE
from shuffledp.protocols.base import MOST_BUCKETS
from shuffledp.queries.by_group.protocol import MOST_GROUPS
from shuffledp.queries.by_group.result import ANSWERS
from shuffledp.queries.frequencies.hashing import MOST_CANDIDATES
from shuffledp.queries.schema import LABEL, LONGEST_LABEL
from shuffledp.tasks.opening import BAD_MESSAGES
from shuffledp.tasks.rules import PUBLISH_NOISES, TOP_UPS
from shuffledp.tasks.schema import KEY_TEXT, LONGEST_TASK_NAME, SHOWN
from shuffledp.tasks.wire import MOST_BATCH_REPORTS

HASH = KEY_TEXT
BATCH_ID = Text(32, 32, Pattern("[0-9a-f]{32}"))
INTERVAL = Listing(Real(), 2, 2)
SHORT = Text(100)
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
ESTIMATE: dict[str, Schema] = {"estimate": Real(), "interval": INTERVAL}
DATES: dict[str, Schema] = {"date": SHORT, "date_interval": Listing(SHORT, 2, 2)}
BUCKET = Record({"label": LABEL, **ESTIMATE, "joint_interval": INTERVAL})
GROUP = Record({"label": LABEL, **ESTIMATE, "joint_interval": INTERVAL}, {"size": Real()})
BIN = Record({"from": Real(), "to": Real(), "estimate": Real(), "rmse": Real()})
QUANTILE = Record({"probability": Real(), **ESTIMATE, "rmse": Real()}, DATES)


def _result(query: str, **fields: Schema) -> dict[str, Schema]:
    return {"query": Choice((query,)), **fields, **PROMISE}


RESULT = Tagged(
    "query",
    {
        **{
            query: Record(_result(query, **ESTIMATE))
            for query in ("count", "integer-sum", "real-sum")
        },
        "histogram": Record(_result("histogram", buckets=Listing(BUCKET, 2, MOST_BUCKETS))),
        "frequencies": Record(_result("frequencies", buckets=Listing(BUCKET, 0, MOST_CANDIDATES))),
        "by-group": Record(
            _result(
                "by-group",
                answer=Choice(ANSWERS),
                by=Text(LONGEST_LABEL),
                groups_public=Flag(),
                groups=Listing(GROUP, 2, MOST_GROUPS),
                about=SENTENCE,
            )
        ),
        "quantiles": Record(
            _result(
                "quantiles",
                quantiles=Listing(QUANTILE, 1, 100),
                buckets=Listing(BIN, 2, MOST_BUCKETS),
                rank_rmse=Real(),
            ),
            {"unit": SHORT},
        ),
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
