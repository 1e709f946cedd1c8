//! The interface to models. There are two back-ends, the Gemini API (`shell/workers/client.rs`) and scripts
//! (`shell/workers/scripted.rs`). Requests and answers are our own types, which a back-end translates. A back-end has no state between two
//! requests.

use crate::base::cancel::Cancel;
use crate::base::secret::Secret;
use crate::model::memory::RequestContext;
use crate::task::log::answer::Answer;
use crate::task::machine::job::{ModelError, NoteBody, Think};
use crate::task::spec::ToolSpec;

/// Answers requests, from any number of threads at once.
pub trait ModelBackend: Send + Sync {
    /// One attempt, on a thread that may block. Reports the pieces of the answer as they arrive. `cancel` ends the attempt with an error.
    fn answer(
        &self,
        request: &ModelRequest,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError>;

    /// The whole answer to a question that is asked after the conversation of the request and does not become part of it.
    fn consult(&self, request: &ModelRequest, question: &str, cancel: &Cancel) -> Result<Answer, ModelError>;
}

/// Everything that a request is made from.
pub struct ModelRequest<'a> {
    pub think: &'a Think,
    /// All available tools; [`Think::tools`] may restrict them.
    pub tools: &'a [ToolSpec],
    /// Reads what the model is told besides the conversation. Not every back-end calls it.
    pub context: &'a dyn Fn() -> RequestContext,
    /// The key of the client, to be used instead of the server's own.
    pub key: Option<&'a Secret>,
}
