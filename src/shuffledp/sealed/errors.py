"""Errors about tasks, keys, messages and batches.

ShuffleDPError
└── TaskError           a task, key, message or file is not what it claims to be
    └── BatchRefused    a batch is not what its task's rule allows
"""

from __future__ import annotations

from shuffledp.errors import ShuffleDPError


class TaskError(ShuffleDPError):
    """A task, key, message or file is not what it claims to be."""


class BatchRefused(TaskError):
    """A batch is not what its task's rule allows; nothing of it was opened."""

    def __init__(self, code: str, message: str, *, have: int, need: int) -> None:
        super().__init__(message)
        self.code = code
        """short-batch, long-batch, top-up or batch-size."""
        self.have = have
        self.need = need
