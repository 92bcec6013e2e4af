"""Errors about tasks, keys, messages and batches.

ShuffleDPError
└── TaskError           a task, key, message or file is not what it claims to be
    ├── TaskNotNow      a task is not valid yet or no longer valid
    ├── ProofError      a task is not signed, or not in the public log of tasks
    ├── BatchRefused    a batch is not what its task's rule allows
    ├── BatchHeld       a batch was opened, but must not be published
    └── StateLost       a file that protects privacy is missing or older than before
"""

from __future__ import annotations

from shuffledp.errors import ShuffleDPError


class TaskError(ShuffleDPError):
    """A task, key, message or file is not what it claims to be."""


class TaskNotNow(TaskError):
    """A task is not valid yet or no longer valid."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """task-early or task-expired."""


class ProofError(TaskError):
    """A task lacks a required signature, or is not in the public log of tasks."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """form, task, signature, head, witness, unlogged, log-forked, checkpoint or
        witnesses."""


class BatchRefused(TaskError):
    """A batch is not what its task's rule allows; nothing of it was opened."""

    def __init__(self, code: str, message: str, *, have: int, need: int) -> None:
        super().__init__(message)
        self.code = code
        """short-batch, long-batch, top-up or batch-size."""
        self.have = have
        self.need = need


class BatchHeld(TaskError):
    """A batch is not published; the message says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """noise-missing, group-short, implausible, result-lost or key-destroyed."""


class StateLost(TaskError):
    """The ledger or the replay memory is missing or older than it was; nothing is published until
    an operator restores it."""
