"""What both servers are made of: routes, tasks, access, problems, status page, logs, metrics."""
