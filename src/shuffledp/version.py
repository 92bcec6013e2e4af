"""The version, at the bottom of all rooms."""

__version__ = "0.2.0"
