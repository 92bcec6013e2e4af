"""Pure differential privacy in the shuffle model, certified for the exact parameters you use.

    shuffledp.count(data, epsilon=1)             a query on a column, here or on Apache Spark
    shuffledp.plan_count(1_000_000, 1)           a plan for users who randomize on their devices

docs/glossary.md explains every word.
"""

from shuffledp import samples
from shuffledp.errors import (
    BudgetExceeded,
    CertificateError,
    DataError,
    InputError,
    MissingExtra,
    ParameterError,
    PlanningError,
    PrivacyViolation,
    SeededError,
    ShortBatchError,
    ShuffleDPError,
    Undecided,
    ValueOutOfRange,
)
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.plans.certificate import Certificate, certify, verify
from shuffledp.plans.plan import Plan
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.queries.by_group.planner import plan_by_group
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.catalogue import (
    count,
    frequencies,
    heavy_hitters,
    histogram,
    integer_sum,
    mean,
    quantiles,
    real_sum,
)
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.frequencies.planner import plan_frequencies
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.heavy_hitters.planner import plan_heavy_hitters
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.result import CrosstabResult
from shuffledp.queries.integer_sum.planner import plan_integer_sum
from shuffledp.queries.quantiles.planner import plan_quantiles
from shuffledp.queries.quantiles.result import QuantilesResult
from shuffledp.queries.real_sum.planner import plan_real_sum
from shuffledp.release.ledger import Ledger
from shuffledp.version import __version__

__all__ = [
    "BudgetExceeded",
    "Certificate",
    "CertificateError",
    "CrosstabResult",
    "DataError",
    "Estimate",
    "FrequenciesResult",
    "GroupsResult",
    "HeavyHittersResult",
    "HistogramResult",
    "InputError",
    "Ledger",
    "MissingExtra",
    "ParameterError",
    "Plan",
    "PlanningError",
    "PrivacyViolation",
    "QuantilesResult",
    "Report",
    "Result",
    "SeededEntropy",
    "SeededError",
    "ShortBatchError",
    "ShuffleDPError",
    "Undecided",
    "ValueOutOfRange",
    "View",
    "__version__",
    "certify",
    "count",
    "frequencies",
    "heavy_hitters",
    "histogram",
    "integer_sum",
    "mean",
    "plan_by_group",
    "plan_count",
    "plan_frequencies",
    "plan_heavy_hitters",
    "plan_histogram",
    "plan_integer_sum",
    "plan_quantiles",
    "plan_real_sum",
    "quantiles",
    "real_sum",
    "samples",
    "verify",
]
