//! A page of a journal, encoded for a reader that is behind. The worker that reads the lines also folds and encodes them: an event can
//! be as long as a request body, and there can be thousands of such readers, so the loop would be held for milliseconds.

use crate::a2a::{self, Body, Tools, View};
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::disk::request::unreadable;
use crate::core::disk::store::{Archive, StoreError};
use crate::core::tasks::loaded_task::Mark;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::machine::state::State;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The request for the next page of a reader that is behind.
#[derive(Clone)]
pub struct PageRequest {
    pub task: TaskId,
    pub sub: Key,
    pub from: Position,
    /// The events up to this one are folded and not encoded.
    pub after: Seq,
    pub view: View,
    pub tools: Arc<Tools>,
    /// How many bytes are read and encoded, but at least one line.
    pub most: usize,
}

/// A position in a journal, and the state of the task there, without the conversation: it is needed to show the next event. None at the
/// beginning of the journal.
#[derive(Clone, Debug, Default)]
pub struct Position {
    pub state: Option<Arc<State>>,
    pub offset: u64,
}

/// The events of a page.
#[derive(Debug)]
pub struct Page {
    pub frames: VecDeque<Frame>,
    /// Where the next page begins.
    pub next: Position,
    /// Why the line there cannot be read.
    pub damage: Option<String>,
}

/// An event as a view shows it.
#[derive(Debug)]
pub struct Frame {
    pub seq: Seq,
    pub mark: Mark,
    pub body: Option<Body>,
}

/// Without the task and the tools, which are long.
impl fmt::Debug for PageRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRequest({} from byte {} for {:?})", self.task, self.from.offset, self.sub)
    }
}

impl PageRequest {
    pub fn read(&self, archive: &dyn Archive) -> Result<Page, StoreError> {
        let lines = archive.open(&self.task)?.page(self.from.offset, self.most)?;
        let blobs = archive.blobs();
        let mut state = self.from.state.as_deref().cloned();
        let (mut frames, mut offset, mut bytes, mut damage) = (VecDeque::new(), self.from.offset, 0, None);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if bytes >= self.most {
                break;
            }
            let mut record = match Record::read(line.strip_suffix(b"\n").unwrap_or(line)) {
                Ok(record) => record,
                Err(bad) => {
                    damage = Some(format!("the journal is damaged: {bad:?}"));
                    break;
                }
            };
            if let Some(state) = &mut state {
                state.forget_past();
            }
            let Some(state) = State::advance(&mut state, &record) else {
                damage = Some("the journal does not begin with its task".into());
                break;
            };
            offset += line.len() as u64;
            if record.seq <= self.after {
                continue;
            }
            if self.view.shows_texts() {
                state.load_texts(&*blobs).map_err(unreadable)?;
                if let Event::Prompted { message, .. } = &mut record.event
                    && message.is_missing()
                {
                    // No view shows files in the event of a prompt.
                    Arc::make_mut(message).load(&*blobs, &mut 0).map_err(unreadable)?;
                }
            }
            let body = a2a::event(self.view, state, &record, &self.tools);
            bytes += body.as_ref().map_or(0, Body::size);
            frames.push_back(Frame { seq: record.seq, mark: Mark::of(&record.event, state), body });
        }
        // Stored texts are read again for the next page, so that waiting readers keep none in memory.
        if let Some(state) = &mut state {
            state.unload_texts();
        }
        Ok(Page { frames, next: Position { state: state.map(Arc::new), offset }, damage })
    }
}
