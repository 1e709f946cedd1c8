//! Restores: to which points of a task's log one can go back, and what that means for each file. This code compares only hashes;
//! `tool/files/restore` reads and writes the files.
//!
//! A [`Timeline`] is made from the records of a log. Each [`Point`] of it is a position before a turn or before a call that changed files. A
//! restore to a point gives every file that was changed after it the version before the first of these changes, provided that the file
//! still has the version after the last of them. A restore is itself a change, so a change and its restore cancel out, and a restore can
//! be undone by a restore to the position before it.

pub mod arguments;
pub mod report;

use crate::base::clock::rfc3339;
use crate::base::id::{CallId, Seq, TaskId};
use crate::limits::RESTORE_POINTS;
use crate::task::log::blob::{FileChange, FileVersion};
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::log::restored::{Conversation, Restored};
use crate::task::machine::state::{CallState, Item, State};
use crate::task::spec::{Confinement, Ending, ErrorKind, Kind, Question};
use std::collections::HashMap;

/// Characters of a prompt or a command in a list.
const HEAD_CHARS: usize = 60;

/// A position to which one can go back.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The event after the position.
    pub seq: Seq,
    pub at: u64,
    pub before: Before,
    /// The number of entries of the task's history before the position.
    items: usize,
    /// The restore to an earlier position that hides this point.
    hidden_by: Option<Seq>,
}

/// What comes after the position of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    /// A turn, with the beginning of its prompt.
    Turn { prompt: String },
    /// A call, with its tool and the name of the first file that it changed. A call without a changed file is not offered as a point.
    Call { call: CallId, tool: String, file: Option<String> },
}

/// A change of a file: by a call, or by a restore.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    at: Seq,
    root: String,
    path: String,
    before: Option<FileVersion>,
    after: Option<FileVersion>,
    dirs: usize,
}

/// What a restore means for a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePlan {
    pub root: String,
    pub path: String,
    /// The version to restore; None: no file.
    pub target: Option<FileVersion>,
    /// The version after the last change by the task.
    pub expected: Option<FileVersion>,
    /// How many of its directories were created for it: the innermost ones.
    pub dirs: usize,
    /// Somebody else changed the file between two changes by the task.
    pub interleaved: bool,
}

/// The present state of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum CurrentFile {
    Nothing,
    File(FileVersion),
    /// Why it cannot be compared, as a clause: "is a directory now".
    Unclear(String),
}

/// Whether a file can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreVerdict {
    /// The file already has the right version.
    Nothing,
    Restore,
    /// Somebody else changed it; the reason is a clause.
    Conflict(String),
    /// The version to restore was not stored.
    Lost,
}

impl FilePlan {
    pub fn verdict(&self, present: &CurrentFile) -> RestoreVerdict {
        let now = match present {
            CurrentFile::Nothing => None,
            CurrentFile::File(version) => Some(version),
            CurrentFile::Unclear(why) => return RestoreVerdict::Conflict(why.clone()),
        };
        if is_same(now, self.target.as_ref()) {
            RestoreVerdict::Nothing
        } else if !is_same(now, self.expected.as_ref()) {
            RestoreVerdict::Conflict("was changed by somebody else since".into())
        } else if self.interleaved {
            RestoreVerdict::Conflict("was changed by somebody else between two edits".into())
        } else if self.target.as_ref().is_some_and(|target| target.unstored) {
            RestoreVerdict::Lost
        } else {
            RestoreVerdict::Restore
        }
    }
}

/// Whether both are absent, or have the same content and mode.
pub fn is_same(one: Option<&FileVersion>, other: Option<&FileVersion>) -> bool {
    let content = |version: Option<&FileVersion>| version.map(|version| (version.sha256.clone(), version.mode));
    content(one) == content(other)
}

/// The restore points and the changes of files in a log.
pub struct Timeline<'a> {
    pub task: TaskId,
    /// The kind of a tool; None if it is not known.
    kind: &'a dyn Fn(&str) -> Option<Kind>,
    pub state: Option<State>,
    points: Vec<Point>,
    changes: Vec<Change>,
    /// Calls and commands of users that may have changed any file without a record.
    unrecorded: Vec<(Seq, String)>,
    /// Edits that were started and have not reported what they wrote.
    edits: HashMap<CallId, (Seq, String)>,
    /// Restores that can be undone, the last one at the end.
    undoable: Vec<(Seq, Conversation)>,
}

impl<'a> Timeline<'a> {
    pub fn new(task: TaskId, kind: &'a dyn Fn(&str) -> Option<Kind>) -> Timeline<'a> {
        let (points, changes, unrecorded, undoable) = Default::default();
        Timeline { task, kind, state: None, points, changes, unrecorded, edits: HashMap::new(), undoable }
    }

    /// Adds the next record of the log.
    pub fn add(&mut self, record: &Record) {
        if let Some(state) = &self.state {
            match &record.event {
                Event::TurnBegan { .. } => {
                    let prompt = state.queue.front().map(|queued| head(&queued.message.text())).unwrap_or_default();
                    let items = state.history.len() + state.shell_results.len();
                    self.add_point(record, Before::Turn { prompt }, items);
                }
                Event::CallStarted { call } => {
                    let is_answer = |item: &std::sync::Arc<Item>| matches!(item.as_ref(), Item::Answered(_));
                    let items = state.history.iter().rposition(is_answer).unwrap_or(state.history.len());
                    if let Some(started) = state.call(call).cloned() {
                        self.start_call(record, &started, items);
                    }
                }
                Event::CallEnded { call, ending } if !may_have_written(ending) => drop(self.edits.remove(call)),
                Event::FileChanged(change) => self.change_file(record.seq, change),
                Event::ShellBegan { command, .. } => {
                    self.undoable.clear();
                    self.unrecorded.push((record.seq, head(command)));
                }
                Event::Restored(restored) => self.restore(record.seq, restored),
                _ => {}
            }
        }
        // The code that loads the task reports a record that is out of place.
        let _ = State::advance(&mut self.state, record);
    }

    fn add_point(&mut self, record: &Record, before: Before, items: usize) {
        self.undoable.clear();
        self.points.push(Point { seq: record.seq, at: record.at, before, items, hidden_by: None });
    }

    fn start_call(&mut self, record: &Record, call: &CallState, items: usize) {
        let tool = call.request.name.clone();
        match (self.kind)(&tool) {
            Some(Kind::Edit) => {
                drop(self.edits.insert(call.id().clone(), (record.seq, format!("{tool} (interrupted)"))));
                self.add_point(record, Before::Call { call: call.id().clone(), tool, file: None }, items);
            }
            Some(Kind::Execute | Kind::Other) | None => {
                let is_confined =
                    matches!(&call.confinement, Confinement::ReadOnly { writable } if writable.is_empty());
                let what = match call.plan.as_ref().map(|plan| &plan.question) {
                    Some(Question::Exec { command, .. }) => head(command),
                    _ => tool,
                };
                self.unrecorded.extend((!is_confined).then_some((record.seq, what)));
            }
            Some(Kind::Read | Kind::Search | Kind::Fetch | Kind::Communicate) => {}
        }
    }

    fn change_file(&mut self, at: Seq, change: &FileChange) {
        self.undoable.clear();
        self.edits.remove(&change.call);
        let FileChange { root, path, before, after, dirs, .. } = change.clone();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        for point in &mut self.points {
            if let Before::Call { call, file, .. } = &mut point.before
                && *call == change.call
            {
                file.get_or_insert(name.clone());
            }
        }
        self.changes.push(Change { at, root, path, before, after: Some(after), dirs });
    }

    fn restore(&mut self, at: Seq, restored: &Restored) {
        let taken_back = self.undoable.pop_if(|(seq, _)| *seq == restored.to).map(|(seq, _)| seq);
        if taken_back.is_none() {
            self.undoable.push((at, restored.conversation));
        }
        for point in &mut self.points {
            match taken_back {
                Some(_) if point.hidden_by == taken_back => point.hidden_by = None,
                None if restored.conversation == Conversation::Rewound && point.seq >= restored.to => {
                    point.hidden_by.get_or_insert(at);
                }
                Some(_) | None => {}
            }
        }
        self.changes.extend(restored.files.iter().cloned().map(|file| Change {
            at,
            root: file.root,
            path: file.path,
            before: file.from,
            after: file.to,
            dirs: file.dirs,
        }));
    }

    /// The points, newest first.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        let is_point =
            |point: &&Point| point.hidden_by.is_none() && !matches!(&point.before, Before::Call { file: None, .. });
        self.points.iter().rev().filter(is_point).take(RESTORE_POINTS)
    }

    /// The point of this id, checkpoint name or number in the list.
    pub fn find(&self, name: &str) -> Option<&Point> {
        match name.parse::<usize>() {
            Ok(number) => self.points().nth(number.checked_sub(1)?),
            Err(_) => self.points().find(|point| self.id(point) == name || checkpoint(point).as_deref() == Some(name)),
        }
    }

    /// The point before the last `count` turns.
    pub fn before_turns(&self, count: usize) -> Option<&Point> {
        self.points().filter(|point| matches!(point.before, Before::Turn { .. })).nth(count.checked_sub(1)?)
    }

    /// The restore that can be undone, because nothing came after it.
    pub fn last_undoable(&self) -> Option<(Seq, Conversation)> {
        self.undoable.last().copied()
    }

    pub fn id(&self, point: &Point) -> String {
        format!("{}-{}", self.task, point.seq)
    }

    /// The plan for each file that was changed after a position.
    pub fn plan(&self, to: Seq) -> Vec<FilePlan> {
        let mut plans: Vec<FilePlan> = Vec::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for change in self.changes.iter().filter(|change| change.at >= to) {
            let Change { root, path, before, after, dirs, .. } = change;
            match known.get(&(root.as_str(), path.as_str())) {
                Some(at) => {
                    let plan = &mut plans[*at];
                    let is_ours = is_same(plan.expected.as_ref(), before.as_ref());
                    plan.interleaved |= !is_ours;
                    plan.expected = after.clone();
                    plan.dirs = plan.dirs.max(*dirs);
                    // The changes so far cancel out, so nothing can be lost.
                    if is_same(plan.target.as_ref(), plan.expected.as_ref()) {
                        plan.interleaved = false;
                    }
                }
                None => {
                    known.insert((root, path), plans.len());
                    let (target, expected) = (before.clone(), after.clone());
                    let (root, path) = (root.clone(), path.clone());
                    plans.push(FilePlan { root, path, target, expected, dirs: *dirs, interleaved: false });
                }
            }
        }
        plans.retain(|plan| !is_same(plan.target.as_ref(), plan.expected.as_ref()));
        plans
    }

    /// The calls and commands after a position that may have changed files without a record.
    pub fn not_undone(&self, to: Seq) -> Vec<String> {
        let edits = self.edits.values();
        let mut after: Vec<&(Seq, String)> = self.unrecorded.iter().chain(edits).filter(|(at, _)| *at >= to).collect();
        after.sort();
        after.into_iter().map(|(_, what)| what.clone()).collect()
    }
}

impl Point {
    pub fn items(&self) -> usize {
        self.items
    }

    pub fn call(&self) -> Option<&CallId> {
        match &self.before {
            Before::Call { call, .. } => Some(call),
            Before::Turn { .. } => None,
        }
    }
}

/// The name of a point before a call in the form of the reference server.
pub fn checkpoint(point: &Point) -> Option<String> {
    let Before::Call { tool, file: Some(file), .. } = &point.before else {
        return None;
    };
    let time = rfc3339(point.at).replace(':', "-").replace('.', "_");
    Some(format!("{time}-{file}-{tool}-{}", point.seq))
}

/// Whether a call with this ending may have written a file without reporting it.
fn may_have_written(ending: &Ending) -> bool {
    match ending {
        Ending::Success { .. } => false,
        Ending::Error { error } => error.kind == ErrorKind::Interrupted,
        Ending::Cancelled { .. } => true,
    }
}

/// The beginning of the first line.
fn head(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(HEAD_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
pub(in crate::task) mod tests;
