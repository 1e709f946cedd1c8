//! Checks the editor and the terminal: its name, size and colours, and its answers to queries.

use super::{Finding, fine, warning};
use crate::shell::children::environment::find_program;
use crate::shell::start::workspace_settings::Env;
use crate::shell::terminal::editor;
use crate::shell::terminal::probe::{self, Abilities};
use crate::ui::format::style::{Colours, Style, Theme};
use rustix::termios::Winsize;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

pub fn check(env: &Env, path: &[PathBuf]) -> Vec<Finding> {
    let command = editor::command(env.as_ref());
    let program = command.split_whitespace().next().unwrap_or_default();
    let editor = match find_program(OsStr::new(program), path) {
        Some(_) => fine("editor", command.clone()),
        None => warning("editor", format!("the program {program} is not installed"), "set VISUAL or EDITOR"),
    };
    let name = env("TERM").unwrap_or_default();
    let terminal = match (name.as_str(), rustix::termios::tcgetwinsize(std::io::stdout())) {
        (_, Err(_)) => fine(SUBJECT, "standard output is not a terminal"),
        ("" | "dumb", Ok(_)) => warning(
            SUBJECT,
            "TERM names no terminal: lines are printed instead of a screen",
            "set TERM, for example to xterm-256color",
        ),
        (name, Ok(size)) => finding(name, &size, Style::of(env.as_ref(), Theme::Auto).colours, probe::ask()),
    };
    let mut found = vec![editor, terminal];
    if env("TMUX").is_some_and(|socket| !socket.is_empty()) {
        found.extend(tmux(env, path));
    }
    found
}

const SUBJECT: &str = "terminal";

/// Options of tmux, with what does not work without them.
const TMUX_OPTIONS: [(&str, &str); 4] = [
    ("extended-keys", "Shift-Enter"),
    ("focus-events", "notifications only while you look elsewhere"),
    ("set-clipboard", "/copy"),
    ("allow-passthrough", "notifications of the outer terminal"),
];

/// The options of tmux that are off, with what they are for. A version that does not know an option does not need it.
fn tmux(env: &Env, path: &[PathBuf]) -> Option<Finding> {
    let program = find_program(OsStr::new("tmux"), path)?;
    let format = TMUX_OPTIONS.map(|(option, _)| format!("#{{{option}}}")).join(",");
    let mut command = Command::new(program);
    command.args(["display-message", "-p", &format]).env_clear();
    command.envs(["TMUX", "TMUX_PANE", "TMUX_TMPDIR"].into_iter().filter_map(|name| Some((name, env(name)?))));
    let output = command.output().ok().filter(|output| output.status.success())?;
    let values = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_off = |value: &str| ["off", "0", "external"].contains(&value);
    let off: Vec<_> = TMUX_OPTIONS
        .iter()
        .zip(values.trim().split(','))
        .filter(|(_, value)| is_off(value))
        .map(|(row, _)| row)
        .collect();
    if off.is_empty() {
        return Some(fine("tmux", "all options that matter are on"));
    }
    let found: Vec<String> = off.iter().map(|(option, purpose)| format!("{option} is off ({purpose})")).collect();
    let lines: Vec<String> = off.iter().map(|(option, _)| format!("set -g {option} on")).collect();
    Some(warning("tmux", found.join(", "), format!("in ~/.tmux.conf: {}", lines.join("; "))))
}

/// The finding about the terminal. `abilities` is None if the terminal could not be queried.
fn finding(name: &str, size: &Winsize, colours: Colours, abilities: Option<Abilities>) -> Finding {
    let colours = match colours {
        Colours::None => "no colours",
        Colours::Sixteen => "16 colours",
        Colours::Indexed => "256 colours",
        Colours::True => "all colours",
    };
    let mut words = vec![name.to_owned(), format!("{} × {}", size.ws_col, size.ws_row), colours.to_owned()];
    if let Some(Abilities { name: Some(own), .. }) = &abilities {
        words[0] = format!("{own} ({name})");
    }
    if let Some(abilities) = abilities.as_ref().filter(|abilities| abilities.answers) {
        words.push(if abilities.kitty { "kitty keys" } else { "plain keys" }.to_owned());
        words.push(if abilities.synchronised { "synchronised output" } else { "no synchronised output" }.to_owned());
    }
    let found = words.join(", ");
    match abilities {
        _ if size.ws_col < 40 || size.ws_row < 10 => {
            warning(SUBJECT, found, "make the window larger: 40 columns and 10 rows are the least")
        }
        Some(Abilities { answers: false, .. }) => {
            let advice = "use another terminal if the screen is wrong; --screen-reader prints lines instead";
            warning(SUBJECT, format!("{found}, answers no questions"), advice)
        }
        Some(Abilities { answers: true, .. }) | None => fine(SUBJECT, found),
    }
}
