//! The names of objects. Numbers have twelve digits, so that lists, which are in the order of names, are in the order of numbers.

use crate::base::id::{ContextId, Seq, Subject, TaskId, Tenant};
use crate::base::json;
use crate::task::log::blob::sha256;

/// All objects of tasks except their entries, markers and summaries.
pub const TASKS: &str = "tasks/";

/// Markers of unfinished work.
pub const OPEN: &str = "open/";

/// The entries of tasks in their contexts.
pub const CONTEXTS: &str = "contexts/";

/// Summaries of tasks for lists.
pub const INDEX: &str = "index/";

/// Heartbeats of instances.
pub const INSTANCES: &str = "instances/";

/// A segment of a task's log, by the number of its first event.
pub fn segment(task: &TaskId, first: Seq) -> String {
    format!("{}{:012}.jsonl", log(task), first.0)
}

/// The prefix of a task's segments.
pub fn log(task: &TaskId) -> String {
    format!("tasks/{task}/log/")
}

/// The prefix of all objects of a task except its entry, its markers and its summary.
pub fn task(task: &TaskId) -> String {
    format!("tasks/{task}/")
}

/// Several segments compacted into one object.
pub fn compact(task: &TaskId, first: Seq, last: Seq) -> String {
    format!("{}{:012}-{:012}.jsonl", compacts(task), first.0, last.0)
}

/// The prefix of a task's compacted objects.
pub fn compacts(task: &TaskId) -> String {
    format!("tasks/{task}/compact/")
}

/// The first and last event of an object that [`compact`] names.
pub fn compact_range(task: &TaskId, name: &str) -> Option<(Seq, Seq)> {
    let (first, last) = name.strip_prefix(&compacts(task))?.strip_suffix(".jsonl")?.split_once('-')?;
    Some((number(first)?, number(last)?))
}

/// The first event of an object that [`segment`] names.
pub fn segment_first(task: &TaskId, name: &str) -> Option<Seq> {
    number(name.strip_prefix(&log(task))?.strip_suffix(".jsonl")?)
}

/// A request to the owner of a task.
pub fn inbox(task: &TaskId, n: u64) -> String {
    format!("tasks/{task}/inbox/{n:012}.json")
}

/// The folder of the entries of a context. It is a hash, so that it does not contain names that clients choose.
pub fn context(tenant: &Tenant, owner: &Subject, context: &ContextId) -> String {
    let key = json::bytes(&(tenant, owner, context));
    format!("{CONTEXTS}{}/", sha256(&key))
}

/// The entry of a task in its context; `folder` is that of the context.
pub fn entry(folder: &str, task: &TaskId) -> String {
    format!("{folder}{task}")
}

/// The folder of the context and the task that an entry names.
pub fn entry_parts(entry: &str) -> Option<(&str, TaskId)> {
    let (folder, task) = entry.split_at(entry.rfind('/')? + 1);
    Some((folder, TaskId::from(task)))
}

/// The marker of work that a task began at `seq`.
pub fn marker(task: &TaskId, seq: Seq) -> String {
    format!("{}{:012}", markers(task), seq.0)
}

/// The prefix of a task's markers.
pub fn markers(task: &TaskId) -> String {
    format!("{OPEN}{task}.")
}

/// The task and the position that a marker names. Task ids may contain dots.
pub fn marker_parts(name: &str) -> Option<(TaskId, Seq)> {
    let (task, seq) = name.strip_prefix(OPEN)?.rsplit_once('.')?;
    Some((TaskId::from(task), number(seq)?))
}

/// Lines of an instance's audit log, by the number of the first line.
pub fn audit(instance: &str, first: u64) -> String {
    format!("audit/{instance}/{first:012}.jsonl")
}

/// The summary of a task for lists.
pub fn summary(task: &TaskId) -> String {
    format!("{INDEX}{task}")
}

/// Content that the log of a task refers to, by its hash.
pub fn blob(task: &TaskId, sha256: &str) -> String {
    format!("tasks/{task}/blobs/{sha256}")
}

/// The heartbeat of an instance.
pub fn heartbeat(instance: &str) -> String {
    format!("{INSTANCES}{instance}.json")
}

/// The instance whose heartbeat an object is.
pub fn heartbeat_of(name: &str) -> Option<&str> {
    name.strip_prefix(INSTANCES)?.strip_suffix(".json")
}

fn number(digits: &str) -> Option<Seq> {
    let written = digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| written).map(Seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let task = TaskId::from("a.b-c");
        assert_eq!(segment(&task, Seq(7)), "tasks/a.b-c/log/000000000007.jsonl");
        assert_eq!(segment_first(&task, &segment(&task, Seq(7))), Some(Seq(7)));
        assert_eq!(compact_range(&task, &compact(&task, Seq(1), Seq(90))), Some((Seq(1), Seq(90))));
        assert_eq!(marker_parts(&marker(&task, Seq(3))), Some((task.clone(), Seq(3))));
        assert_eq!(entry_parts(&entry("contexts/00ff/", &task)), Some(("contexts/00ff/", task)));
        assert_eq!(heartbeat_of(&heartbeat("i-1")), Some("i-1"));
    }

    #[test]
    fn other_names_are_not_read() {
        let task = TaskId::from("t");
        for name in ["tasks/t/log/7.jsonl", "tasks/t/log/00000000000x.jsonl", "tasks/u/log/000000000007.jsonl"] {
            assert_eq!(segment_first(&task, name), None, "{name}");
        }
        assert_eq!(compact_range(&task, "tasks/t/compact/000000000001.jsonl"), None);
        assert_eq!(marker_parts("open/t"), None);
        assert_eq!(heartbeat_of("instances/x"), None);
    }
}
