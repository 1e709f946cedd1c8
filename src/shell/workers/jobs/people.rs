//! Questions of running jobs: they are notes to the loop, and the answers come back here.

use super::{Jobs, Mail};
use crate::base::lock::lock;
use crate::core::Input;
use crate::shell::workers::lanes::Post;
use crate::task::form::{Inquired, Reply};
use crate::task::machine::job::{JobId, Note, NoteBody};
use crate::tool::people::{OnReply, People};
use std::sync::{Arc, Mutex};

/// Who takes the answers to the questions of a job.
#[derive(Clone, Default)]
pub(super) struct Replies(Arc<Mutex<Option<OnReply>>>);

impl Jobs {
    /// Gives a job the answer to its question.
    pub fn reply(&self, job: &JobId, nr: u32, reply: Reply) {
        if let Some((_, Replies(taker))) = self.running.get(job)
            && let Some(take) = &*lock(taker)
        {
            take(nr, reply);
        }
    }
}

/// The people of a job.
pub(super) struct Asking<'a> {
    pub post: &'a Post<Mail>,
    pub job: &'a JobId,
    pub replies: &'a Replies,
}

impl Asking<'_> {
    fn note(&self, body: NoteBody) {
        self.post.send(Mail::Input(Input::Note(Note { job: self.job.clone(), body })));
    }
}

impl People for Asking<'_> {
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
