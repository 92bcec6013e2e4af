"""The issuer: gives every enrolment at most one one-time token per task, which it never sees."""

from shuffledp.extras import require

require("service")
