"""Worker processes are started quickly, and end with the analyzer."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from shuffledp.tasks.opening import worker_pool


@pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
def test_workers_of_every_pool_are_forked_from_one_preloaded_server() -> None:
    parents = []
    for _ in range(2):
        with worker_pool(1) as pool:
            parents.append(pool.submit(os.getppid).result())
    assert parents[0] == parents[1] != os.getpid()


KILLED = """
import os
from shuffledp.tasks.opening import worker_pool
if __name__ == "__main__":
    pool = worker_pool(1)  # kept: workers of a pool that nobody holds end at once
    print(pool.submit(os.getpid).result(), flush=True)
    input()
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found in /proc")
def test_workers_end_when_their_analyzer_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Python says that a killed program cleaned nothing up
    ) as analyzer:
        assert analyzer.stdout is not None
        worker = int(analyzer.stdout.readline())
        assert os.path.isdir(f"/proc/{worker}")
        analyzer.send_signal(signal.SIGKILL)
    for _ in range(600):
        if not os.path.isdir(f"/proc/{worker}"):
            return
        time.sleep(0.1)
    raise AssertionError("The worker still runs.")
