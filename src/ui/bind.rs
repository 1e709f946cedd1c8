//! Which key does what: the one table. The list of keys that `?` shows and the one of the manual are made from it.

use crate::ui::edit::{Motion, Way};
use crate::ui::keys::{Code, Key, Mods};

/// What a key means. What it does depends on where: in a popup, in a question, while the agent works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Send,
    NewLine,
    /// Accepts an entry, goes to a question, queues a prompt.
    Tab,
    NextMode,
    Escape,
    /// Clears, stops, then quits.
    Interrupt,
    /// Deletes, then quits.
    DeleteOrQuit,
    Row(Way),
    History(Way),
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
    /// Which keys the short list shows, and for what.
    help: &'static [(&'static str, &'static str)],
}

const fn bind(action: Action, keys: &'static [&'static str]) -> Binding {
    Binding { action, keys, help: &[] }
}

const fn shown(
    action: Action,
    keys: &'static [&'static str],
    help: &'static [(&'static str, &'static str)],
) -> Binding {
    Binding { action, keys, help }
}

const BINDINGS: &[Binding] = &[
    shown(Action::Send, &["enter"], &[("enter", "send")]),
    shown(Action::NewLine, &["shift-enter", "alt-enter", "ctrl-enter", "ctrl-j"], &[("ctrl-j", "newline")]),
    shown(Action::Tab, &["tab"], &[("tab", "queue")]),
    shown(Action::Escape, &["esc"], &[("esc", "stop"), ("esc esc", "clear")]),
    shown(Action::Search, &["ctrl-r"], &[("ctrl-r", "search")]),
    bind(Action::SearchBack, &["ctrl-s"]),
    shown(Action::Editor, &["ctrl-g"], &[("ctrl-g", "editor")]),
    bind(Action::Prefix, &["ctrl-x"]),
    shown(Action::Output, &["ctrl-o"], &[("ctrl-o", "whole output")]),
    shown(Action::Plan, &["ctrl-t"], &[("ctrl-t", "plan")]),
    shown(Action::NextMode, &["shift-tab"], &[("shift-tab", "mode")]),
    shown(Action::Redraw, &["ctrl-l"], &[("ctrl-l", "redraw")]),
    shown(Action::Interrupt, &["ctrl-c"], &[("ctrl-c twice", "quit")]),
    shown(Action::Raw, &["alt-m"], &[("alt-m", "raw text")]),
    bind(Action::DeleteOrQuit, &["ctrl-d"]),
    bind(Action::Row(Way::Up), &["up"]),
    bind(Action::Row(Way::Down), &["down"]),
    bind(Action::History(Way::Up), &["ctrl-p"]),
    bind(Action::History(Way::Down), &["ctrl-n"]),
    bind(Action::Move(Motion::Left), &["left", "ctrl-b"]),
    bind(Action::Move(Motion::Right), &["right", "ctrl-f"]),
    bind(Action::Move(Motion::WordLeft), &["ctrl-left", "alt-left", "alt-b"]),
    bind(Action::Move(Motion::WordRight), &["ctrl-right", "alt-right", "alt-f"]),
    bind(Action::Move(Motion::LineStart), &["home", "ctrl-a"]),
    bind(Action::Move(Motion::LineEnd), &["end", "ctrl-e"]),
    bind(Action::Erase(Motion::Left), &["backspace", "ctrl-h", "shift-backspace"]),
    bind(Action::Erase(Motion::Right), &["delete"]),
    bind(Action::Kill(Motion::WordLeft), &["ctrl-w", "alt-backspace", "ctrl-backspace"]),
    bind(Action::Kill(Motion::WordRight), &["alt-d", "ctrl-delete"]),
    bind(Action::Kill(Motion::LineStart), &["ctrl-u"]),
    bind(Action::Kill(Motion::LineEnd), &["ctrl-k"]),
    bind(Action::Yank, &["ctrl-y"]),
    bind(Action::YankOlder, &["alt-y"]),
    bind(Action::Undo, &["ctrl-_", "ctrl-7", "alt-z"]),
    bind(Action::Redo, &["alt-Z"]),
    bind(Action::Suspend, &["ctrl-z"]),
    bind(Action::Debug, &["f12"]),
];

/// What the key means, if anything.
pub fn action(key: Key) -> Option<Action> {
    let name = name(key);
    BINDINGS.iter().find(|binding| binding.keys.contains(&name.as_str())).map(|binding| binding.action)
}

/// The key as the table names it: `ctrl-left`, `alt-Z`.
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

/// The short list: `enter send · ctrl-j newline`, in rows of at most this width.
pub fn help(most: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (keys, word) in BINDINGS.iter().flat_map(|binding| binding.help) {
        let entry = format!("{keys} {word}");
        match rows.last_mut() {
            Some(row) if row.chars().count() + 3 + entry.chars().count() <= most => {
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

    #[test]
    fn the_short_list() {
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
