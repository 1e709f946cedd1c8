//! Subscriptions. Every client that waits for events of a task has one: a cursor into the log, and the form in which it is answered. A
//! stream sends each event; a waiting call sends one snapshot when the turn ends. A slow reader costs only its cursor and at most one
//! full output buffer.

use crate::a2a::{Ends, Form, View};
use crate::base::Shared;
use crate::base::http::Response;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::disk::page::{Frame, Page, Position};
use crate::core::tasks::loaded_task::{Awaits, Mark};
use crate::task::fault::Fault;

pub struct Subscription {
    pub task: TaskId,
    pub conn: Key,
    pub view: View,
    pub form: Form,
    /// The bytes before each body: made once.
    pub prefix: Vec<u8>,
    /// Everything up to here has been sent.
    pub cursor: Seq,
    pub until: Until,
    pub kind: Kind,
    pub role: Role,
    pub intent: Intent,
    /// Its client was sent the notice that the journal cannot be written at present.
    pub notified: bool,
    /// Nothing is sent before the log is flushed up to here.
    pub required_sync: Seq,
    /// The turn that is aborted when this client disconnects.
    pub aborts_turn: Option<u32>,
    /// Sent before any event, once the log is written up to its position.
    pub first: Option<First>,
    /// The length of an answer or a first frame that is encoded and not queued yet, or the memory that is reserved for it.
    pub encoded_bytes: usize,
    /// The position and the page of a reader that is behind the events in memory.
    pub cold: Option<Cold>,
    /// Events that its client caused and is not shown.
    pub hidden: Vec<Seq>,
}

impl Subscription {
    /// Whether a worker encodes its answer or its first frame.
    pub fn is_encoding(&self) -> bool {
        matches!(self.first, Some(First { body: FirstBody::Encoding, .. }))
            || matches!(self.kind, Kind::Ready { reply: Reply::Encoding, .. })
    }
}

/// The first frame of a stream.
pub struct First {
    /// The position in the log that it shows.
    pub seq: Seq,
    pub body: FirstBody,
    /// The stream ends with it.
    pub last: bool,
}

pub enum FirstBody {
    /// Nothing is shown; the stream waits only until the log is written up to the position.
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
    /// Every event, on a connection that streams events or is a socket.
    Stream,
    /// One answer, when the turn is over.
    Once { history: Option<usize> },
    /// An answer that is ready and waits for the log to be written up to `seq`.
    Ready { seq: Seq, reply: Reply },
}

/// What a call that waits for its answer does with the task: it decides which error the caller gets while the journal cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It shows the task.
    Read,
    /// A prompt, an answer to a question or a webhook, which takes effect when it is recorded.
    Change,
    /// A cancellation, which has taken effect already: the work was stopped.
    Cancel,
}

pub enum Reply {
    Answer(Response),
    /// A worker encodes it.
    Encoding,
    Refusal(Fault),
}

/// When a subscription ends. Events before `floor` are history that is sent again and do not end it; nor do the ends of turns before
/// `turn`.
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
            (Mark::TurnEnd { awaits, .. }, Ends::WhenShownOver) => awaits == Awaits::Prompt,
            (Mark::TurnEnd { awaits: Awaits::Credential, .. }, Ends::WithTurnButAuth) => false,
            (Mark::TurnEnd { turn, .. }, Ends::WithTurn | Ends::WithTurnButAuth | Ends::WithTurnButQuestions) => {
                turn >= self.turn
            }
            (Mark::Pause, Ends::WithTurn | Ends::WithTurnButAuth) => true,
            (Mark::Pause, Ends::WithTurnButQuestions | Ends::WhenShownOver) => false,
        }
    }
}

/// A reader that is behind the events in memory. It reads the journal in pages. The state of the task is folded from the first line, and
/// events up to the cursor are not sent.
#[derive(Default)]
pub struct Cold {
    /// Where its page begins; without a page, where the next one begins.
    pub at: Position,
    page: Option<Page>,
    /// It waits in the queue for a page, or its page is being read.
    pub awaits_page: bool,
}

impl Cold {
    pub fn take_page(&mut self, page: Page) {
        self.awaits_page = false;
        self.page = Some(page);
    }

    /// For the checks of invariants.
    #[cfg(debug_assertions)]
    pub fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Drops the rest of the page. It is read again when the reader gets its turn.
    pub fn drop_page(&mut self) {
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
