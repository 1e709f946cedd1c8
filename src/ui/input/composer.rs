//! The input field: the draft, the history, the completion, and their rows on the screen. It sends nothing; it returns what is to be
//! sent.

use crate::ui::format::style::Role;
use crate::ui::format::text::width;
use crate::ui::format::wrap::Line;
use crate::ui::input::bind::Action;
use crate::ui::input::complete::{CompletionTarget, Popup, TieBreak, completion_target, rank, window};
use crate::ui::input::edit::{Direction, Draft, Motion, Rows};
use crate::ui::input::history::{Found, History, Search};

/// A slash command that can be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Without the slash.
    pub name: String,
    pub help: String,
    /// Whether the command has required arguments.
    pub needs_arguments: bool,
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComposerOutcome {
    Done,
    /// The composer does not use the key.
    Ignored,
    /// Enter on a draft without text.
    Blank,
    Submit(String),
    /// A command of the user's own shell.
    Shell(String),
}

#[derive(Debug, Default)]
pub struct Composer {
    pub draft: Draft,
    history: History,
    search: Option<Search>,
    popup: Option<Popup>,
    /// The popup was closed and stays closed until the draft changes.
    popup_dismissed: bool,
    shell: bool,
    pub commands: Vec<Command>,
    /// The last answer to `files`: the query, the paths, and the number of all files.
    files: Option<(String, Vec<String>, usize)>,
    /// A query for files that is to be sent to the server.
    pub file_query: Option<String>,
    /// The columns of a row, as last painted.
    columns: usize,
}

impl Composer {
    pub fn new(history: Vec<String>, draft: &str) -> Composer {
        Composer { draft: Draft::new(draft), history: History::new(history), columns: 80, ..Composer::default() }
    }

    pub fn is_shell(&self) -> bool {
        self.shell
    }

    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    pub fn has_popup(&self) -> bool {
        self.popup.is_some()
    }

    pub fn type_text(&mut self, text: &str) {
        if let Some(search) = &mut self.search {
            return search.change(search.query.clone() + text);
        }
        // `text` may be several keys that arrived together.
        let command = text.strip_prefix('!').filter(|_| self.draft.is_empty() && !self.shell);
        self.shell |= command.is_some();
        if command == Some("") {
            return;
        }
        self.draft.type_text(command.unwrap_or(text));
        self.changed();
    }

    /// Inserts pasted text, which never opens a popup or shell mode.
    pub fn paste(&mut self, text: &str) {
        match &mut self.search {
            Some(search) => search.change(search.query.clone() + text.lines().next().unwrap_or_default()),
            None => self.draft.paste(text),
        }
        self.history.reset();
        self.popup = None;
    }

    fn changed(&mut self) {
        self.history.reset();
        self.popup_dismissed = false;
        self.update_popup();
    }

    /// Replaces the commands that can be completed, also in an open popup.
    pub fn set_commands(&mut self, commands: Vec<Command>) {
        self.commands = commands;
        self.update_popup();
    }

    /// Brings the popup up to date with the draft.
    fn update_popup(&mut self) {
        let text = self.draft.shown();
        let target = completion_target(text, self.draft.cursor()).filter(|_| !self.shell && !self.popup_dismissed);
        self.popup = match target {
            None => None,
            Some(CompletionTarget::Command(range)) => {
                let commands = self.commands.iter().map(|command| (command.name.as_str(), command.help.as_str()));
                let mut entries = rank(&text[1..range.end], TieBreak::Earlier, commands);
                for entry in &mut entries {
                    entry.text.insert(0, '/');
                    entry.matched.iter_mut().for_each(|at| *at += 1);
                }
                let total = entries.len();
                (total > 0).then_some(Popup { target: CompletionTarget::Command(range), entries, selected: 0, total })
            }
            Some(CompletionTarget::File(range)) => {
                let query = text[range.start + 1..range.end].replace('\\', "");
                let asked = self.files.as_ref().is_some_and(|(asked, ..)| *asked == query);
                self.file_query = (!asked).then(|| query.clone());
                self.files.as_ref().map(|(_, paths, total)| {
                    let entries = rank(&query, TieBreak::Shorter, paths.iter().map(|path| (path.as_str(), "")));
                    Popup { target: CompletionTarget::File(range), entries, selected: 0, total: *total }
                })
            }
        };
    }

    /// Takes the server's answer to a query for files, which may be older than the draft. It is shown if a file is still being
    /// completed.
    pub fn found_files(&mut self, query: String, paths: Vec<String>, total: usize) {
        self.files = Some((query, paths, total));
        if matches!(completion_target(self.draft.shown(), self.draft.cursor()), Some(CompletionTarget::File(_))) {
            self.update_popup();
        }
    }

    /// Takes the selected entry into the draft. Returns whether it is a command without required arguments, which can be run at once.
    fn accept(&mut self) -> bool {
        let Some((entry, target)) = self.popup.take().and_then(|popup| Some((popup.chosen()?.clone(), popup.target)))
        else {
            return false;
        };
        let (range, text, runs) = match target {
            CompletionTarget::Command(range) => {
                let known = self.commands.iter().find(|command| command.name == entry.text[1..]);
                (range, entry.text, known.is_some_and(|command| !command.needs_arguments))
            }
            CompletionTarget::File(range) => (range, format!("@{}", entry.text.replace(' ', "\\ ")), false),
        };
        let has_blank = self.draft.shown()[range.end..].starts_with(' ');
        self.draft.replace_range(range, &format!("{text}{}", if has_blank { "" } else { " " }));
        if has_blank {
            self.draft.move_by(Motion::Right);
        }
        self.popup_dismissed = true;
        runs
    }

    pub fn act(&mut self, action: Action) -> ComposerOutcome {
        if self.search.is_some() {
            return self.act_in_search(action);
        }
        match action {
            Action::Row(direction) | Action::History(direction) if self.popup.is_some() => {
                self.popup.iter_mut().for_each(|popup| popup.step(direction));
            }
            Action::Tab if self.popup.is_some() => _ = self.accept(),
            Action::Send if self.popup.as_ref().is_some_and(|popup| popup.chosen().is_some()) => {
                // A file is only completed; so is a command that needs arguments.
                if self.accept() {
                    return self.submit();
                }
            }
            Action::Send => return self.send(),
            Action::NewLine => self.edit(|draft| draft.type_text("\n")),
            Action::Escape if self.popup.is_some() => (self.popup, self.popup_dismissed) = (None, true),
            Action::Escape if self.shell => self.shell = false,
            Action::Row(direction) if self.draft.move_row(direction, self.columns) => {}
            Action::Row(direction) | Action::History(direction) => return self.step_history(direction),
            Action::Search => self.search = Some(Search::default()),
            Action::Move(motion) => self.draft.move_by(motion),
            Action::Erase(Motion::Left) if self.draft.is_empty() && self.shell => self.shell = false,
            Action::Erase(motion) => self.edit(|draft| draft.erase(motion)),
            Action::Kill(motion) => self.edit(|draft| draft.kill(motion)),
            Action::DeleteOrQuit if !self.draft.is_empty() => self.edit(|draft| draft.erase(Motion::Right)),
            Action::Yank => self.edit(Draft::yank),
            Action::YankOlder => self.edit(Draft::yank_older),
            Action::Undo => self.edit(Draft::undo),
            Action::Redo => self.edit(Draft::redo),
            Action::Output if self.draft.unfold() => {}
            Action::Tab if !self.draft.is_empty() => self.edit(|draft| draft.type_text("  ")),
            _ => return ComposerOutcome::Ignored,
        }
        ComposerOutcome::Done
    }

    fn edit(&mut self, edit: impl FnOnce(&mut Draft)) {
        edit(&mut self.draft);
        self.changed();
    }

    fn act_in_search(&mut self, action: Action) -> ComposerOutcome {
        let Some(search) = &mut self.search else {
            return ComposerOutcome::Ignored;
        };
        match action {
            Action::Search | Action::Row(Direction::Up) | Action::History(Direction::Up) => {
                search.step(Direction::Up, &self.history)
            }
            Action::SearchBack | Action::Row(Direction::Down) | Action::History(Direction::Down) => {
                search.step(Direction::Down, &self.history);
            }
            Action::Erase(Motion::Left) => {
                let mut query = search.query.clone();
                query.pop();
                search.change(query);
            }
            Action::Send | Action::Tab | Action::Move(_) => {
                let found = search.found(&self.history).map(|found| found.entry.to_owned());
                self.search = None;
                if let Some(entry) = found {
                    self.show_entry(&entry);
                }
            }
            Action::Escape | Action::Interrupt => self.search = None,
            _ => return ComposerOutcome::Ignored,
        }
        ComposerOutcome::Done
    }

    /// Replaces the draft. This can be undone.
    pub fn set_draft(&mut self, text: &str) {
        self.draft.replace(text);
        (self.popup, self.popup_dismissed) = (None, true);
    }

    /// Replaces the draft with an entry of the history.
    fn show_entry(&mut self, entry: &str) {
        let command = entry.strip_prefix('!');
        self.shell = command.is_some();
        self.set_draft(command.unwrap_or(entry));
    }

    fn step_history(&mut self, direction: Direction) -> ComposerOutcome {
        let draft = self.text_for_history();
        match self.history.step(direction, &draft) {
            Some(entry) => {
                self.show_entry(&entry);
                ComposerOutcome::Done
            }
            None => ComposerOutcome::Ignored,
        }
    }

    /// The draft in the form of the history, where shell commands begin with `!`.
    fn text_for_history(&self) -> String {
        format!("{}{}", if self.shell { "!" } else { "" }, self.draft.content())
    }

    fn send(&mut self) -> ComposerOutcome {
        if self.draft.shown()[..self.draft.cursor()].ends_with('\\') {
            self.draft.erase(Motion::Left);
            self.edit(|draft| draft.type_text("\n"));
            return ComposerOutcome::Done;
        }
        self.submit()
    }

    pub fn submit(&mut self) -> ComposerOutcome {
        if self.draft.content().trim().is_empty() {
            return ComposerOutcome::Blank;
        }
        (self.popup, self.popup_dismissed) = (None, false);
        let text = self.draft.take().trim().to_owned();
        match std::mem::take(&mut self.shell) {
            true => ComposerOutcome::Shell(text),
            false => ComposerOutcome::Submit(text),
        }
    }

    /// Adds a text to the history. Returns whether it is to be stored.
    pub fn remember(&mut self, text: &str) -> bool {
        self.history.add(text)
    }

    /// Empties the draft and returns its text for the history.
    pub fn clear(&mut self) -> Option<String> {
        let text = Some(self.text_for_history()).filter(|_| !self.draft.is_empty());
        self.draft.take();
        (self.popup, self.popup_dismissed, self.shell) = (None, false, false);
        text
    }

    /// The rows of the composer and the position of the cursor: at most `max_rows` rows, those around the cursor.
    pub fn rows(&mut self, columns: usize, max_rows: usize, hint: &str) -> (Vec<Line>, (usize, usize)) {
        self.columns = columns.saturating_sub(2).max(1);
        if let Some(search) = &self.search {
            return self.search_rows(search);
        }
        let Rows { rows, row, column } = self.draft.rows(self.columns);
        let seen = window(rows.len(), row, max_rows.max(1));
        let lines = rows[seen.clone()].iter().enumerate().map(|(at, text)| {
            let line = match (at + seen.start, self.shell) {
                (0, false) => Line::new(Role::Accent, "› "),
                (0, true) => Line::new(Role::Warn, "! "),
                _ => Line::new(Role::Text, "  "),
            };
            match self.draft.is_empty() {
                true => line.add(Role::Muted, hint),
                false => line.text(&text.text),
            }
        });
        (lines.collect(), (row - seen.start, column + 2))
    }

    fn search_rows(&self, search: &Search) -> (Vec<Line>, (usize, usize)) {
        let head = Line::new(Role::Muted, "search: ").text(&search.query);
        let column = width("search: ") + width(&search.query);
        let found = search.found(&self.history);
        let facts = match &found {
            Some(Found { number, total, .. }) => {
                format!(" · {number} of {total} · ctrl-r older · enter takes · esc back")
            }
            None => " · nothing found · esc back".to_owned(),
        };
        let first = found.as_ref().and_then(|found| found.entry.lines().next()).unwrap_or_default();
        (vec![head.add(Role::Muted, &facts), Line::new(Role::Accent, "› ").text(first)], (0, column))
    }

    /// The rows below the draft: the popup, or a hint about folded pastes.
    pub fn popup_rows(&self, columns: usize) -> Vec<Line> {
        match &self.popup {
            Some(popup) => popup.rows(columns),
            None if self.draft.has_fold() => vec![Line::new(Role::Muted, "  ctrl-o unfolds what was pasted")],
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composer() -> Composer {
        let mut composer = Composer::new(vec!["first".into(), "!ls".into()], "");
        let command = |name: &str, needs_arguments| Command { name: name.into(), help: "h".into(), needs_arguments };
        composer.commands = vec![command("memory show", false), command("memory add", true), command("quit", false)];
        composer
    }

    fn shown(composer: &mut Composer) -> (String, (usize, usize)) {
        let (rows, cursor) = composer.rows(40, 5, "hint");
        (rows.iter().map(Line::content).collect::<Vec<_>>().join("\n"), cursor)
    }

    #[test]
    fn enter_sends_and_other_enters_make_lines() {
        let mut composer = composer();
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Blank);
        composer.type_text("one");
        composer.act(Action::NewLine);
        composer.type_text("two\\");
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Done);
        composer.type_text("three");
        assert_eq!(shown(&mut composer), ("› one\n  two\n  three".into(), (2, 7)));
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Submit("one\ntwo\nthree".into()));
        assert_eq!(shown(&mut composer), ("› hint".into(), (0, 2)));
    }

    #[test]
    fn arrows_at_the_edges_of_the_draft_step_through_the_history() {
        let mut composer = composer();
        composer.type_text("a\nb");
        assert_eq!(composer.act(Action::Row(Direction::Up)), ComposerOutcome::Done);
        assert_eq!(shown(&mut composer).1, (0, 3));
        composer.act(Action::Row(Direction::Up));
        assert_eq!(shown(&mut composer), ("! ls".into(), (0, 4)));
        composer.act(Action::Row(Direction::Up));
        assert_eq!(shown(&mut composer).0, "› first");
        assert_eq!(composer.act(Action::Row(Direction::Up)), ComposerOutcome::Ignored);
        composer.act(Action::Row(Direction::Down));
        composer.act(Action::Row(Direction::Down));
        assert_eq!(shown(&mut composer).0, "› a\n  b", "the draft is back");
        composer.act(Action::History(Direction::Up));
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Shell("ls".into()));
    }

    #[test]
    fn commands_are_completed_and_run() {
        let mut composer = composer();
        composer.type_text("/mema");
        assert!(composer.has_popup());
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Done, "it needs more");
        assert_eq!(shown(&mut composer), ("› /memory add ".into(), (0, 14)));
        composer.type_text("x");
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Submit("/memory add x".into()));
        composer.type_text("/me");
        composer.act(Action::Row(Direction::Down));
        composer.act(Action::Row(Direction::Up));
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Submit("/memory show".into()));
        composer.type_text("/q");
        composer.act(Action::Escape);
        assert!(!composer.has_popup());
        assert_eq!(composer.act(Action::Send), ComposerOutcome::Submit("/q".into()));
        composer.paste("/quit");
        assert!(!composer.has_popup(), "what is pasted triggers nothing");
    }

    #[test]
    fn files_are_asked_for_and_completed() {
        let mut composer = composer();
        composer.type_text("see @le");
        assert_eq!(composer.file_query.take().as_deref(), Some("le"));
        assert!(!composer.has_popup(), "nothing is known yet");
        composer.found_files("le".into(), vec!["src/le xer.rs".into(), "a/file.rs".into()], 812);
        let rows: Vec<String> = composer.popup_rows(40).iter().map(Line::content).collect();
        assert_eq!(rows, ["  › src/le xer.rs", "    a/file.rs", "    2 of 812"]);
        composer.type_text("x");
        assert_eq!(composer.file_query.take().as_deref(), Some("lex"));
        assert!(composer.has_popup(), "what is known is shown until more is");
        assert_eq!(composer.act(Action::Tab), ComposerOutcome::Done);
        assert_eq!(composer.draft.content(), "see @src/le\\ xer.rs ");
        composer.found_files("lex".into(), vec!["late".into()], 1);
        assert!(!composer.has_popup(), "too late");
    }

    #[test]
    fn a_completion_leaves_folded_pastes_as_they_are() {
        let mut composer = composer();
        let long = "line\n".repeat(crate::limits::ui::FOLD_LINES + 1);
        composer.paste(&long);
        composer.type_text(" @le");
        composer.found_files("le".into(), vec!["lexer.rs".into()], 1);
        composer.act(Action::Tab);
        assert_eq!(composer.draft.content(), format!("{long} @lexer.rs "));
        composer.type_text("x");
        assert_eq!(composer.draft.content(), format!("{long} @lexer.rs x"));
    }

    #[test]
    fn a_search_takes_an_entry_or_leaves_the_draft() {
        let mut composer = composer();
        composer.type_text("draft");
        composer.act(Action::Search);
        composer.type_text("fi");
        assert_eq!(
            shown(&mut composer),
            ("search: fi · 1 of 1 · ctrl-r older · enter takes · esc back\n› first".into(), (0, 10))
        );
        composer.act(Action::Escape);
        assert_eq!(shown(&mut composer).0, "› draft");
        composer.act(Action::Search);
        composer.type_text("zz");
        assert!(shown(&mut composer).0.contains("nothing found"));
        composer.act(Action::Erase(Motion::Left));
        composer.act(Action::Erase(Motion::Left));
        composer.type_text("ls");
        composer.act(Action::Send);
        assert_eq!(shown(&mut composer).0, "! ls");
    }

    #[test]
    fn shell_mode_is_entered_and_left() {
        let mut composer = composer();
        composer.type_text("!");
        assert!(composer.is_shell());
        composer.act(Action::Escape);
        assert!(!composer.is_shell());
        composer.type_text("!");
        composer.act(Action::Erase(Motion::Left));
        assert!(!composer.is_shell());
        composer.paste("!rm");
        assert!(!composer.is_shell());
        assert_eq!(composer.clear().as_deref(), Some("!rm"));
        assert_eq!(composer.clear(), None);
    }

    #[test]
    fn a_long_draft_shows_the_rows_around_the_cursor() {
        let mut composer = composer();
        let lines: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        composer.draft.replace(&lines.join("\n"));
        assert_eq!(shown(&mut composer), ("  95\n  96\n  97\n  98\n  99".into(), (4, 4)));
        composer.act(Action::Move(Motion::LineStart));
        composer.act(Action::Move(Motion::LineStart));
        assert_eq!(shown(&mut composer), ("› 0\n  1\n  2\n  3\n  4".into(), (0, 2)));
    }
}
