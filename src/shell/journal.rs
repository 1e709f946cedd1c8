//! The store on disk: one file of lines per task, and nothing that could not be found again from those files.
//!
//! ```text
//! tasks/<task>.jsonl      the log, appended to, locked (flock) by the one server that has the task loaded
//! open/<task>             an empty file while the task has an unfinished turn or an open question
//! index.jsonl             {"task","at","brief"} per task and rest, so that a start need not open every log
//! instances/<id>          locked by the living server that marks its child processes with this id
//! ```
//!
//! Several servers may share the directory. A log has one writer because of its lock. The index has many, so it is only a
//! hint: lines are added by single appends and never changed, what cannot be read in it is passed over, and a log that it does
//! not name is added from the log itself. The last line of a task counts. An instance id belongs to whoever holds its lock, so a
//! server that starts can take over the ids of dead ones, and end what they left running, without touching the children of a
//! living one.
//!
//! A marker in `open` is made before the append that opens a task and removed after the one that settles it. A crash in
//! between leaves one marker too many, which costs a look at the next start, and never one too few.

mod file;
mod instances;
#[cfg(test)]
mod tests;

use crate::base::id::{ContextId, Entropy, TaskId};
use crate::base::json;
use crate::core::store::{Known, LogFile, Openness, Store, StoreError};
use crate::shell::sys;
use crate::task::brief::Brief;
use crate::task::event::Event;
use crate::task::record::Record;
use crate::task::state::{State, TaskState};
use file::FileLog;
use instances::Instances;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// What is longer is no line of ours: a request body is the most that one event holds.
const LINE_BYTES: u64 = 64 << 20;

pub struct Journal {
    tasks: PathBuf,
    markers: PathBuf,
    index: File,
    instances: Instances,
    loaded: HashMap<TaskId, Loaded>,
    /// Logs that are closed here while the disk lane still reads them, and so still locked.
    leaving: HashMap<TaskId, Weak<FileLog>>,
}

struct Loaded {
    log: Arc<FileLog>,
    open: Openness,
    /// What the index is told after the first append.
    unlisted: Option<Brief>,
}

/// A line of the index.
#[derive(Serialize, Deserialize)]
struct Entry {
    task: TaskId,
    /// When the task began, in Unix milliseconds.
    at: u64,
    /// Lines of the first version have none.
    #[serde(default)]
    brief: Option<Brief>,
}

impl Journal {
    /// Opens the state directory, making it if need be: for its owner only, before anything is in it.
    pub fn open(dir: &Path, entropy: &mut Entropy) -> Result<Journal, StoreError> {
        let (tasks, markers) = (dir.join("tasks"), dir.join("open"));
        let instances = dir.join("instances");
        for path in [dir, &tasks, &markers, &instances] {
            private_dir(path)?;
        }
        let path = dir.join("index.jsonl");
        let index = private_file(&path, OpenOptions::new().read(true).create(true))
            .map_err(|e| failed("open", &path, &e))?;
        Ok(Journal {
            tasks,
            markers,
            index,
            instances: Instances::take(&instances, entropy)?,
            loaded: HashMap::new(),
            leaving: HashMap::new(),
        })
    }

    /// The id this server marks its child processes with. It outlives the server: the next one in this directory has it too.
    pub fn instance(&self) -> &str {
        self.instances.own()
    }

    /// Every id whose children are nobody's but ours: our own and those of servers that are gone. Children that carry one of
    /// them when the server starts are left over.
    pub fn instances(&self) -> impl Iterator<Item = &str> {
        self.instances.all()
    }

    fn load(&mut self, task: &TaskId) -> Result<&mut Loaded, StoreError> {
        if !self.loaded.contains_key(task) {
            let (path, marker) = self.paths(task)?;
            let leaving = self.leaving.remove(task).and_then(|log| log.upgrade());
            let log = match leaving {
                Some(log) => log,
                None => Arc::new(FileLog::open(path, marker)?),
            };
            // Looked at under the lock: now nobody else changes it.
            let open = log.openness();
            let loaded = Loaded {
                log,
                open,
                unlisted: None,
            };
            self.loaded.insert(task.clone(), loaded);
        }
        Ok(self.loaded.get_mut(task).expect("it was just put there"))
    }

    /// The log and the marker of a task. An id that is no plain file name has neither.
    fn paths(&self, task: &TaskId) -> Result<(PathBuf, PathBuf), StoreError> {
        let id = task.as_str();
        if !is_file_name(id) {
            return Err(StoreError::new(format!(
                "{id:?} cannot be the id of a task: use 1 to 128 letters, digits, - and _"
            )));
        }
        let path = self.tasks.join(format!("{id}.jsonl"));
        Ok((path, self.markers.join(id)))
    }

    /// What the index says, and whether its last line is whole.
    fn read_index(&self) -> (Vec<Entry>, Tail) {
        let mut bytes = Vec::new();
        // An index that cannot be read is as good as an empty one.
        if let Ok(metadata) = self.index.metadata() {
            bytes.resize(metadata.len() as usize, 0);
            if self.index.read_exact_at(&mut bytes, 0).is_err() {
                bytes.clear();
            }
        }
        let tail = match bytes.last() {
            None | Some(b'\n') => Tail::Whole,
            Some(_) => Tail::Torn,
        };
        let entries = bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok());
        (entries.collect(), tail)
    }

    /// One write, which O_APPEND keeps whole among several servers. A failure is no error: the next start finds the task by
    /// its log.
    fn add_to_index(&self, lines: &[u8]) {
        if !lines.is_empty() {
            let _ = (&self.index).write(lines);
        }
    }
}

/// How the index ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    Whole,
    Torn,
}

impl Store for Journal {
    fn known(&mut self) -> Vec<Known> {
        let mut unlisted: HashSet<String> = names(&self.tasks)
            .filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()))
            .filter(|id| is_file_name(id))
            .collect();
        let (mut entries, tail) = self.read_index();
        entries.retain(|entry| entry.brief.is_some());
        let mut entries = latest(entries);
        entries.retain(|entry| unlisted.remove(entry.task.as_str()));
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for id in unlisted {
            match opening(&self.tasks.join(format!("{id}.jsonl")), &id) {
                Opening::Listed(entry) => found.push(entry),
                // Named all the same, so that whoever asks for it is told what is wrong with it.
                Opening::Damaged => damaged.push(Entry {
                    task: id.as_str().into(),
                    at: 0,
                    brief: Some(unreadable()),
                }),
                Opening::Unbegun => {}
            }
        }
        found.sort_by(|a, b| (a.at, &a.task).cmp(&(b.at, &b.task)));
        let mut lines = Vec::new();
        if tail == Tail::Torn {
            // Ended rather than cut: another server may be appending.
            lines.push(b'\n');
        }
        for entry in &found {
            write_entry(&mut lines, entry);
        }
        self.add_to_index(&lines);
        entries.append(&mut damaged);
        entries.append(&mut found);
        entries.sort_by_key(|entry| entry.at);
        let open: HashSet<String> = names(&self.markers).collect();
        let known = entries.into_iter().map(|entry| Known {
            open: open.contains(entry.task.as_str()),
            task: entry.task,
            brief: entry.brief.unwrap_or_else(unreadable),
        });
        known.collect()
    }

    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        let (path, marker) = self.paths(task)?;
        if self.loaded.contains_key(task) {
            return Err(exists(task));
        }
        let log = FileLog::create(path, marker)?.ok_or_else(|| exists(task))?;
        let loaded = Loaded {
            log: Arc::new(log),
            open: Openness::Settled,
            unlisted: Some(brief.clone()),
        };
        self.loaded.insert(task.clone(), loaded);
        Ok(())
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        let loaded = self.load(task)?;
        if open == Openness::Open && loaded.open == Openness::Settled {
            loaded.log.mark()?;
            loaded.open = Openness::Open;
        }
        loaded.log.append(lines)?;
        if open == Openness::Settled && loaded.open == Openness::Open && loaded.log.unmark() {
            loaded.open = Openness::Settled;
        }
        if let Some(brief) = loaded.unlisted.take_if(|_| !lines.is_empty()) {
            self.note(task, &brief);
        }
        Ok(())
    }

    fn note(&mut self, task: &TaskId, brief: &Brief) {
        let mut line = Vec::new();
        let entry = Entry {
            task: task.clone(),
            at: sys::unix_ms(),
            brief: Some(brief.clone()),
        };
        write_entry(&mut line, &entry);
        self.add_to_index(&line);
    }

    fn file(&mut self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        Ok(self.load(task)?.log.clone())
    }

    fn remove(&mut self, task: &TaskId) -> Result<(), StoreError> {
        let (path, _) = self.paths(task)?;
        // Under its lock, so that nobody is writing to it.
        let log = match self.load(task) {
            Ok(loaded) => loaded.log.clone(),
            Err(_) if !path.exists() => return Ok(()),
            Err(error) => return Err(error),
        };
        log.delete()?;
        self.loaded.remove(task);
        Ok(())
    }

    fn close(&mut self, task: &TaskId) {
        self.leaving.retain(|_, log| log.strong_count() > 0);
        if let Some(loaded) = self.loaded.remove(task) {
            self.leaving
                .insert(task.clone(), Arc::downgrade(&loaded.log));
        }
    }
}

fn write_entry(out: &mut Vec<u8>, entry: &Entry) {
    json::write(out, entry);
    out.push(b'\n');
}

/// What a log says of itself.
enum Opening {
    /// What the index should say of it.
    Listed(Entry),
    /// A first line that is none.
    Damaged,
    /// No first line: the task was never begun.
    Unbegun,
}

/// Folds a whole log: only for one that the index does not name.
fn opening(path: &Path, id: &str) -> Opening {
    let Ok(file) = File::open(path) else {
        return Opening::Damaged;
    };
    let mut lines = BufReader::new(file);
    let mut begun: Option<(u64, State)> = None;
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LINE_BYTES).read_until(b'\n', &mut line);
        // What comes behind the last whole line was never acknowledged.
        let (Ok(_), Some(line)) = (read, line.strip_suffix(b"\n")) else {
            break;
        };
        let Ok(record) = Record::read(line) else {
            return Opening::Damaged;
        };
        match (&mut begun, &record.event) {
            (Some((_, state)), _) => state.apply(&record),
            (None, Event::Created(created)) if created.task.as_str() == id => {
                begun = Some((record.at, State::born(created.clone(), &record)));
            }
            (None, _) => return Opening::Damaged,
        }
    }
    match begun {
        None => Opening::Unbegun,
        Some((at, state)) => Opening::Listed(Entry {
            task: state.created.task.clone(),
            at,
            brief: Some(Brief::of(&state)),
        }),
    }
}

/// What there is to say of a task whose log cannot be read.
fn unreadable() -> Brief {
    Brief {
        state: TaskState::Failed,
        ..Brief::bare(ContextId::from(""))
    }
}

/// The last word about each task, in the order and with the time of the first.
fn latest(entries: Vec<Entry>) -> Vec<Entry> {
    let mut places: HashMap<TaskId, usize> = HashMap::new();
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        match places.get(&entry.task) {
            Some(place) => kept[*place].brief = entry.brief,
            None => {
                places.insert(entry.task.clone(), kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}

fn is_file_name(id: &str) -> bool {
    (1..=128).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| failed("make", path, &e))?;
    let metadata = fs::metadata(path).map_err(|e| failed("look at", path, &e))?;
    if metadata.uid() != sys::effective_uid() || metadata.mode() & 0o022 != 0 {
        return Err(StoreError::new(format!(
            "{}: others may write there; make it yours alone (chown, chmod 700) or choose another directory",
            path.display()
        )));
    }
    Ok(())
}

/// A file for its owner only, appended to, and never somebody else's behind a link.
fn private_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options
        .append(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make it writable for this user"
        }
        io::ErrorKind::NotFound => "it may have been moved or removed",
        _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "raise the limit on open files (ulimit -n)"
        }
        _ => "check the disk",
    };
    StoreError::new(format!(
        "could not {what} {}: {error}; {advice}",
        path.display()
    ))
}

fn exists(task: &TaskId) -> StoreError {
    StoreError::new(format!("task {task} exists already; use another id"))
}
