"""The tier of every test, decided by its path: the longest entry of `PLACES` that fits.

`make test-unit` runs `unit`, `make test` runs `unit` and `service`, `make test-all` runs all three.
A test in no place is an error; so is a unit test that asks for a server, a browser or a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

TIERS = {
    "unit": "Python alone: no server, no browser, no cluster",
    "service": "real servers, PostgreSQL, Chromium, a local Spark session",
    "system": "long runs: kills, a season, cluster faults, grids, builds, full fuzzing",
}
BLOCKS = "tests/documents/test_blocks.py::test_every_block_runs_and_prints_what_the_page_shows"
AXE = "tests/documents/test_site.py::test_no_page_has_an_accessibility_fault"
PARTS = "tests/engines/spark/test_queries.py::test_parts_add_up_to_the_law_of_one_draw"
PLACES = {
    "tests/architecture": "unit",
    "tests/attacks": "service",
    "tests/baselines": "unit",
    "tests/browser": "service",
    "tests/cells": "unit",
    "tests/cli": "unit",
    "tests/coverage": "system",
    "tests/documents": "unit",
    BLOCKS: "system",
    f"{BLOCKS}[tutorial]": "unit",
    "tests/documents/test_notebooks.py::test_all_notebooks_run": "system",
    "tests/documents/test_site.py::test_every_link_of_the_site_leads_somewhere": "system",
    "tests/documents/test_site.py::test_formulas_are_typeset_without_a_script": "system",
    f"{AXE}_and_search_finds_what_people_type": "system",
    "tests/documents/test_site.py::test_the_reference_holds_every_name_command_and_code": "system",
    "tests/engines": "unit",
    "tests/engines/spark": "service",
    f"{PARTS}[paper]": "system",
    "tests/engines/spark/test_spark_faults.py": "system",
    "tests/numbers": "unit",
    "tests/packaging": "unit",
    "tests/packaging/test_wheel.py": "system",
    "tests/plans": "unit",
    "tests/plans/test_lower_bounds.py::"
    "test_no_plan_of_a_large_grid_sends_fewer_messages_than_its_bound": "system",
    "tests/plans/test_mutated_certificates.py::"
    "test_both_programs_refuse_the_same_of_many_mutated_certificates": "system",
    "tests/plans/test_pinned_plans.py::test_no_slow_plan_of_the_grid_changes": "system",
    "tests/plots": "unit",
    "tests/proofs": "unit",
    "tests/queries": "unit",
    "tests/release": "unit",
    "tests/season": "service",
    "tests/season/test_season.py": "system",
    "tests/service": "service",
    "tests/service/test_fuzzing.py::test_fuzzed_uploads_without_a_500[10000]": "system",
    "tests/service/test_kills.py": "system",
    "tests/studio": "service",
    "tests/tasks": "unit",
}
"""Folders, files, tests and single cases of a test, from the root of the checkout."""
OUTSIDE = {"browser", "postgres_database", "spark", "studio"}
"""Fixtures that start something outside Python."""
STORE_FIXTURES = ("stores", "more_stores", "place", "issuer_store")
"""Fixtures that run a test on SQLite and again on PostgreSQL. `make test` runs these tests on
PostgreSQL (most others use SQLite), `make test-all` on both."""


def tier_of(nodeid: str, parameters: Mapping[str, object] | None = None) -> str | None:
    """The tier of a test by its node ID and parameters; None if it is in no place."""
    if any((parameters or {}).get(name) == "sqlite" for name in STORE_FIXTURES):
        return "system"
    fitting = [place for place in PLACES if _fits(place, nodeid)]
    return PLACES[max(fitting, key=len)] if fitting else None


def _fits(place: str, nodeid: str) -> bool:
    return nodeid.startswith(place) and nodeid[len(place) :][:1] in ("", "/", ":", "[")
