//! The commands `restore`, `undo`, `redo` and `diff`: read the log of the task, compare its files, and restore them. The core has
//! prepared the arguments: the task and the client come first.

use crate::base::id::{Seq, TaskId};
use crate::core::disk::store::{LogFile, read_all};
use crate::limits::{COPIES_NAMED_MS, RESTORE_DIFF_CHARS};
use crate::shell::workers::jobs::WorkerContext;
use crate::task::definitions::slash::{Command, Commanded};
use crate::task::log::restored::{Conversation, Restored, RestoredFile};
use crate::task::machine::job::NoteBody;
use crate::task::machine::state::State;
use crate::task::message::{Artifact, Part, Source};
use crate::task::restore::arguments::{Action, Conflicts, Name, RestoreRequest, Scope};
use crate::task::restore::report::{self, Condition, Outcome, SkippedFile};
use crate::task::restore::{CurrentFile, Point, RestoreVerdict, Timeline};
use crate::task::spec::Kind;
use crate::tool::files::path::Workspace;
use crate::tool::files::restore::{PreparedFile, RestoreFailure, Restorer};
use crate::tool::files::text::without_middle;
use serde_json::json;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The hint for reports in which content of files is missing.
const OFF: &str =
    "general.checkpointing.enabled is false in the settings: changes of files are recorded without their content.";

/// The point that a restore goes back to.
struct Destination {
    to: Seq,
    /// The point as a phrase: `before "fix it"`.
    words: String,
    scope: Scope,
    conversation: Conversation,
    items: usize,
    call: Option<crate::base::id::CallId>,
}

impl Destination {
    fn point(point: &Point, scope: Scope) -> Destination {
        Destination {
            to: point.seq,
            words: format!("before {}", report::point_text(point)),
            scope,
            conversation: scope.conversation(),
            items: point.items(),
            call: point.call().cloned(),
        }
    }
}

/// The task, the files and the client of a command.
struct Work<'a> {
    timeline: &'a Timeline<'a>,
    restorer: Restorer<'a>,
    by: Source,
    /// Why content may be missing.
    hint: Option<&'static str>,
}

impl WorkerContext {
    /// Runs one of the commands. `own` is the task of the command, in whose log copies are named.
    pub(super) fn restore(
        &self,
        command: &Command,
        name: Name,
        own: &TaskId,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Commanded, String> {
        let [task, client, via, words @ ..] = command.invocation.args.as_slice() else {
            return Err("The command was not prepared.".into());
        };
        if task.is_empty() {
            return Ok(report::refused("There is no live session. Name the task as the last argument.".into()));
        }
        let request = RestoreRequest::parse(name, words)?;
        let kind = |tool: &str| {
            let spec = self.specs.iter().find(|spec| spec.names().any(|name| name == tool))?;
            // write_todos changes nothing but its own list.
            Some(if tool == "write_todos" { Kind::Communicate } else { spec.kind })
        };
        let mut timeline = Timeline::new(task.as_str().into(), &kind);
        let file = self.archive.open(&timeline.task).map_err(|error| error.message)?;
        read_all(&*file, &mut |record| timeline.add(&record)).map_err(|error| error.message)?;
        let state = timeline.state.as_ref().ok_or("The journal of the task is empty.")?;
        let work = Work {
            restorer: self.restorer(state)?,
            timeline: &timeline,
            by: Source::new(client.clone(), via.clone()),
            hint: (!self.settings.has_checkpoints()).then_some(OFF),
        };
        let name_copies = |files: &[RestoredFile]| self.name_copies(own, files, emit);
        Ok(work.run(&request, name_copies))
    }

    fn restorer(&self, state: &State) -> Result<Restorer<'_>, String> {
        let path = &state.workspace;
        let opened = Workspace::open(Path::new(path.as_ref()));
        let workspace = opened.map_err(|error| format!("The workspace {path} cannot be opened: {error}."))?;
        let mut workspaces = vec![workspace];
        workspaces.extend(self.prompt_context.others(&self.settings.context, &state.directories));
        let limits = &self.settings.limits;
        let room = Cell::new(limits.task_blob_bytes.saturating_sub(state.blobs.values().sum()));
        Ok(Restorer { workspaces, blobs: &*self.blobs, limits, room })
    }

    /// Records the copies of files that somebody else has changed in the journal of the command, and flushes it, before the files are
    /// overwritten: after a crash nothing would refer to the copies otherwise.
    fn name_copies(&self, own: &TaskId, files: &[RestoredFile], emit: &mut dyn FnMut(NoteBody)) -> Result<(), String> {
        let Some(last) = files.iter().rev().find_map(|file| file.from.as_ref()) else {
            return Ok(());
        };
        let log = self.archive.open(own).map_err(|error| error.message)?;
        let before = log.len();
        let artifact = Artifact {
            id: "copies".into(),
            name: Some("copies".into()),
            description: Some("Files before they were overwritten.".into()),
            parts: vec![Part::data(json!(files))],
        };
        emit(NoteBody::Produced { artifact, append: false, last: true });
        let until = Instant::now() + Duration::from_millis(COPIES_NAMED_MS);
        while !names(&*log, before, &last.sha256) {
            if Instant::now() > until {
                return Err("the copies could not be recorded".into());
            }
            thread::sleep(Duration::from_millis(2));
        }
        log.sync().map_err(|error| error.message)
    }
}

/// Whether a log names the content after a position.
fn names(log: &dyn LogFile, from: u64, sha256: &str) -> bool {
    let page = log.page(from, usize::MAX).unwrap_or_default();
    memchr::memmem::find(&page, sha256.as_bytes()).is_some()
}

impl Work<'_> {
    fn run(
        &self,
        request: &RestoreRequest,
        name_copies: impl FnOnce(&[RestoredFile]) -> Result<(), String>,
    ) -> Commanded {
        let timeline = self.timeline;
        let destination = match &request.action {
            Action::List => return self.list(),
            Action::Diff(name) => {
                let point = match name {
                    Some(name) => timeline.find(name),
                    None => timeline.before_turns(1),
                };
                return point.map_or_else(|| self.no_point(name.as_deref()), |point| self.diff(point));
            }
            Action::To(name) => match timeline.find(name) {
                Some(point) => Destination::point(point, request.scope),
                None => return self.no_point(Some(name)),
            },
            Action::Undo(count) => match timeline.before_turns(*count) {
                Some(point) => Destination::point(point, request.scope),
                None => {
                    return report::refused(format!("There are no {count} prompts to undo in task {}.", timeline.task));
                }
            },
            Action::Redo => match timeline.last_undoable() {
                Some((to, conversation)) => Destination {
                    to,
                    words: "before the last undo".into(),
                    scope: Scope::Both,
                    conversation,
                    items: 0,
                    call: None,
                },
                None => {
                    return report::refused(
                        "There is nothing to redo: the last thing that happened is no undo.".into(),
                    );
                }
            },
        };
        self.go_back(&destination, request, name_copies)
    }

    fn no_point(&self, name: Option<&str>) -> Commanded {
        report::refused(match name {
            Some(name) => {
                format!("Point not found: {name}. /restore list shows the points of task {}.", self.timeline.task)
            }
            None => format!("There is nothing to go back to in task {}.", self.timeline.task),
        })
    }

    fn list(&self) -> Commanded {
        let mut seen: HashMap<(String, String), CurrentFile> = HashMap::new();
        let points = self.timeline.points().map(|point| {
            let plans = self.timeline.plan(point.seq);
            let verdicts = plans.iter().map(|plan| {
                let key = (plan.root.clone(), plan.path.clone());
                plan.verdict(seen.entry(key).or_insert_with(|| self.restorer.present(plan)))
            });
            let condition = verdicts.fold(Condition::Ok, |condition, verdict| match (condition, verdict) {
                (_, RestoreVerdict::Conflict(_)) | (Condition::Conflict, _) => Condition::Conflict,
                (_, RestoreVerdict::Lost) => Condition::NoPreImage,
                (condition, RestoreVerdict::Nothing | RestoreVerdict::Restore) => condition,
            });
            (point, plans.into_iter().map(|plan| plan.path).collect(), condition)
        });
        let points: Vec<_> = points.collect();
        report::list(self.timeline, &points, self.hint)
    }

    fn diff(&self, point: &Point) -> Commanded {
        let plans = self.timeline.plan(point.seq);
        let diff: String = plans.iter().map(|plan| self.restorer.diff(plan)).collect();
        let text = match diff.as_str() {
            "" => format!("Going back to before {} would change no files.", report::point_text(point)),
            diff => without_middle(diff, RESTORE_DIFF_CHARS).into_owned(),
        };
        let data = json!({ "type": "message", "messageType": "info", "content": text });
        Commanded::Done { text, data }
    }

    fn go_back(
        &self,
        destination: &Destination,
        request: &RestoreRequest,
        name_copies: impl FnOnce(&[RestoredFile]) -> Result<(), String>,
    ) -> Commanded {
        let Destination { to, words, scope, conversation, items, call } = destination;
        let plans = if scope.has_files() { self.timeline.plan(*to) } else { Vec::new() };
        let (copied, mut left) = self.restorer.prepare(&plans, request.conflicts);
        if !left.is_empty() && request.conflicts != Conflicts::Skip {
            return report::conflicts(words, &left, self.hint);
        }
        let mut restored = Restored {
            to: *to,
            call: call.clone(),
            files: copied.iter().map(PreparedFile::file).collect(),
            conversation: *conversation,
            items: *items,
            by: self.by.clone(),
        };
        let not_undone = self.timeline.not_undone(*to);
        if !request.dry_run {
            let foreign: Vec<RestoredFile> =
                copied.iter().filter(|copied| copied.is_foreign()).map(PreparedFile::file).collect();
            if let Err(why) = name_copies(&foreign) {
                return report::refused(format!("Nothing was changed: {why}. Try again later."));
            }
            match self.restorer.carry_out(copied) {
                Ok(files) => restored.files = files,
                Err(RestoreFailure { why, changed }) if changed.is_empty() => {
                    return report::refused(format!("Nothing was changed: {why}."));
                }
                Err(RestoreFailure { why, changed }) => {
                    left.push(SkippedFile { path: "The restore".into(), why: format!("was broken off ({why})") });
                    restored = Restored { files: changed, conversation: Conversation::Kept, ..restored };
                }
            }
        }
        let outcome = Outcome {
            to: words.clone(),
            restored: &restored,
            left: &left,
            not_undone: &not_undone,
            dry_run: request.dry_run,
        };
        match report::outcome(&outcome) {
            Commanded::Done { text, data } if !request.dry_run => {
                Commanded::Restored { restored: Box::new(restored), text, data }
            }
            other => other,
        }
    }
}
