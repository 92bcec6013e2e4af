"""Pure differential privacy in the shuffle model, certified for the numbers in use."""

from shuffledp.errors import ShuffleDPError
from shuffledp.frontdoor import count, histogram, mean, quantiles, total
from shuffledp.ledger import Ledger
from shuffledp.planning.counting import plan_count, plan_integers
from shuffledp.planning.histogram import plan_histogram
from shuffledp.planning.plan import Plan
from shuffledp.planning.ranges import plan_quantiles
from shuffledp.planning.summation import plan_sum
from shuffledp.privacy.certificate import Certificate, certify, recheck
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
    "plan_integers",
    "plan_quantiles",
    "plan_sum",
    "quantiles",
    "recheck",
    "total",
]
