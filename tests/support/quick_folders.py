"""Where tests write what nobody keeps: in memory, where a commit does not wait for a disk."""

from __future__ import annotations

import os
import shutil

IN_MEMORY = "/dev/shm"
LEAST_FREE = 8 << 30
"""Bytes: several times what a run of the suite writes."""


def quick_folder() -> str | None:
    """The folder of a file system in memory with much room; None where there is none."""
    usable = os.path.isdir(IN_MEMORY) and os.access(IN_MEMORY, os.W_OK)
    return IN_MEMORY if usable and shutil.disk_usage(IN_MEMORY).free > LEAST_FREE else None
