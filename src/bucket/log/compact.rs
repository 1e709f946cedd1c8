//! Joining segments, so that a task is loaded with fewer requests. The segments stay: a reader that asks for one by its number must
//! never be told that it does not exist.

use crate::base::id::Seq;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::bucket::{Expect, Meta};

/// Acknowledged segments that are to be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The names of the segments.
    pub segments: Vec<String>,
    /// The name of the object that has all of them.
    pub name: String,
}

impl<P: Port> Instance<P> {
    /// The next segments to be joined, if there are enough. They are given once. All instances join the same segments.
    pub fn joint<R: Replica>(&self, view: &mut View<R>) -> Option<Joint> {
        let count = self.times.compacted_segments;
        let next = *view.loose.get(count)?;
        let firsts: Vec<Seq> = view.loose.drain(..count).collect();
        let segments = firsts.iter().map(|first| names::segment(&view.task, *first)).collect();
        Some(Joint { segments, name: names::compact(&view.task, firsts[0], Seq(next.0 - 1)) })
    }

    /// Joins segments. Needs no view, because nothing that it reads can change. If it fails, loading takes more requests.
    pub async fn join(&self, joint: &Joint) -> Result<(), Halt> {
        let mut lines = Vec::new();
        for name in &joint.segments {
            match self.get(name).await?.0 {
                Some(object) => lines.extend_from_slice(&object.bytes),
                None => return Ok(()),
            }
        }
        let _ = self.port.put(&joint.name, &lines.into(), &Meta::new(), &Expect::Absent).await;
        Ok(())
    }
}
