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
PLACES = {
    "tests/architecture": "unit",
    "tests/attacks": "service",
    "tests/baselines": "unit",
    "tests/browser": "service",
    "tests/cells": "unit",
    "tests/cli": "unit",
    "tests/coverage": "system",
    "tests/documents": "unit",
    f"{BLOCKS}[tutorial]": "unit",
    "tests/engines": "unit",
    "tests/engines/spark": "service",
    "tests/engines/spark/test_spark_faults.py": "system",
    "tests/numbers": "unit",
    "tests/packaging": "unit",
    "tests/packaging/test_wheel.py": "system",
    "tests/plans": "unit",
    "tests/plots": "unit",
    "tests/proofs": "unit",
    "tests/queries": "unit",
    "tests/release": "unit",
    "tests/season": "service",
    "tests/season/test_season.py": "system",
    "tests/service": "service",
    "tests/service/test_kills.py": "system",
    "tests/studio": "service",
    "tests/tasks": "unit",
}
LONG = {
    "tests/baselines/test_errors.py": [
        "test_aggregate_is_unbiased_and_errs_as_forecast[count-gkmp20-published]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[histogram-ggkpv21-published]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[histogram-gkmp20-published]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[real-sum-gmps21-published]",
        "test_message_by_message_has_the_same_law[histogram-bc20-published]",
        "test_message_by_message_has_the_same_law[histogram-gkmp20-published]",
        "test_message_by_message_has_the_same_law[real-sum-bbgn19-published]",
        "test_message_by_message_has_the_same_law[real-sum-bbgn20-recursive-published]",
        "test_messages_are_as_many_as_forecast[histogram-gkmp20-published]",
    ],
    "tests/baselines/test_findings.py": [
        "test_sparse_histograms_compared_with_local_hashing_on_large_domains",
    ],
    "tests/browser/test_bundlers.py": [
        "test_eight_lines_send_a_report_from_another_origin",
        "test_the_react_hook_of_the_documents_sends_a_report",
    ],
    "tests/cells/test_bounded_error.py": ["test_digits_are_covered_however_they_are_spread"],
    "tests/cells/test_by_value_oracle.py": [
        "test_the_plan_for_a_hundred_users_in_exact_polynomials",
    ],
    "tests/cells/test_pooled.py": ["test_every_plan_is_certified[1000000000-3-0.1]"],
    "tests/cells/test_shared.py": [
        "test_a_device_draws_the_law_and_not_a_neighbour[bits]",
        "test_a_device_draws_the_law_and_not_a_neighbour[most]",
    ],
    "tests/documents/test_blocks.py": ["test_every_block_runs_and_prints_what_the_page_shows"],
    "tests/documents/test_notebooks.py": ["test_all_notebooks_run"],
    "tests/documents/test_site.py": [
        "test_every_link_of_the_site_leads_somewhere",
        "test_formulas_are_typeset_without_a_script",
        "test_no_page_has_an_accessibility_fault_and_search_finds_what_people_type",
        "test_the_reference_holds_every_name_command_and_code",
    ],
    "tests/engines/spark/test_queries.py": ["test_parts_add_up_to_the_law_of_one_draw[paper]"],
    "tests/plans/test_bounded_plans.py": [
        "test_buckets_to_reach[10000-100-2181-21.02]",
        "test_buckets_to_reach[10000-1000-21085-21.01]",
        "test_buckets_to_reach[1000000-10-391-29.101]",
        "test_sums_to_reach[1000000-4.07-1318]",
        "test_sums_to_reach[10000-2.714-432]",
        "test_the_best_is_the_cheaper_of_both[quantiles-True]",
        "test_the_best_is_the_cheaper_of_both[sum, relative-True]",
        "test_the_best_is_the_cheaper_of_both[sum-True]",
        "test_the_least_epsilon[plan_histogram-arguments3-aim3]",
        "test_the_least_epsilon_of_a_sum",
        "test_the_least_error_for_a_number_of_messages[False-plan_real_sum-arguments3-300]",
        "test_the_least_error_for_a_number_of_messages[True-plan_real_sum-arguments3-300]",
    ],
    "tests/plans/test_lower_bounds.py": [
        "test_no_plan_with_a_smaller_error_sends_fewer_messages_than_another_ones_bound",
        "test_no_plan_of_a_large_grid_sends_fewer_messages_than_its_bound",
    ],
    "tests/plans/test_mutated_certificates.py": [
        "test_both_programs_refuse_the_same_mutated_certificates[1]",
        "test_both_programs_refuse_the_same_mutated_certificates[2]",
        "test_both_programs_refuse_the_same_mutated_certificates[3]",
        "test_both_programs_refuse_the_same_of_many_mutated_certificates",
    ],
    "tests/plans/test_other_plans.py": [
        "test_a_larger_tolerance_makes_sums_cheaper[1000000-1]",
        "test_large_values_are_planned_with_either_cell[16]",
    ],
    "tests/plans/test_padded_plans.py": [
        "test_no_other_pairs_and_noise_give_a_smaller_report[overhead1]",
        "test_padded_reports_are_smaller_for_the_same_error[plan_real_sum-arguments7-aim7-0.35]",
        "test_padded_reports_are_smaller_for_the_same_error[plan_real_sum-arguments8-aim8-0.72]",
        "test_the_best_error_for_a_padded_size[plan_count-arguments1-6000]",
        "test_the_best_error_for_a_padded_size[plan_integer_sum-arguments2-200]",
    ],
    "tests/plans/test_pinned_plans.py": ["test_no_slow_plan_of_the_grid_changes"],
    "tests/plans/test_shared_by_urn.py": ["test_dealing_by_the_urn_saves_no_message"],
    "tests/plans/test_shared_plans.py": [
        "test_a_padded_report_of_a_sum_is_short[1000000-2.714-1760]",
        "test_a_padded_report_of_a_sum_is_short[10000-4.07-260]",
        "test_the_error_is_what_the_forecast_says[randomize_all]",
    ],
    "tests/plans/test_within.py": [
        "test_a_plan_keeps_the_sentence_and_is_not_far_below[histogram-12-0.95]",
    ],
    "tests/queries/test_bounded_protocols.py": [
        "test_honest_histograms_are_plausible_and_others_are_not[0]",
    ],
    "tests/queries/test_by_group.py": [
        "test_answers_are_unbiased_with_their_error_and_coverage[mean]",
        "test_every_way_of_randomizing_has_the_same_law[integer-sum]",
    ],
    "tests/queries/test_odd_parameters.py": [
        "test_intervals_hold_when_many_more_come_than_planned[10000000]",
        "test_messages_of_integers_use_the_stand_in",
        "test_odd_tolerances_plan_or_say_why[2514650475-0.285-0.09114]",
        "test_odd_tolerances_plan_or_say_why[320364962-0.0151-0.01743]",
    ],
    "tests/queries/test_plausibility.py": [
        "test_honest_batches_of_many_cells_are_not_marked[paper]",
    ],
    "tests/queries/test_protocols.py": [
        "test_coverage_of_integers_for_other_data_than_the_widest[paper]",
        "test_histogram_estimates_and_both_intervals[paper]",
        "test_one_by_one_is_the_same_protocol[sum]",
        "test_quantiles_and_ranges[paper]",
        "test_unbiased_with_forecast_error_and_coverage[count with more users, bounded]",
        "test_unbiased_with_forecast_error_and_coverage[integers]",
        "test_unbiased_with_forecast_error_and_coverage[sum]",
        "test_unbiased_with_forecast_error_and_coverage[sum, relative]",
    ],
    "tests/queries/test_quantile_bins.py": [
        "test_more_rows_are_answered_more_finely_and_the_error_is_stated",
    ],
    "tests/queries/test_real_sum_errors.py": [
        "test_the_stated_error_is_the_true_one[normal-1]",
        "test_the_stated_error_is_the_true_one[skewed-1]",
        "test_the_stated_error_is_the_true_one[skewed-5]",
    ],
    "tests/service/test_fuzzing.py": ["test_fuzzed_uploads_without_a_500[10000]"],
    "tests/service/test_shuffler.py": [
        "test_noise_top_up_releases_after_the_wait[postgres-canonical-bounded-missing]",
        "test_noise_top_up_releases_after_the_wait[postgres-uniform-paper-full]",
    ],
}
"""Tests and single cases in files of another tier that take long: builds, large grids, further
seeds, and cases whose sibling shows the same feature in less time."""
PLACES |= {f"{file}::{test}": "system" for file, tests in LONG.items() for test in tests}
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
