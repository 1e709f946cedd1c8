//! What lists say of tasks, and the content that their logs name. Neither decides anything: a summary may be older than its task.

use crate::base::id::{Seq, TaskId};
use crate::bucket::instance::Instance;
use crate::bucket::port::{Halt, Port};
use crate::bucket::{Entry, Expect, List, Meta, Object, Put, Version, names};
use std::sync::Arc;

/// The keys of a summary's metadata: the summary, and the position in the log that it was made at.
const BRIEF: &str = "brief";
const SEQ: &str = "seq";

/// A summary as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub task: TaskId,
    /// JSON.
    pub brief: String,
    pub seq: Seq,
    pub version: Version,
}

/// What became of an object for other programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub is_written: bool,
    /// The version that is there now, if there is one.
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

    /// Writes the summary of a task at a position of its log, in place of the version that was last seen. A newer one is left alone. Returns the
    /// version that is there now, if it is known.
    pub async fn summarize(
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
            if let Put::Made(version) = answer.map_err(|trouble| Halt::Unavailable(trouble.message))?.value {
                return Ok(Some(version));
            }
            let list = List { prefix: name.clone(), ..List::default() };
            let page = self.port.list(&list).await.map_err(|trouble| Halt::Unavailable(trouble.message))?.value;
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

    /// Deletes the summary of a task, in one attempt: its removal deletes what is left.
    pub async fn unsummarize(&self, task: &TaskId) {
        let _ = self.port.delete(&names::summary(task), None).await;
    }

    /// Writes an object that only tells other programs of a task, in place of the version that was last seen. If another instance has written it
    /// meanwhile it is left alone.
    pub async fn replace(&self, name: &str, bytes: Vec<u8>, seen: Option<Version>) -> Result<Replaced, Halt> {
        let expect = seen.map_or(Expect::Absent, Expect::Version);
        let put = self.port.put(name, &bytes.into(), &Meta::new(), &expect).await;
        match put.map_err(|trouble| Halt::Unavailable(trouble.message))?.value {
            Put::Made(version) => Ok(Replaced { is_written: true, version: Some(version) }),
            Put::Refused => {
                let found = self.get(name).await?.0;
                Ok(Replaced { is_written: false, version: found.map(|object| object.version) })
            }
        }
    }

    /// Stores content that the log of a task names. It is the same whoever stores it.
    pub async fn keep(&self, task: &TaskId, sha256: &str, bytes: &Arc<[u8]>) -> Result<(), Halt> {
        self.create(&names::blob(task, sha256), bytes, &Meta::new()).await
    }

    /// Content that the log of a task names.
    pub async fn kept(&self, task: &TaskId, sha256: &str) -> Result<Option<Object>, Halt> {
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
        let first = block_on(a.summarize(&task, "{\"n\":1}", Seq(1), None)).unwrap();
        // It has never seen the index, and its summary is newer.
        let second = block_on(b.summarize(&task, "{\"n\":9}", Seq(9), None)).unwrap();
        assert_eq!(block_on(a.summarize(&task, "{\"n\":5}", Seq(5), first)).unwrap(), second);
        let all = block_on(a.summaries()).unwrap();
        assert_eq!(
            all.iter().map(|summary| (summary.brief.as_str(), summary.seq)).collect::<Vec<_>>(),
            [("{\"n\":9}", Seq(9))]
        );
        block_on(a.unsummarize(&task));
        assert_eq!(block_on(b.summaries()).unwrap(), []);
    }
}
