//! The checks of MCP servers, extensions, hooks and restores: the number, the behaviour in our words, and the tests that check it.

use super::list::Behaviour;
use super::list::Coverage::{Covered, NotCovered};

#[rustfmt::skip]
pub const CHECKS: &[Behaviour] = &[
    // Servers that are programs.
    (1, "lines that are no messages are logged and do no harm", Covered(&[
        "src/mcp/session/tests.rs::check_1_lines_that_are_no_messages_are_logged_and_counted",
        "tests/mcp/commands.rs::the_log_of_a_server_is_kept",
    ])),
    (2, "a line above the limit ends this server and no other", Covered(&[
        "src/mcp/transport/lines.rs::check_2_a_line_is_as_long_as_a_message_may_be",
        "tests/mcp/programs.rs::a_server_that_violates_the_protocol_is_stopped_and_others_go_on",
    ])),
    (3, "a server that ignores every request to end is killed with its children", Covered(&[
        "tests/mcp/programs.rs::a_server_that_does_not_stop_is_killed_with_its_child_processes",
    ])),
    (4, "no server is left after our process was killed", Covered(&[
        "tests/mcp/programs.rs::nothing_of_a_server_outlives_the_program",
    ])),
    (5, "the end of a server ends its call at once, and the next call finds it again", Covered(&[
        "src/mcp/session/tests/calls.rs::check_5_everything_that_waits_fails_with_the_connection",
        "tests/mcp/calls.rs::a_server_that_ends_in_a_call_fails_it_at_once_and_is_started_again",
        "tests/mcp/calls.rs::a_call_does_not_wait_for_the_server_to_be_started_again",
    ])),
    (6, "a server is started five times in ten minutes, and then only by a command", Covered(&[
        "src/mcp/state.rs::check_6_a_server_is_started_five_times_in_ten_minutes",
        "tests/mcp/life.rs::a_server_that_always_ends_is_started_five_times",
        "tests/mcp/life.rs::a_server_that_ends_while_it_is_started_again_is_started_once_more",
    ])),
    (7, "a server gets the variables of its settings and none of our keys", Covered(&[
        "src/mcp/config/tests.rs::check_7_credentials_of_this_program_are_for_the_operators_settings_only",
        "tests/mcp/programs.rs::a_server_gets_only_the_variables_of_its_settings",
        "tests/mcp/secrets.rs::credentials_of_this_program_reach_no_child",
    ])),
    (8, "an argument with a variable that is not set keeps the server from starting", Covered(&[
        "src/mcp/config/tests.rs::check_8_a_variable_that_is_not_set_refuses_the_server_but_in_env",
        "tests/mcp/programs.rs::a_server_that_needs_a_variable_that_is_not_set_is_not_started",
    ])),
    (9, "a silent server fails after its time to start and delays the first prompt little", Covered(&[
        "src/mcp/session/tests.rs::check_9_a_server_that_does_not_answer_has_failed",
        "tests/mcp/programs.rs::a_server_that_never_answers_does_not_stop_the_first_prompt",
        "tests/mcp/hostile.rs::a_server_that_never_answers_initialize",
    ])),

    // Servers in the network.
    (10, "both forms of an answer mean the same", Covered(&[
        "tests/mcp/network.rs::answers_as_json_and_as_events_are_the_same",
    ])),
    (11, "line ends and packet boundaries change no event", Covered(&[
        "src/mcp/transport/http/tests.rs::check_11_line_ends_and_splits_do_not_change_the_events",
    ])),
    (12, "session and version are on each request after the first", Covered(&[
        "src/mcp/transport/http/tests.rs::check_12_the_session_and_the_version_are_on_every_later_request",
        "tests/mcp/network.rs::the_session_and_the_version_are_on_every_request",
    ])),
    (13, "after the loss of a session there is one handshake, and the call is made once more", Covered(&[
        "src/mcp/session/tests.rs::check_13_a_lost_session_is_one_new_handshake_and_the_requests_are_repeated_once",
        "tests/mcp/network.rs::a_lost_session_is_begun_again_and_the_call_is_repeated_once",
    ])),
    (14, "a session that is lost twice in a row is an error, also with status 400", Covered(&[
        "tests/mcp/network.rs::a_lost_session_is_begun_again_and_the_call_is_repeated_once",
    ])),
    (15, "a stream with event ids continues where it broke off", Covered(&[
        "src/mcp/transport/http/tests.rs::check_15_a_stream_that_is_cut_goes_on_after_its_last_event",
        "tests/mcp/network.rs::a_stream_that_breaks_is_resumed_if_it_has_ids",
    ])),
    (16, "a stream without ids is lost, and no call is repeated", Covered(&[
        "src/mcp/transport/http/tests.rs::check_16_a_stream_that_is_cut_without_ids_is_lost",
        "tests/mcp/network.rs::a_stream_that_breaks_is_resumed_if_it_has_ids",
    ])),
    (17, "a server need not have a stream of its own", Covered(&[
        "src/mcp/transport/http/tests.rs::check_17_a_server_without_a_get_stream_is_not_an_error",
        "tests/mcp/network.rs::the_get_stream_is_requested_only_once_from_a_server_that_has_none",
    ])),
    (18, "a redirection to another host is refused, and nothing is sent there", Covered(&[
        "src/mcp/transport/http/tests.rs::check_18_redirections_stay_at_their_origin",
        "tests/mcp/network.rs::nothing_is_sent_to_the_target_of_a_redirection",
    ])),
    (19, "the older transport is found without being named", Covered(&[
        "src/mcp/transport/http/tests.rs::check_19_a_url_without_a_type_may_speak_the_older_transport",
        "tests/mcp/network.rs::the_older_transport_is_detected_or_configured",
    ])),
    (20, "the endpoint of the older transport is at the origin of the server", Covered(&[
        "src/mcp/transport/url.rs::check_20_references_stay_at_their_origin",
        "src/mcp/transport/http/tests.rs::check_20_the_older_transport_names_its_endpoint_first",
        "tests/mcp/network.rs::the_older_transport_is_detected_or_configured",
    ])),
    (21, "an error with an unknown id is shown to people", Covered(&[
        "src/mcp/transport/http/tests.rs::check_21_the_error_of_a_body_with_a_foreign_id_answers_its_request",
        "tests/mcp/network.rs::an_error_body_with_another_id_reaches_the_user",
    ])),

    // Sessions.
    (22, "older versions are supported, and an unknown one ends the connection", Covered(&[
        "src/mcp/session/tests.rs::check_22_older_versions_are_used_and_unknown_ones_end_the_connection",
        "tests/mcp/programs.rs::a_server_that_violates_the_protocol_is_stopped_and_others_go_on",
    ])),
    (23, "a list is read to its last page", Covered(&[
        "src/mcp/session/tests.rs::check_23_all_pages_of_a_list_are_read",
    ])),
    (24, "a cursor that comes again ends the list", Covered(&[
        "src/mcp/session/tests.rs::check_24_a_repeated_cursor_stops_with_a_notice_and_without_duplicates",
        "tests/mcp/programs.rs::reading_an_endless_list_ends",
    ])),
    (25, "many changes at once are few requests, and a failed one changes nothing", Covered(&[
        "src/mcp/session/tests.rs::check_25_a_burst_of_changes_is_two_requests_and_a_failed_refresh_keeps_the_tools",
    ])),
    (26, "a ping is answered during the handshake", Covered(&[
        "src/mcp/session/tests.rs::check_26_ping_is_answered_before_the_handshake_is_complete",
    ])),
    (27, "a request that we do not know is refused and costs no call", Covered(&[
        "src/mcp/session/tests/calls.rs::check_27_requests_that_are_not_supported_are_refused_and_the_call_goes_on",
    ])),
    (28, "a server need not have tools", Covered(&[
        "src/mcp/session/tests.rs::check_28_a_server_with_resources_only_is_connected",
    ])),
    (29, "tools of a server that has no handshake are used",
        NotCovered("later work: such servers are refused with both versions, which tests/mcp/hostile.rs records in modern.txt")),

    // Names and schemas of tools.
    (30, "long names are cut so that they stay different and the same", Covered(&[
        "src/mcp/names.rs::check_30_long_names_that_differ_in_the_middle_stay_apart",
        "src/mcp/names.rs::names_do_not_depend_on_the_order_of_the_tools",
        "tests/mcp/hostile.rs::a_tool_with_a_very_long_name",
    ])),
    (31, "names that become equal are made different", Covered(&[
        "src/mcp/names.rs::check_31_names_that_become_the_same_are_both_changed",
        "tests/mcp/hostile.rs::two_servers_with_the_same_tool",
    ])),
    (32, "a rule for one server is not for another whose name begins with the same text", Covered(&[
        "src/task/origin.rs::patterns_name_exactly_one_server",
        "tests/policy/mcp.rs::a_pattern_is_for_exactly_one_server_and_never_for_a_name",
    ])),
    (33, "references in schemas are resolved, also recursive ones, and none is left", Covered(&[
        "src/mcp/schema/tests.rs::check_33_references_are_resolved_in_place_and_recursion_ends",
        "src/mcp/schema/tests.rs::any_schema_becomes_a_finite_one_of_known_keywords",
    ])),
    (34, "a parameter may be named like a keyword", Covered(&[
        "src/mcp/schema/tests.rs::check_34_parameters_named_like_keywords_survive",
    ])),
    (35, "an exclusive bound becomes one that the model API knows", Covered(&[
        "src/mcp/schema/tests.rs::check_35_exclusive_bounds_and_other_constraints",
    ])),
    (36, "a declaration that the model API refuses costs one tool and one more request", Covered(&[
        "tests/mcp/calls.rs::a_tool_that_the_model_api_refuses_is_not_declared_any_more",
        "tests/mcp/calls.rs::new_servers_are_left_out_if_the_api_does_not_say_what_it_refuses",
    ])),
    (37, "of too many tools some are declared and the others are named", Covered(&[
        "src/mcp/declared.rs::check_37_the_budget_of_a_request_is_kept",
        "tests/mcp/hostile.rs::five_hundred_tools",
    ])),
    (38, "invisible characters are removed from descriptions", Covered(&[
        "src/mcp/text.rs::check_38_characters_that_hide_or_reorder_text_are_removed",
        "tests/mcp/hostile.rs::a_description_that_changes_after_an_approval",
    ])),

    // Calls.
    (39, "progress is shown while it comes, and the server counts as alive", Covered(&[
        "src/mcp/session/tests/calls.rs::check_39_progress_is_live_output_and_restarts_the_timeout",
        "tests/mcp/calls.rs::progress_is_live_output",
        "src/tool/live.rs::live_text_is_shown_at_an_interval",
    ])),
    (40, "a call without progress is cancelled after its time limit", Covered(&[
        "src/mcp/session/tests/calls.rs::check_40_silence_cancels_the_call",
        "tests/mcp/calls.rs::a_silent_call_is_cancelled_after_the_servers_timeout",
    ])),
    (41, "a user's cancellation waits for no server", Covered(&[
        "src/mcp/session/tests/calls.rs::check_41_a_cancelled_call_ends_at_once_and_its_answer_is_dropped",
        "tests/mcp/calls.rs::a_cancelled_call_is_cancelled_at_the_server_too",
        "tests/mcp/calls.rs::a_cancelled_call_does_not_wait_for_the_server",
    ])),
    (42, "the model reads the error as the tool wrote it", Covered(&[
        "src/mcp/content.rs::check_42_the_text_of_an_error_is_exactly_that_of_the_server",
        "tests/mcp/calls.rs::the_model_gets_the_error_of_a_tool_unchanged",
    ])),
    (43, "the model gets an image as an image and not as base64 text", Covered(&[
        "src/mcp/content.rs::check_43_an_image_is_media_and_not_text",
        "tests/mcp/calls.rs::an_image_is_shown_to_the_model_as_an_image",
    ])),
    (44, "a content that a result has twice is sent once", Covered(&[
        "src/mcp/content.rs::check_44_structured_content_that_is_the_text_is_sent_once",
    ])),
    (45, "a missing structured part is no failure", Covered(&[
        "src/mcp/content.rs::check_45_a_result_without_structured_content_is_a_success",
        "tests/mcp/calls.rs::a_result_without_its_structured_part_is_a_success",
    ])),
    (46, "what is meant for people only is kept from the model", Covered(&[
        "src/mcp/content.rs::check_46_blocks_for_people_are_not_sent_to_the_model",
    ])),
    (47, "links of a result can be read in its task, and nothing unknown can", Covered(&[
        "src/mcp/content.rs::check_47_resources_and_links",
        "src/mcp/resources.rs::check_47_only_uris_that_are_offered_are_read",
        "tests/mcp/resources.rs::check_47_a_link_of_a_result_can_be_read_in_its_task_and_an_unknown_uri_cannot",
    ])),
    (48, "a long text is cut in the result, and stored whole", Covered(&[
        "src/tool/mcp_call/tests.rs::a_long_result_is_cut_and_kept_and_media_stay",
        "src/tool/mcp_call/tests.rs::a_long_error_of_the_server_is_cut_and_kept",
        "tests/mcp/calls.rs::a_long_result_is_truncated_and_stored_in_a_file",
        "tests/mcp/hostile.rs::a_failure_of_ten_megabytes",
    ])),
    (49, "one server works on one call at a time, two servers at once", Covered(&[
        "src/mcp/session/tests/calls.rs::check_49_calls_of_one_server_run_one_after_the_other_and_reading_ones_together",
        "tests/mcp/calls.rs::calls_of_one_server_wait_for_each_other",
    ])),
    (50, "a tool that needs what we lack is hidden with a reason", Covered(&[
        "src/mcp/catalog.rs::check_50_tools_that_need_tasks_are_unusable",
        "tests/mcp/commands.rs::servers_are_listed_with_what_is_known_of_them",
    ])),

    // Approvals and trust.
    (51, "a question contains the arguments in every protocol, and an approval may hold for the tool", Covered(&[
        "tests/mcp/approvals.rs::every_dialect_shows_the_question",
        "tests/mcp/approvals.rs::a_lasting_approval_holds_for_the_tool_or_the_server_within_its_task",
        "tests/decide/mcp.rs::a_call_is_asked_about_and_an_answer_holds_for_the_tool_or_its_server",
    ])),
    (52, "an approval for a server holds for its tools in this task only", Covered(&[
        "tests/mcp/approvals.rs::a_lasting_approval_holds_for_the_tool_or_the_server_within_its_task",
    ])),
    (53, "a tool that has changed is asked about again", Covered(&[
        "src/mcp/catalog.rs::check_53_a_tool_that_changes_has_another_fingerprint",
        "tests/mcp/approvals.rs::a_changed_tool_needs_approval_again",
        "tests/decide/mcp.rs::a_changed_tool_is_asked_about_again_with_a_warning",
    ])),
    (54, "a project cannot say that its own server is trusted", Covered(&[
        "src/mcp/config/tests.rs::check_54_trust_counts_only_from_the_operator",
        "tests/mcp/trust.rs::a_workspace_cannot_trust_its_own_server",
    ])),
    (55, "no server starts for a folder that is not trusted, and the list says so", Covered(&[
        "tests/mcp/trust.rs::in_an_untrusted_folder_no_server_is_started",
        "tests/mcp/trust.rs::the_servers_of_a_folder_start_as_soon_as_it_is_trusted",
    ])),
    (56, "what a project starts is blocked when it changes, until somebody allows it", Covered(&[
        "src/mcp/config/tests.rs::check_56_the_hash_changes_with_what_is_started",
        "tests/mcp/trust.rs::a_changed_command_of_the_workspace_is_blocked_until_it_is_allowed",
        "tests/mcp/trust.rs::a_changed_part_of_the_workspace_blocks_the_server_of_an_extension",
    ])),
    (57, "what a server says about reading allows nothing", Covered(&[
        "tests/policy/mcp.rs::trust_and_hints",
        "tests/mcp/hostile.rs::a_read_only_hint_that_is_false",
    ])),
    (58, "where nobody can be asked, a call that asks is denied", Covered(&[
        "tests/mcp/life.rs::without_a_terminal_a_call_that_needs_approval_is_denied",
    ])),
    (59, "a server cannot approve calls at our port", Covered(&[
        "tests/mcp/trust.rs::a_server_cannot_approve_calls",
    ])),
    (60, "secrets of settings are in no log, event or file", Covered(&[
        "src/mcp/config/tests.rs::check_60_no_secret_is_printed_and_all_are_removed_from_texts",
        "tests/mcp/secrets.rs::no_secret_of_the_settings_is_shown_or_stored",
    ])),

    // Questions, prompts and resources.
    (61, "a form is one question for all clients, and its answer has types", Covered(&[
        "src/mcp/form.rs::check_61_a_form_with_all_kinds_of_fields_gives_typed_values",
        "tests/mcp/questions.rs::check_61_the_first_valid_answer_of_several_clients_is_given_to_the_server_with_typed_values",
    ])),
    (62, "the values that people enter are not recorded", Covered(&[
        "tests/decide/inquiries.rs::check_62_the_values_in_a_message_are_not_recorded",
        "tests/mcp/questions.rs::check_62_the_values_of_answers_are_not_in_the_journal",
    ])),
    (63, "people are warned of a form that wants a secret", Covered(&[
        "src/mcp/form.rs::check_63_fields_that_ask_for_secrets_are_warned_about",
        "tests/mcp/questions.rs::check_63_a_field_for_a_secret_is_shown_with_a_warning",
    ])),
    (64, "a page must be safe to visit", Covered(&[
        "src/mcp/form.rs::check_64_pages_are_https_or_on_this_machine",
        "tests/mcp/questions.rs::check_64_a_page_without_https_is_declined_and_others_are_shown_whole",
    ])),
    (65, "a call that needs a visit is made once more after it", Covered(&[
        "src/mcp/session/tests/calls.rs::check_65_a_call_that_needs_pages_is_repeated_once",
        "tests/mcp/questions.rs::check_65_a_call_that_needs_a_page_is_repeated_once_after_the_visit",
    ])),
    (66, "a restart cancels the open questions of servers", Covered(&[
        "tests/decide/inquiries.rs::check_66_a_restart_interrupts_a_call_whose_server_asks",
        "tests/mcp/questions.rs::check_66_after_a_restart_the_call_is_interrupted_and_its_question_void",
    ])),
    (67, "arguments of a prompt by name and by place, and which are missing", Covered(&[
        "src/mcp/prompt.rs::check_67_arguments_by_name_in_order_and_missing",
        "tests/mcp/prompts.rs::check_67_a_prompt_takes_arguments_by_name_and_in_order_and_says_what_is_missing",
    ])),
    (68, "no message of a prompt is dropped", Covered(&[
        "src/mcp/content.rs::check_68_all_messages_of_a_prompt_are_used",
        "tests/mcp/prompts.rs::check_68_all_messages_of_a_prompt_are_used",
    ])),

    // Servers that clients name.
    (69, "clients can name servers only if the operator allows it", Covered(&[
        "tests/mcp/clients.rs::without_the_option_every_named_server_is_refused",
    ])),
    (70, "a client never names a program", Covered(&[
        "tests/mcp/clients.rs::programs_are_refused_in_every_mode",
    ])),
    (71, "only addresses of this machine, and only for its user", Covered(&[
        "src/mcp/config/tests.rs::check_71_clients_name_servers_only_as_the_operator_allows",
        "src/core/requests/client_provided.rs::check_71_only_the_same_user_may_name_servers_of_this_machine",
        "src/shell/mcp/http/tests.rs::a_server_that_a_client_named_has_only_addresses_that_it_may_have",
        "tests/mcp/clients.rs::only_servers_that_the_operator_allows_are_connected",
    ])),
    (72, "the server is its task's alone, and its headers are forgotten", Covered(&[
        "tests/mcp/clients.rs::a_server_named_by_a_client_belongs_to_its_task_and_always_needs_approval",
    ])),

    // Extensions, commands, skills, agents and hooks.
    (73, "a manifest knows its directories and names no file outside", Covered(&[
        "src/config/definitions/extension.rs::a_manifest_is_read_with_its_variables",
    ])),
    (74, "an extension that is off in a folder is used in others", Covered(&[
        "src/config/definitions/extension.rs::the_last_rule_that_fits_decides",
        "tests/mcp/extensions.rs::check_74_nothing_of_an_extension_is_loaded_where_it_is_switched_off",
    ])),
    (75, "texts of command files in every notation, and the line of a mistake", Covered(&[
        "src/config/formats/toml.rs::four_kinds_of_texts",
        "src/config/formats/toml.rs::a_mistake_is_reported_with_its_line",
        "tests/e2e/custom_commands.rs::custom_commands_are_listed_with_the_built_in_ones",
    ])),
    (76, "arguments in a command are one word, and a denied one stops everything", Covered(&[
        "src/config/definitions/custom_command.rs::arguments_of_a_command_are_one_word",
        "tests/e2e/custom_commands.rs::nothing_runs_if_a_command_of_the_prompt_is_denied",
    ])),
    (77, "what a file contains is never run", Covered(&[
        "src/config/definitions/custom_command.rs::a_prompt_is_divided_before_anything_is_inserted",
        "tests/e2e/custom_commands.rs::a_prompt_gets_its_arguments_and_files",
    ])),
    (78, "a skill is read leniently, asks, and can then be read", Covered(&[
        "src/config/definitions/skill.rs::front_matter_is_read_as_yaml_or_by_line",
        "tests/e2e/skills.rs::a_skill_is_activated_with_approval_and_can_be_read_and_not_written",
    ])),
    (79, "credentials stay at the origin of an agent, and a cancellation reaches it", Covered(&[
        "tests/agents/fakes.rs::check_79_a_card_of_another_origin_gets_no_credentials",
        "tests/agents/together.rs::a_cancelled_call_is_cancelled_there",
    ])),
    (80, "a hook denies with status 2, and with other failures only if it has `failClosed`", Covered(&[
        "src/task/definitions/command_hook.rs::exit_codes_decide",
        "tests/e2e/command_hooks.rs::a_hook_before_a_tool_denies_with_its_errors_and_other_ends_are_notices",
    ])),
    (81, "a question contains the arguments as a hook has changed them", Covered(&[
        "tests/decide/command_hooks.rs::rewritten_arguments_take_the_place_of_those_of_the_call",
        "tests/e2e/command_hooks.rs::rewritten_arguments_are_asked_about_and_a_hook_grants_nothing",
    ])),
    (82, "a hook of a project does not run before somebody allows it", Covered(&[
        "tests/e2e/command_hooks.rs::hooks_of_a_project_never_run_before_they_are_allowed",
    ])),
    (83, "a hook that allows a call does not replace its approval", Covered(&[
        "tests/decide/command_hooks.rs::a_hook_can_require_approval_in_every_mode_and_cannot_allow_a_call",
        "tests/e2e/command_hooks.rs::rewritten_arguments_are_asked_about_and_a_hook_grants_nothing",
    ])),

    // Restores.
    (84, "after an undo every byte and mode is as before", Covered(&[
        "src/tool/files/restore/tests.rs::fifty_edits_by_tools_are_undone",
        "tests/e2e/restore.rs::an_undo_and_a_redo_change_files_and_conversation",
    ])),
    (85, "what a person changed is left alone, or copied first", Covered(&[
        "tests/e2e/restore.rs::what_others_changed_is_not_touched_unless_forced",
    ])),
    (86, "files that we never wrote stay as they are", Covered(&[
        "src/tool/files/restore/tests.rs::fifty_edits_by_tools_and_others_are_undone_or_nothing_is_changed",
        "src/tool/files/restore/tests.rs::links_directories_and_pipes_are_not_restored",
    ])),
    (87, "an undo can be undone", Covered(&[
        "src/tool/files/restore/tests.rs::fifty_edits_by_tools_are_undone",
        "tests/e2e/restore.rs::an_undo_and_a_redo_change_files_and_conversation",
    ])),
    (88, "a process that dies at any step loses nothing", Covered(&[
        "src/tool/files/restore/tests.rs::check_88_a_process_that_dies_during_an_edit_loses_nothing",
        "src/tool/files/restore/tests.rs::check_88_a_restore_can_be_repeated_after_the_process_has_died",
        "tests/e2e/restore.rs::an_edit_that_was_interrupted_by_a_kill_has_stored_the_old_content",
    ])),
    (89, "a point is found by its name and never used as a path", Covered(&[
        "tests/e2e/restore.rs::points_are_names_and_not_paths",
    ])),
    (90, "deleting a task leaves content that another task needs", Covered(&[
        "src/shell/journal/tests.rs::content_that_two_logs_name_goes_with_the_second",
        "src/shell/journal/blobs.rs::old_content_that_no_journal_names_is_deleted",
    ])),
];
