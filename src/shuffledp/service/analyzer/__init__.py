"""The analyzer: opens whole batches, drops replays, tallies, publishes."""
