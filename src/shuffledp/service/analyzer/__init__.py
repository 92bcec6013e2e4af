"""The analyzer: opens whole batches, releases and publishes their results."""

from shuffledp.extras import require

require("service")
