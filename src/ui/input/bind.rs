//! The table of key bindings. The list of keys that `?` shows and the table in the manual are made from it.

use crate::ui::input::edit::{Direction, Motion};
use crate::ui::input::keys::{Code, Key, Mods};

/// The meaning of a key. Its effect depends on the context: a popup, a question, a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Send,
    NewLine,
    /// Accepts an entry, moves the focus to a question, or queues a prompt.
    Tab,
    NextMode,
    Escape,
    /// Clears the draft or stops the turn; the second time quits.
    Interrupt,
    /// Deletes a character; on an empty draft, the second time quits.
    DeleteOrQuit,
    Row(Direction),
    History(Direction),
    Search,
    SearchBack,
    Move(Motion),
    Erase(Motion),
    Kill(Motion),
    Yank,
    YankOlder,
    Undo,
    Redo,
    Editor,
    /// The first of the two keys that open the editor.
    Prefix,
    Output,
    Plan,
    Redraw,
    Raw,
    Suspend,
    Debug,
}

struct Binding {
    action: Action,
    keys: &'static [&'static str],
    /// The entries of the short list: keys and what they are for.
    short: &'static [(&'static str, &'static str)],
    /// The description in the manual.
    does: &'static str,
}

const fn bind(
    action: Action,
    keys: &'static [&'static str],
    short: &'static [(&'static str, &'static str)],
    does: &'static str,
) -> Binding {
    Binding { action, keys, short, does }
}

#[rustfmt::skip]
const BINDINGS: &[Binding] = &[
    bind(Action::Send, &["enter"], &[("enter", "send")], "sends, also while the agent works; accepts an entry of a list"),
    bind(Action::NewLine, &["shift-enter", "alt-enter", "ctrl-enter", "ctrl-j"], &[("ctrl-j", "newline")], "new line, as Enter behind a `\\`"),
    bind(Action::Tab, &["tab"], &[("tab", "queue")], "accepts an entry; goes to a question; while the agent works, queues"),
    bind(Action::Escape, &["esc"], &[("esc", "stop"), ("esc esc", "clear")], "leaves a list; answers no; stops the turn; twice clears the draft"),
    bind(Action::Search, &["ctrl-r"], &[("ctrl-r", "search")], "searches the history; again goes to an older entry"),
    bind(Action::SearchBack, &["ctrl-s"], &[], "in a search: goes to a newer entry"),
    bind(Action::Editor, &["ctrl-g"], &[("ctrl-g", "editor")], "opens the draft in the editor, as Ctrl-X Ctrl-E does"),
    bind(Action::Prefix, &["ctrl-x"], &[], "the first of the two keys that open the editor"),
    bind(Action::Output, &["ctrl-o"], &[("ctrl-o", "whole output")], "unfolds the paste at the cursor; prints the whole of the last output"),
    bind(Action::Plan, &["ctrl-t"], &[("ctrl-t", "plan")], "prints the plan of the agent"),
    bind(Action::NextMode, &["shift-tab"], &[("shift-tab", "mode")], "changes what runs without a question: asks, edits, plan"),
    bind(Action::Redraw, &["ctrl-l"], &[("ctrl-l", "redraw")], "paints the screen anew; nothing is lost"),
    bind(Action::Interrupt, &["ctrl-c"], &[("ctrl-c twice", "quit")], "clears the draft, or stops the turn; twice quits"),
    bind(Action::Raw, &["alt-m"], &[("alt-m", "raw text")], "prints the last answer as the model wrote it"),
    bind(Action::DeleteOrQuit, &["ctrl-d"], &[], "deletes the character at the cursor; twice on an empty draft quits"),
    bind(Action::Row(Direction::Up), &["up"], &[], "moves up; above the first row, to the prompt before; takes a queued prompt back"),
    bind(Action::Row(Direction::Down), &["down"], &[], "moves down; below the last row, to the next prompt"),
    bind(Action::History(Direction::Up), &["ctrl-p"], &[], "goes to the prompt before"),
    bind(Action::History(Direction::Down), &["ctrl-n"], &[], "goes to the next prompt"),
    bind(Action::Move(Motion::Left), &["left", "ctrl-b"], &[], "moves by a character"),
    bind(Action::Move(Motion::Right), &["right", "ctrl-f"], &[], "moves by a character"),
    bind(Action::Move(Motion::WordLeft), &["ctrl-left", "alt-left", "alt-b"], &[], "moves by a word"),
    bind(Action::Move(Motion::WordRight), &["ctrl-right", "alt-right", "alt-f"], &[], "moves by a word"),
    bind(Action::Move(Motion::LineStart), &["home", "ctrl-a"], &[], "goes to the start of the line; again, of the draft"),
    bind(Action::Move(Motion::LineEnd), &["end", "ctrl-e"], &[], "goes to the end of the line; again, of the draft"),
    bind(Action::Erase(Motion::Left), &["backspace", "ctrl-h", "shift-backspace"], &[], "deletes a character or a folded paste"),
    bind(Action::Erase(Motion::Right), &["delete"], &[], "deletes the character at the cursor"),
    bind(Action::Kill(Motion::WordLeft), &["ctrl-w", "alt-backspace", "ctrl-backspace"], &[], "cuts the word before the cursor"),
    bind(Action::Kill(Motion::WordRight), &["alt-d", "ctrl-delete"], &[], "cuts the word at the cursor"),
    bind(Action::Kill(Motion::LineStart), &["ctrl-u"], &[], "cuts to the start of the line"),
    bind(Action::Kill(Motion::LineEnd), &["ctrl-k"], &[], "cuts to the end of the line"),
    bind(Action::Yank, &["ctrl-y"], &[], "inserts what was cut"),
    bind(Action::YankOlder, &["alt-y"], &[], "after Ctrl-Y: inserts what was cut before that instead"),
    bind(Action::Undo, &["ctrl-_", "ctrl-7", "alt-z"], &[], "takes a change back"),
    bind(Action::Redo, &["alt-Z"], &[], "makes it again"),
    bind(Action::Suspend, &["ctrl-z"], &[], "suspends the program, if nobody else uses it"),
    bind(Action::Debug, &["f12"], &[], "shows or hides lines of the log"),
];

/// Characters that act as keys: in questions and lists, and at the start of a draft.
const TEXT_KEYS: &[(&str, &str)] = &[
    ("1–9", "in a question: choose that answer"),
    ("j, k", "in a question: go down, go up"),
    ("y, n", "in a question: the first answer, the last one"),
    ("v", "in a question: print all of what it is about"),
    ("space", "in a question: mark one of several answers"),
    ("/", "at the start of a draft: commands"),
    ("@", "behind a blank: files"),
    ("!", "on an empty draft: a command of your own, which nobody is asked about"),
    ("?", "on an empty draft: the most important keys"),
];

/// The table of keys in the manual, as markdown.
pub fn table() -> String {
    let own = BINDINGS.iter().map(|binding| (binding.keys.join(", "), binding.does));
    let rows = own.chain(TEXT_KEYS.iter().map(|(keys, does)| ((*keys).to_owned(), *does)));
    let rows: String = rows.map(|(keys, does)| format!("| {keys} | {does} |\n")).collect();
    format!("| key | does |\n|---|---|\n{rows}")
}

/// The action that a key is bound to.
pub fn action(key: Key) -> Option<Action> {
    let name = name(key);
    BINDINGS.iter().find(|binding| binding.keys.contains(&name.as_str())).map(|binding| binding.action)
}

/// The name of a key in the table: `ctrl-left`, `alt-Z`.
pub fn name(Key { code, mods }: Key) -> String {
    let mut name = String::new();
    for (bit, word) in [(Mods::CTRL, "ctrl-"), (Mods::ALT, "alt-"), (Mods::SHIFT, "shift-")] {
        if mods.has(bit) {
            name.push_str(word);
        }
    }
    match code {
        Code::Char(' ') => name.push_str("space"),
        Code::Char(c) => name.push(c),
        Code::Function(n) => name.push_str(&format!("f{n}")),
        other => name.push_str(&format!("{other:?}").to_lowercase()),
    }
    name
}

/// The short list of keys: `enter send · ctrl-j newline`, in rows of at most `max_width` columns.
pub fn help(max_width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (keys, word) in BINDINGS.iter().flat_map(|binding| binding.short) {
        let entry = format!("{keys} {word}");
        match rows.last_mut() {
            Some(row) if row.chars().count() + 3 + entry.chars().count() <= max_width => {
                row.push_str(" · ");
                row.push_str(&entry);
            }
            _ => rows.push(entry),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::input::keys::{Decoder, TerminalInput};

    #[test]
    fn no_key_is_bound_twice() {
        let keys: Vec<&&str> = BINDINGS.iter().flat_map(|binding| binding.keys).collect();
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{key}");
        }
    }

    #[test]
    fn keys_have_the_names_of_the_table() {
        let key = |code, mods| Key { code, mods };
        assert_eq!(action(key(Code::Enter, Mods::ALT)), Some(Action::NewLine));
        assert_eq!(action(key(Code::Char('_'), Mods::CTRL)), Some(Action::Undo));
        assert_eq!(action(key(Code::Char('Z'), Mods::ALT)), Some(Action::Redo));
        assert_eq!(action(key(Code::Left, Mods::CTRL)), Some(Action::Move(Motion::WordLeft)));
        assert_eq!(action(key(Code::Function(12), Mods::NONE)), Some(Action::Debug));
        assert_eq!(action(key(Code::Char('q'), Mods::ALT)), None);
        assert_eq!(action(key(Code::Insert, Mods::NONE)), None);
    }

    /// Every key in the forms that terminals send: by the tables of old terminals, as `modifyOtherKeys`, and by the kitty protocol.
    #[test]
    fn every_bound_key_is_known_in_every_form() {
        let named = [("enter", 13), ("tab", 9), ("backspace", 127), ("esc", 27)];
        let sequences = [("up", "A"), ("down", "B"), ("right", "C"), ("left", "D"), ("home", "H"), ("end", "F")];
        for binding in BINDINGS {
            for key in binding.keys {
                let (mut code, mut bits) = (*key, 0);
                for (name, bit) in [("ctrl-", 4), ("alt-", 2), ("shift-", 1)] {
                    if let Some(rest) = code.strip_prefix(name).filter(|rest| !rest.is_empty()) {
                        (code, bits) = (rest, bits + bit);
                    }
                }
                let is_capital = code.len() == 1 && code.bytes().all(|b| b.is_ascii_uppercase());
                let parameter = bits + 1 + u32::from(is_capital);
                let number = named.iter().find(|(name, _)| *name == code).map(|(_, number)| *number);
                let letter = code.chars().next().filter(|_| code.chars().count() == 1).map(u32::from);
                let mut forms: Vec<String> = Vec::new();
                if let Some(number) = number.or(letter) {
                    forms = vec![format!("\x1b[{number};{parameter}u"), format!("\x1b[27;{parameter};{number}~")];
                }
                if let Some((_, end)) = sequences.iter().find(|(name, _)| *name == code) {
                    forms.push(if bits == 0 { format!("\x1b[{end}") } else { format!("\x1b[1;{parameter}{end}") });
                }
                forms.extend((code == "delete").then(|| format!("\x1b[3;{parameter}~")));
                forms.extend((code == "f12").then(|| "\x1b[24~".to_owned()));
                let control =
                    letter.and_then(|letter| char::from_u32(letter & 0x1f)).filter(|_| bits == 4 && *key != "ctrl-7");
                forms.extend(control.map(|c| if *key == "ctrl-h" { "\x1b[104;5u".into() } else { c.to_string() }));
                forms.extend(letter.filter(|_| bits == 2).map(|_| format!("\x1b{code}")));
                assert!(!forms.is_empty(), "{key}");
                for form in forms {
                    let mut decoder = Decoder::default();
                    let mut inputs = decoder.feed(form.as_bytes(), 1_000);
                    inputs.extend(decoder.tick(100_000));
                    let [TerminalInput::Key(found)] = inputs[..] else { panic!("{key} as {form:?}: {inputs:?}") };
                    assert_eq!(action(found), Some(binding.action), "{key} as {form:?}");
                }
            }
        }
    }

    #[test]
    fn the_short_list_of_keys_fits_the_width() {
        assert_eq!(
            help(68),
            [
                "enter send · ctrl-j newline · tab queue · esc stop · esc esc clear",
                "ctrl-r search · ctrl-g editor · ctrl-o whole output · ctrl-t plan",
                "shift-tab mode · ctrl-l redraw · ctrl-c twice quit · alt-m raw text",
            ]
        );
        assert!(help(20).iter().all(|row| row.chars().count() <= 20));
    }
}
