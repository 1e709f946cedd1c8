//! Prompts that are answered without a terminal: the three formats, standard input, exit statuses, sessions, recorded responses.
//!
//! What is printed in the two JSON formats is compared whole with `tests/golden/headless`, with ids, times and durations replaced. Who
//! changes them on purpose writes them anew with `GOLDEN=write cargo test --test headless` and reads the difference.

#[path = "headless/disk.rs"]
mod disk;
#[path = "headless/formats.rs"]
mod formats;
#[path = "headless/input.rs"]
mod input;
#[path = "headless/program.rs"]
mod program;
#[path = "headless/responses.rs"]
mod responses;
#[path = "headless/sessions.rs"]
mod sessions;
mod support;
