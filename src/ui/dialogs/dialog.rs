//! Questions to the user: may a call run, what does the agent want to know, which of a list. A dialog only says what was chosen; when it
//! opens and when its keys count is decided in `app`.

use crate::base::id::CallId;
use crate::limits::PADDING_CHARS;
use crate::task::definitions::agent::INVOKE;
use crate::task::log::answer::Request;
use crate::task::origin::Origin;
use crate::task::policy::{self, Mode, Names};
use crate::task::spec::{Answers, Choice, InquiryKind, Plan, Question};
use crate::ui::dialogs::inquiry::Inquiring;
use crate::ui::format::address::{disguised, revealed};
use crate::ui::format::diff;
use crate::ui::format::style::Role;
use crate::ui::format::text::clusters;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::input::bind::{Action, action};
use crate::ui::input::complete::{mark, window};
use crate::ui::input::edit::Way;
use crate::ui::input::keys::TerminalInput;
use crate::ui::output::block::{Viewer, changes, count, tool_name};
use crate::ui::scene::Call;
use std::sync::Arc;

/// What a key did to a dialog.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Ignored,
    Changed,
    Chose(Choice),
    Answered(Answers),
    /// The proposed file is to be changed in an editor first.
    EditFirst,
    /// The whole of what is asked is to be printed.
    Whole,
    /// The command was not seen as a whole.
    Unseen,
    Picked(String),
    /// An entry of a list is to be deleted.
    Deleted(String),
    Cancelled,
}

pub struct Dialog {
    pub kind: Kind,
    pub selected: usize,
}

pub enum Kind {
    Approval(Approval),
    Inquiry(Inquiring),
    Picker(Picker),
}

/// May a call run?
pub struct Approval {
    pub call: CallId,
    name: String,
    plan: Arc<Plan>,
    choices: Vec<(String, Reply)>,
    /// All of the command was on the screen.
    pub seen: bool,
    /// All of it was printed into the scrollback.
    pub printed: bool,
}

/// How many rows there are for a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub columns: usize,
    /// For all of it.
    pub rows: usize,
    /// For what is asked about.
    pub body: usize,
}

impl Room {
    /// So much that nothing is left out.
    const ENDLESS: Room = Room { columns: usize::MAX, rows: usize::MAX, body: usize::MAX };
}

/// What is asked about: a head, what must be seen, and what to check.
struct Asked {
    head: Line,
    body: Vec<Line>,
    /// How many rows the body has; of a long change not all of them are made.
    total: usize,
    warnings: Vec<Line>,
    /// Whether a part of the body is enough to decide, as it is for a change of a file that is named in the head.
    excerpt: bool,
    /// What prints the rest of the body.
    hint: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reply {
    Choice(Choice),
    Edit,
}

/// Numbered lists are short, and a digit chooses; others are filtered by typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    Shown,
    None,
    /// As none; two `d` delete an entry.
    Deletable,
}

/// A list to choose from.
pub struct Picker {
    pub title: Vec<Line>,
    /// What is shown of an entry, and what it stands for.
    entries: Vec<(Line, String)>,
    numbers: Numbers,
    filter: String,
    /// One `d` was pressed.
    armed: bool,
    hint: &'static str,
}

impl Dialog {
    pub fn new(kind: Kind) -> Dialog {
        Dialog { kind, selected: 0 }
    }

    /// The question of a call that waits for an answer.
    pub fn of(call: &Call, mode: Mode, editor: &str) -> Option<Dialog> {
        let plan = call.plan.clone()?;
        let id = call.request.call.clone();
        if let Some(inquiring) = Inquiring::new(id.clone(), call.question()?, call.inquiry.clone()) {
            return Some(Dialog::new(Kind::Inquiry(inquiring)));
        }
        let choices = choices(call, &plan, mode, editor);
        let name = tool_name(call).to_owned();
        Some(Dialog::new(Kind::Approval(Approval { call: id, name, plan, choices, seen: false, printed: false })))
    }

    /// The call that is asked about.
    pub fn call(&self) -> Option<&CallId> {
        match &self.kind {
            Kind::Approval(approval) => Some(&approval.call),
            Kind::Inquiry(inquiring) => Some(&inquiring.call),
            Kind::Picker(_) => None,
        }
    }

    /// Whether an answer is written in it.
    pub fn is_writing(&self) -> bool {
        matches!(&self.kind, Kind::Inquiry(Inquiring { draft: Some(_), .. }))
    }

    /// The answers to choose from, in words.
    pub fn labels(&self) -> Vec<String> {
        match &self.kind {
            Kind::Approval(approval) => approval.choices.iter().map(|(label, _)| label.clone()).collect(),
            Kind::Inquiry(inquiring) => inquiring.options().into_iter().map(|(label, _)| label).collect(),
            Kind::Picker(picker) => picker.seen().iter().map(|(line, _)| line.content()).collect(),
        }
    }

    fn count(&self) -> usize {
        self.labels().len()
    }

    pub fn take(&mut self, input: &TerminalInput) -> Outcome {
        if self.is_writing() {
            return self.write(input);
        }
        let count = self.count().max(1);
        let action = match input {
            TerminalInput::Key(key) => action(*key),
            _ => None,
        };
        match (action, input) {
            (Some(Action::Row(way) | Action::History(way)), _) => self.step(way, count),
            (Some(Action::Send), _) => return self.choose(self.selected),
            (Some(Action::Escape | Action::Interrupt), _) => return Outcome::Cancelled,
            (Some(Action::Erase(_)), _) if matches!(self.kind, Kind::Picker(_)) => return self.filter(None),
            (None, TerminalInput::Text(text)) => return self.text(text, count),
            _ => return Outcome::Ignored,
        }
        Outcome::Changed
    }

    fn step(&mut self, way: Way, count: usize) {
        if let Kind::Picker(picker) = &mut self.kind {
            picker.armed = false;
        }
        self.selected = match way {
            Way::Up => (self.selected + count - 1) % count,
            Way::Down => (self.selected + 1) % count,
        };
    }

    /// Letters and digits. Several at once come from no key and mean nothing.
    fn text(&mut self, text: &str, count: usize) -> Outcome {
        if let Kind::Picker(Picker { numbers: Numbers::None | Numbers::Deletable, .. }) = &self.kind {
            return self.filter(Some(text));
        }
        match text {
            "j" => self.step(Way::Down, count),
            "k" => self.step(Way::Up, count),
            "y" => return self.choose(0),
            "n" if matches!(self.kind, Kind::Approval(_)) => return self.choose(count - 1),
            "v" => return Outcome::Whole,
            " " => return self.mark(),
            _ => {
                let digit = text.parse::<usize>().ok().filter(|digit| text.len() == 1 && (1..=count).contains(digit));
                return digit.map_or(Outcome::Ignored, |digit| self.choose(digit - 1));
            }
        }
        Outcome::Changed
    }

    fn choose(&mut self, at: usize) -> Outcome {
        self.selected = at;
        match &mut self.kind {
            Kind::Approval(approval) => match approval.choices.get(at) {
                Some((_, Reply::Choice(Choice::Cancel))) => Outcome::Cancelled,
                Some(_) if !approval.seen => Outcome::Unseen,
                Some((_, Reply::Choice(choice))) => Outcome::Chose(*choice),
                Some((_, Reply::Edit)) => Outcome::EditFirst,
                None => Outcome::Ignored,
            },
            Kind::Inquiry(inquiring) => {
                let outcome = inquiring.choose(at);
                if inquiring.marked.is_empty() {
                    self.selected = 0;
                }
                outcome
            }
            Kind::Picker(picker) => {
                let chosen = picker.seen().get(at).map(|(_, value)| value.clone());
                chosen.map_or(Outcome::Ignored, Outcome::Picked)
            }
        }
    }

    fn mark(&mut self) -> Outcome {
        match &mut self.kind {
            Kind::Inquiry(inquiring) if inquiring.current().multi_select => {
                let at = self.selected;
                match inquiring.marked.iter().position(|marked| *marked == at) {
                    Some(found) => drop(inquiring.marked.remove(found)),
                    None => inquiring.marked.push(at),
                }
                Outcome::Changed
            }
            Kind::Inquiry(_) | Kind::Approval(_) | Kind::Picker(_) => Outcome::Ignored,
        }
    }

    fn filter(&mut self, text: Option<&str>) -> Outcome {
        let Kind::Picker(picker) = &mut self.kind else {
            return Outcome::Changed;
        };
        let armed = std::mem::take(&mut picker.armed);
        let deletes = picker.numbers == Numbers::Deletable && picker.filter.is_empty() && text == Some("d");
        match text {
            Some(_) if deletes && armed => {
                let entry = picker.seen().get(self.selected).map(|(_, value)| value.clone());
                return entry.map_or(Outcome::Changed, Outcome::Deleted);
            }
            Some(_) if deletes => {
                picker.armed = true;
                return Outcome::Changed;
            }
            // It was the first letter of a word.
            Some(text) if armed => picker.filter = format!("d{text}"),
            Some(text) => picker.filter.push_str(text),
            None => drop(picker.filter.pop()),
        }
        self.selected = 0;
        Outcome::Changed
    }

    /// Keys while an answer is written.
    fn write(&mut self, input: &TerminalInput) -> Outcome {
        let Kind::Inquiry(inquiring) = &mut self.kind else {
            return Outcome::Ignored;
        };
        let is_choice = inquiring.current().kind == InquiryKind::Choice;
        let is_optional = inquiring.is_optional();
        let Some(draft) = &mut inquiring.draft else {
            return Outcome::Ignored;
        };
        match input {
            TerminalInput::Text(text) => draft.type_text(text),
            TerminalInput::Paste(text) => draft.paste(text),
            TerminalInput::Key(key) => match action(*key) {
                Some(Action::Send) if draft.content().trim().is_empty() && !is_optional => return Outcome::Ignored,
                Some(Action::Send) => {
                    let text = draft.content().trim().to_owned();
                    self.selected = 0;
                    return inquiring.answer(text);
                }
                Some(Action::Escape) if is_choice => inquiring.draft = None,
                Some(Action::Escape | Action::Interrupt) => return Outcome::Cancelled,
                Some(Action::Move(motion)) => draft.move_by(motion),
                Some(Action::Erase(motion)) => draft.erase(motion),
                Some(Action::Kill(motion)) => draft.kill(motion),
                Some(Action::NewLine) => draft.type_text("\n"),
                _ => return Outcome::Ignored,
            },
            _ => return Outcome::Ignored,
        }
        Outcome::Changed
    }

    /// The rows of the dialog, and the cursor if something is written in it. If there are more than there is room for, the first ones
    /// are to be cut; what is cut is not seen.
    pub fn rows(&mut self, viewer: &Viewer, room: Room, facts: &str) -> (Vec<Line>, Option<(usize, usize)>) {
        let Room { columns, rows, body } = room;
        let mut cursor = None;
        let mut hint = match &self.kind {
            Kind::Approval(_) => facts.to_owned() + "Esc = no",
            Kind::Inquiry(inquiring) => inquiring.hint().to_owned(),
            Kind::Picker(Picker { armed: true, .. }) => "d again deletes it · Esc back".to_owned(),
            Kind::Picker(picker) => picker.hint.to_owned(),
        };
        let mut lines = match &mut self.kind {
            Kind::Approval(approval) => {
                let (lines, has_body) = approval.fitted(viewer, self.selected, room);
                if !has_body && !approval.printed {
                    hint.insert_str(0, "v prints it · ");
                }
                lines
            }
            Kind::Inquiry(inquiring) => {
                let lines = inquiring.rows(self.selected, columns, true, &mut cursor);
                match lines.len() + 2 > rows {
                    true => inquiring.rows(self.selected, columns, false, &mut cursor),
                    false => lines,
                }
            }
            Kind::Picker(picker) => picker.rows(self.selected, columns, body),
        };
        if lines.len() + 2 <= rows {
            lines.push(Line::default());
        }
        lines.push(Line::new(Role::Muted, &format!("  {hint}")));
        if lines.len() > rows
            && let Kind::Approval(approval) = &mut self.kind
        {
            approval.seen = approval.printed;
        }
        (lines.into_iter().map(|line| line.clipped(columns)).collect(), cursor)
    }

    /// All of what is asked about, to be printed.
    pub fn whole(&self, viewer: &Viewer) -> Vec<Line> {
        match &self.kind {
            Kind::Approval(approval) => {
                let Asked { head, body, warnings, .. } = approval.asked(viewer, Room::ENDLESS);
                std::iter::once(head).chain(body).chain(warnings).collect()
            }
            Kind::Inquiry(inquiring) => inquiring.whole(),
            Kind::Picker(_) => Vec::new(),
        }
    }

    /// Which question of a server it is.
    pub fn nr(&self) -> Option<u32> {
        match &self.kind {
            Kind::Inquiry(inquiring) => inquiring.nr(),
            Kind::Approval(_) | Kind::Picker(_) => None,
        }
    }

    pub fn plan(&self) -> Option<&Arc<Plan>> {
        match &self.kind {
            Kind::Approval(approval) => Some(&approval.plan),
            Kind::Inquiry(_) | Kind::Picker(_) => None,
        }
    }
}

/// Choices below each other, the selected one marked.
fn listed(labels: Vec<Line>, selected: usize, numbers: Numbers) -> Vec<Line> {
    let row = |(at, label): (usize, Line)| {
        let mut line = mark(at, selected);
        if numbers == Numbers::Shown {
            line = line.text(&format!("{}  ", at + 1));
        }
        label.spans.into_iter().for_each(|span| line.push(span));
        line
    };
    labels.into_iter().enumerate().map(row).collect()
}

/// The answers to an approval, with what "always" would allow.
fn choices(call: &Call, plan: &Plan, mode: Mode, editor: &str) -> Vec<(String, Reply)> {
    let Request { name, args, .. } = &call.request;
    let rules = policy::always(name, &Origin::BuiltIn, args, plan, Choice::ProceedAlways, mode);
    let prefixes: Vec<&str> = rules
        .iter()
        .filter_map(|rule| match &rule.command_prefix {
            Some(Names::One(prefix)) => Some(prefix.as_str()),
            _ => None,
        })
        .collect();
    let subject = match &plan.question {
        Question::Edit { .. } => "this file".to_owned(),
        Question::Exec { programs, .. } if prefixes.is_empty() => programs.join(" and "),
        Question::Exec { .. } => prefixes.join(" and "),
        Question::Mcp { tool, .. } => format!("all calls of {tool}"),
        Question::Info { .. } if name == INVOKE => {
            format!("all calls of the agent {}", args["agent_name"].as_str().unwrap_or_default())
        }
        Question::Info { .. } | Question::AskUser { .. } => format!("all of {}", tool_name(call)),
    };
    let mut choices = Vec::new();
    for choice in plan.question.options(call.keeping) {
        let label = match choice {
            Choice::ProceedOnce => "Yes".to_owned(),
            Choice::ProceedAlways | Choice::ProceedAlwaysTool => {
                format!("Yes, and {subject} for the rest of the session")
            }
            Choice::ProceedAlwaysServer => "Yes, and all tools of this server for the rest of the session".to_owned(),
            Choice::ProceedAlwaysAndSave => format!("Yes, and {subject} from now on"),
            Choice::Cancel => {
                if plan.question.is_edit() {
                    choices.push((format!("Let me change it first ({editor})"), Reply::Edit));
                }
                "No, and say what to do instead".to_owned()
            }
        };
        choices.push((label, Reply::Choice(*choice)));
    }
    choices
}

impl Asked {
    fn new(head: Line, body: Vec<Line>, warnings: Vec<Line>, hint: &'static str) -> Asked {
        Asked { head, total: body.len(), body, warnings, excerpt: false, hint }
    }
}

impl Approval {
    /// What is asked about with its answers, and whether any of it is shown. Blank rows are left out first, then rows of what is asked
    /// about.
    fn fitted(&mut self, viewer: &Viewer, selected: usize, room: Room) -> (Vec<Line>, bool) {
        let Asked { head, mut body, mut total, mut warnings, excerpt, hint } = self.asked(viewer, room);
        let labels = self.choices.iter().map(|(label, _)| Line::new(Role::Text, label));
        let choices = listed(labels.collect(), selected, Numbers::Shown);
        // The head, the choices and the hint with their blank rows.
        let rest = |warnings: &[Line], blanks: usize| 2 + warnings.len() + choices.len() + blanks;
        // The last row says what is left out.
        let wanted = total.min(room.body.saturating_add(1));
        let mut blanks = 2;
        if wanted + rest(&warnings, blanks) > room.rows {
            blanks = 0;
            warnings.retain(|line| !line.spans.is_empty());
        }
        if wanted.min(1) + rest(&warnings, blanks) > room.rows {
            total += warnings.len();
            body.append(&mut warnings);
        }
        let budget = room.rows.saturating_sub(rest(&warnings, blanks)).min(room.body.saturating_add(1));
        let hint = if self.printed { "printed above" } else { hint };
        let word = if excerpt { "line" } else { "row" };
        let (body, whole) = cut(body, total, budget, word, hint);
        self.seen |= whole || (excerpt && budget > 0);
        let has_body = budget > 0 || whole;
        let mut lines = vec![head];
        lines.extend(body.into_iter().chain(warnings));
        lines.extend((blanks > 0).then(Line::default));
        lines.extend(choices);
        (lines, has_body)
    }

    /// What is asked about, with as much of a change as there is room for.
    fn asked(&self, viewer: &Viewer, room: Room) -> Asked {
        let columns = room.columns;
        let head = |text: &str| Line::new(Role::Accent, "? ").add(Role::Strong, &self.name).text(text);
        let all = "v prints all of it";
        match &self.plan.question {
            Question::Edit { file_path, diff: text, old, .. } => {
                let (added, removed) = diff::counts(text.as_str());
                let kind = if old.is_none() { " · new file" } else { "" };
                let facts = format!(" · {}{kind}", changes(added, removed));
                let head = head(&format!(" {}", viewer.path(file_path))).add(Role::Muted, &facts);
                let (body, total) = if text.missing().is_some() {
                    let words = format!("  a change of {} bytes · v prints it", text.bytes());
                    (vec![Line::new(Role::Muted, &words)], 1)
                } else {
                    diff::rows(text.as_str(), room.body.saturating_add(1))
                };
                let (excerpt, hint) = (true, "v prints the whole change");
                Asked { head, body, total, warnings: Vec::new(), excerpt, hint }
            }
            Question::Exec { command, dir, warnings, .. } => {
                let place = dir.as_ref().map_or(String::new(), |dir| format!(" in {}", viewer.directory(dir)));
                let hosts = disguised(command).map(|(url, host)| format!("{url} leads to {host}"));
                let warnings: Vec<String> = warnings.iter().cloned().chain(hosts).collect();
                let body = command_rows(command, columns.saturating_sub(2));
                let warnings = warned(&warnings, columns);
                Asked::new(head(&place), body, warnings, "v prints the whole command")
            }
            Question::Info { prompt, urls, .. } => {
                let url = |url: &String| command_rows(&revealed(url), columns.saturating_sub(2));
                let mut body: Vec<Line> = urls.iter().flat_map(url).collect();
                let blank = Span::new(Role::Text, "  ");
                for line in prompt.lines().filter(|line| !urls.iter().any(|url| url == line)) {
                    body.extend(paragraph(&blank, &blank, &[Span::new(Role::Text, line)], columns.min(88)));
                }
                Asked::new(head(""), body, Vec::new(), all)
            }
            Question::Mcp { server, tool, args, warnings, .. } => {
                let args = serde_json::to_string_pretty(args).unwrap_or_default();
                let body = command_rows(&args, columns.saturating_sub(2));
                let warnings = warned(warnings, columns);
                let head = head(&format!(" {tool} of the MCP server {server}"));
                Asked::new(head, body, warnings, all)
            }
            Question::AskUser { title, .. } => Asked::new(head(title), Vec::new(), Vec::new(), all),
        }
    }
}

/// What to check before approving, below a blank line.
fn warned(warnings: &[String], columns: usize) -> Vec<Line> {
    let (first, next) = (Span::new(Role::Warn, "  ! "), Span::new(Role::Text, "    "));
    let rows = |warning: &String| paragraph(&first, &next, &[Span::new(Role::Text, warning)], columns.min(88));
    let blank = warnings.first().map(|_| Line::default());
    blank.into_iter().chain(warnings.iter().flat_map(rows)).collect()
}

/// A line of one role, broken by words with its indentation.
fn broken(line: &Line, columns: usize) -> Vec<Line> {
    match line.spans.as_slice() {
        [span] if line.width() > columns => {
            let text = span.text.trim_start();
            let indent = Span::new(span.role, &span.text[..span.text.len() - text.len()]);
            paragraph(&indent, &indent, &[Span::prose(span.role, text)], columns)
        }
        _ => vec![line.clone()],
    }
}

/// As many rows of `total`, and whether they are all. What is left out is counted in the last one.
fn cut(mut rows: Vec<Line>, total: usize, most: usize, word: &str, hint: &str) -> (Vec<Line>, bool) {
    if total <= most {
        return (rows, true);
    }
    let shown = most.saturating_sub(1);
    rows.truncate(shown);
    let words = format!("  … {} more · {hint}", count(total - shown, word));
    rows.extend((most > 0).then(|| Line::new(Role::Muted, &words)));
    (rows, false)
}

/// A command exactly as it is, broken only where the row ends. Runs of blanks that could move a part out of sight are counted.
fn command_rows(command: &str, columns: usize) -> Vec<Line> {
    let columns = columns.max(1);
    let mut rows = Vec::new();
    for line in command.lines() {
        let mut rest = Line::default();
        for (blanks, text) in runs(line) {
            rest = match blanks {
                0..PADDING_CHARS => rest.text(&" ".repeat(blanks)),
                _ => rest.add(Role::Warn, &format!("‹{blanks} blanks›")),
            };
            rest = rest.text(text);
        }
        let (mut row, mut column) = (Line::new(Role::Text, "  "), 0);
        for span in &rest.spans {
            for cluster in clusters(&span.text) {
                if column + cluster.width > columns {
                    rows.push(std::mem::replace(&mut row, Line::new(Role::Text, "  ")));
                    column = 0;
                }
                column += cluster.width;
                row.push(Span { role: span.role, text: cluster.text.into() });
            }
        }
        rows.push(row);
    }
    rows
}

/// A line as pieces without long runs of blanks, each with the number of blanks before it.
fn runs(line: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let text = rest.trim_start_matches(' ');
        let end = text.find(' ').unwrap_or(text.len());
        pieces.push((rest.len() - text.len(), &text[..end]));
        rest = &text[end..];
    }
    pieces
}

impl Picker {
    pub fn new(title: Vec<Line>, entries: Vec<(Line, String)>, numbers: Numbers, hint: &'static str) -> Picker {
        Picker { title, entries, numbers, filter: String::new(), armed: false, hint }
    }

    /// The entries that fit the filter.
    fn seen(&self) -> Vec<&(Line, String)> {
        let query = self.filter.to_lowercase();
        self.entries.iter().filter(|(line, _)| line.content().to_lowercase().contains(&query)).collect()
    }

    fn rows(&self, selected: usize, columns: usize, most: usize) -> Vec<Line> {
        let mut lines: Vec<Line> = self.title.iter().flat_map(|line| broken(line, columns)).collect();
        let seen = self.seen();
        let part = window(seen.len(), selected, most.max(3));
        let labels = seen[part.clone()].iter().map(|(line, _)| line.clone()).collect();
        lines.extend(listed(labels, selected - part.start.min(selected), self.numbers));
        if !self.filter.is_empty() {
            lines.push(
                Line::new(Role::Muted, &format!("    {} of {}: ", seen.len(), self.entries.len())).text(&self.filter),
            );
        }
        lines
    }
}
