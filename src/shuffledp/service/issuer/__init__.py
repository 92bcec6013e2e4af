"""The issuer: gives every enrolment at most one one-time token per task, without seeing it."""

from shuffledp.extras import require

require("service")
