"""The laws of bounded cells, written down beside the tests of these, are importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cells"))
