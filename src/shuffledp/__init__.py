"""Pure differential privacy in the shuffle model, certified for the numbers in use."""

from shuffledp.errors import ShuffleDPError
from shuffledp.planning.counting import plan_count
from shuffledp.planning.histogram import plan_histogram
from shuffledp.planning.integer_sum import plan_integer_sum
from shuffledp.planning.plan import Plan
from shuffledp.planning.quantiles import plan_quantiles
from shuffledp.planning.real_sum import plan_real_sum
from shuffledp.privacy.certificate import Certificate, certify, verify
from shuffledp.queries.calls import count, histogram, mean, quantiles, total
from shuffledp.queries.ledger import Ledger
from shuffledp.version import __version__

__all__ = [
    "Certificate",
    "Ledger",
    "Plan",
    "ShuffleDPError",
    "__version__",
    "certify",
    "count",
    "histogram",
    "mean",
    "plan_count",
    "plan_histogram",
    "plan_integer_sum",
    "plan_quantiles",
    "plan_real_sum",
    "quantiles",
    "total",
    "verify",
]
