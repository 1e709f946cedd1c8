//! Questions of running jobs: they are sent to the loop as notes, and the loop passes the replies to the jobs.

use super::{Jobs, WorkerMessage};
use crate::base::lock::lock;
use crate::shell::workers::lanes::Outbox;
use crate::task::form::{Inquired, Reply};
use crate::task::machine::job::{JobId, NoteBody};
use crate::tool::people::{OnReply, People};
use std::sync::{Arc, Mutex};

/// The function that gets the replies to the questions of a job.
#[derive(Clone, Default)]
pub(super) struct Replies(Arc<Mutex<Option<OnReply>>>);

impl Jobs {
    /// Passes a reply to the job that has asked.
    pub fn reply(&self, job: &JobId, nr: u32, reply: Reply) {
        if let Some((_, Replies(taker))) = self.running.get(job)
            && let Some(take) = &*lock(taker)
        {
            take(nr, reply);
        }
    }
}

/// Asks questions on behalf of a job.
pub(super) struct JobPeople<'a> {
    pub outbox: &'a Outbox<WorkerMessage>,
    pub job: &'a JobId,
    pub replies: &'a Replies,
}

impl JobPeople<'_> {
    fn note(&self, body: NoteBody) {
        self.outbox.send(WorkerMessage::note(self.job.clone(), body));
    }
}

impl People for JobPeople<'_> {
    fn ask(&self, inquired: Inquired) {
        self.note(NoteBody::Inquired(inquired));
    }

    fn withdraw(&self, nr: u32) {
        self.note(NoteBody::Withdrawn { nr });
    }

    fn on_reply(&self, take: OnReply) {
        *lock(&self.replies.0) = Some(take);
    }
}
