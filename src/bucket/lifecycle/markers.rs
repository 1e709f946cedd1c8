//! Markers of unfinished work. They are separate objects, so that one list shows all tasks that an instance has to continue.

use crate::base::id::{Seq, TaskId};
use crate::bucket::Meta;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use std::sync::Arc;

/// The key of a marker's metadata that names the task's entry.
const ENTRY: &str = "entry";

/// A marker of unfinished work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    pub task: TaskId,
    pub seq: Seq,
    /// The name of the task's entry.
    pub entry: Option<String>,
    /// By the store's clock.
    pub age_ms: u64,
}

impl<P: Port> Instance<P> {
    /// Creates the marker of work that begins with the next segment. The marker is acknowledged before that segment is sent.
    pub async fn create_marker<R: Replica>(&self, view: &View<R>) -> Result<(), Halt> {
        let entry = view.entry.as_deref().unwrap_or_default();
        self.create_marker_at(&view.task, view.tail.next(), entry).await
    }

    pub(in crate::bucket) async fn create_marker_at(&self, task: &TaskId, seq: Seq, entry: &str) -> Result<(), Halt> {
        let meta = Meta::from([(ENTRY.to_owned(), entry.to_owned())]);
        self.create(&self.marker(task, seq), &Arc::default(), &meta).await
    }

    /// Deletes the marker of finished work in one attempt. If that fails, the scan deletes the marker later.
    pub async fn delete_marker(&self, task: &TaskId, seq: Seq) {
        let _ = self.port.delete(&self.marker(task, seq), None).await;
    }

    fn marker(&self, task: &TaskId, seq: Seq) -> String {
        names::marker(task, if self.rules.numbered_markers { seq } else { Seq(0) })
    }

    /// All markers.
    pub async fn markers(&self) -> Result<Vec<Marker>, Halt> {
        let listed = self.list(names::OPEN, None).await?;
        let marker = |entry: &crate::bucket::Entry| {
            let (task, seq) = names::marker_parts(&entry.name)?;
            Some(Marker { task, seq, entry: entry.meta.get(ENTRY).cloned(), age_ms: listed.age_ms(entry) })
        };
        Ok(listed.entries.iter().filter_map(marker).collect())
    }
}
