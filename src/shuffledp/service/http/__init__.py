"""What servers are made of: routes, tasks, access, problems, status page, logs, metrics."""

from shuffledp.extras import require

require("service")
