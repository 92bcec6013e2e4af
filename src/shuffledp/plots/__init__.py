"""Pictures of results, plans and comparisons; all of them are drawn by matplotlib."""

from shuffledp.extras import require

require("plot")
