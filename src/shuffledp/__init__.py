"""Pure differential privacy in the shuffle model, certified for the numbers in use.

    shuffledp.count(data, epsilon=1)             a query on a column that this machine holds
    shuffledp.plan_count(1_000_000, 1)           a plan for users who randomize on their devices
    shuffledp.spark                              the same queries on Apache Spark

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
    ShortGroupError,
    ShuffleDPError,
    Undecided,
    ValueOutOfRange,
)
from shuffledp.exact.seeded import SeededEntropy
from shuffledp.planning.by_group import plan_by_group
from shuffledp.planning.counting import plan_count
from shuffledp.planning.frequencies import plan_frequencies
from shuffledp.planning.heavy_hitters import plan_heavy_hitters
from shuffledp.planning.histogram import plan_histogram
from shuffledp.planning.integer_sum import plan_integer_sum
from shuffledp.planning.plan import Plan
from shuffledp.planning.quantiles import plan_quantiles
from shuffledp.planning.real_sum import plan_real_sum
from shuffledp.privacy.certificate import Certificate, certify, verify
from shuffledp.protocols.crosstab_result import CrosstabResult
from shuffledp.protocols.frequencies_result import FrequenciesResult
from shuffledp.protocols.groups_result import GroupsResult
from shuffledp.protocols.quantiles_result import QuantilesResult
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.queries.calls import count, integer_sum, mean, real_sum
from shuffledp.queries.label_calls import frequencies, histogram, quantiles
from shuffledp.queries.ledger import Ledger
from shuffledp.queries.options import QueryOptions
from shuffledp.queries.word_calls import heavy_hitters
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
    "HistogramResult",
    "InputError",
    "Ledger",
    "MissingExtra",
    "ParameterError",
    "Plan",
    "PlanningError",
    "PrivacyViolation",
    "QuantilesResult",
    "QueryOptions",
    "Report",
    "Result",
    "SeededEntropy",
    "SeededError",
    "ShortBatchError",
    "ShortGroupError",
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
