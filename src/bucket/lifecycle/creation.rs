//! The creation of a task: first its entry in its context, then its marker, then its first segment.

use crate::base::id::TaskId;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use std::sync::Arc;

/// The key of an entry's metadata that names the task which this one continues.
const PARENT: &str = "parent";

/// The entry of a task in its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextEntry {
    pub task: TaskId,
    /// The task that this one continues.
    pub parent: Option<TaskId>,
    /// By the store's clock.
    pub age_ms: u64,
}

impl<P: Port> Instance<P> {
    /// The entries of a context, the newest first. A new task continues the first of these tasks that exists.
    pub async fn context(&self, folder: &str) -> Result<Vec<ContextEntry>, Halt> {
        let listed = self.list(folder, None).await?;
        let entry = |entry: &crate::bucket::Entry| {
            let (_, task) = names::entry_parts(&entry.name)?;
            let parent = entry.meta.get(PARENT).map(|parent| TaskId::from(parent.as_str()));
            Some(ContextEntry { task, parent, age_ms: listed.age_ms(entry) })
        };
        let mut entries: Vec<ContextEntry> = listed.entries.iter().filter_map(entry).collect();
        entries.sort_by_key(|entry| entry.age_ms);
        Ok(entries)
    }

    /// Creates the entry of a new task, which continues `parent`. The caller then makes sure that the end of the parent's log was read within
    /// the last [`Times::fresh_ms`](crate::bucket::instance::Times), calls [`Instance::create_marker`] and appends the first segment. If it
    /// does not append that segment, the scan removes the entry later.
    pub async fn create_entry<R: Replica>(&self, view: &mut View<R>, parent: Option<&TaskId>) -> Result<(), Halt> {
        let entry = view.entry.clone().expect("a new task knows its context");
        // If this is not the first attempt, the entry may have been removed since the first.
        view.tail_checked_at.get_or_insert(self.port.now_ms());
        let meta = parent.map(|parent| (PARENT.to_owned(), parent.to_string())).into_iter().collect();
        let made = self.create(&entry, &Arc::default(), &meta).await;
        if made.is_err() {
            view.unload();
        }
        made
    }
}
