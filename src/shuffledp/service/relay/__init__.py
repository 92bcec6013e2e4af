"""The relay: passes encrypted requests on, so that the shuffler does not learn addresses."""

from shuffledp.extras import require

require("service")
