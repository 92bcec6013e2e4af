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


class _CodedError(TaskError):
    """An error with a code for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TaskNotNow(_CodedError):
    """A task is not valid yet or no longer valid: task-early or task-expired."""


class ProofError(_CodedError):
    """A task lacks a required signature, or is not in the public log of tasks: form, task,
    signature, head, witness, unlogged, log-forked, checkpoint or witnesses."""


class BatchRefused(_CodedError):
    """A batch is not what its task's rule allows, and nothing of it was opened: short-batch,
    long-batch, top-up or batch-size."""

    def __init__(self, code: str, message: str, *, have: int, need: int) -> None:
        super().__init__(code, message)
        self.have = have
        self.need = need


class BatchHeld(_CodedError):
    """A batch is not published, and the message says why: noise-missing, group-short, implausible,
    result-lost or key-destroyed."""


class StateLost(TaskError):
    """The ledger or the replay memory is missing or older than it was; nothing is published until
    an operator restores it."""
