"""Opening batches on a Spark cluster instead of in worker processes: the same parts, the same
functions for opening and for copies, and the same replay memory."""

from __future__ import annotations

import contextlib
from typing import Any

from shuffledp.tasks.keys import PrivateKey
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.parts import Manifest
from shuffledp.tasks.replays import ReplayMemory
from shuffledp.tasks.task import Task


class SparkOpening:
    """A Spark session, which starts with the first batch and ends with this process."""

    def __init__(self, master: str) -> None:
        """An empty `master` means all cores of this machine."""
        self._master = master
        self._session: Any = None

    def open(
        self,
        manifest: Manifest,
        folder: str,
        secret: bytes | None,
        task: Task,
        key: PrivateKey,
        memory: ReplayMemory,
    ) -> Tally:
        """The contents of a batch whose parts, like the replay memory, are in a folder or bucket
        that every worker sees. `secret` is the key that encrypts the parts, if they are
        encrypted."""
        from shuffledp.engines.spark.batch_files import part_files
        from shuffledp.engines.spark.batch_jobs import open_remembering
        from shuffledp.engines.spark.sessions import session

        if self._session is None:
            self._session = session(self._master or None)
        return open_remembering(
            self._session,
            part_files(manifest, folder, secret),
            task,
            key,
            memory,
            manifest.header.batch_id.hex(),
        )

    def interrupt(self) -> None:
        """Ends the jobs that run, so that `open` raises."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # Spark Connect has no context; it ends with it
                self._session.sparkContext.cancelAllJobs()
