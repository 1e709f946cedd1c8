//! The texts and JSON objects that report restores. The objects have the members of the reference server's messages.

use crate::base::clock::rfc3339;
use crate::task::definitions::slash::Commanded;
use crate::task::log::restored::{Conversation, Restored, RestoredFile};
use crate::task::restore::{Before, Point, Timeline, checkpoint};
use serde_json::{Value, json};

/// A file that was not restored, and why, as the end of a sentence that begins with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    pub path: String,
    pub why: String,
}

/// Whether a restore to a point is possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Ok,
    Conflict,
    NoPreImage,
}

impl Condition {
    fn words(self) -> &'static str {
        match self {
            Condition::Ok => "ok",
            Condition::Conflict => "conflict",
            Condition::NoPreImage => "no pre-image",
        }
    }
}

/// The result of a refused command, which has changed nothing.
pub fn refused(text: String) -> Commanded {
    let data = json!({ "type": "message", "messageType": "error", "content": text });
    Commanded::Done { text, data }
}

/// The list of points, newest first, with the files that a restore would change and whether it is possible.
pub fn list(timeline: &Timeline, points: &[(&Point, Vec<String>, Condition)], hint: Option<&str>) -> Commanded {
    let mut lines = Vec::new();
    let mut shown = Vec::new();
    let mut content = Vec::new();
    for (number, (point, files, condition)) in (1..).zip(points) {
        let (id, time) = (timeline.id(point), rfc3339(point.at));
        let what = point_text(point);
        let paths = if files.is_empty() { "no files".to_owned() } else { files.join(", ") };
        lines.push(format!("{number}  {id}  {time}  before {what}: {paths} ({})", condition.words()));
        let name = checkpoint(point).unwrap_or_else(|| id.clone());
        content.push(json!({ "messageId": id, "checkpoint": name }));
        shown.push(json!({
            "id": id, "checkpoint": name, "time": time, "before": what, "files": files, "state": condition.words(),
        }));
    }
    lines.extend(hint.map(str::to_owned));
    let text = match points {
        [] => format!("There is nothing to go back to in task {}. {}", timeline.task, hint.unwrap_or_default()),
        _ => format!(
            "Points of task {}, the newest first; /restore with one of them goes back:\n{}",
            timeline.task,
            lines.join("\n")
        ),
    };
    let content = Value::from(content).to_string();
    let data = json!({ "type": "message", "messageType": "info", "content": content, "points": shown });
    Commanded::Done { text: text.trim_end().to_owned(), data }
}

/// The text for what comes after a point.
pub fn point_text(point: &Point) -> String {
    match &point.before {
        Before::Turn { prompt } => format!("\"{prompt}\""),
        Before::Call { tool, file, .. } => format!("{tool} {}", file.as_deref().unwrap_or_default()),
    }
}

/// The result of a restore.
pub struct Outcome<'a> {
    /// The position, as a phrase: `before "fix it"`.
    pub to: String,
    pub restored: &'a Restored,
    /// Files that were not restored.
    pub left: &'a [SkippedFile],
    /// Calls and commands after the position whose effects are not undone.
    pub not_undone: &'a [String],
    pub dry_run: bool,
}

pub fn outcome(outcome: &Outcome) -> Commanded {
    let Outcome { to, restored, left, not_undone, dry_run } = outcome;
    let lead = if *dry_run { "Would go back to" } else { "Went back to" };
    let mut lines = vec![format!("{lead} {to}.")];
    lines.extend(restored.files.iter().map(|file| format!("  {}: {}", file.path, done(file))));
    lines.extend(left.iter().map(|left| format!("  {} {} and stays as it is", left.path, left.why)));
    lines.push(match (restored.conversation, *dry_run) {
        (Conversation::Kept, _) => "The conversation stays as it is; the model is told of the files.".into(),
        (Conversation::Rewound, _) => "The model sees the conversation as it was then.".into(),
    });
    if !not_undone.is_empty() {
        lines.push(format!("Not undone, because it was not done with the edit tools: {}", not_undone.join("; ")));
    }
    if !dry_run {
        lines.push("/redo takes this back.".into());
    }
    let text = lines.join("\n");
    let data = json!({
        "type": "message",
        "messageType": "info",
        "content": text,
        "to": restored.to,
        "files": restored.files,
        "left": left.iter().map(|left| json!({ "path": left.path, "why": left.why })).collect::<Vec<_>>(),
        "conversation": restored.conversation,
        "notUndone": not_undone,
        "dryRun": dry_run,
    });
    Commanded::Done { text, data }
}

/// The result of a restore that changed nothing because of conflicts.
pub fn conflicts(to: &str, left: &[SkippedFile], hint: Option<&str>) -> Commanded {
    let lines: Vec<String> = left.iter().map(|left| format!("  {} {}", left.path, left.why)).collect();
    refused(format!(
        "Nothing was changed. Going back to {to} would touch files that are not as the agent left them:\n{}\n\
         --partial restores the others, --force overwrites what somebody else changed and keeps a copy.{}",
        lines.join("\n"),
        hint.map(|hint| format!("\n{hint}")).unwrap_or_default(),
    ))
}

fn done(file: &RestoredFile) -> &'static str {
    match (&file.from, &file.to) {
        (_, None) => "deleted",
        (None, Some(_)) => "created again",
        (Some(_), Some(_)) => "put back",
    }
}
