"""Shared by all tests: this folder is importable, so that `from chi2 import …` works."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
