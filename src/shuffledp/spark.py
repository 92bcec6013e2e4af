"""The queries on Apache Spark: `from shuffledp import spark`.

`spark.count` is `shuffledp.count`, which runs on Spark if its data is a Spark DataFrame. Only data
frames and Arrow batches are used, so everything also runs through Spark Connect. pyspark is
imported when it is needed.
"""

from shuffledp.engines.spark.errors import ClusterError
from shuffledp.engines.spark.sessions import session
from shuffledp.queries import catalogue
from shuffledp.queries.catalogue import *  # noqa: F403

__all__ = ["ClusterError", "session"]
__all__ += catalogue.__all__
