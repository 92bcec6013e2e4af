"""The shuffler: collects encrypted reports, orders and delivers whole batches, deletes them."""

from shuffledp.extras import require

require("service")
