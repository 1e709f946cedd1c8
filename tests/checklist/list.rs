//! The list: a number, the behaviour in our words, and the tests that check it.

pub enum Coverage {
    /// Checked by these tests, `file::name`.
    Covered(&'static [&'static str]),
    /// Checked by no test, for this reason.
    NotCovered(&'static str),
}

use Coverage::{Covered, NotCovered};

const WORKSPACE: &str =
    "a server always has a workspace, so that no command can lack one; tests/e2e/commands.rs runs them in it";
const SUBAGENTS: &str = "there is no such switch: an agent is there if a file of the user or of a trusted workspace defines it; tests/agents/files.rs holds that";
const ONLY_THE_CLOUD: &str =
    "belongs to the cloud edition of the reference server; we talk to the model with a key or a token";

pub type Behaviour = (u32, &'static str, Coverage);

#[rustfmt::skip]
pub const CHECKLIST: &[Behaviour] = &[
    // Answers that come too early, late or twice.
    (1, "a second answer that comes while the first call runs is not lost, and the turn ends", Covered(&[
        "tests/decide/approvals.rs::two_questions_are_answered_one_after_the_other",
        "tests/scenarios/calls.rs::parallel",
    ])),
    (2, "cancelling ends everything that waits, with the reason", Covered(&[
        "tests/decide/endings.rs::a_cancel_ends_the_task_in_every_phase",
        "tests/scenarios/cancel.rs::cancel_waiting",
    ])),
    (3, "of two calls both ends are awaited, also if one begins later", Covered(&[
        "tests/decide/approvals.rs::two_questions_are_answered_one_after_the_other",
        "tests/decide/edits.rs::edits_run_one_at_a_time_and_a_command_beside_them",
    ])),

    // Tool calls in the events of their task.
    (4, "updates of a call belong to its task and carry the state the task is in", Covered(&[
        "src/a2a/tests/coder_calls.rs::a_call_from_plan_to_start",
        "tests/scenarios/shapes.rs::the_shape_of_a_call_in_every_status",
    ])),
    (5, "a yes reaches exactly the call it names", Covered(&[
        "tests/decide/approvals.rs::an_approval_starts_the_call_and_the_task_continues",
        "tests/scenarios/approvals.rs::write_proceed",
    ])),
    (6, "a no ends the call; an outcome we do not offer, like opening an editor, approves nothing", Covered(&[
        "tests/decide/approvals.rs::a_rejection_ends_its_call_only",
        "tests/decide/approvals.rs::an_option_that_is_not_on_offer_refuses_the_whole_message",
    ])),
    (7, "answers to calls of MCP servers, each with its own scope", Covered(&[
        "tests/mcp/approvals.rs::a_lasting_approval_holds_for_the_tool_or_the_server_within_its_task",
        "tests/decide/mcp.rs::a_call_is_asked_about_and_an_answer_holds_for_the_tool_or_its_server",
        "tests/policy/mcp.rs::a_pattern_is_for_exactly_one_server_and_never_for_a_name",
    ])),
    (8, "in a mode without questions nobody is asked and no answer is invented", Covered(&[
        "tests/checklist.rs::two_unasked_calls_run_to_their_end",
        "tests/decide/calls.rs::calls_that_are_allowed_run_without_a_question",
    ])),
    (9, "output of a running call is an artifact named after the call", Covered(&[
        "src/a2a/tests/coder.rs::live_output_is_an_artifact_that_grows",
        "tests/scenarios/calls.rs::shell_live",
    ])),
    (10, "a success ends its call, and nothing is left open", Covered(&[
        "tests/decide/calls.rs::calls_that_are_allowed_run_without_a_question",
    ])),
    (11, "chunks of one answer share a message id, the next answer has another", Covered(&[
        "tests/scenarios/tasks.rs::stream_text",
        "tests/decide/model.rs::a_model_answer_is_recorded_whole_with_the_position_of_its_text",
    ])),
    (12, "two open questions can be answered separately and differently", Covered(&[
        "tests/decide/approvals.rs::two_questions_are_answered_differently_in_one_message_with_a_prompt",
        "tests/scenarios/calls.rs::parallel_one_cancelled",
    ])),
    (13, "calls that end at different times end one by one", Covered(&[
        "tests/decide/calls.rs::calls_that_are_allowed_run_without_a_question",
        "tests/scenarios/calls.rs::parallel_wait_for_final",
    ])),
    (14, "progress of a subagent is shown as an artifact", Covered(&[
        "src/a2a/tests/coder.rs::live_output_is_an_artifact_that_grows",
        "tests/agents/together.rs::a_call_that_needs_approval_is_denied_without_a_terminal",
    ])),
    (15, "a task waits for its user only when nothing of it runs", Covered(&[
        "tests/decide/calls.rs::the_task_waits_only_when_everything_waits",
    ])),
    (16, "an answer to an unknown call changes nothing and is sent to nobody", Covered(&[
        "tests/decide/approvals.rs::late_and_unknown_answers_are_refused",
        "tests/e2e/approvals.rs::answers_to_calls_that_are_not_waiting_change_nothing",
    ])),

    // The turn.
    (17, "a call stays in the conversation as the model made it, whatever its result", Covered(&[
        "tests/checklist.rs::a_call_is_sent_back_to_the_model_unchanged",
        "tests/decide/approvals.rs::an_approval_is_of_exactly_what_was_shown",
    ])),
    (18, "no checkpoint without an edit", Covered(&[
        "src/task/restore/tests.rs::the_first_version_before_and_the_last_after_count",
        "tests/e2e/restore.rs::points_are_names_and_not_paths",
    ])),
    (19, "a checkpoint before an edit, if checkpoints are on", Covered(&[
        "tests/e2e/restore.rs::an_undo_and_a_redo_change_files_and_conversation",
        "tests/e2e/restore.rs::without_checkpoints_nothing_can_be_undone",
    ])),
    (20, "one checkpoint for all edits of a batch", Covered(&[
        "src/task/restore/tests.rs::the_first_version_before_and_the_last_after_count",
    ])),
    (21, "the trace id of the model's answer is on the events that follow from it", Covered(&[
        "src/a2a/tests/coder.rs::text_and_thoughts",
        "tests/scenarios/shapes.rs::the_shape_of_every_kind_of_frame",
    ])),
    (22, "a source that is cited is shown as a citation", Covered(&["tests/scenarios/tasks.rs::stream_citation"])),
    (23, "the tokens used are on the frame that ends the stream", Covered(&[
        "src/a2a/tests/coder.rs::changes_of_state_that_streams_end_with",
        "tests/decide/model.rs::a_model_answer_is_recorded_whole_with_the_position_of_its_text",
    ])),
    (24, "the model that answered is the one in the events", Covered(&[
        "tests/decide/model.rs::a_model_answer_is_recorded_whole_with_the_position_of_its_text",
    ])),
    (25, "a request that is tried again cancels no call and shows no error", Covered(&[
        "tests/decide/model.rs::a_broken_stream_is_retried_a_few_times",
        "tests/decide/model.rs::partial_text_is_retracted_only_if_there_was_any",
        "tests/scenarios/model_errors.rs::model_errors_that_are_retried",
    ])),
    (26, "every message of the user is a turn, and tool rounds belong to it", Covered(&[
        "tests/decide/model.rs::a_model_answer_is_recorded_whole_with_the_position_of_its_text",
        "tests/decide/prompts.rs::queued_prompts_get_their_turns_in_order",
    ])),
    (27, "a call that is being prepared keeps the task working", Covered(&[
        "tests/decide/calls.rs::the_task_waits_only_when_everything_waits",
    ])),
    (28, "when all calls ask, the task waits", Covered(&[
        "tests/decide/calls.rs::calls_that_need_an_answer_are_asked_about_and_the_task_waits",
    ])),
    (29, "reports of workers for another turn or call are ignored", Covered(&[
        "tests/decide/worker_notes.rs::a_result_of_an_unknown_job_is_dropped",
        "tests/decide/worker_notes.rs::a_result_that_does_not_fit_its_job_is_dropped",
    ])),
    (30, "it is known at any time which calls are open, and how many", Covered(&[
        "tests/decide/approvals.rs::an_approval_starts_the_call_and_the_task_continues",
        "tests/search.rs::no_order_of_events_violates_an_invariant",
    ])),
    (31, "a call that is being prepared is shown as scheduled, and an answered one with its answer", Covered(&[
        "src/a2a/tests/coder_calls.rs::a_call_from_plan_to_start",
    ])),
    (32, "an unchanged status of a call is sent once, and again when the call has an answer", Covered(&[
        "tests/scenarios/calls.rs::parallel_wait_for_final",
        "tests/checklist.rs::an_unasked_call_shows_each_status_once",
        "src/a2a/tests/coder_calls.rs::a_call_from_plan_to_start",
    ])),
    (33, "a text with plain line ends is found in a file with CRLF, which keeps them", Covered(&[
        "src/tool/files/replace/tests.rs::line_ends_and_the_end_of_the_file_stay_as_they_are",
    ])),
    (34, "a text with CRLF is found in such a file, too", Covered(&[
        "src/tool/files/replace/tests.rs::line_ends_and_the_end_of_the_file_stay_as_they_are",
    ])),

    // Tasks and their subscribers.
    (35, "a second message joins the running task, and no connection that ends stops it", Covered(&[
        "tests/scenarios/approvals.rs::two_turns_at_once",
        "tests/scenarios/reading.rs::disconnect",
    ])),
    (36, "a task that has ended accepts no prompts and leaves nothing running", Covered(&[
        "tests/decide/prompts.rs::a_finished_task_accepts_no_message",
        "tests/tools.rs::a_background_command_ends_when_its_task_is_cancelled",
        "src/shell/journal/tests.rs::there_is_a_marker_while_a_task_is_open",
    ])),
    (37, "with open questions the turn rests: input is required and the model gets no results", Covered(&[
        "tests/decide/calls.rs::calls_that_need_an_answer_are_asked_about_and_the_task_waits",
        "tests/decide/restart.rs::a_restart_in_every_phase",
        "tests/scenarios/reading.rs::send_write",
    ])),
    (38, "cancelling stops the work once and is shown", Covered(&[
        "tests/scenarios/cancel.rs::cancel_streaming",
        "tests/scenarios/cancel.rs::cancel_idle",
        "tests/e2e/approvals.rs::every_subscriber_sees_the_cancellation",
    ])),
    (39, "a cancellation is recorded, also in the middle of a turn", Covered(&[
        "tests/decide/endings.rs::a_cancel_ends_the_task_in_every_phase",
        "tests/decide/status.rs::every_log_of_these_tests_round_trips_through_the_journal",
        "tests/scenarios/calls.rs::shell_cancel_running",
    ])),

    // Whole streams, and the endpoints beside the protocol.
    (40, "a text reply is four frames, the last of them final", Covered(&[
        "tests/checklist.rs::a_text_reply_is_four_frames",
    ])),
    (41, "a call that needs approval is six frames", Covered(&[
        "tests/checklist.rs::a_question_is_asked_in_six_frames_and_two_in_eight",
    ])),
    (42, "two calls that need approval are eight frames, both announced before either asks", Covered(&[
        "tests/checklist.rs::a_question_is_asked_in_six_frames_and_two_in_eight",
    ])),
    (43, "without questions two calls run through, and one final frame ends it", Covered(&[
        "tests/checklist.rs::two_unasked_calls_run_to_their_end",
    ])),
    (44, "a call that needs no answer is shown in every status; once each, not \"scheduled\" three times", Covered(&[
        "tests/checklist.rs::an_unasked_call_shows_each_status_once",
    ])),
    (45, "the same in a mode without questions", Covered(&[
        "tests/checklist.rs::an_unasked_call_shows_each_status_once",
    ])),
    (46, "texts and thoughts carry the trace id", Covered(&["tests/scenarios/shapes.rs::the_shape_of_every_kind_of_frame"])),
    (47, "the list of commands", Covered(&[
        "tests/e2e/commands.rs::both_apis_list_the_slash_commands",
        "src/a2a/commands.rs::both_lists",
    ])),
    (48, "commands that contain each other",
        NotCovered("commands are registered by their phrases, so that none can contain itself; src/task/definitions/slash/tests.rs::a_name_cannot_be_registered_twice holds that")),
    (49, "a command is run by name", Covered(&[
        "tests/e2e/commands.rs::slash_command_results_come_with_the_answer",
        "src/task/definitions/slash/tests.rs::a_command_is_found_by_its_whole_name",
    ])),
    (50, "an unknown command is not found", Covered(&[
        "tests/e2e/commands.rs::an_invalid_slash_command_is_refused",
    ])),
    (51, "a request without a command is wrong", Covered(&[
        "tests/e2e/commands.rs::an_invalid_slash_command_is_refused",
        "src/a2a/commands.rs::bodies_of_an_execution",
    ])),
    (52, "arguments of a command are a list", Covered(&[
        "tests/e2e/commands.rs::an_invalid_slash_command_is_refused",
        "src/a2a/commands.rs::bodies_of_an_execution",
    ])),
    (53, "a command that needs no workspace", NotCovered(WORKSPACE)),
    (54, "a command that needs one and has none", NotCovered(WORKSPACE)),
    (55, "a command that needs one and has it", NotCovered(WORKSPACE)),
    (56, "a command can start a turn", Covered(&[
        "tests/e2e/commands.rs::init_starts_the_model_once",
    ])),
    (57, "a command that streams", Covered(&[
        "tests/e2e/commands.rs::init_starts_the_model_once",
    ])),
    (58, "a command that answers at once", Covered(&[
        "tests/e2e/commands.rs::slash_command_results_come_with_the_answer",
    ])),
    (59, "only this machine can connect", Covered(&[
        "tests/checklist.rs::nobody_outside_this_machine_can_connect",
        "src/config/mod.rs::wrong_values_are_named",
    ])),
    (60, "a task can be created without a prompt", Covered(&["tests/scenarios/tasks.rs::create_task"])),
    (61, "the metadata of a task can be read", Covered(&["tests/scenarios/tasks.rs::metadata"])),
    (62, "the metadata of all tasks can be read", Covered(&["tests/scenarios/tasks.rs::metadata"])),
    (63, "an unknown task is not found", Covered(&[
        "tests/scenarios/tasks.rs::metadata",
        "tests/scenarios/tasks.rs::unknown_task",
    ])),
    (64, "the card names the port that is listened on", Covered(&["tests/scenarios/tasks.rs::agent_card"])),

    // Settings, variables, trust.
    (65, "a repository cannot declare itself trusted or switch questions off", Covered(&[
        "tests/hostile.rs::opening_a_hostile_workspace_runs_and_loads_nothing",
        "src/config/settings.rs::a_workspace_cannot_decide_about_trust_or_policies",
    ])),
    (66, "the variables of a repository have no effect while it is not trusted", Covered(&[
        "tests/hostile.rs::opening_a_hostile_workspace_runs_and_loads_nothing",
        "src/shell/start/workspace_settings.rs::files_of_an_untrusted_workspace_are_not_used",
    ])),
    (67, "the variables of a trusted repository configure the server and reach no environment", Covered(&[
        "src/shell/start/workspace_settings.rs::files_of_a_trusted_workspace_override_the_users_but_not_the_systems",
        "tests/hostile.rs::trusted_workspace_settings_apply_to_that_workspace_only",
    ])),
    (68, "settings of a repository that is not trusted are not read", Covered(&[
        "tests/hostile.rs::opening_a_hostile_workspace_runs_and_loads_nothing",
        "src/shell/start/workspace_settings.rs::files_of_an_untrusted_workspace_are_not_used",
    ])),
    (69, "settings of a trusted repository override the user's", Covered(&[
        "src/shell/start/workspace_settings.rs::files_of_a_trusted_workspace_override_the_users_but_not_the_systems",
        "src/config/settings.rs::later_files_override_earlier_ones_but_prohibitions_stay",
    ])),
    (70, "a workspace cannot choose where policies are read from", Covered(&[
        "src/config/settings.rs::a_workspace_cannot_decide_about_trust_or_policies",
    ])),
    (71, "settings of both generations are read, and unknown ones do no harm", Covered(&[
        "src/config/settings.rs::old_and_new_keys_have_the_same_effect",
        "src/config/settings.rs::an_invalid_value_is_reported_and_the_rest_is_used",
    ])),
    (72, "the operator's flag overrides the variable; a client cannot grant trust", Covered(&[
        "src/config/trust.rs::the_operators_decision_applies_to_the_servers_workspace",
        "tests/hostile.rs::opening_a_hostile_workspace_runs_and_loads_nothing",
    ])),
    (73, "the variable grants or denies trust", Covered(&[
        "src/config/trust.rs::the_operators_decision_applies_to_the_servers_workspace",
    ])),
    (74, "without flag, variable and file a workspace is not trusted", Covered(&[
        "src/config/trust.rs::the_operators_decision_applies_to_the_servers_workspace",
        "src/shell/start/workspace_settings.rs::an_invalid_file_of_trusted_folders_is_an_error",
    ])),
    (75, "further files of ignore patterns, from settings and a variable",
        Covered(&["tests/checklist.rs::further_ignore_files_come_from_settings_and_a_variable"])),
    (76, "settings about tools decide which are declared, which run and which are asked about", Covered(&[
        "tests/checklist.rs::an_excluded_tool_does_not_run",
        "tests/policy/rules.rs::settings_become_rules",
        "tests/policy/rules.rs::tools_core_limits_the_tools_and_approves_none",
    ])),
    (77, "subagents are on unless switched off", NotCovered(SUBAGENTS)),
    (78, "whether somebody sits at a terminal",
        NotCovered("a command never has input, whether the program has a terminal or not; tests/children.rs holds that")),
    (79, "only the operator can allow a mode without questions, by variable or flag; otherwise the usual rules hold", Covered(&[
        "src/config/mod.rs::permissive_modes_need_the_operator_and_a_trusted_workspace",
        "tests/checklist.rs::two_unasked_calls_run_to_their_end",
        "tests/policy.rs::modes_decide_about_the_other_tools",
    ])),
    (80, "an administrator's remote controls", NotCovered(ONLY_THE_CLOUD)),
    (81, "signing in with an account", NotCovered(ONLY_THE_CLOUD)),

    // Commands, and tasks in a bucket.
    (82, "the command for extensions", Covered(&[
        "src/shell/workers/slash_commands/tests.rs::installed_extensions_are_listed",
    ])),
    (83, "the command for memory", Covered(&[
        "src/shell/workers/slash_commands/tests.rs::memory_from_nothing_to_something",
        "src/shell/workers/slash_commands/tests.rs::memory_goes_to_the_file_that_is_read",
    ])),
    (84, "the command that describes a project", Covered(&[
        "src/shell/workers/slash_commands/tests.rs::init_makes_a_file_once_and_asks_the_model_to_fill_it",
    ])),
    (85, "the register of commands", Covered(&[
        "src/task/definitions/slash/tests.rs::a_name_cannot_be_registered_twice",
        "src/shell/workers/slash_commands/tests.rs::added_commands_run_like_built_in_ones",
    ])),
    (86, "the command that restores a checkpoint", Covered(&[
        "tests/e2e/restore.rs::an_undo_and_a_redo_change_files_and_conversation",
        "tests/e2e/restore.rs::an_undo_over_json_rpc_is_a_command_and_no_prompt",
    ])),
    (87, "tasks kept in a cloud bucket", Covered(&[
        "src/bucket/log/tests.rs::compacted_segments_and_the_segments_after_them_are_loaded",
        "src/shell/bucket/projection/tests.rs::another_program_reads_the_task_from_three_objects",
        "src/shell/bucket/projection/tests.rs::an_artifact_name_of_more_than_200_bytes_is_hashed",
    ])),
];
