"""Marks every test with its tier (`tiers.py`), spreads files over processes, counts attacks.

A test marked `attack` tries one attack on the deployed system and passes if it fails. `make attack`
runs all of them in full (SHUFFLEDP_ATTACK=full: as many kills, requests and batches as the
documents say) and prints a table, attack by attack; `make test` runs a short form.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from browsers import Browser, running_browser
from quick_folders import quick_folder
from repeatable_noise import SEED, RepeatableNoise
from tiers import OUTSIDE, TIERS, tier_of

SPARK = "tests/engines/spark/"
FIRST = (
    "tests/season/test_season.py",
    SPARK,
    "tests/coverage/",
    "tests/packaging/test_wheel.py",
    "tests/documents/",
    "tests/browser/",
    "tests/studio/",
    "tests/attacks/",
    "tests/service/",
    "tests/queries/test_protocols.py",
    "tests/plans/",
    "tests/baselines/test_errors.py",
    "tests/queries/",
)
"""What takes longest, so that no process is left alone with it at the end."""
FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
NOISE = None if SEED == "none" else RepeatableNoise()
_verdicts: dict[str, list[bool]] = {}
_seconds: dict[str, dict[str, float]] = {}
"""How long each test took, setup and teardown included, by tier."""


def pytest_configure() -> None:
    """Waits longer for answers: httpx2's five seconds are too few on a busy machine. All its calls
    share the object that is the default of `timeout`. Folders of tests are in memory if there is
    room: servers commit hundreds of times in a test and would wait for the disk."""
    if folder := quick_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)
    inspect.signature(httpx2.get).parameters["timeout"].default.read = 60.0


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return f"noise of this process: {'real' if NOISE is None else f'seed {SEED}'}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: what they draw is repeatable, too."""
    if NOISE is not None:
        NOISE.begin(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its tier and moves the longest ones to the front."""
    for item in items:
        tier = tier_of(item.nodeid, getattr(getattr(item, "callspec", None), "params", None))
        if tier is None:
            raise pytest.UsageError(f"{item.nodeid} has no tier; add it to tests/support/tiers.py")
        needs = OUTSIDE & {*getattr(item, "fixturenames", ())}
        if tier == "unit" and needs:
            raise pytest.UsageError(f"{item.nodeid} is a unit test and needs {', '.join(needs)}")
        item.add_marker(tier)
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    return next((rank for rank, place in enumerate(FIRST) if nodeid.startswith(place)), len(FIRST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process runs all tests of a file, which share its fixtures, or all tests of Spark, which
    share a session; files start in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    for marker in item.iter_markers():
        if marker.name == "attack":
            report.user_properties.append(("attack", marker.args[0]))
        elif marker.name in TIERS:
            report.user_properties.append(("tier", marker.name))
    return report  # type: ignore[return-value]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    found = dict(report.user_properties)
    spent = _seconds.setdefault(str(found.get("tier")), {})
    spent[report.nodeid] = spent.get(report.nodeid, 0.0) + report.duration
    name = found.get("attack")
    if name is not None and (report.when == "call" or report.failed):
        _verdicts.setdefault(str(name), []).append(bool(report.passed))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shown = int(os.environ.get("SHUFFLEDP_SLOWEST", "0"))
    for tier, spent in sorted(_seconds.items()) if shown else ():
        slowest = sorted(spent.items(), key=lambda entry: -entry[1])[:shown]
        terminalreporter.section(f"{tier}: {len(spent)} tests, {sum(spent.values()):.0f} s")
        for nodeid, seconds in slowest:
            terminalreporter.write_line(f"{seconds:8.2f} s  {nodeid}")
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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One Chromium for all tests of a process, without a screen."""
    with running_browser() as window:
        yield window


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Browser:
    """Chromium as if it had just been started, for the tests of one file."""
    chromium.fresh()
    return chromium
