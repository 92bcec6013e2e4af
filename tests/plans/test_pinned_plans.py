"""Plans of a grid of targets, byte for byte."""

import json

from pinned_plans import GRID, PINNED, SLOW, digest


def changed(names: set[str]) -> list[str]:
    pinned = json.loads(PINNED.read_text())
    return [name for name in GRID if name in names and digest(name) != pinned[name]]


def test_every_target_of_the_grid_is_pinned() -> None:
    assert list(json.loads(PINNED.read_text())) == list(GRID)
    assert {*GRID} > SLOW and 2 * len(SLOW) < len(GRID)


def test_no_quick_plan_of_the_grid_changes() -> None:
    quick = {*GRID} - SLOW
    assert len({name.partition("(")[0] for name in quick}) == 8  # every planner
    assert not changed(quick)


def test_no_slow_plan_of_the_grid_changes() -> None:
    assert not changed(SLOW)


def test_a_digest_sees_a_changed_target() -> None:
    pinned = json.loads(PINNED.read_text())
    assert len(set(pinned.values())) > 55
