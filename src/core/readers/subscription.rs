//! Everything that waits for a task's events is a subscription: a cursor into the log and the form it is answered in. A
//! stream sends each event; a waiting call sends one snapshot when the turn ends. A slow reader is a cursor that does not
//! move and at most one full output buffer.

use crate::a2a::{Ends, Form, View};
use crate::base::Shared;
use crate::base::http::Response;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::disk::page::{Frame, Page, Position};
use crate::core::tasks::loaded_task::{Mark, Rest};
use crate::task::fault::Fault;

pub struct Subscription {
    pub task: TaskId,
    pub conn: Key,
    pub view: View,
    pub form: Form,
    /// What is put around each body: made once.
    pub prefix: Vec<u8>,
    /// Everything up to here has been sent.
    pub cursor: Seq,
    pub until: Until,
    pub kind: Kind,
    pub role: Role,
    pub wants: Wants,
    /// It has been told that the journal cannot be written at present.
    pub told: bool,
    /// Nothing is sent before the log is flushed up to here.
    pub safe: Seq,
    /// The turn that is aborted when this client goes away.
    pub owns: Option<u32>,
    /// Goes out before any event, once the log is written up to its position.
    pub first: Option<First>,
    /// The length of an answer or a first frame that is encoded and not queued yet, or what is reserved for it.
    pub encoded_bytes: usize,
    pub cold: Option<Cold>,
    /// Events that its client caused and is not shown.
    pub own: Vec<Seq>,
}

impl Subscription {
    /// Whether a worker encodes its answer or its first frame.
    pub fn is_encoding(&self) -> bool {
        matches!(self.first, Some(First { body: FirstBody::Encoding, .. }))
            || matches!(self.kind, Kind::Ready { reply: Reply::Encoding, .. })
    }
}

pub struct First {
    pub seq: Seq,
    pub body: FirstBody,
    /// Nothing comes after it.
    pub last: bool,
}

pub enum FirstBody {
    /// There is nothing to show, and only that has to be true on disk too.
    Nothing,
    Frame(Shared),
    /// A worker encodes it.
    Encoding,
}

/// Why there is a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers a call.
    Call,
    /// A socket follows the task.
    Follow,
    /// A socket follows every task; the subscription ends when the task is idle.
    FollowAll,
    /// A socket followed the task and now follows another one; the subscription ends when all of this one was sent.
    Leave,
    /// A socket asked to be shown the task until it is over.
    Watch,
}

pub enum Kind {
    /// Every event, on a connection that has begun to stream or is a socket.
    Stream,
    /// One answer, when the turn is over.
    Once { history: Option<usize> },
    /// An answer that is ready and waits for the log to be written up to `seq`.
    Ready { seq: Seq, reply: Reply },
}

/// What a call that waits for its answer wants of the task. It decides what the caller is told while the journal cannot be
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    Read,
    /// A prompt, an answer to a question or a webhook: it takes effect when it is recorded.
    Change,
    /// It has taken effect already: the work was stopped.
    Cancel,
}

pub enum Reply {
    Answer(Response),
    /// A worker encodes it.
    Encoding,
    Refusal(Fault),
}

/// When a subscription ends. Events before `floor` are history that is being repeated and end nothing; nor do the ends of
/// turns before `turn`.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    pub turn: u32,
    pub floor: Seq,
    pub ends: Ends,
}

impl Until {
    pub fn ends(&self, seq: Seq, mark: Mark) -> bool {
        if seq < self.floor {
            return false;
        }
        match (mark, self.ends) {
            (Mark::Plain, _) | (_, Ends::Never) => false,
            (Mark::Over, _) => true,
            (Mark::Dropped { turn }, _) => turn == self.turn,
            (_, Ends::WithTask) => false,
            (Mark::TurnEnd { rest, .. }, Ends::WhenShownOver) => rest == Rest::Done,
            (Mark::TurnEnd { rest: Rest::Auth, .. }, Ends::WithTurnButAuth) => false,
            (Mark::TurnEnd { turn, .. }, Ends::WithTurn | Ends::WithTurnButAuth | Ends::WithTurnButQuestions) => {
                turn >= self.turn
            }
            (Mark::Pause, Ends::WithTurn | Ends::WithTurnButAuth) => true,
            (Mark::Pause, Ends::WithTurnButQuestions | Ends::WhenShownOver) => false,
        }
    }
}

/// A reader that is behind what memory holds: the journal is folded from its first line for it, silently up to its cursor.
#[derive(Default)]
pub struct Cold {
    /// Where the page begins, or the next one if there is none.
    pub at: Position,
    page: Option<Page>,
    /// A page is waited for or being read.
    pub asked: bool,
}

impl Cold {
    pub fn take_page(&mut self, page: Page) {
        self.asked = false;
        self.page = Some(page);
    }

    /// For the checks of invariants.
    #[cfg(debug_assertions)]
    pub fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Drops what is left of the page; it is read again when it can be used.
    pub fn put_back(&mut self) {
        self.page = None;
    }

    /// The next event of the page. None: a new page is needed. Err: the journal is damaged.
    pub fn next(&mut self) -> Option<Result<Frame, String>> {
        let page = self.page.as_mut()?;
        if let Some(frame) = page.frames.pop_front() {
            return Some(Ok(frame));
        }
        let page = self.page.take()?;
        self.at = page.next;
        page.damage.map(Err)
    }
}
