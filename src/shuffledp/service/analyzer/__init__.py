"""The analyzer: opens whole batches, releases and publishes their results."""
