//! Requests of the core to the store, and the answers. A request may wait for the disk, so the server runs it in the disk lane; tests run
//! it when they like. The answer is an [`Input`].

use crate::base::id::{ContextId, Seq, TaskId};
use crate::core::disk::page::PageRequest;
use crate::core::disk::shared::{InboxEntry, InstanceStatus, SharedArchive};
use crate::core::disk::store::{Archive, Known, StoreError, fold};
use crate::core::{Input, Loaded};
use crate::limits::CONVERSATION_TASKS;
use crate::task::access::Partition;
use crate::task::log::brief::Brief;
use crate::task::machine::state::Item;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum StoreRequest {
    /// Read a task, with the conversation it continues; answered by [`Input::Loaded`].
    Load { task: TaskId },
    /// Read events of a log for a reader; answered by [`Input::Paged`].
    Page(PageRequest),
    /// Flush a log; answered by [`Input::Synced`] with this position, or with a later one if later events were flushed too.
    Sync { task: TaskId, upto: Seq },
    /// Flush the audit; answered by [`Input::AuditSynced`] with the entry given here.
    SyncAudit { upto: u64 },
    /// Open the file of the audit again; answered by [`Input::AuditReopened`].
    ReopenAudit,
    /// Delete a log; answered by [`Input::Removed`] with the summary given here, in case it is still there.
    Remove { task: TaskId, brief: Brief },
    /// Find out what to delete so that at most `most` bytes are stored; answered by [`Input::Measured`]. Tasks in `kept` stay.
    Measure { most: u64, kept: HashSet<TaskId> },
    /// Try whether logs can be written; answered by [`Input::Probed`].
    Probe,
    /// Ask a shared store; answered by [`Input::Shared`].
    Shared(SharedRequest),
}

/// A request to a [`SharedArchive`].
#[derive(Clone, Debug)]
pub enum SharedRequest {
    Status,
    Scan,
    Follow { task: TaskId, after: Seq },
    NextRequest { task: TaskId },
    Send { task: TaskId, id: Arc<str>, request: Arc<[u8]> },
    Latest { request: u64, partition: Partition, context: ContextId },
    Summaries,
}

/// The answer to a [`SharedRequest`].
#[derive(Debug)]
pub enum SharedAnswer {
    Status(InstanceStatus),
    Scanned(Result<Vec<TaskId>, StoreError>),
    Followed { task: TaskId, lines: Result<Vec<u8>, StoreError> },
    NextRequest { task: TaskId, request: Result<Option<InboxEntry>, StoreError> },
    Sent { task: TaskId, id: Arc<str>, result: Result<(), StoreError> },
    Latest { request: u64, latest: Result<Option<TaskId>, StoreError> },
    Summaries(Result<Vec<Known>, StoreError>),
}

impl SharedRequest {
    /// Carries the request out. A store that is not shared gives empty answers.
    fn answer(self, archive: Result<&dyn Archive, StoreError>) -> SharedAnswer {
        let shared = archive.map(|archive| archive.shared());
        match self {
            SharedRequest::Status => {
                SharedAnswer::Status(shared.ok().flatten().map(|shared| shared.status()).unwrap_or_default())
            }
            SharedRequest::Scan => SharedAnswer::Scanned(ask(shared, |shared| shared.scan())),
            SharedRequest::Follow { task, after } => {
                let lines = ask(shared, |shared| shared.follow(&task, after));
                SharedAnswer::Followed { task, lines }
            }
            SharedRequest::NextRequest { task } => {
                let request = ask(shared, |shared| shared.next_request(&task));
                SharedAnswer::NextRequest { task, request }
            }
            SharedRequest::Send { task, id, request } => {
                let result = ask(shared, |shared| shared.send(&task, &request));
                SharedAnswer::Sent { task, id, result }
            }
            SharedRequest::Latest { request, partition, context } => {
                let latest = ask(shared, |shared| shared.latest(&partition, &context));
                SharedAnswer::Latest { request, latest }
            }
            SharedRequest::Summaries => SharedAnswer::Summaries(ask(shared, |shared| shared.summaries())),
        }
    }
}

fn ask<T: Default>(
    shared: Result<Option<&dyn SharedArchive>, StoreError>,
    question: impl FnOnce(&dyn SharedArchive) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    shared?.map_or_else(|| Ok(T::default()), question)
}

impl StoreRequest {
    /// Carries the request out.
    pub fn run(&self, archive: &dyn Archive) -> Input<'static> {
        self.clone().answer(Ok(archive))
    }

    /// The answer to a request that could not be carried out.
    pub fn failed(self, error: StoreError) -> Input<'static> {
        self.answer(Err(error))
    }

    fn answer(self, archive: Result<&dyn Archive, StoreError>) -> Input<'static> {
        match self {
            StoreRequest::Load { task } => {
                let result = archive.and_then(|archive| load(archive, &task)).map(Box::new);
                Input::Loaded { task, result }
            }
            StoreRequest::Page(request) => {
                Input::Paged { sub: request.sub, page: archive.and_then(|archive| request.read(archive)) }
            }
            StoreRequest::Sync { task, upto } => {
                match archive.and_then(|archive| archive.open(&task)?.sync_upto(upto)) {
                    Ok(upto) => Input::Synced { task, upto, result: Ok(()) },
                    Err(error) => Input::Synced { task, upto, result: Err(error) },
                }
            }
            StoreRequest::SyncAudit { upto } => {
                Input::AuditSynced { upto, result: archive.and_then(|archive| archive.sync_audit()) }
            }
            StoreRequest::ReopenAudit => Input::AuditReopened(archive.and_then(|archive| archive.reopen_audit())),
            StoreRequest::Remove { task, brief } => {
                let result = archive.and_then(|archive| archive.remove(&task));
                Input::Removed { task, brief, result }
            }
            StoreRequest::Measure { most, kept } => {
                Input::Measured(archive.and_then(|archive| archive.excess(most, &kept)))
            }
            StoreRequest::Probe => Input::Probed(archive.and_then(|archive| archive.probe())),
            StoreRequest::Shared(request) => Input::Shared(request.answer(archive)),
        }
    }
}

/// Reads a task and the tasks it continues, each up to the position it continues from.
fn load(archive: &dyn Archive, task: &TaskId) -> Result<Loaded, StoreError> {
    let file = archive.refresh(task)?;
    let mut state = fold(file.as_ref(), None)?;
    let blobs = archive.blobs();
    state.load_texts(&*blobs).and_then(|()| state.load_messages(&*blobs)).map_err(unreadable)?;
    let mut bytes = file.len() as usize;
    let mut parent = state.created.parent.clone();
    let mut before: Vec<Vec<Arc<Item>>> = Vec::new();
    while let Some((task, upto)) = parent
        && before.len() < CONVERSATION_TASKS
        // A parent that cannot be read (removed, damaged, loaded by another server) ends what is remembered.
        && let Ok(file) = archive.lend(&task)
        && let Ok(state) = fold(file.as_ref(), Some(upto))
    {
        bytes += file.len() as usize;
        parent = state.created.parent.clone();
        before.push(state.shown_history(0));
    }
    let inherited = before.into_iter().rev().flatten().collect();
    Ok(Loaded { state, inherited, bytes })
}

/// Stored texts that exist could not be read.
pub(super) fn unreadable(error: io::Error) -> StoreError {
    StoreError::transient(format!("a text that is stored beside the journal cannot be read: {error}; try again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::disk::store::{Openness, Store};
    use crate::core::test_core::core_harness::failing_store::FailingStore;
    use crate::task::log::event::{Created, Event, Lifecycle};
    use crate::task::log::record::Record;
    use crate::task::log::test_created;
    use crate::task::message::{Message, Part, Role, Source};

    fn created(task: TaskId, parent: Option<(TaskId, Seq)>) -> Event {
        Event::Created(Arc::new(Created {
            lifecycle: Lifecycle::OneShot,
            parent,
            ..test_created::created(task.as_str())
        }))
    }

    #[test]
    fn a_conversation_goes_back_through_a_limited_number_of_tasks() {
        let mut store = FailingStore::default();
        let id = |n: usize| TaskId::from(format!("t{n}").as_str());
        // Each task contains one prompt and continues the one before.
        let tasks = CONVERSATION_TASKS + 2;
        for n in 0..tasks {
            let parent = n.checked_sub(1).map(|before| (id(before), Seq(3)));
            let message = Arc::new(Message::new("m", Role::User, vec![Part::text("prompt")]));
            let prompted = Event::Prompted { message, by: Source::clock(), turn: 1, delivery: Default::default() };
            let events = [created(id(n), parent), prompted, Event::TurnBegan { turn: 1 }];
            let mut lines = Vec::new();
            for (at, event) in events.into_iter().enumerate() {
                Record { seq: Seq(at as u64 + 1), at: 1, event }.write(&mut lines);
            }
            store.create(&id(n), &Brief::bare("c".into())).unwrap();
            store.append(&id(n), &lines, Openness::Open).unwrap();
        }
        let inherited = |n: usize| load(&store, &id(n)).unwrap().inherited.len();
        assert_eq!(inherited(CONVERSATION_TASKS), CONVERSATION_TASKS);
        assert_eq!(inherited(CONVERSATION_TASKS + 1), CONVERSATION_TASKS);
    }
}
