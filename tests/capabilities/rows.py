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
    "capabilities/test_compositions_of_custom_rules.py": {
        "G13": "every_word_of_transforms_agrees_with_the_plain_functions the_cube_that_does_not_compose",
    },
    "capabilities/test_custom_rules.py": {
        "C5": "a_rule_that_nothing_needs_is_not_run",
        "C13": "custom_rules_run_in_reverse_order",
        "G1": (
            "a_rule_receives_saved_values_and_a_static_number the_value_and_the_rule_each_use_their_own_scale "
            "default_arguments_are_resolved_before_the_rule methods_may_have_custom_rules"
        ),
        "G2": (
            "custom_rules_take_trees_with_static_leaves_and_none "
            "a_custom_function_may_return_a_string_until_it_is_differentiated"
        ),
        "G3": "returning_the_argument_applies_the_rule cotangents_of_duplicate_outputs_add",
        "G4": (
            "a_bwd_of_the_wrong_kind_is_refused a_jvp_rule_of_the_wrong_kind_is_refused "
            "none_is_zero_and_a_weak_number_takes_the_dtype"
        ),
        "G5": "zero_cotangents_are_symbolic_on_request zero_tangents_are_symbolic_on_request",
        "G6": (
            "the_cotangent_of_an_output_without_derivative_is_float0 "
            "integer_arguments_and_a_stopped_float_have_no_gradient"
        ),
        "G7": "once_differentiable_is_never_silently_zero a_rule_that_coerces_is_lifted_or_fails_loudly",
        "G8": "the_tangent_rule_is_the_single_source",
        "G9": "mistakes_in_the_definition_of_a_rule_are_refused forward_mode_is_derived_from_the_pullback",
        "G10": "custom_vmap_is_honoured_in_every_order custom_vmap_results_are_checked",
        "G11": "a_custom_function_may_write_into_its_own_arrays",
        "Q1": "custom_functions_are_pickled_by_name",
    },
    "capabilities/test_writes_and_views.py": {
        "E8": "never_a_silently_wrong_gradient a_pullback_survives_writes_of_the_function_itself",
        "F8": (
            "branches_agree_in_eager_differentiation_and_in_lanes shape_and_dtype_of_a_result_may_depend_on_values "
            "branches_that_raise_recommend_where"
        ),
        "J1": (
            "writes_into_a_captured_array_raise writes_of_every_form_of_index_into_a_captured_array_raise "
            "the_primal_cannot_be_assigned"
        ),
        "J2": (
            "gradients_through_writes_into_sub_blocks rows_may_be_assigned base_and_view_may_be_written_in_either_order"
        ),
        "J3": (
            "a_scalar_is_written_at_any_index an_array_is_written_and_broadcast_at_any_index "
            "entries_under_a_mask_are_written"
        ),
        "J4": "pieces_are_views",
        "J5": (
            "parts_of_a_complex_array_are_views views_taken_by_an_outer_transform_are_written_by_an_inner_one "
            "reshapes_that_copy_are_copies resize_of_a_tensor_is_refused"
        ),
    },
    "capabilities/test_hooks_and_modes.py": {
        "A8": "results_inside_no_tangents_are_plain",
        "E5": (
            "packing_and_unpacking_scale_the_gradient the_innermost_pair_of_residual_hooks_holds "
            "residuals_are_packed_once_and_unpacked_at_every_use residuals_may_live_on_disk_or_in_half_precision "
            "errors_of_residual_hooks_pass_through_and_the_context_is_left"
        ),
        "H1": (
            "a_hook_is_called_once_per_pull_with_the_whole_cotangent a_hook_is_not_called_forwards "
            "a_hook_is_called_once_also_beside_a_pole a_hook_may_be_differentiated"
        ),
        "H2": "hooks_are_called_outermost_first",
        "H3": "five_steps_of_adam_equal_those_without_hooks",
        "H4": "a_joint_hook_is_a_custom_rule",
        "H5": "a_hook_changes_the_cotangent_and_is_an_equation_of_its_own hooks_see_whole_batches_under_vmap",
        "H6": "a_hook_is_not_called_where_no_gradient_passes",
        "H7": "the_rules_of_custom_functions_may_differentiate",
        "I1": (
            "results_inside_no_tangents_are_plain tangents_return_when_the_body_raises "
            "transforms_inside_no_tangents_agree_with_stop_gradient no_tangents_decorates_functions "
            "writing_into_a_tensor_inside_no_tangents_is_refused"
        ),
        "I2": (
            "a_decorated_generator_holds_the_mode_only_while_it_runs "
            "a_decorated_coroutine_holds_the_mode_only_while_it_runs a_generator_resumed_late_leaks_nothing"
        ),
        "I4": "which_dtypes_have_gradients",
        "Q1": "tensors_refuse_to_be_pickled copies_of_a_tensor_keep_the_tangent",
    },
    "capabilities/test_gradcheck.py": {
        "M1": "slow_and_fast_mode_accept_a_right_derivative",
        "M2": "inputs_of_low_precision_are_warned_of_and_integers_refused",
        "M3": "a_mismatch_names_mode_output_and_input",
        "M4": (
            "a_fault_is_found_in_just_the_modes_that_are_checked a_forward_rule_is_called_once_for_each_perturbed_entry"
        ),
        "M5": "a_rule_that_is_wrong_in_lanes_is_found",
        "M6": "rules_that_mistake_a_missing_cotangent_are_found",
        "M7": "rules_that_are_not_deterministic_are_found",
        "M8": "shapes_and_dtypes_that_depend_on_values_are_found",
        "M9": "a_function_without_a_differentiable_output_passes_unless_stopped",
        "M10": "a_fault_names_the_real_or_imaginary_part",
        "M11": "the_four_products_give_the_jacobian_of_two_outputs",
        "M12": "operators_pass_gradcheck_and_gradgradcheck a_missing_second_derivative_is_loud",
    },
    "capabilities/test_checkpoint.py": {
        "N1": (
            "checkpointed_blocks_have_the_same_gradients memory_does_not_depend_on_the_depth_inside_a_checkpoint "
            "checkpoints_lower_the_peak_memory_of_a_sequence_of_blocks a_checkpoint_is_clean_after_an_exception"
        ),
        "N2": "a_checkpoint_runs_again_once_for_each_pull nothing_is_run_again_where_nothing_was_needed",
        "N3": "checkpoints_at_every_level_agree_with_none checkpoints_nest_with_gradients_thrown_away_and_hooks",
        "N4": (
            "checkpoints_take_keywords_static_arguments_trees_and_closures closed_over_tensors_are_arguments "
            "a_tensor_that_a_checkpoint_can_not_see_is_refused"
        ),
        "N5": "custom_rules_hold_inside_a_checkpoint the_context_of_the_first_run_is_restored",
        "N6": (
            "what_the_policy_names_is_not_computed_again upstream_of_what_is_kept_nothing_is_computed "
            "dots_saveable_keeps_products_alone bad_policies_and_functions_that_can_not_be_repeated_are_refused "
            "what_is_kept_goes_with_the_pullback"
        ),
    },
    "capabilities/test_debugging.py": {
        "O1": (
            "debug_nans_names_the_function_and_the_output the_innermost_context_of_debug_nans_wins "
            "debug_nans_names_primal_tangent_and_transpose"
        ),
        "O2": "the_forward_line_is_named_also_where_derivatives_are_nested errors_in_bwd_keep_their_traceback",
        "O4": "a_warning_in_a_rule_reaches_the_caller",
        "O6": "equations_are_logged_in_the_order_of_execution custom_rules_are_logged_by_name",
    },
    "capabilities/test_profiler.py": {
        "O5": (
            "profiler_names_the_operations_in_order profiler_seq_nr "
            "profiler_seq_nr_of_one_operation_with_several_equations profiler_unboxed_only "
            "profiler_propagation_into_the_functions_of_rules record_function_callbacks record_function "
            "record_function_multithreaded profiler_aggregation_fake profiler_aggregation_counts_recursion_once "
            "profiler_function_event_avg profiler_shapes profiler_aggregation_of_a_recurrence "
            "profiler_aggregation_table profiler_traces_load"
        ),
    },
    "capabilities/test_threads.py": {
        "P1": (
            "ten_threads_differentiate_inputs_of_their_own ten_threads_differentiate_one_input "
            "threads_differentiate_different_functions_while_one_fails "
            "threads_share_one_program_pullback_and_linear_map the_switch_of_tangents_is_each_thread_s_own_and_nests"
        ),
        "P2": "errors_inside_rules_surface_as_they_are",
        "P3": "a_process_that_differentiates_in_threads_ends_by_itself",
    },
    "capabilities/test_attributes.py": {
        "Q1": (
            "functions_with_rules_are_pickled_by_name functions_without_an_importable_name_refuse_to_be_pickled "
            "results_are_plain_and_survive_pickling a_live_tensor_refuses_to_be_pickled_and_copies_stay_in_their_level "
            "a_copy_is_a_box_of_its_own"
        ),
        "Q2": (
            "attributes_of_a_tensor_are_those_of_the_array core_attributes_are_neither_assigned_nor_deleted "
            "shape_is_not_deleted_nor_are_others_made len_iteration_and_in_follow_the_primal"
        ),
        "Q3": "tensors_have_no_hash_and_are_equal_entry_by_entry containers_find_tensors_by_identity",
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
            "a_pullback_of_one_level_inside_another_of_the_same_point transforms_in_threads_do_not_see_each_other "
            "a_tensor_used_in_another_thread_while_its_level_is_open dual_levels_of_asynchronous_tasks_are_their_own "
            "an_exception_leaves_nothing_open a_caught_exception_inside_a_transform_changes_no_number "
            "an_escaped_tensor_is_an_error_that_names_the_transform "
            "an_escaped_tensor_as_an_argument_or_result_of_another_transform "
            "a_generator_resumed_after_its_transform_is_an_escape a_stored_value_of_stop_gradient_is_usable_afterwards "
            "aux_outputs_hold_no_tensor"
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
        "F10": "normalizing_by_a_sum_has_the_gradient_of_the_unmapped_form",
    },
    "test_dual.py": {
        "A1": (
            "levels_count_from_zero_and_restore tangent_identity_inside_and_none_after_exit "
            "a_new_level_is_blind_to_old_duals an_exception_closes_the_level"
        ),
        "A2": "plain_arrays_unpack_to_themselves nothing_is_unpacked_outside_of_any_level",
        "A3": "shapes_of_primal_and_tangent_must_agree",
        "A4": "dtypes_of_primal_and_tangent_must_agree",
        "A5": "no_dual_of_the_same_level_as_tangent",
        "A6": "the_dual_is_the_only_owner_of_its_tangent",
        "A7": "repr_shows_tangent_and_level repr_never_raises_under_any_transform",
        "A8": "inside_no_tangents_an_operation_returns_its_primal",
        "A9": "memory_order_does_not_matter broadcast_and_empty_primals_and_tangents_are_differentiated",
        "A10": "comparisons_are_plain_booleans the_tangent_of_a_comparison_is_float0",
        "A11": "a_plain_target_of_a_traced_result_is_refused",
        "A12": "a_missing_rule_is_refused_by_name",
        "A13": "matrix_and_masked_arrays_are_refused other_subclasses_are_viewed_as_arrays",
        "A14": "vmap_over_tangents_equals_the_loop",
        "P1": "levels_of_threads_are_their_own",
    },
    "jacobians/test_hessian.py": {
        "C10": "aux_of_every_hessian_holds_no_tensor",
    },
    "jacobians/test_jacobian.py": {
        "D5": (
            "jacfwd_equals_jacrev jacfwd_equals_jax_in_structure_and_numbers jacfwd_equals_jacrev_where_values_overflow"
        ),
        "D6": "hvp_equals_the_product_with_the_hessian",
        "D7": "jacobians_nest_the_tree_of_inputs_in_that_of_outputs",
        "D8": "integers_and_complex_numbers_have_no_jacobian",
        "D9": "the_hessian_of_a_linear_function_is_exactly_zero assert_depends_refuses_an_input_without_influence",
        "D10": (
            "jacfwd_equals_jacrev mixed_inputs_and_outputs_equal_a_python_loop "
            "forward_mode_has_the_dtype_of_the_output_and_reverse_that_of_the_input"
        ),
        "D11": "the_standard_basis_concatenates_to_the_identity",
        "D12": "jacobians_agree_with_jvp_and_vjp",
    },
    "test_jvp.py": {
        "A4": "a_moving_integer_is_refused",
        "B1": (
            "jvp_returns_value_and_tangent_with_the_structure_of_the_output scalars_of_every_kind_are_differentiated "
            "an_output_that_does_not_depend_on_the_input_has_zeros jvp_is_differentiable_in_input_and_tangent "
            "primals_and_tangents_are_tuples_or_lists trees_of_primals_and_tangents_must_agree "
            "the_offending_leaf_is_named outputs_that_are_no_numbers_are_refused"
        ),
        "B2": (
            "none_is_a_zero_tangent integers_carry_no_tangent_and_need_no_ceremony a_moving_integer_is_refused "
            "static_leaves_pass_through"
        ),
        "B3": "casts_keep_the_tangent copies_and_broadcasts_keep_the_tangent",
        "C10": "aux_is_handed_through",
        "C11": "stop_gradient_passes_values_and_no_tangents asarray_with_a_dtype_recommends_stop_gradient",
    },
    "transforms/test_linearize.py": {
        "E1": "linearize_once_apply_many bad_tangents_of_a_linear_map_are_refused",
        "E4": "linear_operations_keep_nothing residuals_are_counted",
        "E6": "residuals_are_freed_by_reference_count transforms_make_no_reference_cycles",
        "E7": "programs_of_150_000_operations derivatives_nest_as_deep_as_the_stack_of_python",
        "E8": (
            "overwriting_inputs_captured_arrays_and_results_changes_no_pullback "
            "a_buffer_that_the_function_reuses_keeps_its_earlier_uses a_large_captured_array_may_change_in_every_step "
            "aux_may_be_written_to values_returned_by_grad_are_the_caller_s"
        ),
    },
    "test_threads.py": {
        "P1": "ten_threads_nesting_everything_with_exceptions_among_them",
    },
    "test_vjp_via_transpose.py": {
        "C1": (
            "gradients_equal_closed_forms reused_nodes_receive_the_sum gradients_of_an_expression_with_division "
            "an_argmax_branch_contributes_nothing a_cotangent_of_the_wrong_shape_is_refused "
            "a_cotangent_of_the_wrong_dtype_is_refused a_cotangent_of_the_wrong_structure_is_refused"
        ),
        "C2": (
            "cotangents_of_several_repeated_and_dependent_outputs_add a_constant_output_accepts_a_cotangent "
            "two_stages_equal_the_direct_product cotangents_given_in_shards_add_to_the_whole"
        ),
        "C3": (
            "argnums_choose_arguments_in_their_order argnames_choose_keyword_arguments bad_argnums_are_refused "
            "gradient_ascent_increases_the_value"
        ),
        "C4": "an_unused_input_has_zeros_of_its_shape_and_dtype higher_derivatives_of_a_linear_use_are_zero",
        "C5": "a_branch_that_nobody_asks_for_is_pruned",
        "C6": (
            "grad_needs_one_real_number grad_of_an_integer_is_refused the_pullback_takes_one_cotangent "
            "grad_without_positional_arguments_names_argnames"
        ),
        "C7": "the_pullback_may_be_called_again_and_under_any_transform the_pullback_may_be_called_from_threads",
        "C8": "a_cotangent_of_the_wrong_shape_is_refused vmap_of_the_pullback_takes_batched_cotangents",
        "C9": "cotangents_are_not_modified_and_results_share_no_memory two_arguments_share_no_memory",
        "C10": "value_and_aux_stand_before_the_gradient outputs_without_derivative_are_excluded",
        "C12": "two_stages_equal_the_direct_product",
        "C13": "transposition_visits_equations_in_reverse_order",
        "D1": "all_spellings_of_the_second_derivative",
        "D3": "all_spellings_of_the_second_derivative",
        "D4": "all_spellings_of_the_second_derivative pullbacks_are_differentiated_in_primals_and_cotangents",
        "D8": "grad_needs_one_real_number",
        "E2": "the_transpose_is_the_adjoint_and_its_transpose_the_function broadcast_cotangents_are_transposed",
        "E3": "what_is_not_linear_is_refused dead_nonlinear_code_is_eliminated_first",
    },
    "test_vmap.py": {
        "F1": "every_choice_of_axes_equals_the_loop any_shape_axis_and_batch_size_equals_numpy",
        "F2": (
            "every_choice_of_axes_equals_the_loop in_axes_are_prefixes_of_trees_and_static_arguments_are_not_mapped "
            "keyword_arguments_are_mapped_on_axis_0 out_axes_none_returns_what_is_the_same_in_all_lanes"
        ),
        "F3": "an_inner_vmap_may_map_only_a_dummy",
        "F4": "bad_axes_are_refused",
        "F5": "the_lines_of_python_do_not_grow_with_the_batch",
        "F6": "a_draw_is_shared_by_all_lanes_unless_a_parameter_is_batched",
        "F7": "running_statistics_of_batch_normalization_equal_the_loop",
        "F8": "branches_on_values_are_fine_under_jvp_and_grad",
        "F9": "empty_and_unit_batches_keep_shape_and_dtype",
        "F10": "collectives_reduce_over_a_named_axis",
    },
    "sparse/test_derivatives.py": {
        "R1": "jacobians hessians formats under_other_transforms trees_make_one_matrix_or_blocks",
    },
}
