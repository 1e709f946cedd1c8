//! How many bytes the state directory has, and which tasks to delete if these are too many: first the oldest tasks that have ended, then
//! the oldest idle conversations.
//!
//! Journals share stored content, so content counts as long as a remaining journal names it. To find that out, all journals are read,
//! but only if the directory is too large. Content that no journal names does not count: [`FileBlobs::sweep`](super::blobs::FileBlobs::sweep)
//! deletes it.

use super::blobs::read_names;
use super::index::{self, Entry, StatePaths};
use super::names;
use crate::base::id::{ContextId, TaskId};
use crate::core::disk::store::Excess;
use crate::limits::TASKS_DELETED_AT_ONCE;
use crate::task::access::Partition;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The paths whose sizes count.
pub struct DiskUsage<'a> {
    pub paths: &'a StatePaths,
    pub markers: &'a Path,
    pub outputs: &'a Path,
    pub blobs: &'a Path,
}

impl DiskUsage<'_> {
    /// Which tasks to delete so that at most `most` bytes remain. Tasks in `kept` are not deleted.
    pub fn excess(&self, most: u64, kept: &HashSet<TaskId>) -> io::Result<Excess> {
        let blobs = self.blob_sizes()?;
        let others = bytes_below(&self.paths.tasks)? + bytes_below(self.outputs)?;
        let bytes = others + blobs.values().sum::<u64>();
        if bytes <= most {
            return Ok(Excess { bytes, delete: Vec::new() });
        }
        let mut uses: HashMap<String, u32> = HashMap::new();
        for journal in fs::read_dir(&self.paths.tasks)? {
            self.names_in(&journal?.path())?.into_iter().for_each(|name| *uses.entry(name).or_default() += 1);
        }
        let size = |hash: &String| blobs.get(hash).copied().unwrap_or_default();
        let bytes = others + uses.keys().map(size).sum::<u64>();
        let (mut remaining, mut delete) = (bytes, Vec::new());
        for task in self.oldest(kept) {
            if remaining <= most || delete.len() == TASKS_DELETED_AT_ONCE {
                break;
            }
            let log = self.paths.log(task.as_str());
            let mut freed = fs::metadata(&log)?.len() + bytes_below(&self.outputs.join(task.as_str()))?;
            for name in self.names_in(&log)? {
                let count = uses.entry(name.clone()).or_insert(1);
                *count -= 1;
                freed += if *count == 0 { size(&name) } else { 0 };
            }
            remaining = remaining.saturating_sub(freed);
            delete.push(task);
        }
        Ok(Excess { bytes, delete })
    }

    /// The tasks that may be deleted, in the order in which they are deleted. A task that a later one continues is part of the later one's
    /// conversation and is not among them.
    fn oldest(&self, kept: &HashSet<TaskId>) -> Vec<TaskId> {
        let mut entries = index::entries(self.paths);
        entries.sort_by_key(|entry| entry.at);
        let context = |entry: &Entry| (entry.brief.partition(), entry.brief.context.clone());
        let last: HashMap<(Partition, ContextId), TaskId> =
            entries.iter().map(|entry| (context(entry), entry.task.clone())).collect();
        let open: HashSet<String> = names(self.markers).collect();
        entries.retain(|entry| {
            let brief = &entry.brief;
            (brief.state.is_terminal() || brief.idle)
                // A log that cannot be read has the time 0; it is kept for the operator.
                && brief.at > 0
                && !kept.contains(&entry.task)
                && !open.contains(entry.task.as_str())
                && last.get(&context(entry)) == Some(&entry.task)
        });
        entries.sort_by_key(|entry| (!entry.brief.state.is_terminal(), entry.brief.at));
        entries.into_iter().map(|entry| entry.task).collect()
    }

    fn blob_sizes(&self) -> io::Result<HashMap<String, u64>> {
        let mut sizes = HashMap::new();
        for folder in fs::read_dir(self.blobs)? {
            for (path, bytes) in files_in(&folder?.path())? {
                let name = path.file_name().and_then(|name| name.to_str());
                sizes.extend(name.map(|name| (name.to_owned(), bytes)));
            }
        }
        Ok(sizes)
    }

    fn names_in(&self, journal: &Path) -> io::Result<HashSet<String>> {
        let mut names = HashSet::new();
        read_names(journal, &mut names)?;
        Ok(names)
    }
}

/// The sum of the lengths of all files in a directory and its direct subdirectories; 0 if the directory does not exist.
fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for (path, bytes) in files_in(dir)? {
        sum += if path.is_dir() { files_in(&path)?.iter().map(|(_, bytes)| bytes).sum() } else { bytes };
    }
    Ok(sum)
}

fn files_in(dir: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A file that was deleted meanwhile is left out.
        files.extend(entry.metadata().ok().map(|data| (entry.path(), data.len())));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::disk::store::{Openness, Store};
    use crate::shell::journal::tests::{Scratch, created, lines};
    use crate::task::log::brief::Brief;
    use crate::task::log::event::Event;
    use crate::task::log::record::Record;
    use crate::task::machine::state::TaskState;

    const TEXT: usize = 10_000;

    /// Adds a task that takes about [`TEXT`] bytes and names a content.
    fn add(journal: &mut dyn Store, task: &str, context: &str, brief: Brief, names: &str, open: Openness) {
        let text = format!("\"sha256\":\"{names}\" {}", "x".repeat(TEXT));
        let records = [created(task, context), Record { event: Event::Text { text }, ..created(task, context) }];
        // Names of content are looked for in lines as they are: a text in which quotes are escaped has none.
        let lines = String::from_utf8(lines(&records)).unwrap().replace("\\\"", "\"");
        journal.create(&task.into(), &brief).unwrap();
        journal.append(&task.into(), lines.as_bytes(), open).unwrap();
        journal.update_summary(&task.into(), &brief);
    }

    #[test]
    fn the_oldest_finished_tasks_are_chosen_until_the_rest_fits() {
        let scratch = Scratch::new();
        let mut journal = scratch.open();
        let archive = journal.archive();
        let brief = |state: TaskState, idle: bool, at: u64, context: &str| Brief {
            state,
            idle,
            at,
            ..Brief::bare(context.into())
        };
        let waiting = TaskState::InputRequired;
        let (shared, own) = (archive.blobs().put(&[1; 5_000]).unwrap(), archive.blobs().put(&[2; 6_000]).unwrap());
        archive.blobs().put(&[3; 100_000]).unwrap();
        let mut add = |task: &str, context: &str, brief: Brief, names: &str, open: Openness| {
            add(&mut journal, task, context, brief, names, open);
        };
        add("asked", "a", brief(waiting, false, 1, "a"), &shared, Openness::Open);
        add("idle", "b", brief(waiting, true, 2, "b"), &own, Openness::Settled);
        add("first", "c", brief(TaskState::Completed, false, 3, "c"), &shared, Openness::Settled);
        add("second", "c", brief(TaskState::Failed, false, 5, "c"), &shared, Openness::Settled);
        add("over", "d", brief(TaskState::Canceled, false, 4, "d"), &shared, Openness::Settled);
        add("used", "e", brief(TaskState::Canceled, false, 2, "e"), &shared, Openness::Settled);
        fs::create_dir_all(scratch.dir().join("outputs/over")).unwrap();
        fs::write(scratch.dir().join("outputs/over/1.txt"), [b'x'; 3_000]).unwrap();
        let kept = HashSet::from(["used".into()]);
        let excess = |most: u64| {
            let excess = archive.excess(most, &kept).unwrap();
            let tasks: Vec<String> = excess.delete.iter().map(TaskId::to_string).collect();
            (excess.bytes, tasks.join(" "))
        };
        let all = excess(0).0;
        assert!(
            all > 6 * 10_000 + 5_000 + 6_000 + 3_000 && all < 90_000,
            "{all}: what no journal names does not count"
        );
        assert_eq!(excess(all).1, "");
        assert_eq!(excess(all - 1).1, "over", "the oldest that is over and that nobody uses");
        assert_eq!(excess(all - 13_000).1, "over");
        assert_eq!(excess(all - 20_000).1, "over second", "the first is part of a conversation");
        assert_eq!(excess(all - 38_000).1, "over second idle", "its content goes with it, the shared one stays");
        assert_eq!(excess(0).1, "over second idle", "never one with unfinished work");
        assert_eq!(archive.excess(u64::MAX, &kept).unwrap().bytes, all + 100_000);
    }
}
