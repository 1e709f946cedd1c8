//! Compaction: copies several segments into one object, so that a task is loaded with fewer requests. The segments stay, because a reader
//! takes a missing segment for the end of the log.

use crate::base::id::Seq;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::bucket::{Expect, Meta};

/// Acknowledged segments that are to be copied into one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The names of the segments.
    pub segments: Vec<String>,
    /// The name of the compacted object.
    pub name: String,
}

impl<P: Port> Instance<P> {
    /// The next segments to compact, if there are enough. Each compaction is returned once. All instances compact the same segments.
    pub fn next_compaction<R: Replica>(&self, view: &mut View<R>) -> Option<Compaction> {
        let count = self.times.compacted_segments;
        let next = *view.uncompacted.get(count)?;
        let firsts: Vec<Seq> = view.uncompacted.drain(..count).collect();
        let segments = firsts.iter().map(|first| names::segment(&view.task, *first)).collect();
        Some(Compaction { segments, name: names::compact(&view.task, firsts[0], Seq(next.0 - 1)) })
    }

    /// Writes the compacted object. Needs no view, because segments do not change. If this fails, loading takes more requests.
    pub async fn compact(&self, compaction: &Compaction) -> Result<(), Halt> {
        let mut lines = Vec::new();
        for name in &compaction.segments {
            match self.get(name).await?.0 {
                Some(object) => lines.extend_from_slice(&object.bytes),
                None => return Ok(()),
            }
        }
        let _ = self.port.put(&compaction.name, &lines.into(), &Meta::new(), &Expect::Absent).await;
        Ok(())
    }
}
