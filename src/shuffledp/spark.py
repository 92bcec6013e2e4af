"""The same queries on Apache Spark: `from shuffledp import spark`.

Only data frames and Arrow batches are used, so everything also runs through Spark Connect. pyspark
is imported when it is needed.
"""

from shuffledp.engines.spark.errors import ClusterError
from shuffledp.engines.spark.label_queries import frequencies, heavy_hitters, histogram, quantiles
from shuffledp.engines.spark.queries import count, integer_sum, mean, real_sum
from shuffledp.engines.spark.sessions import session

__all__ = [
    "ClusterError",
    "count",
    "frequencies",
    "heavy_hitters",
    "histogram",
    "integer_sum",
    "mean",
    "quantiles",
    "real_sum",
    "session",
]
