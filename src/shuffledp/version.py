"""The version, at the bottom of all rooms."""

__version__ = "0.1.0"
