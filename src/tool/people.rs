//! Questions to people while a call runs. The shell layer carries them: a question becomes a record of the task, and the answer comes
//! back to the worker.

use crate::task::form::{Inquired, Reply};

/// Takes an answer, with the number of its question.
pub type OnReply = Box<dyn Fn(u32, Reply) + Send>;

pub trait People: Send + Sync {
    /// Asks. The answer is given to the function that was set last with [`People::on_reply`].
    fn ask(&self, inquired: Inquired);

    /// The answer to a question is not needed any more.
    fn withdraw(&self, nr: u32);

    /// Sets who takes answers.
    fn on_reply(&self, take: OnReply);
}

/// Nobody can be asked, and nobody asks here.
pub struct Nobody;

impl People for Nobody {
    fn ask(&self, _: Inquired) {}

    fn withdraw(&self, _: u32) {}

    fn on_reply(&self, _: OnReply) {}
}
