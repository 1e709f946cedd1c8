//! The question whether a call may run. What the call does is shown unchanged, and a command can be allowed only after all of it was
//! shown.

use crate::base::id::CallId;
use crate::limits::PADDING_CHARS;
use crate::task::definitions::agent::INVOKE;
use crate::task::log::answer::Request;
use crate::task::origin::Origin;
use crate::task::policy::{self, Mode, Names};
use crate::task::spec::{Choice, Plan, Question};
use crate::ui::dialogs::dialog::{Room, Selection, choice_rows};
use crate::ui::format::address::{non_ascii_hosts, with_ascii_host};
use crate::ui::format::diff;
use crate::ui::format::style::Role;
use crate::ui::format::text::clusters;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::output::block::{Viewer, changes, plural, tool_name};
use crate::ui::scene::Call;
use std::sync::Arc;

/// The question whether a call may run.
pub struct ApprovalDialog {
    pub call: CallId,
    name: String,
    pub(super) plan: Arc<Plan>,
    pub(super) choices: Vec<(String, Reply)>,
    /// Enough was shown to allow the call: all of a command, or an excerpt of an edit.
    pub seen: bool,
    /// All of the content was printed into the scrollback.
    pub printed: bool,
}

/// What the question is about: a head line, the body that the user must see, and warnings.
struct Content {
    head: Line,
    body: Vec<Line>,
    /// The number of rows of the whole body; for a long diff, `body` has only the first ones.
    total: usize,
    warnings: Vec<Line>,
    /// Whether a part of the body is enough to decide: it is for an edit, whose file the head names.
    excerpt: bool,
    /// The hint that says how to print the rest of the body.
    hint: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Choice(Choice),
    Edit,
}

/// The answers to choose from. The labels of those that are kept say what they would allow.
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

impl Content {
    fn new(head: Line, body: Vec<Line>, warnings: Vec<Line>, hint: &'static str) -> Content {
        Content { head, total: body.len(), body, warnings, excerpt: false, hint }
    }
}

impl ApprovalDialog {
    pub(super) fn new(call: &Call, plan: Arc<Plan>, mode: Mode, editor: &str) -> ApprovalDialog {
        let choices = choices(call, &plan, mode, editor);
        let name = tool_name(call).to_owned();
        ApprovalDialog { call: call.request.call.clone(), name, plan, choices, seen: false, printed: false }
    }

    /// The whole content, however long it is.
    pub(super) fn whole(&self, viewer: &Viewer) -> Vec<Line> {
        let Content { head, body, warnings, .. } = self.content(viewer, Room::ENDLESS);
        std::iter::once(head).chain(body).chain(warnings).collect()
    }

    /// The content and the answers in the rows that there are, and whether any row of the body is among them. If there are too few
    /// rows, blank rows are left out first, then rows of the body.
    pub(super) fn fit(&mut self, viewer: &Viewer, selected: usize, room: Room) -> (Vec<Line>, bool) {
        let Content { head, mut body, mut total, mut warnings, excerpt, hint } = self.content(viewer, room);
        let labels = self.choices.iter().map(|(label, _)| Line::new(Role::Text, label));
        let choices = choice_rows(labels.collect(), selected, Selection::Numbered);
        // The head, the choices and the hint with their blank rows.
        let rest = |warnings: &[Line], blanks: usize| 2 + warnings.len() + choices.len() + blanks;
        // One row more than the limit: the last row then says how many are left out.
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
        let (body, whole) = cut_rows(body, total, budget, word, hint);
        self.seen |= whole || (excerpt && budget > 1);
        let has_body = budget > 0 || whole;
        let mut lines = vec![head];
        lines.extend(body.into_iter().chain(warnings));
        lines.extend((blanks > 0).then(Line::default));
        lines.extend(choices);
        (lines, has_body)
    }

    /// The content, with as many rows of a diff as there is room for.
    fn content(&self, viewer: &Viewer, room: Room) -> Content {
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
                Content { head, body, total, warnings: Vec::new(), excerpt, hint }
            }
            Question::Exec { command, dir, warnings, .. } => {
                let place = dir.as_ref().map_or(String::new(), |dir| format!(" in {}", viewer.directory(dir)));
                let hosts = non_ascii_hosts(command).map(|(url, host)| format!("{url} leads to {host}"));
                let warnings: Vec<String> = warnings.iter().cloned().chain(hosts).collect();
                let body = command_rows(command, columns.saturating_sub(2));
                let warnings = warning_rows(&warnings, columns);
                Content::new(head(&place), body, warnings, "v prints the whole command")
            }
            Question::Info { prompt, urls, .. } => {
                let url = |url: &String| command_rows(&with_ascii_host(url), columns.saturating_sub(2));
                let mut body: Vec<Line> = urls.iter().flat_map(url).collect();
                let blank = Span::new(Role::Text, "  ");
                for line in prompt.lines().filter(|line| !urls.iter().any(|url| url == line)) {
                    body.extend(paragraph(&blank, &blank, &[Span::new(Role::Text, line)], columns.min(88)));
                }
                Content::new(head(""), body, Vec::new(), all)
            }
            Question::Mcp { server, tool, args, warnings, .. } => {
                let args = serde_json::to_string_pretty(args).unwrap_or_default();
                let body = command_rows(&args, columns.saturating_sub(2));
                let warnings = warning_rows(warnings, columns);
                let head = Line::new(Role::Accent, "? ").add(Role::Strong, tool);
                let head = head.text(&format!(" of the MCP server {server}"));
                Content::new(head, body, warnings, all)
            }
            Question::AskUser { title, .. } => Content::new(head(title), Vec::new(), Vec::new(), all),
        }
    }
}

/// The rows of warnings, below a blank line.
fn warning_rows(warnings: &[String], columns: usize) -> Vec<Line> {
    let (first, next) = (Span::new(Role::Warn, "  ! "), Span::new(Role::Text, "    "));
    let rows = |warning: &String| paragraph(&first, &next, &[Span::new(Role::Text, warning)], columns.min(88));
    let blank = warnings.first().map(|_| Line::default());
    blank.into_iter().chain(warnings.iter().flat_map(rows)).collect()
}

/// At most `most` of `total` rows, and whether these are all. The last row says how many are left out.
fn cut_rows(mut rows: Vec<Line>, total: usize, most: usize, word: &str, hint: &str) -> (Vec<Line>, bool) {
    if total <= most {
        return (rows, true);
    }
    let shown = most.saturating_sub(1);
    rows.truncate(shown);
    let words = format!("  … {} more · {hint}", plural(total - shown, word));
    rows.extend((most > 0).then(|| Line::new(Role::Muted, &words)));
    (rows, false)
}

/// A command without changes, broken only at the end of the row. Long runs of blanks, which could hide a part, are replaced by their
/// number.
fn command_rows(command: &str, columns: usize) -> Vec<Line> {
    let columns = columns.max(1);
    let mut rows = Vec::new();
    for line in command.lines() {
        let mut rest = Line::default();
        for (blanks, text) in split_at_blanks(line) {
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

/// The parts of a line between blanks, each with the number of blanks before it.
fn split_at_blanks(line: &str) -> Vec<(usize, &str)> {
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
