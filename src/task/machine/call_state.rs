//! The state of a call, and how it changes with the events about it.

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
    /// The event that planned it, the last time it was planned, or with which its server asked last.
    pub planned_at: Seq,
    /// How its programs are confined once it may run.
    pub confinement: Confinement,
    /// The question of its server that is open.
    pub inquiry: Option<Arc<Inquired>>,
    pub choice: Option<Choice>,
    pub answered_by: Option<Source>,
    pub edited: Option<Arc<str>>,
    pub answers: Option<Arc<Answers>>,
    /// What an "always" may mean, as the question was asked.
    pub keeping: ApprovalScope,
    /// When it was last asked about, in Unix milliseconds; 0 before.
    pub asked_at: u64,
    /// How many pieces of live output were recorded.
    pub outputs: u64,
    /// What it has printed so far, while it runs and only if it has printed anything.
    pub live: Option<Live>,
    pub ending: Option<Arc<Ending>>,
    /// How often the file changed under an approved edit.
    pub stale: u32,
    /// The SHA-256 of the file that it wrote.
    pub written: Option<Arc<str>>,
    /// A hook wants it to be asked about, whatever is allowed.
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

    /// The answers on offer, in the order to show them; the last one refuses. None before the call was prepared.
    pub fn options(&self) -> &'static [Choice] {
        match self.question() {
            Some(question) => question.options(self.keeping),
            None => &[],
        }
    }

    /// What its server asks now, otherwise what is asked before it runs, whether anybody is asked or not.
    pub fn question(&self) -> Option<&Question> {
        let asked = self.inquiry.as_ref().map(|inquired| &inquired.question);
        asked.or(self.plan.as_ref().map(|plan| &plan.question))
    }

    /// Who decided that it runs, or that it does not. Nobody, if it was allowed and then stopped with everything else: that
    /// somebody allowed it does not explain its end.
    pub fn decided_by(&self) -> Option<&Source> {
        let stopped =
            matches!(self.ending.as_deref(), Some(Ending::Cancelled { .. })) && self.choice != Some(Choice::Cancel);
        self.answered_by.as_ref().filter(|_| !stopped)
    }
}

/// The output of a running call, for views that show all of it each time. Which piece makes them show it is part of the fold,
/// so that a reader of the past sees what a reader of the present saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The newest part of it, cut between characters.
    pub tail: String,
    /// The piece that was last worth showing.
    pub shown: Seq,
    /// When the next one is.
    due: u64,
}

impl Live {
    /// The first piece is shown at once.
    pub fn begin(text: &str, record: &Record) -> Live {
        let mut live = Live { tail: String::new(), shown: record.seq, due: 0 };
        live.push(text, record);
        live
    }

    /// Pieces that come faster than they may be shown are shown with a later one; on average, so that a tool that reports
    /// once in a while is not shown half of the time because it came a moment early.
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

/// The newest part of the text, as much as is kept.
fn newest(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(LIVE_TAIL_BYTES))..]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Requested by the model, not prepared yet.
    Named,
    Planned,
    Asked,
    /// Answered; the event that follows from the answer comes next.
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
    /// The file changed under the question: planned again under this job.
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

    /// Its server asks something.
    pub fn inquire(&mut self, inquired: &Arc<Inquired>, record: &Record) {
        if let Stage::Running { job } = self.stage {
            self.stage = Stage::Inquired { job };
        }
        self.inquiry = Some(inquired.clone());
        (self.asked_at, self.planned_at) = (record.at, record.seq);
    }

    pub fn go_on(&mut self) {
        if let Stage::Inquired { job } = self.stage {
            self.stage = Stage::Running { job };
        }
        self.inquiry = None;
    }

    /// What was approved is not what would run now: the answer no longer counts.
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
