"""What a device and the collector run: sending reports, registering tasks, reading results."""
