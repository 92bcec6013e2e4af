"""The same protocols on Apache Spark: one algorithm, two places.

    count(df, column, epsilon=…)      where the data is: group ──▶ encode ──▶ tally ──▶ randomize
    histogram, total, mean, quantiles on the driver:     add ──▶ release ──▶ View ──▶ estimate
    shuffle_batch, open_batch         the shuffler's and the analyzer's heavy work, on sealed files

Only data frames and Arrow batches are used, so all of it also runs through Spark Connect. pyspark
is imported when it is needed.
"""

from shuffledp.spark.errors import ClusterError
from shuffledp.spark.queries import count, histogram, mean, quantiles, query, total
from shuffledp.spark.sessions import session

__all__ = ["ClusterError", "count", "histogram", "mean", "quantiles", "query", "session", "total"]
