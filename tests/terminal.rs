//! Tests of the terminal: a small terminal model interprets the painted bytes and shows the screens.
//!
//! The tests of each behaviour. A name that follows a file's name is a unit test of that file in `src/ui`.
//!
//! | behaviour | test |
//! |---|---|
//! | keys in old and new forms; releases; letters of Option | `bind`: `every_bound_key_is_known_in_every_form`; `keys`: `every_key_in_every_form` |
//! | bytes split anywhere, random, invalid; lone ESC | `keys`: `a_stream_means_the_same_however_it_is_split`, `random_bytes_mean_the_same_…`, `random_bytes_never_panic_and_never_confirm`, `text_is_joined_…`, `a_lone_escape_…` |
//! | late replies | `typing::late_replies_never_reach_the_draft` |
//! | pastes: marks inside, limit, bursts, commands in them, folds | `keys`: `pastes_are_whole_and_clean`, `a_paste_has_a_limit`, `fast_text_without_marks_is_pasted`; `typing::the_longest_paste_…`, `typing::pasted_text_triggers_nothing`; `edit`: `a_long_paste_is_one_mark_…` |
//! | words, kills, undo, rows | `edit`: all |
//! | history, search, cleared drafts, prompts that were stopped | `history`, `composer`: all; `typing::cleared_drafts_…`, `typing::a_prompt_that_was_stopped_…` |
//! | steering, queueing, taking back; new lines; long drafts | `typing::enter_steers_…`; `composer`: `enter_sends_…`, `a_long_draft_…` |
//! | completion: order, place, ignored files, slow answers | `complete`: `better_candidates_come_first`; `typing::a_list_is_below_…`, `typing::commands_that_arrive_late_…`, `typing::a_slow_answer_with_files_…`; `src/tool/search/paths.rs` |
//! | every event; replays; names of clients; tools at once | `printing::each_event_…`, `link::a_replay_…`, `printing::escapes_of_…`, `printing::tools_at_once_…` |
//! | long output, progress bars, whole outputs, changes | `printing::output_of_any_length_…`, `printing::the_whole_output_…`, `printing::a_command_of_the_user_…`; `diff`: all; `printing::a_change_is_clear_without_colours` |
//! | focus and delay of questions, digits as text, unseen commands, hidden characters | `questions::a_question_is_focused_…`, `questions::keys_count_only_…`, `questions::letters_and_digits_…`, `questions::a_command_must_…`, `questions::no_screen_is_so_small_…`, `questions::a_question_that_is_not_shown_…`, `questions::blanks_and_…`, `questions::hidden_characters_…` |
//! | answered elsewhere; races; edits; stale files; refusals | `questions::the_first_answer_…`, `questions::an_answer_that_comes_too_late_…`, `src/shell/terminal/answer_race.rs`, `questions::an_edit_…`, `questions::a_file_that_changed_…`, `questions::a_refusal_…` |
//! | questions of the agent, trust, plans | `questions::questions_of_the_agent_are_steps`, `questions::trust_…`, `questions::a_plan_…` |
//! | markdown cut anywhere, open marks, retracted answers | `markdown::every_prefix_…`; `markdown`: all; `printing::an_answer_that_breaks_off_…` |
//! | wide tables, records, copied code | `oracle::tables_…`, screen 33, `oracle::code_is_copied_…` |
//! | only known sequences, none that loses rows | `vt.rs` panics on others; `frames::random_keys_…`, `frames::nothing_that_loses_rows_…` |
//! | rows above the cursor, bytes of a frame, idleness | `frames::rows_above_…`, `paint::only_what_changed_…`, `frames::frames_keep_…`, `frames::an_idle_session_…` |
//! | resizing, small sizes, redraw | `paint::resizing_…`, `frames::every_small_size_…`, `paint::a_redraw_…`, `frames::a_redraw_loses_nothing_…`, screens 67, 68 and 97 to 99 |
//! | modes of the keyboard at the end | `frames::the_keyboard_protocol_…` |
//! | colours, ASCII, linear mode | `style`: all; screen 36; `frames::linear_mode_…` (two) |
//! | notifications, clients that come and go | `frames::users_who_…`, `frames::clients_that_…` |
//! | lost connections, attached logs, the header above them | `link`: all; screen 84 |

#[path = "terminal/frames.rs"]
mod frames;
#[path = "terminal/given.rs"]
mod given;
#[path = "terminal/link.rs"]
mod link;
#[path = "terminal/markdown.rs"]
mod markdown;
#[path = "terminal/oracle.rs"]
mod oracle;
#[path = "terminal/paint.rs"]
mod paint;
#[path = "terminal/printing.rs"]
mod printing;
#[path = "terminal/questions.rs"]
mod questions;
#[path = "support/random.rs"]
mod random;
#[path = "terminal/screens.rs"]
mod screens;
#[path = "terminal/session.rs"]
mod session;
#[path = "terminal/typing.rs"]
mod typing;
#[path = "support/vt.rs"]
mod vt;
