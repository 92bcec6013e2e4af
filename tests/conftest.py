"""Shared by all tests: the folder of this file is importable, so that `from chi2 import …` works."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
