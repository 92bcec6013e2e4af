"""Task → send → batch → open → result, on every store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from service_trio import Trio


@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_a_full_batch_becomes_a_result(tmp_path: Path, stores: dict[str, str], cell: str) -> None:
    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task(cell=cell)
            await trio.register(task)
            await trio.upload(task, [1] * 12 + [0] * 8)
            (result,) = await trio.results(task)
            low, high = result["result"]["interval"]
            assert low <= high and result["reports"] == 20 and result["noise_shares"] == 20
            assert abs(result["anomaly"]) < 8
            assert abs(result["result"]["estimate"] - 12) < 60
            dropped = result["dropped"]
            assert dropped["replayed"] == dropped["unopened"] == dropped["malformed"] == 0
            status = await trio.deleted(task)
            assert status["batches"][0]["state"] == "deleted" and status["have"] == 0

    asyncio.run(walk())
