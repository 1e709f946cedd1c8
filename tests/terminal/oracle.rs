//! Compares the terminal model with other terminals (tmux, pyte): the same bytes must show the same screen.

use crate::screens::{Painted, painted, trimmed};
use crate::session::{Session, setup};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmux server of its own, which ends with it.
struct Tmux {
    socket: String,
    scratch: PathBuf,
}

impl Tmux {
    /// None if it is not installed.
    fn start(name: &str) -> Option<Tmux> {
        let name = format!("gemini-a2a-{name}-{}", std::process::id());
        let tmux = Tmux { scratch: std::env::temp_dir().join(&name), socket: name };
        if tmux.run(&["-V"]).is_none() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        // The server ends with its last session.
        tmux.run(&["new-session", "-d", "-s", "base", "exec sleep 1000"]);
        Some(tmux)
    }

    fn run(&self, arguments: &[&str]) -> Option<String> {
        let output =
            Command::new("tmux").args(["-u", "-L", &self.socket, "-f", "/dev/null"]).args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Scrollback and screen after these bytes, with more flags for the capture.
    fn shows(&self, name: &str, (columns, rows): (usize, usize), bytes: &[u8], flags: &[&str]) -> String {
        std::fs::write(&self.scratch, bytes).expect("a file");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let path = self.scratch.display();
        let command = format!("stty raw -echo; cat '{path}'; printf '\\033]2;done\\007'; exec sleep 100");
        self.run(&["new-session", "-d", "-s", name, "-x", &columns, "-y", &rows, &command]);
        let title = || self.run(&["display-message", "-p", "-t", name, "#{pane_title}"]);
        let begin = std::time::Instant::now();
        while title().is_none_or(|title| title.trim() != "done") {
            assert!(begin.elapsed().as_secs() < 60, "tmux does not answer: {name}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let seen = self.run(&[&["capture-pane", "-p", "-t", name, "-S", "-", "-E", "-"], flags].concat());
        self.run(&["kill-session", "-t", name]);
        seen.unwrap_or_default()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
        let _ = std::fs::remove_file(&self.scratch);
    }
}

#[test]
fn tmux_shows_the_same() {
    let Some(tmux) = Tmux::start("screens") else {
        return;
    };
    for Painted { name, columns, rows, sent, text } in painted() {
        assert_eq!(trimmed(&tmux.shows(&name, (columns, rows), &sent, &[])), text, "{name}");
    }
}

/// Code is printed from the first column and broken only by the terminal, which joins it again when it is copied.
#[test]
fn code_is_copied_as_it_was_written() {
    let Some(tmux) = Tmux::start("code") else {
        return;
    };
    let code = format!("fn main() {{\n    let long = \"{}\";\n\tindented();\n}}", "word ".repeat(40).trim_end());
    let mut session = Session::connected(setup(), 60, 12);
    session.event(crate::given::prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    session.event(json!({"text": {"text": format!("So:\n\n```rust\n{code}\n```\n\nDone.\n\n")}}));
    let seen = tmux.shows("code", (60, 12), &session.sent, &["-J"]);
    // A tab is shown as the blanks that it means.
    assert!(seen.contains(&code.replace('\t', "        ")), "{seen}");
}

/// Wide characters take two columns, so the columns of a table stand below each other.
#[test]
fn tables_of_wide_characters_are_aligned() {
    let Some(tmux) = Tmux::start("table") else {
        return;
    };
    let table = "|名前|Mood|x|\n|---|---|--:|\n|日本語|😀|1|\n|a|❤️|22|\n|é|👍🏽|333|\n\n";
    let mut session = Session::connected(setup(), 60, 20);
    session.event(crate::given::prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    session.event(json!({"text": {"text": table}}));
    // Marks at fixed columns of the same terminal: whatever it thinks of emoji, the last column is where it was meant to be.
    let seen = tmux.shows("table", (60, 20), &session.sent, &[]);
    let rows: Vec<&str> = seen.lines().skip_while(|line| !line.starts_with("名前")).take(5).collect();
    assert_eq!(rows[1], "──────  ────  ───", "{seen}");
    assert!(rows[2].ends_with("  1") && rows[3].ends_with(" 22") && rows[4].ends_with("333"), "{seen}");
    assert_eq!(rows[2], "日本語  😀      1", "{seen}");
}

/// pyte is a terminal in Python. It has widths of its own for emoji.
#[test]
fn pyte_shows_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let own = target.join("interop/pyte/bin/python");
    let python = if own.exists() { own } else { "python3".into() };
    let script = root.join("tests/interop/terminal.py");
    let has = Command::new(&python).arg(&script).arg("--ready").output().is_ok_and(|output| output.status.success());
    if !has {
        return eprintln!("skipped: pyte is not installed (CI=true scripts/test installs it)");
    }
    let folder = std::env::temp_dir().join(format!("gemini-a2a-pyte-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for Painted { name, columns, rows, sent, text } in painted() {
        std::fs::write(folder.join(format!("{name}.{columns}x{rows}.bytes")), sent).expect("a file");
        std::fs::write(folder.join(format!("{name}.{columns}x{rows}.txt")), text).expect("a file");
    }
    let output = Command::new(&python).arg(&script).arg(&folder).output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{printed}");
}
