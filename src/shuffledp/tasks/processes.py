"""How other processes are started that check tasks and open messages."""

from __future__ import annotations

import multiprocessing
from typing import Any


def quick_start() -> Any:
    """The way of `multiprocessing` to start them: forked from a preloaded server in milliseconds
    where the system can fork, from scratch elsewhere (Windows)."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["shuffledp.tasks.opening", "shuffledp.tasks.sandbox"])
    return context
