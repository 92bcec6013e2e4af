"""Pure differential privacy in the shuffle model, certified for the numbers in use."""

__version__ = "0.1.0"
