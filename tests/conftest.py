"""Attacks on the deployed system are marked: each such test tries one and passes if it held.

`make attack` runs all of them in full (SHUFFLEDP_ATTACK=full: as many kills, requests and batches
as the documents say) and prints a table, attack by attack; `make test` runs a short form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from browsers import Browser, running_browser
from httpx._config import DEFAULT_TIMEOUT_CONFIG

TOGETHER = (
    "tests/engines/spark/",
    "tests/browser/test_package.py",
    "tests/documents/test_site.py",
    "tests/packaging/test_wheel.py",
)
"""Tests that share a cluster, or files that they make: one process runs all of each."""
FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
_verdicts: dict[str, list[bool]] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "attack(name): an attack, named for the table")
    DEFAULT_TIMEOUT_CONFIG.read = 60.0  # five seconds are too few on a busy machine


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go to whichever process is free, but those that belong together to one."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        """Each test by itself, or all of a place in `TOGETHER`."""

        def _split_scope(self, nodeid: str) -> str:
            return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    marker = item.get_closest_marker("attack")
    if marker is not None:
        report.user_properties.append(("attack", marker.args[0]))
    return report  # type: ignore[return-value]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = dict(report.user_properties).get("attack")
    if name is not None and (report.when == "call" or report.failed):
        _verdicts.setdefault(str(name), []).append(bool(report.passed))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not FULL or not _verdicts:
        return
    width = max(map(len, _verdicts))
    terminalreporter.section("attacks")
    for name, held in sorted(_verdicts.items()):
        verdict = "held" if all(held) else "BROKEN"
        terminalreporter.write_line(f"{name:<{width}}  {verdict}  ({len(held)} tries)")


@pytest.fixture
def scale() -> int:
    """How many times as much an attack tries: 1 in the short form, more in full."""
    return 10 if FULL else 1


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A window of Chromium, without a screen."""
    with running_browser() as window:
        yield window
