"""The rows of the table of capabilities and the tests that assert them.

Rows are named by group and number. A: duals and levels; B: forward mode; C: reverse mode; D: higher derivatives;
E: what is kept; F: batching; G: custom rules; H: hooks; I: modes; J: writes; M: gradient checking; N: checkpoints;
O: debugging; P: threads; Q: attributes; R: sparse matrices and devices. A row asserts what the tests of PyTorch's own
autograd assert of the same thing. Not for: the tests, which stand with what they test.
"""

from __future__ import annotations

__all__ = ["COUNTS", "NO_COUNTERPART", "TESTS"]

#: how many rows each group has
COUNTS = {
    "A": 14, "B": 4, "C": 13, "D": 12, "E": 8, "F": 10, "G": 13, "H": 7, "I": 4, "J": 5, "M": 12, "N": 7, "O": 6,
    "P": 3, "Q": 3, "R": 3,
}  # fmt: skip

#: row -> why there is nothing to test: it is about machinery that only a framework with state has
NO_COUNTERPART = {
    "B4": "there is no untracked data: an array is a constant wherever it carries no level (A2)",
    "G12": "deprecated attributes of a context object; there is no such object",
    "I3": "a plain array is always what inference mode makes; the effect of switching off is I1",
    "N7": "a warning where a flag is missing; checkpoint has one mode and no flag",
    "R2": "arrays live where their library puts them; rules never coerce, and there is no device to name",
    "R3": "one backend: a function has one formula",
    "O3": "metadata on nodes; there are no node objects",
}

#: file, below tests/ -> row -> its tests there, without the leading "test_"
TESTS: dict[str, dict[str, str]] = {
    "capabilities/test_g13_database.py": {
        "G13": "g13_every_word g13_the_cube_that_does_not_compose",
    },
    "capabilities/test_g_custom_rules.py": {
        "C5": "c5_a_rule_that_nothing_needs_is_not_run",
        "C13": "c13_rules_run_in_reverse_order",
        "G1": (
            "g1_saved_values_and_a_scalar_setting g1_two_scales "
            "g1_default_arguments_are_resolved_before_the_rule g1_methods"
        ),
        "G2": "g2_trees_with_static_leaves_and_none g2_no_array_and_strings_out",
        "G3": "g3_returning_the_argument_applies_the_rule g3_duplicate_outputs_add",
        "G4": (
            "g4_bwd_of_the_wrong_kind g4_jvp_rule_of_the_wrong_kind g4_none_is_zero_and_a_weak_number_takes_the_dtype"
        ),
        "G5": "g5_zero_cotangents g5_symbolic_tangents",
        "G6": "g6_outputs_without_derivative g6_integer_arguments_and_a_float_that_is_stopped",
        "G7": "g7_once_differentiable_is_never_silently_zero g7_a_rule_that_coerces_fails_loudly",
        "G8": "g8_the_tangent_rule_is_the_single_source",
        "G9": "g9_definition_errors g9_forward_mode_is_derived_from_the_pullback",
        "G10": "g10_custom_vmap_is_honoured_in_every_order g10_custom_vmap_results_are_checked",
        "G11": "g11_mutation_inside_a_rule",
        "Q1": "q1_custom_functions_are_pickled_by_name",
    },
    "capabilities/test_group_j.py": {
        "E8": "E8_never_a_silently_wrong_gradient E8_a_pullback_survives_writes_of_the_function_itself",
        "F8": (
            "F8_branches_in_eager_differentiation_and_in_lanes "
            "F8_results_whose_shape_and_dtype_depend_on_values F8_the_mode_that_raises_recommends_where"
        ),
        "J1": "J1_writes_into_a_captured_array_raise J1_five_index_forms J1_the_primal_cannot_be_assigned",
        "J2": "J2_sub_blocks J2_assignment_of_rows J2_either_order_of_writing",
        "J3": "J3_a_scalar J3_an_array J3_a_mask",
        "J4": "J4_pieces_are_views",
        "J5": (
            "J5_parts_of_a_complex_array_are_views "
            "J5_views_taken_by_an_outer_transform_are_written_by_an_inner_one J5_reshapes_that_copy_are_copies "
            "J5_resize_is_refused"
        ),
    },
    "capabilities/test_h_hooks_and_modes.py": {
        "A8": "i1_a8_results_inside_are_plain",
        "E5": (
            "e5_factors e5_the_innermost_pair_holds e5_pack_once_at_save_unpack_at_use "
            "e5_linearize_disk_precision_and_second_order e5_errors_pass_through_and_the_context_is_left"
        ),
        "H1": (
            "h1_called_once_per_pull_with_the_whole_cotangent h1_nothing_happens_forwards h1_once_also_beside_a_pole "
            "h1_a_hook_may_be_differentiated"
        ),
        "H2": "h2_outermost_first",
        "H3": "h3_five_steps_of_adam",
        "H4": "h4_a_joint_hook_is_a_custom_rule",
        "H5": "h5_the_numbers_and_the_named_equation h5_under_vmap",
        "H6": "h6_not_called_where_no_gradient_passes",
        "H7": "h7_rules_may_differentiate",
        "I1": (
            "i1_a8_results_inside_are_plain i1_restored_when_the_body_raises "
            "i1_transforms_inside_work_and_agree_with_stop_gradient i1_as_a_decorator "
            "i1_writing_into_a_tensor_inside_is_refused"
        ),
        "I2": (
            "i2_a_decorated_generator_holds_the_mode_only_while_it_runs i2_coroutines "
            "i2_a_generator_resumed_late_leaks_nothing"
        ),
        "I4": "i4_which_dtypes_have_gradients",
        "Q1": "q1_tensors_refuse_to_be_pickled q1_copies_keep_the_tangent",
    },
    "capabilities/test_m_gradcheck.py": {
        "M1": "m1_slow_and_fast",
        "M2": "m2_inputs_are_validated",
        "M3": "m3_mismatch_report",
        "M4": "m4_modes_and_faults m4_calls_of_a_forward_rule",
        "M5": "m5_batched",
        "M6": "m6_undefined_cotangents",
        "M7": "m7_determinism",
        "M8": "m8_shape_and_dtype_that_depend_on_values",
        "M9": "m9_no_differentiable_output",
        "M10": "m10_complex_parts",
        "M11": "m11_jacobians_of_two_outputs",
        "M12": "m12_operators m12_no_second_derivative_is_loud",
    },
    "capabilities/test_n_checkpoint.py": {
        "N1": (
            "n1_same_gradients n1_memory_does_not_depend_on_the_depth_inside "
            "n1_peak_memory_of_a_sequence_of_blocks n1_clean_after_an_exception"
        ),
        "N2": "n2_recompute_counts n2_nothing_is_run_again_where_nothing_was_needed",
        "N3": "n3_checkpoints_at_every_level n3_two_children_throw_away_gradients_and_hooks",
        "N4": (
            "n4_keywords_statics_trees_and_closures n4_closed_over_tensors_are_arguments "
            "n4_what_can_not_be_seen_is_refused"
        ),
        "N5": "n5_custom_rules_inside n5_the_context_of_the_first_run_is_restored",
        "N6": (
            "n6_what_the_policy_names_is_not_computed_again n6_upstream_of_what_is_kept_nothing_is_computed "
            "n6_dots n6_bad_policies_and_functions_that_can_not_be_repeated "
            "n6_what_is_kept_goes_with_the_pullback"
        ),
    },
    "capabilities/test_o_debugging.py": {
        "O1": "o1_the_function_and_which_output o1_off_inside_and_nested_contexts_win o1_each_phase",
        "O2": "o2_the_forward_line_also_where_derivatives_are_nested o2_errors_in_bwd_keep_their_traceback",
        "O4": "o4_a_warning_in_a_rule_reaches_the_caller",
        "O6": "o6_five_records_in_the_order_of_execution o6_rules_by_name",
    },
    "capabilities/test_o_profiler.py": {
        "O5": (
            "profiler_names_the_operations_in_order profiler_seq_nr "
            "profiler_seq_nr_of_one_operation_with_several_equations profiler_unboxed_only "
            "profiler_propagation_into_the_functions_of_rules record_function_callbacks record_function "
            "record_function_multithreaded profiler_aggregation_fake profiler_aggregation_counts_recursion_once "
            "profiler_function_event_avg profiler_shapes profiler_aggregation_of_a_recurrence "
            "profiler_aggregation_table profiler_traces_load"
        ),
    },
    "capabilities/test_p_threads.py": {
        "P1": (
            "p1_ten_threads_with_own_inputs p1_ten_threads_with_one_input "
            "p1_different_functions_and_levels_with_one_that_fails "
            "p1_one_program_pullback_and_linear_map_for_all "
            "p1_the_switch_of_tangents_is_each_thread_s_own_and_nests"
        ),
        "P2": "p2_errors_inside_rules_surface_as_they_are",
        "P3": "p3_a_process_that_differentiates_in_threads_ends_by_itself",
    },
    "capabilities/test_q_attributes.py": {
        "Q1": (
            "q1_functions_with_rules_are_pickled_by_name q1_what_has_no_name_to_be_found_by_is_refused "
            "q1_results_are_plain_and_survive q1_a_live_tensor_is_refused_and_copies_stay_in_their_level "
            "q1_a_copy_is_a_box_of_its_own"
        ),
        "Q2": (
            "q2_attributes_are_those_of_the_array q2_core_attributes_are_neither_assigned_nor_deleted "
            "q2_shape_is_not_deleted_nor_are_others_made q2_len_iteration_and_in_follow_the_primal"
        ),
        "Q3": "q3_no_hash_and_equality_entry_by_entry q3_identity_in_containers",
    },
    "compose/test_closure.py": {
        "F8": "a_branch_on_values_is_refused_not_guessed",
    },
    "compose/test_confusion.py": {
        "C10": "aux_outputs_hold_no_tensor",
        "D2": (
            "siskind_and_pearlmutter_2005 siskind_and_pearlmutter_2008_products manzyuk_et_al_curried "
            "manzyuk_et_al_escaping pearlmutter_and_siskind_lazy_inner_constant "
            "the_outer_variable_inside_and_outside_the_inner_derivative three_levels_that_each_see_one_variable "
            "the_same_function_nested_in_itself vmap_levels_are_not_confused_either "
            "derivative_of_a_vmap_over_a_closed_over_variable "
            "a_residual_of_the_inner_pullback_carries_the_outer_tangent "
            "a_pullback_of_one_level_inside_another_of_the_same_point "
            "transforms_in_threads_do_not_see_each_other "
            "a_tensor_used_in_another_thread_while_its_level_is_open "
            "dual_levels_of_asynchronous_tasks_are_their_own an_exception_leaves_nothing_open "
            "a_caught_exception_inside_a_transform_changes_no_number "
            "an_escaped_tensor_is_an_error_that_names_the_transform "
            "an_escaped_tensor_as_an_argument_or_result_of_another_transform "
            "a_generator_resumed_after_its_transform_is_an_escape "
            "a_stored_value_of_stop_gradient_is_usable_afterwards aux_outputs_hold_no_tensor"
        ),
        "P1": "dual_levels_of_asynchronous_tasks_are_their_own",
    },
    "core/test_primitive.py": {
        "F5": "operators_without_a_batching_rule_are_listed",
    },
    "core/test_tracer.py": {
        "Q1": "copies",
        "Q3": "there_is_no_hash_and_equality_is_elementwise",
    },
    "annex/test_collectives.py": {
        "F10": "f10_normalizing_by_a_sum_has_the_gradient_of_the_unmapped_form",
    },
    "test_dual.py": {
        "A1": (
            "a1_levels_count_from_zero_and_restore a1_tangent_identity_inside_and_none_after_exit "
            "a1_a_new_level_is_blind_to_old_duals a1_an_exception_closes_the_level"
        ),
        "A2": "a2_plain_arrays_unpack_to_themselves a2_unpacking_outside_of_any_level",
        "A3": "a3_shapes_must_agree",
        "A4": "a4_dtypes_must_agree",
        "A5": "a5_no_dual_of_the_same_level_as_tangent",
        "A6": "a6_the_dual_is_the_only_owner_of_its_tangent",
        "A7": "a7_repr_shows_tangent_and_level a7_repr_never_raises_under_any_transform",
        "A8": "a8_no_tangents",
        "A9": "a9_layout_does_not_matter a9_broadcast_and_empty_arrays",
        "A10": "a10_comparisons_are_plain_booleans a10_their_tangent_is_float0",
        "A11": "a11_a_plain_target_of_a_traced_result_is_refused",
        "A12": "a12_a_missing_rule_is_refused_by_name",
        "A13": "a13_matrix_and_masked_arrays_are_refused a13_other_subclasses_are_viewed_as_arrays",
        "A14": "a14_vmap_over_tangents",
        "P1": "levels_of_threads_are_their_own",
    },
    "jacobians/test_hessian.py": {
        "C10": "c10_aux_everywhere_holds_no_tensor",
    },
    "jacobians/test_jacobian.py": {
        "D5": "d5_jacfwd_equals_jacrev d5_equals_jax d5_at_extreme_inputs",
        "D6": "d6_hessian_vector_products",
        "D7": "d7_structure",
        "D8": "d8_what_has_no_jacobian_is_refused",
        "D9": "d9_the_hessian_of_a_linear_function_is_exactly_zero d9_a_strict_variant",
        "D10": "d5_jacfwd_equals_jacrev d10_equals_a_python_loop_with_mixed_inputs_and_outputs d10_dtypes",
        "D11": "d11_the_standard_basis",
        "D12": "d12_consistent_with_products",
    },
    "test_jvp.py": {
        "A4": "b2_a_moving_integer_is_refused",
        "B1": (
            "b1_returns_value_and_tangent_with_the_structure_of_the_output b1_scalars_in_and_out "
            "b1_an_output_that_does_not_depend_on_the_input_has_zeros b1_differentiable_in_input_and_tangent "
            "b1_primals_and_tangents_are_tuples_or_lists b1_trees_must_agree b1_the_offending_leaf_is_named "
            "b1_outputs_that_are_no_numbers_are_refused"
        ),
        "B2": (
            "b2_none_is_a_zero_tangent b2_integers_carry_no_tangent_and_need_no_ceremony "
            "b2_a_moving_integer_is_refused b2_static_leaves_pass_through"
        ),
        "B3": "b3_casts_keep_the_tangent b3_copies_and_broadcasts_keep_the_tangent",
        "C10": "c10_aux_is_handed_through",
        "C11": "c11_stop_gradient c11_asarray_with_a_dtype_recommends_stop_gradient",
    },
    "transforms/test_linearize.py": {
        "E1": "e1_linearize_once_apply_many e1_bad_tangents",
        "E4": "e4_linear_operations_keep_nothing e4_residuals_are_counted",
        "E6": "e6_residuals_are_freed_by_reference_count e6_transforms_make_no_reference_cycles",
        "E7": "e7_programs_of_150_000_operations e7_nests_deeply",
        "E8": (
            "e8_mutation_of_inputs_captured_arrays_and_results e8_mutation_during_the_function "
            "e8_a_large_captured_array_that_changes_in_every_step e8_aux_may_be_written_to "
            "e8_values_returned_by_grad_are_the_caller_s"
        ),
    },
    "test_threads.py": {
        "P1": "ten_threads_nesting_everything_with_exceptions_among_them",
    },
    "test_vjp_via_transpose.py": {
        "C1": (
            "c1_closed_forms c1_reused_nodes_receive_the_sum c1_an_expression_with_division "
            "c1_an_argmax_branch_contributes_nothing c1_a_cotangent_of_the_wrong_shape "
            "c1_a_cotangent_of_the_wrong_dtype c1_a_cotangent_of_the_wrong_structure"
        ),
        "C2": (
            "c2_several_repeated_and_dependent_roots c2_a_constant_output_accepts_a_cotangent "
            "c2_two_stages_equal_the_direct_product c2_sharded_stages"
        ),
        "C3": "c3_argnums c3_argnames c3_bad_argnums c3_gradient_ascent_increases_the_value",
        "C4": "c4_an_unused_input_has_zeros_of_its_shape_and_dtype c4_higher_derivatives_of_a_linear_use_are_zero",
        "C5": "c5_a_branch_that_nobody_asks_for_is_pruned",
        "C6": (
            "c6_grad_needs_one_real_number c6_grad_of_an_integer c6_the_pullback_takes_one_cotangent "
            "c6_grad_without_arguments"
        ),
        "C7": "c7_the_pullback_may_be_called_again_and_under_any_transform c7_from_threads",
        "C8": "c1_a_cotangent_of_the_wrong_shape c8_batched_cotangents",
        "C9": "c9_cotangents_are_not_modified_and_results_share_no_memory c9_two_arguments_share_no_memory",
        "C10": "c10_values_and_aux c10_outputs_without_derivative_are_excluded",
        "C12": "c2_two_stages_equal_the_direct_product",
        "C13": "c13_transposition_visits_equations_in_reverse_order",
        "D1": "d1_all_spellings_of_the_second_derivative",
        "D3": "d1_all_spellings_of_the_second_derivative",
        "D4": "d1_all_spellings_of_the_second_derivative d4_tangents_for_primals_and_cotangents",
        "D8": "c6_grad_needs_one_real_number",
        "E2": "e2_transpose_and_double_transpose e2_stride_0_cotangents",
        "E3": "e3_what_is_not_linear_is_refused e3_dead_nonlinear_code_is_eliminated_first",
    },
    "test_vmap.py": {
        "F1": "f1_every_choice_of_axes_equals_the_loop f1_property",
        "F2": (
            "f1_every_choice_of_axes_equals_the_loop f2_trees_prefixes_and_static_arguments "
            "f2_keyword_arguments_are_mapped_on_axis_0 "
            "f2_out_axes_none_for_results_that_are_the_same_in_all_lanes"
        ),
        "F3": "f3_an_inner_vmap_that_maps_only_a_dummy",
        "F4": "f4_bad_axes",
        "F5": "f5_the_lines_of_python_do_not_grow_with_the_batch",
        "F6": "f6_randomness",
        "F7": "f7_running_statistics",
        "F8": "f8_branches_on_values_are_fine_under_jvp_and_grad",
        "F9": "f9_empty_and_unit_batches",
        "F10": "f10_collectives_over_a_named_axis",
    },
    "sparse/test_derivatives.py": {
        "R1": "jacobians hessians formats under_other_transforms trees_make_one_matrix_or_blocks",
    },
}
