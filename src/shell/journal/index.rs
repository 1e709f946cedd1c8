//! What every task is in a few words, in one file, so that a start need not open every log. Only a hint: what is missing here is
//! found in the log itself, what cannot be read is passed over, and of several lines about a task the last one counts.
//!
//! Lines are only ever added, one when a task begins and one whenever it comes to rest, so most of them are overtaken sooner or
//! later. When too many are, the file is written anew beside itself with one line per task, flushed, and put in the old one's
//! place. A crash before that leaves the old file and a useless new one, a crash after it the new file; nothing in between
//! is possible.
//!
//! Other servers may be adding lines at the same time. So whoever adds holds the lock of the file and looks whether it still
//! has its name; whoever replaces it takes the lock for the last step only, and brings along what was added since it read. The
//! flush comes before that, so nobody waits for a disk. And who cannot have the lock, or meets a full disk, does not wait
//! either: the lines are kept and added later.

use super::file::{sync_entry, write_whole};
use super::{failed, private_file};
use crate::base::id::TaskId;
use crate::base::json;
use crate::core::disk::store::{Chore, StoreError};
use crate::task::log::brief::Brief;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub task: TaskId,
    /// When the task began, in Unix milliseconds.
    pub at: u64,
    /// Lines of the first version have none.
    #[serde(default)]
    pub brief: Option<Brief>,
    /// How long the log was, in bytes. It only ever grows, so one that is shorter has lost events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

pub struct Index {
    places: Places,
    file: File,
    /// What could not be written yet; the last word about each task is enough.
    owed: BTreeMap<TaskId, Entry>,
    /// Lines that were overtaken, and lines that count. Others may have added some of either kind.
    spent: usize,
    counting: usize,
    /// How many may be spent.
    most_spent: usize,
    /// Alive while the file is being written anew.
    rewriting: Weak<()>,
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Places {
    pub index: PathBuf,
    /// Where this server, and no other, writes a new index.
    pub fresh: PathBuf,
    /// The directory of the logs.
    pub tasks: PathBuf,
}

impl Places {
    pub fn log(&self, id: &str) -> PathBuf {
        self.tasks.join(format!("{id}.jsonl"))
    }
}

impl Index {
    pub fn open(places: Places, most_spent: usize) -> Result<Index, StoreError> {
        Ok(Index {
            file: open(&places.index).map_err(|e| failed("open", &places.index, &e))?,
            places,
            owed: BTreeMap::new(),
            spent: 0,
            counting: 0,
            most_spent,
            rewriting: Weak::new(),
        })
    }

    /// The last word about each task whose log is there. An index that cannot be read is as good as an empty one.
    pub fn read(&mut self) -> Vec<Entry> {
        let bytes = open(&self.places.index).and_then(|file| read_from(&file, 0));
        let bytes = bytes.unwrap_or_default();
        let entries = counting(&bytes, &self.places).unwrap_or_default();
        self.counting = entries.len();
        self.spent = lines(&bytes).count() - self.counting;
        entries
    }

    /// Adds a task.
    pub fn add(&mut self, entry: Entry) {
        self.counting += 1;
        self.owed.insert(entry.task.clone(), entry);
        self.pay();
    }

    /// Adds several.
    pub fn add_all(&mut self, entries: &[Entry]) {
        self.counting += entries.len();
        let owed = entries.iter().map(|entry| (entry.task.clone(), entry.clone()));
        self.owed.extend(owed);
        self.pay();
    }

    /// Says something new about a task.
    pub fn update(&mut self, entry: Entry) {
        self.spent += 1;
        self.owed.insert(entry.task.clone(), entry);
        self.pay();
    }

    /// The log of a task is gone, and what is said of it here counts for nothing.
    pub fn strike(&mut self, task: &TaskId) {
        self.owed.remove(task);
        self.spent += 1;
        self.counting = self.counting.saturating_sub(1);
    }

    /// What is to be done beside the loop, if anything: the file is to be written anew.
    pub fn chore(&mut self) -> Option<Chore> {
        self.pay();
        if !self.is_worn() || self.rewriting.strong_count() > 0 {
            return None;
        }
        // If it fails it is tried again when as many lines have been added again.
        self.spent = 0;
        let token = Arc::new(());
        self.rewriting = Arc::downgrade(&token);
        let places = self.places.clone();
        Some(Chore(Box::new(move || {
            let done = rewrite(&places);
            drop(token);
            done
        })))
    }

    /// With more spent lines than counting ones, so that writing a large file anew is worth its while.
    fn is_worn(&self) -> bool {
        self.spent > self.most_spent.max(self.counting)
    }

    /// Writes what is owed, if that is possible now.
    fn pay(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        // A failure is no error: this is tried again, and in the end the next start finds the task by its log.
        if self.append().is_ok() {
            self.owed.clear();
        }
    }

    fn append(&mut self) -> io::Result<()> {
        let at_once = FlockOperation::NonBlockingLockExclusive;
        let mut held = lock(&self.file, at_once)?;
        while has_no_name(&self.file)? {
            drop(held);
            self.file = open(&self.places.index)?;
            held = lock(&self.file, at_once)?;
        }
        let mut lines = Vec::new();
        // What a short write or a crash has left is ended, and passed over by whoever reads.
        if !ends_whole(held.0)? {
            lines.push(b'\n');
        }
        for entry in self.owed.values() {
            write_entry(&mut lines, entry);
        }
        write_whole(held.0, &lines)
    }
}

/// Writes the index anew, with what counts of it.
pub fn rewrite(places: &Places) -> Result<(), StoreError> {
    let outcome = replace(places);
    if outcome.is_err() {
        let _ = fs::remove_file(&places.fresh);
    }
    outcome.map_err(|e| failed("write anew", &places.index, &e))
}

fn replace(places: &Places) -> io::Result<()> {
    let old = open(&places.index)?;
    let draft = draft(&old, places)?;
    install(&old, &draft, places)
}

/// A new index beside the old one.
struct Draft {
    file: File,
    /// How many bytes of the old one it stands for.
    upto: u64,
}

fn draft(old: &File, places: &Places) -> io::Result<Draft> {
    match fs::remove_file(&places.fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // What an earlier try has left.
        Ok(()) | Err(_) => {}
    }
    let mut bytes = read_from(old, 0)?;
    // A line that somebody is writing comes whole with what is added later.
    let last = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(last.map_or(0, |at| at + 1));
    let mut lines = Vec::new();
    for entry in counting(&bytes, places)? {
        write_entry(&mut lines, &entry);
    }
    let file = private_file(&places.fresh, OpenOptions::new().create_new(true))?;
    write_whole(&file, &lines)?;
    file.sync_all()?;
    Ok(Draft { file, upto: bytes.len() as u64 })
}

/// Puts the new index in the old one's place, with what the old one has got since.
fn install(old: &File, draft: &Draft, places: &Places) -> io::Result<()> {
    let held = lock(old, FlockOperation::LockExclusive)?;
    if has_no_name(old)? {
        // Another server was faster.
        return fs::remove_file(&places.fresh);
    }
    write_whole(&draft.file, &read_from(old, draft.upto)?)?;
    fs::rename(&places.fresh, &places.index)?;
    drop(held);
    sync_entry(&places.index)
}

/// The last word about each task whose log is there, in the order and with the time of the first.
fn counting(bytes: &[u8], places: &Places) -> io::Result<Vec<Entry>> {
    let mut seats: HashMap<TaskId, usize> = HashMap::new();
    let mut kept: Vec<Entry> = Vec::new();
    let entries = lines(bytes).filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
    for entry in entries.filter(|entry| entry.brief.is_some()) {
        match seats.get(&entry.task) {
            Some(seat) => {
                kept[*seat].brief = entry.brief;
                kept[*seat].end = entry.end;
            }
            None => {
                seats.insert(entry.task.clone(), kept.len());
                kept.push(entry);
            }
        }
    }
    // Looked for after the lines were read: a task has a log before it has a line.
    let mut logs = HashSet::new();
    for file in fs::read_dir(&places.tasks)? {
        logs.insert(places.tasks.join(file?.file_name()));
    }
    kept.retain(|entry| logs.contains(&places.log(entry.task.as_str())));
    Ok(kept)
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn write_entry(out: &mut Vec<u8>, entry: &Entry) {
    json::write(out, entry);
    out.push(b'\n');
}

fn open(path: &Path) -> io::Result<File> {
    private_file(path, OpenOptions::new().read(true).create(true))
}

fn read_from(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Whether another file has taken its place.
fn has_no_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

fn ends_whole(file: &File) -> io::Result<bool> {
    let len = file.metadata()?.len();
    let last = read_from(file, len.saturating_sub(1))?;
    Ok(matches!(last.last(), None | Some(b'\n')))
}

/// A lock that is held.
struct Held<'a>(&'a File);

fn lock(file: &File, how: FlockOperation) -> io::Result<Held<'_>> {
    loop {
        match flock(file, how) {
            Ok(()) => return Ok(Held(file)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Closing the descriptor would do, were it the only one: a child that is being started has a copy of it until it executes.
impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests;
