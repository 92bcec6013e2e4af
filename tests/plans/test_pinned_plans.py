"""Plans of a grid of targets, byte for byte."""

import json

from pinned_plans import GRID, PINNED, digest


def test_no_plan_of_the_grid_changes() -> None:
    pinned = json.loads(PINNED.read_text())
    assert list(pinned) == list(GRID)
    assert not [name for name in GRID if digest(name) != pinned[name]]


def test_a_digest_sees_a_changed_target() -> None:
    pinned = json.loads(PINNED.read_text())
    assert len(set(pinned.values())) > 55
