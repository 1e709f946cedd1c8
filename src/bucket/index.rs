//! The index, which has a summary of each task for lists, and the blobs that logs refer to. The protocol does not depend on either: a
//! summary may be older than its task.

use crate::base::id::{Seq, TaskId};
use crate::bucket::instance::Instance;
use crate::bucket::port::{Halt, Port};
use crate::bucket::{Entry, Expect, List, Meta, Object, Put, Version, names};
use std::sync::Arc;

/// The keys of a summary's metadata: the summary, and the last event of the log that it includes.
const BRIEF: &str = "brief";
const SEQ: &str = "seq";

/// The summary of a task in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub task: TaskId,
    /// JSON.
    pub brief: String,
    pub seq: Seq,
    pub version: Version,
}

/// The result of replacing an object that other programs read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub is_written: bool,
    /// The version of the object afterwards, if it exists.
    pub version: Option<Version>,
}

impl Summary {
    fn of(entry: &Entry) -> Option<Summary> {
        let task = TaskId::from(entry.name.strip_prefix(names::INDEX)?);
        let seq = Seq(entry.meta.get(SEQ)?.parse().ok()?);
        Some(Summary { task, brief: entry.meta.get(BRIEF)?.clone(), seq, version: entry.version.clone() })
    }
}

impl<P: Port> Instance<P> {
    /// The summaries of all tasks.
    pub async fn summaries(&self) -> Result<Vec<Summary>, Halt> {
        let listed = self.list(names::INDEX, None).await?;
        Ok(listed.entries.iter().filter_map(Summary::of).collect())
    }

    /// All tasks that have an entry, and the names of their entries.
    pub async fn entries(&self) -> Result<Vec<(TaskId, String)>, Halt> {
        let listed = self.list(names::CONTEXTS, None).await?;
        let entry = |entry: Entry| Some((names::entry_parts(&entry.name)?.1, entry.name));
        Ok(listed.entries.into_iter().filter_map(entry).collect())
    }

    /// Writes the summary of a task as of event `seq`, in place of the version that this process last saw. A newer summary is kept. Returns
    /// the version of the summary afterwards, if it is known.
    pub async fn write_summary(
        &self,
        task: &TaskId,
        brief: &str,
        seq: Seq,
        seen: Option<Version>,
    ) -> Result<Option<Version>, Halt> {
        let meta = Meta::from([(BRIEF.to_owned(), brief.to_owned()), (SEQ.to_owned(), seq.0.to_string())]);
        let name = names::summary(task);
        let mut expect = seen.map_or(Expect::Absent, Expect::Version);
        for _ in 0..2 {
            let answer = self.port.put(&name, &Arc::default(), &meta, &expect).await;
            if let Put::Written(version) = answer.map_err(|error| Halt::Unavailable(error.message))?.value {
                return Ok(Some(version));
            }
            let list = List { prefix: name.clone(), ..List::default() };
            let page = self.port.list(&list).await.map_err(|error| Halt::Unavailable(error.message))?.value;
            let known = page.entries.iter().find(|entry| entry.name == name).and_then(Summary::of);
            match known {
                Some(known) if known.seq >= seq => return Ok(Some(known.version)),
                Some(known) => expect = Expect::Version(known.version),
                // The task was deleted meanwhile.
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Deletes the summary of a task in one attempt. If that fails, the removal of the task deletes the summary.
    pub async fn delete_summary(&self, task: &TaskId) {
        let _ = self.port.delete(&names::summary(task), None).await;
    }

    /// Writes an object that only other programs read, in place of the version that this process last saw. Does nothing if another instance
    /// has written the object meanwhile.
    pub async fn replace(&self, name: &str, bytes: Vec<u8>, seen: Option<Version>) -> Result<Replaced, Halt> {
        let expect = seen.map_or(Expect::Absent, Expect::Version);
        let put = self.port.put(name, &bytes.into(), &Meta::new(), &expect).await;
        match put.map_err(|error| Halt::Unavailable(error.message))?.value {
            Put::Written(version) => Ok(Replaced { is_written: true, version: Some(version) }),
            Put::PreconditionFailed => {
                let found = self.get(name).await?.0;
                Ok(Replaced { is_written: false, version: found.map(|object| object.version) })
            }
        }
    }

    /// Stores a blob that the log of a task refers to. Its name is the hash of its content.
    pub async fn store_blob(&self, task: &TaskId, sha256: &str, bytes: &Arc<[u8]>) -> Result<(), Halt> {
        self.create(&names::blob(task, sha256), bytes, &Meta::new()).await
    }

    /// Reads a blob that the log of a task refers to.
    pub async fn read_blob(&self, task: &TaskId, sha256: &str) -> Result<Option<Object>, Halt> {
        Ok(self.get(&names::blob(task, sha256)).await?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::blocking_port::Blocking;
    use crate::bucket::instance::Times;
    use crate::bucket::memory::MemoryBucket;
    use crate::bucket::port::block_on;

    #[test]
    fn a_newer_summary_is_left_alone_and_an_older_one_replaced() {
        let bucket = MemoryBucket::new();
        let instance = |id: &str| Instance::new(Blocking::at(&bucket), id.into(), Times::default());
        let (a, b, task) = (instance("a"), instance("b"), TaskId::from("t"));
        let first = block_on(a.write_summary(&task, "{\"n\":1}", Seq(1), None)).unwrap();
        // `b` has never read the index, and its summary is newer.
        let second = block_on(b.write_summary(&task, "{\"n\":9}", Seq(9), None)).unwrap();
        assert_eq!(block_on(a.write_summary(&task, "{\"n\":5}", Seq(5), first)).unwrap(), second);
        let all = block_on(a.summaries()).unwrap();
        assert_eq!(
            all.iter().map(|summary| (summary.brief.as_str(), summary.seq)).collect::<Vec<_>>(),
            [("{\"n\":9}", Seq(9))]
        );
        block_on(a.delete_summary(&task));
        assert_eq!(block_on(b.summaries()).unwrap(), []);
    }
}
