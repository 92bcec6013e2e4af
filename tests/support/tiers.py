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
PLACES = {
    "tests/architecture": "unit",
    "tests/attacks": "service",
    "tests/baselines": "unit",
    "tests/browser": "service",
    "tests/cells": "unit",
    "tests/cli": "unit",
    "tests/coverage": "system",
    "tests/documents": "unit",
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
    "tests/attacks/test_keys_and_state.py": [
        "test_lost_replay_memory_stops_counting[file]",
    ],
    "tests/attacks/test_nginx.py": [
        "test_slow_uploads_reach_no_server",
    ],
    "tests/attacks/test_operators.py": [
        "test_a_full_disk_is_not_ready",
    ],
    "tests/attacks/test_sockets.py": [
        "test_a_declared_length_buys_no_time",
        "test_half_open_connections",
        "test_headers_without_end",
        "test_one_byte_at_a_time",
        "test_unfinished_requests_at_the_relay",
    ],
    "tests/baselines/test_errors.py": [
        "test_aggregate_is_unbiased_and_errs_as_forecast[count-gkmp20-published]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[histogram-ggkmpv20]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[histogram-ggkpv21-published]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[histogram-gkmp20-published]",
        "test_aggregate_is_unbiased_and_errs_as_forecast[real-sum-ggkmpv20]",
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
        "test_the_packed_file_is_complete_and_its_types_are_right",
        "test_the_react_hook_of_the_documents_sends_a_report",
    ],
    "tests/browser/test_client.py": [
        "test_a_million_labels_from_the_browser_and_from_python",
    ],
    "tests/browser/test_example_site.py": [
        "test_a_visitor_of_the_example_site_answers",
    ],
    "tests/browser/test_static_pages.py": [
        "test_the_verifier_accepts_what_holds_and_refuses_every_attack",
    ],
    "tests/browser/test_survey.py": [
        "test_a_person_answers_with_a_one_time_token_through_a_relay",
    ],
    "tests/browser/test_token_endpoints.py": [
        "test_the_endpoint_gives_each_person_one_token[py]",
    ],
    "tests/cells/test_bounded.py": [
        "test_copies_follow_the_convolution[cell by cell-bit]",
        "test_copies_follow_the_convolution[cell by cell-by value]",
        "test_sums_follow_the_convolution[bit-total]",
        "test_sums_follow_the_convolution[by value-total]",
        "test_sums_follow_the_convolution[digit-aggregate]",
        "test_sums_follow_the_convolution[digit-total]",
    ],
    "tests/cells/test_bounded_error.py": [
        "test_digits_are_covered_however_they_are_spread",
    ],
    "tests/cells/test_bounded_oracle.py": [
        "test_proved_cells_keep_their_word_whatever_the_others_hold[12-2-decay9-9-4]",
    ],
    "tests/cells/test_by_value_oracle.py": [
        "test_the_plan_for_a_hundred_users_in_exact_polynomials",
    ],
    "tests/cells/test_paper_cell.py": [
        "test_unbiased_with_the_forecast_error[200-aggregate-digit]",
        "test_unbiased_with_the_forecast_error[500-aggregate-count]",
        "test_unbiased_with_the_forecast_error[500-aggregate-digit]",
        "test_unbiased_with_the_forecast_error[500-one by one-count]",
        "test_unbiased_with_the_forecast_error[500-one by one-digit]",
    ],
    "tests/cells/test_pooled.py": [
        "test_all_ways_draw_the_exact_law_of_the_view[bucket_by_bucket]",
        "test_estimates_are_unbiased_with_the_exact_variance",
        "test_every_plan_is_certified[1000000000-3-0.1]",
        "test_sums_of_buckets_have_the_exact_variance[2]",
        "test_sums_of_buckets_have_the_exact_variance[3]",
    ],
    "tests/cells/test_shared.py": [
        "test_a_device_draws_the_law_and_not_a_neighbour[bits]",
        "test_a_device_draws_the_law_and_not_a_neighbour[most]",
        "test_sums_follow_the_convolution[bits-aggregate]",
        "test_sums_follow_the_convolution[bits-total]",
        "test_sums_follow_the_convolution[digits-total]",
        "test_the_noise_of_many_users_is_drawn_again_where_it_exceeds_the_cut[user by user]",
    ],
    "tests/cells/test_sparse.py": [
        "test_a_wrong_urn_is_told_apart[in_aggregate]",
        "test_estimates_are_unbiased_with_the_forecast_error_and_covered[20000-0.1]",
        "test_estimates_are_unbiased_with_the_forecast_error_and_covered[20000-5]",
        "test_means_variances_and_covariances_are_those_of_the_moments[True]",
    ],
    "tests/documents/test_blocks.py": [
        "test_every_block_runs_and_prints_what_the_page_shows",
    ],
    "tests/documents/test_notebooks.py": [
        "test_a_notebook_that_raises_is_found",
        "test_all_notebooks_run",
    ],
    "tests/documents/test_site.py": [
        "test_every_link_of_the_site_leads_somewhere",
        "test_formulas_are_typeset_without_a_script",
        "test_no_page_has_an_accessibility_fault_and_search_finds_what_people_type",
        "test_the_reference_holds_every_name_command_and_code",
    ],
    "tests/engines/spark/test_fleet.py": [
        "test_rates_are_measured_for_every_query",
    ],
    "tests/engines/spark/test_groups.py": [
        "test_every_answer_by_group[how1]",
        "test_whole_numbers_as_groups_users_and_row_by_row",
    ],
    "tests/engines/spark/test_queries.py": [
        "test_parts_add_up_to_the_law_of_one_draw[bounded]",
        "test_parts_add_up_to_the_law_of_one_draw[paper]",
        "test_same_plan_certificate_and_result_as_on_one_machine[count-bit-asked1]",
        "test_same_plan_certificate_and_result_as_on_one_machine[count-label-asked2]",
        "test_same_plan_certificate_and_result_as_on_one_machine[count-number-asked3]",
        "test_same_plan_certificate_and_result_as_on_one_machine[histogram-number-asked5]",
        "test_same_plan_certificate_and_result_as_on_one_machine[integer_sum-number-asked7]",
    ],
    "tests/engines/spark/test_spark_readers.py": [
        "test_spark_refuses_what_one_machine_refuses[gaps]",
        "test_spark_refuses_what_one_machine_refuses[known texts]",
        "test_spark_refuses_what_one_machine_refuses[texts with gaps]",
        "test_spark_refuses_what_one_machine_refuses[truth]",
        "test_spark_refuses_what_one_machine_refuses[whole]",
    ],
    "tests/engines/spark/test_where.py": [
        "test_bounds_are_those_of_kept_rows",
        "test_no_kept_value_is_taken_for_an_excluded_row[date]",
        "test_no_kept_value_is_taken_for_an_excluded_row[whole]",
        "test_quantiles_of_dates_of_some_rows[2024-05-30T12:00]",
    ],
    "tests/numbers/test_finite.py": [
        "test_huge_batches",
    ],
    "tests/packaging/test_bare.py": [
        "test_a_command_says_what_it_needs_before_it_acts[client-words1]",
        "test_a_command_says_what_it_needs_before_it_acts[client-words2]",
        "test_a_command_says_what_it_needs_before_it_acts[client-words3]",
        "test_a_command_says_what_it_needs_before_it_acts[plot-words11]",
        "test_a_command_says_what_it_needs_before_it_acts[service-words5]",
        "test_a_command_says_what_it_needs_before_it_acts[service-words6]",
        "test_a_command_says_what_it_needs_before_it_acts[service-words7]",
    ],
    "tests/packaging/test_project_files.py": [
        "test_the_light_set_up_has_what_its_tests_import",
    ],
    "tests/plans/test_bounded_plans.py": [
        "test_buckets_to_reach[10000-100-2181-21.02]",
        "test_buckets_to_reach[10000-1000-21085-21.01]",
        "test_buckets_to_reach[1000000-10-391-29.101]",
        "test_sums_that_count_the_average",
        "test_sums_to_reach[10000-2.714-432]",
        "test_sums_to_reach[1000000-4.07-1318]",
        "test_the_best_is_the_cheaper_of_both[quantiles-True]",
        "test_the_best_is_the_cheaper_of_both[sum, relative-True]",
        "test_the_best_is_the_cheaper_of_both[sum-True]",
        "test_the_least_epsilon[plan_histogram-arguments3-aim3]",
        "test_the_least_epsilon_of_a_sum",
        "test_the_least_error_for_a_number_of_messages[False-plan_real_sum-arguments3-300]",
        "test_the_least_error_for_a_number_of_messages[True-plan_real_sum-arguments3-300]",
    ],
    "tests/plans/test_lower_bounds.py": [
        "test_no_plan_of_a_large_grid_sends_fewer_messages_than_its_bound",
        "test_no_plan_sends_fewer_messages_than_its_bound",
        "test_no_plan_with_a_smaller_error_sends_fewer_messages_than_another_ones_bound",
    ],
    "tests/plans/test_mutated_certificates.py": [
        "test_both_programs_refuse_the_same_mutated_certificates[1]",
        "test_both_programs_refuse_the_same_mutated_certificates[2]",
        "test_both_programs_refuse_the_same_mutated_certificates[3]",
        "test_both_programs_refuse_the_same_of_many_mutated_certificates",
    ],
    "tests/plans/test_other_plans.py": [
        "test_a_larger_tolerance_makes_sums_cheaper[1000000-1]",
        "test_large_values_are_planned_with_either_cell[100]",
        "test_large_values_are_planned_with_either_cell[16]",
    ],
    "tests/plans/test_padded_plans.py": [
        "test_no_other_pairs_and_noise_give_a_smaller_report[overhead1]",
        "test_padded_reports_are_smaller_for_the_same_error[plan_real_sum-arguments7-aim7-0.35]",
        "test_padded_reports_are_smaller_for_the_same_error[plan_real_sum-arguments8-aim8-0.72]",
        "test_the_best_error_for_a_padded_size[plan_count-arguments1-6000]",
        "test_the_best_error_for_a_padded_size[plan_integer_sum-arguments2-200]",
        "test_the_best_error_for_a_padded_size[plan_real_sum-arguments4-500]",
    ],
    "tests/plans/test_pinned_plans.py": [
        "test_no_slow_plan_of_the_grid_changes",
    ],
    "tests/plans/test_shared_by_urn.py": [
        "test_dealing_by_the_urn_saves_no_message",
    ],
    "tests/plans/test_shared_plans.py": [
        "test_a_padded_report_of_a_sum_is_short[10000-4.07-260]",
        "test_a_padded_report_of_a_sum_is_short[1000000-2.714-1760]",
        "test_a_padded_report_of_a_sum_is_short[1000000-4.07-1200]",
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
    "tests/queries/test_columns.py": [
        "test_memory_of_a_streamed_file_stays_flat",
    ],
    "tests/queries/test_counts_by_group.py": [
        "test_counts_are_unbiased_with_their_error_and_coverage[sparse]",
    ],
    "tests/queries/test_crosstabs.py": [
        "test_marginals_and_shares_keep_their_confidence_and_a_narrower_one_does_not",
    ],
    "tests/queries/test_dither.py": [
        "test_the_search_takes_a_dither_where_it_helps",
    ],
    "tests/queries/test_groups.py": [
        "test_every_answer_by_group[False-how1]",
    ],
    "tests/queries/test_odd_parameters.py": [
        "test_intervals_hold_when_many_more_come_than_planned[10000000-20]",
        "test_messages_of_integers_use_the_stand_in",
        "test_odd_tolerances_plan_or_say_why[2514650475-0.285-0.09114]",
        "test_odd_tolerances_plan_or_say_why[320364962-0.0151-0.01743]",
        "test_ranges_of_concentrated_data_are_covered",
    ],
    "tests/queries/test_plausibility.py": [
        "test_honest_batches_of_many_cells_are_not_marked[paper]",
    ],
    "tests/queries/test_pooled_quantiles.py": [
        "test_covariances_are_those_of_the_randomizer[held1]",
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
    "tests/queries/test_readers.py": [
        "test_all_readers_agree[bits]",
    ],
    "tests/queries/test_real_sum_errors.py": [
        "test_the_stated_error_is_the_true_one[normal-1]",
        "test_the_stated_error_is_the_true_one[skewed-1]",
        "test_the_stated_error_is_the_true_one[skewed-5]",
    ],
    "tests/queries/test_sparse_histogram.py": [
        "test_a_million_buckets_stay_readable",
    ],
    "tests/service/test_fuzzing.py": [
        "test_fuzzed_uploads_without_a_500[10000]",
    ],
    "tests/service/test_issuer.py": [
        "test_a_killed_issuer_on_either_store[postgres]",
    ],
    "tests/service/test_issuer_kills.py": [
        "test_a_copy_put_back_after_a_kill_is_older[before the record is durable]",
        "test_a_copy_put_back_after_a_kill_is_older[before the record]",
        "test_a_copy_put_back_after_a_kill_is_older[before the store]",
        "test_a_kill_at_any_point_raises_no_alarm[before the answer]",
        "test_a_kill_at_any_point_raises_no_alarm[before the record is durable]",
        "test_a_kill_at_any_point_raises_no_alarm[before the record]",
        "test_answers_are_never_ahead_of_the_record_nor_the_record_of_the_store",
    ],
    "tests/service/test_parts.py": [
        "test_a_batch_in_a_bucket_may_be_ordered_again[none]",
        "test_a_bucket_holds_nothing_after_the_batch_was_counted[parts]",
        "test_parts_on_a_machine_that_is_gone_are_made_again[none]",
    ],
    "tests/service/test_restored_dumps.py": [
        "test_a_dump_restored_in_one_step_is_noticed_by_the_next_statement[tables made again]",
        "test_two_histories_that_reached_the_same_epoch_are_told_apart",
    ],
    "tests/service/test_shuffler.py": [
        "test_noise_top_up_releases_after_the_wait[postgres-canonical-bounded-missing]",
        "test_noise_top_up_releases_after_the_wait[postgres-uniform-paper-full]",
    ],
    "tests/studio/test_steps.py": [
        "test_a_messy_german_sheet_becomes_a_histogram_by_group",
        "test_every_question_gets_a_plan[integer-sum]",
        "test_every_question_gets_a_plan[mean]",
        "test_every_question_gets_a_plan[real-sum]",
    ],
}
"""Tests and single cases in files of another tier that take long: builds, large grids, further
seeds, and cases whose sibling shows the same feature in less time."""
PLACES |= {f"{file}::{test}": "system" for file, tests in LONG.items() for test in tests}
"""Folders, files, tests and single cases of a test, from the root of the checkout."""
OUTSIDE = {
    "browser",
    "postgres_database",
    "postgres_programs",
    "postgres_server",
    "spark",
    "studio",
}
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
