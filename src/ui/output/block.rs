//! The lines of a transcript's entries: prompts, tool calls, plans, notices.

use crate::base::id::TaskId;
use crate::limits::ui::{
    DIFF_ROWS, FAILED_ROWS, LINE_BYTES, OUTPUT_ROWS, PROMPT_ROWS, SHELL_ROWS, TAIL_ROWS, WHOLE_ROWS,
};
use crate::task::log::event::End;
use crate::task::message::Source;
use crate::task::spec::{Choice, Display, Ending, ErrorKind, Question, Todo, TodoStatus};
use crate::ui::format::address::with_ascii_host;
use crate::ui::format::diff;
use crate::ui::format::style::Role;
use crate::ui::format::text::{printed, width};
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::scene::{Call, NoteWord, Prompt, ShellRun, Stage};
use serde_json::Value;

/// Who looks at a transcript, and how names and paths are shown to that user.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The name of this client in the records.
    pub me: Source,
    /// The workspace. Paths below it are shown relative to it.
    pub workspace: String,
    /// The user's home directory, shown as `~`.
    pub home: String,
}

impl Viewer {
    pub fn is_me(&self, by: &Source) -> bool {
        by.is_same_client(&self.me)
    }

    /// The name that is shown for a client.
    pub fn who(&self, by: &Source) -> String {
        match () {
            _ if self.is_me(by) => "you".into(),
            _ if by.is_clock() => "nobody in time".into(),
            _ => format!("{} [A2A]", name_of(&by.client, &by.via)),
        }
    }

    /// A path, relative to the workspace or to the user's home if it is below one.
    pub fn path(&self, path: &str) -> String {
        let below = |root: &str| (!root.is_empty()).then(|| path.strip_prefix(root)).flatten();
        match below(&self.workspace) {
            Some("") => ".".into(),
            Some(rest) if rest.starts_with('/') => rest[1..].into(),
            _ => self.directory(path),
        }
    }

    /// A path with `~` for the user's home.
    pub fn directory(&self, path: &str) -> String {
        match path
            .strip_prefix(&self.home)
            .filter(|rest| !self.home.is_empty() && (rest.is_empty() || rest.starts_with('/')))
        {
            Some(rest) => format!("~{rest}"),
            None => path.into(),
        }
    }
}

/// The name of a client, as others see it: the records call the user of a server's own terminal "you".
pub fn name_of<'a>(client: &'a str, via: &str) -> &'a str {
    if (client, via) == ("you", "terminal") { "terminal" } else { client }
}

/// The first characters of an id, which are enough to find a session.
pub fn short_id(task: &TaskId) -> &str {
    let id = task.as_str();
    &id[..id.floor_char_boundary(8)]
}

/// A duration with its two largest units; None below a second.
pub fn duration_text(ms: u64) -> Option<String> {
    let seconds = ms / 1_000;
    let units = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let first = units.iter().position(|(number, _)| *number > 0)?;
    let shown = units[first..].iter().take(2).filter(|(number, _)| *number > 0);
    Some(shown.map(|(number, unit)| format!("{number}{unit}")).collect::<Vec<_>>().join(" "))
}

/// A duration with its largest unit.
pub fn age_text(ms: u64) -> String {
    let text = duration_text(ms).unwrap_or_else(|| "0s".into());
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// The numbers of changed lines: `+4 −1`.
pub fn changes(added: usize, removed: usize) -> String {
    match (added, removed) {
        (_, 0) => format!("+{added}"),
        (0, _) => format!("−{removed}"),
        _ => format!("+{added} −{removed}"),
    }
}

/// The text with its first letter in lower case.
pub fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

/// `1 line`, `2 lines`.
pub fn plural(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

pub fn prompt(prompt: &Prompt, viewer: &Viewer, max_width: usize) -> Vec<Line> {
    let first = Span::new(Role::Accent, "› ");
    let mut rows = Vec::new();
    let lines: Vec<&str> = prompt.text.trim_end().lines().collect();
    for (at, text) in lines.iter().take(PROMPT_ROWS).enumerate() {
        // Lines keep their indentation, for code and lists.
        let (blanks, text) = text.split_at(text.len() - text.trim_start_matches([' ', '\t']).len());
        let indent = if at == 0 { String::new() } else { Span::new(Role::Text, blanks).text };
        let mut spans = vec![Span::prose(Role::Text, text)];
        if at == 0 && !viewer.is_me(&prompt.by) {
            spans
                .insert(0, Span::new(Role::Accent, &format!("[A2A] {}: ", name_of(&prompt.by.client, &prompt.by.via))));
        }
        let hanging = Span::new(Role::Text, &format!("  {}", &indent[..indent.len().min(max_width / 3)]));
        rows.extend(paragraph(if at == 0 { &first } else { &hanging }, &hanging, &spans, max_width));
    }
    if lines.len() > PROMPT_ROWS {
        let more = lines.len() - PROMPT_ROWS;
        rows.push(Line::new(Role::Muted, &format!("  … {} more", plural(more, "line"))));
    }
    rows.extend(prompt.files.iter().map(|file| Line::new(Role::Muted, &format!("  + {file}"))));
    rows
}

/// Tools: the name in calls, the name that is shown, and the argument that says what the call works on.
const TOOLS: &[(&str, &str, &str)] = &[
    ("read_file", "Read", "file_path"),
    ("write_file", "Write", "file_path"),
    ("replace", "Edit", "file_path"),
    ("list_directory", "List", "dir_path"),
    ("glob", "Find", "pattern"),
    ("grep_search", "Search", "pattern"),
    ("search_file_content", "Search", "pattern"),
    ("run_shell_command", "Shell", "command"),
    ("web_fetch", "Fetch", "prompt"),
    ("google_web_search", "Web", "query"),
    ("write_todos", "Plan", ""),
    ("ask_user", "Ask", ""),
];

/// The name of a tool that is shown.
pub fn tool_name(call: &Call) -> &str {
    let known = TOOLS.iter().find(|(tool, ..)| *tool == call.request.name);
    known.map_or(call.request.name.as_str(), |(_, name, _)| name)
}

/// What a call works on, in one line: a file, a command, a pattern.
pub fn subject(call: &Call, viewer: &Viewer) -> String {
    let question = call.plan.as_ref().map(|plan| &plan.question);
    let argument = TOOLS.iter().find(|(tool, ..)| *tool == call.request.name).map_or("", |(.., argument)| argument);
    let value = call.request.args.get(argument).and_then(Value::as_str);
    let text = match (question, value) {
        (Some(Question::Edit { file_path, .. }), _) => viewer.path(file_path),
        (Some(Question::Exec { command, .. }), _) => command.clone(),
        (Some(Question::Mcp { tool, .. }), _) => tool.clone(),
        (Some(Question::Info { urls, .. }), _) if !urls.is_empty() => {
            urls.iter().map(|url| with_ascii_host(url)).collect::<Vec<_>>().join(" ")
        }
        (Some(Question::AskUser { questions, .. }), _) => {
            questions.iter().map(|inquiry| inquiry.header.as_str()).collect::<Vec<_>>().join(", ")
        }
        (_, Some(value)) if argument.ends_with("_path") => viewer.path(value),
        (_, Some(value)) if argument == "pattern" => format!("\"{value}\""),
        (_, Some(value)) => value.to_owned(),
        (Some(Question::Info { .. }), None) if argument.is_empty() => {
            call.plan.as_ref().map_or(String::new(), |plan| plan.title.clone())
        }
        (_, None) => String::new(),
    };
    one_row(&text)
}

/// The first line of a text, with an ellipsis if there are more lines.
fn one_row(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end().to_owned();
    if lines.next().is_some() { first + " …" } else { first }
}

/// A title is not cut to less than this; the facts get a row of their own instead.
const MIN_TITLE_COLUMNS: usize = 24;

/// The title of a call: mark, name of the tool, and subject.
fn title(role: Role, mark: &str, call: &Call, viewer: &Viewer) -> Line {
    let subject = subject(call, viewer);
    let line = Line::new(role, mark).text(" ").add(Role::Strong, tool_name(call));
    if subject.is_empty() { line } else { line.text(" ").text(&subject) }
}

fn with_facts(line: Line, facts: &[String]) -> Line {
    facts.iter().fold(line, |line, fact| line.add(Role::Muted, " · ").add(Role::Muted, fact))
}

/// A title with its facts in one row. If they do not fit, the title is cut.
fn one_line(title: Line, facts: &[String], max_width: usize) -> Line {
    let rest: usize = facts.iter().map(|fact| width(fact) + 3).sum();
    with_facts(title.clipped(max_width.saturating_sub(rest).max(max_width / 3)), facts).clipped(max_width)
}

/// A title with its facts: one row if the title is still readable there, otherwise several.
fn head(title: Line, facts: &[String], max_width: usize) -> Vec<Line> {
    let rest: usize = facts.iter().map(|fact| width(fact) + 3).sum();
    let room = max_width.saturating_sub(rest);
    if title.width() <= room || room >= MIN_TITLE_COLUMNS {
        return vec![with_facts(title.clipped(room), facts)];
    }
    let indent = Span::new(Role::Text, "  ");
    let mut lines = vec![title.clipped(max_width)];
    for fact in facts {
        let last = lines.pop().unwrap_or_default();
        if last.width() + 3 + width(fact) <= max_width {
            lines.push(with_facts(last, std::slice::from_ref(fact)));
        } else {
            lines.push(last);
            lines.extend(paragraph(&indent, &indent, &[Span::new(Role::Muted, fact)], max_width));
        }
    }
    lines
}

/// The parts of the lines for a call that has ended.
struct EndedCallText {
    role: Role,
    mark: &'static str,
    facts: Vec<String>,
    body: Vec<Line>,
}

/// The lines for a call that has ended.
pub fn ended_call(call: &Call, viewer: &Viewer, max_width: usize) -> Vec<Line> {
    let outcome = outcome(call, viewer, max_width);
    let mut lines = head(title(outcome.role, outcome.mark, call, viewer), &outcome.facts, max_width);
    lines.extend(outcome.body);
    lines
}

fn outcome(call: &Call, viewer: &Viewer, max_width: usize) -> EndedCallText {
    let allowed =
        call.by.as_ref().filter(|_| call.choice.is_some_and(|choice| choice != Choice::Cancel) && !asks_user(call));
    let mut facts: Vec<String> = Vec::new();
    let duration = duration_text(call.ended_at.saturating_sub(call.started_at)).filter(|_| call.started_at > 0);
    let (role, mark, body) = match call.ending.as_deref() {
        Some(Ending::Success {
            output,
            display: Display::Text { text } | Display::Summary { text } | Display::Media { text, .. },
        }) => {
            let exit = (tool_name(call) == "Shell").then(|| exit_of(output.as_str()));
            let failed = exit.as_deref().is_some_and(|exit| exit != "exit 0");
            let body = text_body(call, text.as_str(), if failed { FAILED_ROWS } else { OUTPUT_ROWS }, &mut facts);
            facts.extend(allowed.map(|by| format!("allowed by {}", viewer.who(by))));
            facts.extend(exit);
            if failed { (Role::Err, "✗", body) } else { (Role::Ok, "✓", body) }
        }
        Some(Ending::Success { display: Display::Diff { diff, added, removed, .. }, .. }) => {
            facts.push(changes(*added, *removed));
            facts.extend(allowed.map(|by| format!("allowed by {}", viewer.who(by))));
            facts.extend(call.edited.as_ref().map(|_| "changed before".to_owned()));
            (Role::Ok, "✓", cut_diff(diff.as_str(), DIFF_ROWS, "ctrl-o prints them"))
        }
        Some(Ending::Success { display: Display::Todos { todos }, .. }) => (Role::Ok, "✓", plan(todos, max_width)),
        Some(Ending::Error { error }) => {
            let text = match error.kind {
                ErrorKind::FileNotFound => "no such file".to_owned(),
                ErrorKind::Interrupted => "interrupted".to_owned(),
                _ => error.message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned(),
            };
            facts.push(text);
            (Role::Err, "✗", output_tail(&call.output, FAILED_ROWS, call.output_lines as usize))
        }
        Some(Ending::Cancelled { output, .. }) => {
            let refused = call.by.as_ref().filter(|_| call.choice == Some(Choice::Cancel));
            facts.push(match refused {
                Some(by) if by.is_clock() => "not answered in time".into(),
                Some(by) => format!("refused by {}", viewer.who(by)),
                None => "stopped".into(),
            });
            let text = output.as_str();
            (Role::Muted, "–", output_tail(text, OUTPUT_ROWS, text.lines().count()))
        }
        None => {
            facts.push(if call.stage == Stage::Interrupted { "interrupted".into() } else { String::new() });
            (Role::Muted, "–", Vec::new())
        }
    };
    facts.extend(duration);
    EndedCallText { role, mark, facts, body }
}

fn asks_user(call: &Call) -> bool {
    call.plan.as_ref().is_some_and(|plan| plan.question.asks_the_user())
}

/// How a command ended, such as `exit 101`, from the result that the model gets.
fn exit_of(output: &str) -> String {
    let fact = |name: &str| {
        let rest = &output[output.rfind(name)? + name.len()..];
        Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>()).filter(|digits| !digits.is_empty())
    };
    match (fact("\nExit Code: "), fact("\nSignal: ")) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("exit {code}"),
        (None, None) => "exit 0".into(),
    }
}

/// The lines for a result that is text. A single line becomes a fact of the title; of several, the first or last ones are shown.
fn text_body(call: &Call, text: &str, max_rows: usize, facts: &mut Vec<String>) -> Vec<Line> {
    let lines = text.lines().count();
    match tool_name(call) {
        "Shell" => output_tail(text, max_rows, lines),
        _ if lines <= 1 => {
            facts.extend(Some(lowercase_first(text.trim().trim_end_matches('.'))).filter(|text| !text.is_empty()));
            Vec::new()
        }
        _ => {
            let max_rows = rows_to_show(lines, OUTPUT_ROWS);
            let mut body: Vec<Line> = printed(text).take(max_rows).map(|line| indented(&line)).collect();
            body.extend(more_line(lines, max_rows, "more", "ctrl-o prints them"));
            body
        }
    }
}

pub fn indented(text: &str) -> Line {
    Line::new(Role::Text, "  ").add(Role::Muted, shortened(text))
}

/// The part of a line that is short enough for a terminal.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LINE_BYTES)]
}

/// How many of `lines` rows are shown. If only one were missing, it is shown, too: a row that says so would take as much space.
pub fn rows_to_show(lines: usize, max_rows: usize) -> usize {
    if lines.checked_sub(1) == Some(max_rows) { lines } else { max_rows }
}

fn more_line(lines: usize, shown: usize, word: &str, hint: &str) -> Option<Line> {
    let missing = lines.checked_sub(shown).filter(|missing| *missing > 0)?;
    let words = format!("  … {} {word} · {hint}", plural(missing, "line"));
    Some(Line::new(Role::Muted, &words))
}

/// The last lines of an output that has `lines` lines.
fn output_tail(text: &str, max_rows: usize, lines: usize) -> Vec<Line> {
    let max_rows = rows_to_show(lines, max_rows);
    let mut body: Vec<Line> =
        printed(text).rev().skip_while(String::is_empty).take(max_rows).map(|line| indented(&line)).collect();
    body.reverse();
    body.extend(more_line(lines, max_rows, "above", "ctrl-o prints them"));
    body
}

/// The first rows of a diff.
pub fn cut_diff(text: &str, max_rows: usize, hint: &str) -> Vec<Line> {
    let (_, lines) = diff::rows(text, 0);
    let max_rows = rows_to_show(lines, max_rows);
    let (mut rows, _) = diff::rows(text, max_rows);
    rows.extend(more_line(lines, max_rows, "more", hint));
    rows
}

/// The lines for a call that is running: its subject, for how long it runs, and the last lines of its output.
pub fn running_call(
    call: &Call,
    viewer: &Viewer,
    spinner: char,
    now: u64,
    max_width: usize,
    facts: &[&str],
) -> Vec<Line> {
    let mut all: Vec<String> = duration_text(now.saturating_sub(call.started_at)).into_iter().collect();
    all.extend(facts.iter().map(|fact| (*fact).to_owned()));
    let mut lines = vec![one_line(title(Role::Text, &spinner.to_string(), call, viewer), &all, max_width)];
    lines.extend(live_tail(&call.output, call.output_lines as usize, max_width));
    lines
}

/// The last lines of an output that may continue.
fn live_tail(output: &str, count_of_lines: usize, max_width: usize) -> Vec<Line> {
    let mut lines: Vec<Line> =
        printed(output).rev().take(TAIL_ROWS).map(|line| indented(&line).clipped(max_width)).collect();
    lines.reverse();
    if count_of_lines > TAIL_ROWS {
        let words = format!("  … {} so far · ctrl-o prints them", plural(count_of_lines, "line"));
        lines.push(Line::new(Role::Muted, &words));
    }
    lines
}

/// The title of a user's shell command.
fn shell_title(role: Role, mark: &str, shell: &ShellRun, viewer: &Viewer) -> Line {
    let by = if viewer.is_me(&shell.by) { String::new() } else { format!("{}: ", viewer.who(&shell.by)) };
    Line::new(role, mark).text(" ").text(&by).add(Role::Strong, &one_row(&shell.command))
}

/// The lines for a user's shell command that is running.
pub fn shell_running(shell: &ShellRun, viewer: &Viewer, spinner: char, now: u64, max_width: usize) -> Vec<Line> {
    let mut facts: Vec<String> = duration_text(now.saturating_sub(shell.began_at)).into_iter().collect();
    facts.push("esc stops".into());
    let title = shell_title(Role::Text, &format!("{spinner} !"), shell, viewer);
    let mut lines = vec![one_line(title, &facts, max_width)];
    lines.extend(live_tail(&shell.output, shell.output_lines as usize, max_width));
    lines
}

/// The lines for a user's shell command that has ended: its output, and how it ended.
pub fn shell_ended(shell: &ShellRun, viewer: &Viewer, max_width: usize) -> Vec<Line> {
    let mut facts = Vec::new();
    // A success is mentioned only if the command printed nothing.
    if !shell.has_succeeded() || shell.output.trim().is_empty() {
        facts.push(shell.end.clone());
    }
    facts.extend(duration_text(shell.ended_at.saturating_sub(shell.began_at)));
    let role = if shell.has_succeeded() { Role::Strong } else { Role::Err };
    let mut lines = head(shell_title(role, "!", shell, viewer), &facts, max_width);
    let output = shell.output.trim_end();
    lines.extend(output_tail(output, SHELL_ROWS, output.lines().count().max(shell.output_lines as usize)));
    lines
}

/// The whole output of a user's shell command.
pub fn shell_full_output(shell: &ShellRun, viewer: &Viewer) -> Vec<Line> {
    let mut lines = vec![shell_title(Role::Muted, "↓ !", shell, viewer)];
    lines.extend(whole_text(&shell.output));
    lines
}

/// The title of a call and its whole output or diff.
pub fn full_output(call: &Call, viewer: &Viewer, text: &str) -> Vec<Line> {
    let mut lines = vec![title(Role::Muted, "↓", call, viewer)];
    let is_diff = matches!(call.ending.as_deref(), Some(Ending::Success { display: Display::Diff { .. }, .. }));
    match is_diff {
        true => lines.extend(cut_diff(text, WHOLE_ROWS, "the rest is in the log of the task")),
        false => lines.extend(whole_text(text)),
    }
    lines
}

fn whole_text(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> =
        printed(text).take(WHOLE_ROWS).map(|line| Line::new(Role::Text, shortened(&line))).collect();
    lines.extend(more_line(text.lines().count(), WHOLE_ROWS, "more", "they are in the log of the task"));
    lines
}

/// The lines for the agent's plan.
pub fn plan(todos: &[Todo], max_width: usize) -> Vec<Line> {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let mut lines =
        vec![Line::new(Role::Strong, "Plan").add(Role::Muted, &format!(" · {done} of {} done", todos.len()))];
    lines.extend(todos.iter().flat_map(|todo| {
        let (role, mark, text, note) = match todo.status {
            TodoStatus::Completed => (Role::Ok, "✓", Role::Muted, ""),
            TodoStatus::InProgress => (Role::Accent, "▸", Role::Strong, ""),
            TodoStatus::Pending => (Role::Muted, "○", Role::Text, ""),
            TodoStatus::Cancelled => (Role::Muted, "–", Role::Muted, " (dropped)"),
            TodoStatus::Blocked => (Role::Warn, "!", Role::Text, " (blocked)"),
        };
        let (first, next) = (Span::new(role, &format!("  {mark} ")), Span::new(Role::Text, "    "));
        let words = [Span::prose(text, &todo.description), Span::new(Role::Muted, note)];
        paragraph(&first, &next, &words, max_width)
    }));
    lines
}

/// A message with a mark: `✓` success, `·` information, `!` warning, `✗` error, `?` question.
pub fn notice(role: Role, mark: &str, text: &str, max_width: usize) -> Vec<Line> {
    let (first, next) = (Span::new(role, &format!("{mark} ")), Span::new(Role::Text, "  "));
    let body = if mark == "·" { Role::Muted } else { Role::Text };
    paragraph(&first, &next, &[Span::prose(body, text.lines().next().unwrap_or_default())], max_width)
}

/// The notice for a note of the scene; None for those that are shown in another way.
pub fn note(word: NoteWord, text: &str, model: &str, max_width: usize) -> Option<Vec<Line>> {
    let text = text.trim_end_matches('.');
    let (role, mark, words) = match word {
        NoteWord::Attached => (Role::Ok, "✓", "Read the files named with @".to_owned()),
        NoteWord::CommandPrompted if text.is_empty() => (Role::Ok, "✓", "The command became a prompt".to_owned()),
        NoteWord::CommandPrompted => (Role::Ok, "✓", text.to_owned()),
        NoteWord::FellBack => (Role::Warn, "!", format!("{text}; {model} answers from here on")),
        NoteWord::Compacted => (Role::Muted, "·", "The conversation was summarised".to_owned()),
        NoteWord::CompactionFailed => (Role::Warn, "!", format!("The conversation could not be summarised: {text}")),
        NoteWord::Looped => (Role::Warn, "!", "The model repeats itself: equal calls were not run".to_owned()),
        NoteWord::Nudged => (Role::Warn, "!", "The model repeats itself and was told so".to_owned()),
        NoteWord::Declined => (Role::Warn, "!", text.to_owned()),
        NoteWord::CallStale => {
            let file = if text.is_empty() { "The file" } else { text };
            (Role::Warn, "!", format!("{file} changed while you were asked; here is the new change"))
        }
        NoteWord::Interrupted => {
            let words = "The server was restarted in mid-turn. Enter goes on, or say what else";
            (Role::Muted, "·", words.to_owned())
        }
        NoteWord::Closed => {
            (Role::Muted, "·", format!("This session is over ({text}); the next prompt begins a new one"))
        }
        NoteWord::Restored | NoteWord::Delayed => (Role::Muted, "·", text.to_owned()),
        NoteWord::Revoked => (Role::Muted, "·", format!("{text} took permissions back")),
        NoteWord::Resumed => (Role::Muted, "·", "The turn goes on".to_owned()),
        // A user's command is shown while it runs, and with its output when it has ended. The footer shows the mode and the model.
        NoteWord::ShellBegan | NoteWord::ShellEnded | NoteWord::Tuned => return None,
        NoteWord::Retracted | NoteWord::BackedOff | NoteWord::Cited | NoteWord::Dropped => return None,
    };
    Some(notice(role, mark, &words, max_width))
}

/// The lines for the end of a turn; none if it ended normally.
pub fn turn_end(end: &End, by: Option<&Source>, viewer: &Viewer, max_width: usize) -> Vec<Line> {
    match (end, by) {
        (_, Some(by)) => notice(Role::Muted, "·", &format!("stopped by {}", viewer.who(by)), max_width),
        (End::Failed(text) | End::NeedsAuth(text), None) => notice(Role::Err, "✗", text, max_width),
        (End::Interrupted(text), None) => notice(Role::Muted, "·", text, max_width),
        (End::Asked(text), None) => notice(Role::Accent, "?", text, max_width),
        (End::Done | End::Nothing | End::Refused, None) => Vec::new(),
    }
}
