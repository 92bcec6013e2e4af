"""The same queries on Apache Spark: the second executor.

    count(data, column=…, epsilon=…)  where the data is: group ──▶ encode ──▶ tally ──▶ randomize
    histogram, integer_sum, real_sum, on the driver:     add ──▶ release ──▶ View ──▶ estimate
    mean, quantiles
    batch_jobs                        the shuffler's and the analyzer's heavy work, on encrypted
                                      messages in files

Only data frames and Arrow batches are used, so all of it also runs through Spark Connect. pyspark
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
