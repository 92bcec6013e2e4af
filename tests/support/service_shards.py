"""Tasks that choose a given one of a shuffler's stores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from service_trio import Trio

from shuffledp.service.shuffler.shards import rank
from shuffledp.service.shuffler.stores import FIRST
from shuffledp.tasks.task import Task


def further(stores: Mapping[str, str]) -> dict[str, Any]:
    """The shuffler's settings for further stores."""
    return {"more_stores": tuple(f"{name}={url}" for name, url in stores.items())}


def task_in(trio: Trio, wanted: str, **options: Any) -> Task:
    """A task that chooses this store, if all answer."""
    names = (FIRST, *trio.shuffler_config.store_urls)
    for number in itertools.count():
        task = trio.task(f"task {number}", **options)
        if max(names, key=lambda name: rank(name, task.id)) == wanted:
            return task
    raise AssertionError
