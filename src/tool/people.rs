//! Questions to people while a call runs. The shell layer passes them on: a question becomes a record of the task, and the answer is
//! returned to the worker.

use crate::task::form::{Inquired, Reply};

/// Takes an answer, with the number of its question.
pub type OnReply = Box<dyn Fn(u32, Reply) + Send>;

pub trait People: Send + Sync {
    /// Asks a question. The answer is passed to the function that was set last with [`People::on_reply`].
    fn ask(&self, inquired: Inquired);

    /// Withdraws the question with this number, because its answer is not needed.
    fn withdraw(&self, nr: u32);

    /// Sets the function that takes the answers.
    fn on_reply(&self, take: OnReply);
}

/// For calls that cannot ask anybody: questions are ignored.
pub struct Nobody;

impl People for Nobody {
    fn ask(&self, _: Inquired) {}

    fn withdraw(&self, _: u32) {}

    fn on_reply(&self, _: OnReply) {}
}
