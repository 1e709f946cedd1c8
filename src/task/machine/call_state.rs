//! The state of a tool call, and its changes by events.

use crate::base::id::{CallId, Seq};
use crate::limits::{LIVE_SHOWN_MS, LIVE_TAIL_BYTES};
use crate::task::form::Inquired;
use crate::task::log::answer::Request;
use crate::task::log::long_text::LongText;
use crate::task::log::record::Record;
use crate::task::message::Source;
use crate::task::spec::{Answers, ApprovalScope, Choice, Confinement, Ending, Plan, Question};
use std::sync::Arc;

/// One tool call of the current batch (kept until the next batch or turn).
#[derive(Clone, Debug, PartialEq)]
pub struct CallState {
    pub request: Request,
    pub stage: Stage,
    pub plan: Option<Arc<Plan>>,
    /// The last event that planned the call or with which its server asked a question.
    pub planned_at: Seq,
    /// How its programs are confined once it may run.
    pub confinement: Confinement,
    /// The open question of the call's server.
    pub inquiry: Option<Arc<Inquired>>,
    pub choice: Option<Choice>,
    pub answered_by: Option<Source>,
    pub edited: Option<Arc<str>>,
    pub answers: Option<Arc<Answers>>,
    /// How long an "always" may last, as recorded with the question.
    pub keeping: ApprovalScope,
    /// The time of the last question about the call, in Unix milliseconds; 0 if there was none.
    pub asked_at: u64,
    /// The number of recorded pieces of live output.
    pub outputs: u64,
    /// The output so far, while the call runs and only if it has printed anything.
    pub live: Option<Live>,
    pub ending: Option<Arc<Ending>>,
    /// How often the file changed under an approved edit.
    pub stale: u32,
    /// The SHA-256 of the file that the call wrote.
    pub written: Option<Arc<str>>,
    /// A command hook requires approval, whatever the rules allow.
    pub must_ask: bool,
}

impl CallState {
    pub fn id(&self) -> &CallId {
        &self.request.call
    }

    pub fn is_over(&self) -> bool {
        self.stage == Stage::Ended
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &LongText> {
        let plan = self.plan.iter().flat_map(|plan| plan.texts());
        plan.chain(self.ending.iter().flat_map(|ending| ending.texts()))
    }

    /// The offered answers in the order to show them; the last one refuses. Empty before the call was prepared.
    pub fn options(&self) -> &'static [Choice] {
        match self.question() {
            Some(question) => question.options(self.keeping),
            None => &[],
        }
    }

    /// The open question of the call's server; otherwise the question before the call runs, even if nobody has to answer it.
    pub fn question(&self) -> Option<&Question> {
        let asked = self.inquiry.as_ref().map(|inquired| &inquired.question);
        asked.or(self.plan.as_ref().map(|plan| &plan.question))
    }

    /// Who decided that the call runs or does not run. None if the call was allowed and then cancelled, because the approval does not
    /// explain its end.
    pub fn decided_by(&self) -> Option<&Source> {
        let stopped =
            matches!(self.ending.as_deref(), Some(Ending::Cancelled { .. })) && self.choice != Some(Choice::Cancel);
        self.answered_by.as_ref().filter(|_| !stopped)
    }
}

/// The output of a running call, for views that repeat the whole output in each update. The state decides after which pieces an update is
/// shown, so that a reader of the journal sees the same updates as a reader of the live events.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The newest part of the output, cut between characters.
    pub tail: String,
    /// The last piece after which an update is shown.
    pub shown: Seq,
    /// The time from which on the next update is shown.
    due: u64,
}

impl Live {
    /// The output after its first piece, which is shown at once.
    pub fn begin(text: &str, record: &Record) -> Live {
        let mut live = Live { tail: String::new(), shown: record.seq, due: 0 };
        live.push(text, record);
        live
    }

    /// Adds a piece. If pieces arrive faster than updates may be shown, some are shown together with a later one. The rate of updates is
    /// limited on average, so that a tool that reports regularly is not shown at half its rate because a piece came slightly early.
    pub fn push(&mut self, text: &str, record: &Record) {
        let text = newest(text);
        self.tail.push_str(text);
        let kept = newest(&self.tail).len();
        self.tail.drain(..self.tail.len() - kept);
        if record.at + LIVE_SHOWN_MS / 2 >= self.due {
            self.shown = record.seq;
            self.due = self.due.max(record.at) + LIVE_SHOWN_MS;
        }
    }
}

/// The newest part of a text that is kept.
fn newest(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(LIVE_TAIL_BYTES))..]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Requested by the model, not prepared yet.
    Named,
    Planned,
    Asked,
    /// Answered; the event that results from the answer comes next.
    Answered,
    Ready,
    /// `job` is the sequence number of its `CallStarted`.
    Running {
        job: Seq,
    },
    /// Running, and its server waits for somebody's answer.
    Inquired {
        job: Seq,
    },
    /// The file has changed since the plan: the call is planned again by this job.
    Replanning {
        job: Seq,
    },
    Ended,
}

impl CallState {
    /// A call as the model requested it.
    pub fn named(request: Request) -> CallState {
        CallState {
            request,
            stage: Stage::Named,
            plan: None,
            planned_at: Seq::default(),
            inquiry: None,
            choice: None,
            answered_by: None,
            edited: None,
            answers: None,
            keeping: ApprovalScope::Session,
            asked_at: 0,
            outputs: 0,
            live: None,
            ending: None,
            stale: 0,
            written: None,
            must_ask: false,
            confinement: Confinement::None,
        }
    }

    pub fn answer(&mut self, choice: Choice, by: &Source, edited: &Option<Arc<str>>, answers: &Option<Arc<Answers>>) {
        self.choice = Some(choice);
        self.answered_by = Some(by.clone());
        self.edited = edited.clone();
        self.answers = answers.clone();
        self.stage = Stage::Answered;
    }

    pub fn make_ready(&mut self, confinement: &Confinement) {
        self.stage = Stage::Ready;
        self.confinement = confinement.clone();
    }

    pub fn add_output(&mut self, text: &str, record: &Record) {
        self.outputs += 1;
        match &mut self.live {
            Some(live) => live.push(text, record),
            None => self.live = Some(Live::begin(text, record)),
        }
    }

    /// The call's server asks a question.
    pub fn inquire(&mut self, inquired: &Arc<Inquired>, record: &Record) {
        if let Stage::Running { job } = self.stage {
            self.stage = Stage::Inquired { job };
        }
        self.inquiry = Some(inquired.clone());
        (self.asked_at, self.planned_at) = (record.at, record.seq);
    }

    /// The question of the call's server is closed.
    pub fn go_on(&mut self) {
        if let Stage::Inquired { job } = self.stage {
            self.stage = Stage::Running { job };
        }
        self.inquiry = None;
    }

    /// The approved plan is not what would run, so the answer does not count any more.
    pub fn plan_again(&mut self, record: &Record) {
        self.live = None;
        self.stage = Stage::Replanning { job: record.seq };
        self.choice = None;
        self.answered_by = None;
        self.edited = None;
        self.answers = None;
        self.stale += 1;
    }
}
