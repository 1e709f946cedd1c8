//! A dialog: an approval, questions of the agent or of a server, or a list. A dialog returns what was chosen; `questions.rs` decides
//! when it opens and when its keys count.

use crate::base::id::CallId;
use crate::task::policy::Mode;
use crate::task::spec::{Answers, Choice, InquiryKind, Plan};
use crate::ui::dialogs::approval::{ApprovalDialog, Reply};
use crate::ui::dialogs::inquiry::InquiryDialog;
use crate::ui::format::style::Role;
use crate::ui::format::text::width;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::input::bind::{Action, action};
use crate::ui::input::complete::{mark, window};
use crate::ui::input::edit::Direction;
use crate::ui::input::keys::TerminalInput;
use crate::ui::output::block::Viewer;
use crate::ui::scene::Call;
use std::sync::Arc;

/// The effect of a key on a dialog.
#[derive(Clone, Debug, PartialEq)]
pub enum DialogOutcome {
    Ignored,
    Changed,
    Chose(Choice),
    Answered(Answers),
    /// The user wants to change the proposed file in the editor first.
    EditFirst,
    /// All of the content is to be printed.
    Whole,
    /// The call cannot be allowed, because the command was not shown as a whole.
    Unseen,
    Picked(String),
    /// The entry of a list with this value is to be deleted.
    Deleted(String),
    Cancelled,
}

pub struct Dialog {
    pub kind: DialogKind,
    pub selected: usize,
}

pub enum DialogKind {
    Approval(ApprovalDialog),
    Inquiry(InquiryDialog),
    Picker(Picker),
}

/// The space for a dialog on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub columns: usize,
    /// The rows for the whole dialog.
    pub rows: usize,
    /// The rows for its body: a command, a diff, or the entries of a list.
    pub body: usize,
}

impl Room {
    /// Unlimited space: nothing is left out.
    pub(super) const ENDLESS: Room = Room { columns: usize::MAX, rows: usize::MAX, body: usize::MAX };
}

/// How an entry of a list is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// By its number; for short lists.
    Numbered,
    /// By typing a part of it, then with the arrow keys and Enter.
    Filtered,
    /// As `Filtered`; pressing `d` twice deletes the selected entry.
    FilteredWithDelete,
}

/// A list to choose from.
pub struct Picker {
    pub title: Vec<Line>,
    /// The line that is shown for an entry, and its value.
    entries: Vec<(Line, String)>,
    selection: Selection,
    filter: String,
    /// `d` was pressed once; the second one deletes.
    delete_armed: bool,
    hint: &'static str,
}

impl Dialog {
    pub fn new(kind: DialogKind) -> Dialog {
        Dialog { kind, selected: 0 }
    }

    /// The question of a call that waits for an answer.
    pub fn for_call(call: &Call, mode: Mode, editor: &str) -> Option<Dialog> {
        let plan = call.plan.clone()?;
        let id = call.request.call.clone();
        if let Some(inquiry_dialog) = InquiryDialog::new(id.clone(), call.question()?, call.inquiry.clone()) {
            return Some(Dialog::new(DialogKind::Inquiry(inquiry_dialog)));
        }
        Some(Dialog::new(DialogKind::Approval(ApprovalDialog::new(call, plan, mode, editor))))
    }

    /// The call that the question is about.
    pub fn call(&self) -> Option<&CallId> {
        match &self.kind {
            DialogKind::Approval(approval) => Some(&approval.call),
            DialogKind::Inquiry(inquiry_dialog) => Some(&inquiry_dialog.call),
            DialogKind::Picker(_) => None,
        }
    }

    /// Whether the user is writing an answer in the dialog.
    pub fn is_writing(&self) -> bool {
        matches!(&self.kind, DialogKind::Inquiry(InquiryDialog { draft: Some(_), .. }))
    }

    /// The labels of the answers, each with a description, which may be empty.
    pub fn choices(&self) -> Vec<(String, String)> {
        let label = |label: String| (label, String::new());
        match &self.kind {
            DialogKind::Approval(approval) => approval.choices.iter().map(|(text, _)| label(text.clone())).collect(),
            DialogKind::Inquiry(inquiry_dialog) => inquiry_dialog.options(),
            DialogKind::Picker(picker) => picker.matching().iter().map(|(line, _)| label(line.content())).collect(),
        }
    }

    /// The number of answers.
    pub fn count(&self) -> usize {
        self.choices().len()
    }

    pub fn take(&mut self, input: &TerminalInput) -> DialogOutcome {
        if self.is_writing() {
            return self.write(input);
        }
        let count = self.count().max(1);
        let action = match input {
            TerminalInput::Key(key) => action(*key),
            _ => None,
        };
        match (action, input) {
            (Some(Action::Row(direction) | Action::History(direction)), _) => self.step(direction, count),
            (Some(Action::Send), _) => return self.choose(self.selected),
            (Some(Action::Escape | Action::Interrupt), _) => return DialogOutcome::Cancelled,
            (Some(Action::Erase(_)), _) if matches!(self.kind, DialogKind::Picker(_)) => return self.filter(None),
            (None, TerminalInput::Text(text)) => return self.text(text, count),
            _ => return DialogOutcome::Ignored,
        }
        DialogOutcome::Changed
    }

    fn step(&mut self, direction: Direction, count: usize) {
        if let DialogKind::Picker(picker) = &mut self.kind {
            picker.delete_armed = false;
        }
        self.selected = direction.step(self.selected, count);
    }

    /// Typed characters. Several at once do not come from one key and are ignored.
    fn text(&mut self, text: &str, count: usize) -> DialogOutcome {
        if let DialogKind::Picker(Picker { selection: Selection::Filtered | Selection::FilteredWithDelete, .. }) =
            &self.kind
        {
            return self.filter(Some(text));
        }
        match text {
            "j" => self.step(Direction::Down, count),
            "k" => self.step(Direction::Up, count),
            "y" => return self.choose(0),
            "n" if self.ends_with_no() => return self.choose(count - 1),
            "v" => return DialogOutcome::Whole,
            " " => return self.toggle_mark(),
            _ => {
                let digit = text.parse::<usize>().ok().filter(|digit| text.len() == 1 && (1..=count).contains(digit));
                return digit.map_or(DialogOutcome::Ignored, |digit| self.choose(digit - 1));
            }
        }
        DialogOutcome::Changed
    }

    /// Whether the last answer means no.
    fn ends_with_no(&self) -> bool {
        match &self.kind {
            DialogKind::Approval(_) | DialogKind::Picker(_) => true,
            DialogKind::Inquiry(inquiry_dialog) => inquiry_dialog.ends_with_no(),
        }
    }

    fn choose(&mut self, at: usize) -> DialogOutcome {
        self.selected = at;
        match &mut self.kind {
            DialogKind::Approval(approval) => match approval.choices.get(at) {
                Some((_, Reply::Choice(Choice::Cancel))) => DialogOutcome::Cancelled,
                Some(_) if !approval.seen => DialogOutcome::Unseen,
                Some((_, Reply::Choice(choice))) => DialogOutcome::Chose(*choice),
                Some((_, Reply::Edit)) => DialogOutcome::EditFirst,
                None => DialogOutcome::Ignored,
            },
            DialogKind::Inquiry(inquiry_dialog) => {
                let outcome = inquiry_dialog.choose(at);
                if inquiry_dialog.marked.is_empty() {
                    self.selected = 0;
                }
                outcome
            }
            DialogKind::Picker(picker) => {
                let chosen = picker.matching().get(at).map(|(_, value)| value.clone());
                chosen.map_or(DialogOutcome::Ignored, DialogOutcome::Picked)
            }
        }
    }

    fn toggle_mark(&mut self) -> DialogOutcome {
        match &mut self.kind {
            DialogKind::Inquiry(inquiry_dialog) if inquiry_dialog.current().multi_select => {
                let at = self.selected;
                match inquiry_dialog.marked.iter().position(|marked| *marked == at) {
                    Some(found) => drop(inquiry_dialog.marked.remove(found)),
                    None => inquiry_dialog.marked.push(at),
                }
                DialogOutcome::Changed
            }
            DialogKind::Inquiry(_) | DialogKind::Approval(_) | DialogKind::Picker(_) => DialogOutcome::Ignored,
        }
    }

    fn filter(&mut self, text: Option<&str>) -> DialogOutcome {
        let DialogKind::Picker(picker) = &mut self.kind else {
            return DialogOutcome::Changed;
        };
        let delete_armed = std::mem::take(&mut picker.delete_armed);
        let deletes =
            picker.selection == Selection::FilteredWithDelete && picker.filter.is_empty() && text == Some("d");
        match text {
            Some(_) if deletes && delete_armed => {
                let entry = picker.matching().get(self.selected).map(|(_, value)| value.clone());
                return entry.map_or(DialogOutcome::Changed, DialogOutcome::Deleted);
            }
            Some(_) if deletes => {
                picker.delete_armed = true;
                return DialogOutcome::Changed;
            }
            // The `d` before was the first letter of a filter.
            Some(text) if delete_armed => picker.filter = format!("d{text}"),
            Some(text) => picker.filter.push_str(text),
            None => drop(picker.filter.pop()),
        }
        self.selected = 0;
        DialogOutcome::Changed
    }

    /// Keys while an answer is written.
    fn write(&mut self, input: &TerminalInput) -> DialogOutcome {
        let DialogKind::Inquiry(inquiry_dialog) = &mut self.kind else {
            return DialogOutcome::Ignored;
        };
        let is_choice = inquiry_dialog.current().kind == InquiryKind::Choice;
        let is_optional = inquiry_dialog.is_optional();
        let Some(draft) = &mut inquiry_dialog.draft else {
            return DialogOutcome::Ignored;
        };
        match input {
            TerminalInput::Text(text) => draft.type_text(text),
            TerminalInput::Paste(text) => draft.paste(text),
            TerminalInput::Key(key) => match action(*key) {
                Some(Action::Send) if draft.content().trim().is_empty() && !is_optional => {
                    return DialogOutcome::Ignored;
                }
                Some(Action::Send) => {
                    let text = draft.content().trim().to_owned();
                    self.selected = 0;
                    return inquiry_dialog.answer(text);
                }
                Some(Action::Escape) if is_choice => inquiry_dialog.draft = None,
                Some(Action::Escape | Action::Interrupt) => return DialogOutcome::Cancelled,
                Some(Action::Move(motion)) => draft.move_by(motion),
                Some(Action::Erase(motion)) => draft.erase(motion),
                Some(Action::Kill(motion)) => draft.kill(motion),
                Some(Action::NewLine) => draft.type_text("\n"),
                _ => return DialogOutcome::Ignored,
            },
            _ => return DialogOutcome::Ignored,
        }
        DialogOutcome::Changed
    }

    /// The rows of the dialog, and the cursor while an answer is written. If there are more rows than `room.rows`, the caller cuts
    /// the first ones; what is cut does not count as seen.
    pub fn rows(&mut self, viewer: &Viewer, room: Room, facts: &str) -> (Vec<Line>, Option<(usize, usize)>) {
        let Room { columns, rows, body } = room;
        let mut cursor = None;
        let mut hint = match &self.kind {
            DialogKind::Approval(_) => facts.to_owned() + "Esc = no",
            DialogKind::Inquiry(inquiry_dialog) => inquiry_dialog.hint().to_owned(),
            DialogKind::Picker(Picker { delete_armed: true, .. }) => "d again deletes it · Esc back".to_owned(),
            DialogKind::Picker(picker) => picker.hint.to_owned(),
        };
        let mut lines = match &mut self.kind {
            DialogKind::Approval(approval) => {
                let (lines, has_body) = approval.fit(viewer, self.selected, room);
                if !has_body && !approval.printed {
                    hint.insert_str(0, "v prints it · ");
                }
                lines
            }
            DialogKind::Inquiry(inquiry_dialog) => {
                let lines = inquiry_dialog.rows(self.selected, columns, true, &mut cursor);
                match lines.len() + 2 > rows {
                    true => inquiry_dialog.rows(self.selected, columns, false, &mut cursor),
                    false => lines,
                }
            }
            DialogKind::Picker(picker) => picker.rows(self.selected, columns, body),
        };
        if lines.len() + 2 <= rows {
            lines.push(Line::default());
        }
        lines.push(Line::new(Role::Muted, &format!("  {}", shortened_hint(&hint, columns.saturating_sub(2)))));
        if lines.len() > rows
            && let DialogKind::Approval(approval) = &mut self.kind
        {
            approval.seen = approval.printed;
        }
        (lines.into_iter().map(|line| line.clipped(columns)).collect(), cursor)
    }

    /// All of the content, to be printed.
    pub fn whole(&self, viewer: &Viewer) -> Vec<Line> {
        match &self.kind {
            DialogKind::Approval(approval) => approval.whole(viewer),
            DialogKind::Inquiry(inquiry_dialog) => inquiry_dialog.whole(),
            DialogKind::Picker(_) => Vec::new(),
        }
    }

    /// Whether the dialog shows the present question of its call.
    pub fn is_current(&self, call: &Call) -> bool {
        let inquiry = call.inquiry.as_ref().map(|inquired| inquired.nr);
        match &self.kind {
            DialogKind::Approval(approval) => inquiry.is_none() && call.plan.as_ref() == Some(&approval.plan),
            DialogKind::Inquiry(inquiry_dialog) => inquiry_dialog.inquiry_number() == inquiry,
            DialogKind::Picker(_) => true,
        }
    }

    pub fn plan(&self) -> Option<&Arc<Plan>> {
        match &self.kind {
            DialogKind::Approval(approval) => Some(&approval.plan),
            DialogKind::Inquiry(_) | DialogKind::Picker(_) => None,
        }
    }
}

/// The rows of a list of choices, the selected one marked.
pub(super) fn choice_rows(labels: Vec<Line>, selected: usize, selection: Selection) -> Vec<Line> {
    let row = |(at, label): (usize, Line)| {
        let mut line = mark(at, selected);
        if selection == Selection::Numbered {
            line = line.text(&format!("{}  ", at + 1));
        }
        label.spans.into_iter().for_each(|span| line.push(span));
        line
    };
    labels.into_iter().enumerate().map(row).collect()
}

/// A hint without its first parts, if there is no room for them. The last part says how to leave.
fn shortened_hint(hint: &str, columns: usize) -> String {
    let mut parts: Vec<&str> = hint.split(" · ").collect();
    while parts.len() > 1 && width(&parts.join(" · ")) > columns {
        parts.remove(0);
    }
    parts.join(" · ")
}

/// A line broken at words. The next rows have its indentation; or, after a mark, begin where the text after the mark does.
fn break_line(line: &Line, columns: usize) -> Vec<Line> {
    match line.spans.as_slice() {
        _ if line.width() <= columns => vec![line.clone()],
        [span] => {
            let text = span.text.trim_start();
            let indent = Span::new(span.role, &span.text[..span.text.len() - text.len()]);
            paragraph(&indent, &indent, &[Span::prose(span.role, text)], columns)
        }
        [first, rest @ ..] => {
            let next = Span::new(Role::Text, &" ".repeat(width(&first.text)));
            paragraph(first, &next, rest, columns)
        }
        [] => vec![line.clone()],
    }
}

impl Picker {
    pub fn new(title: Vec<Line>, entries: Vec<(Line, String)>, selection: Selection, hint: &'static str) -> Picker {
        Picker { title, entries, selection, filter: String::new(), delete_armed: false, hint }
    }

    /// The entries that match the filter.
    fn matching(&self) -> Vec<&(Line, String)> {
        let query = self.filter.to_lowercase();
        self.entries.iter().filter(|(line, _)| line.content().to_lowercase().contains(&query)).collect()
    }

    fn rows(&self, selected: usize, columns: usize, max_rows: usize) -> Vec<Line> {
        let mut lines: Vec<Line> = self.title.iter().flat_map(|line| break_line(line, columns)).collect();
        let seen = self.matching();
        let part = window(seen.len(), selected, max_rows.max(3));
        let labels = seen[part.clone()].iter().map(|(line, _)| line.clone()).collect();
        lines.extend(choice_rows(labels, selected - part.start.min(selected), self.selection));
        if !self.filter.is_empty() {
            lines.push(
                Line::new(Role::Muted, &format!("    {} of {}: ", seen.len(), self.entries.len())).text(&self.filter),
            );
        }
        lines
    }
}
