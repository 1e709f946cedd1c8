//! Keys for the model API that clients give with their tasks. They are passed to the shell, which keeps them in memory; the log says only
//! whether a task has one.

use crate::base::id::TaskId;
use crate::base::secret::Secret;
use crate::core::{Core, Out};
use crate::limits::access::CLIENT_KEY_CHARS;
use crate::task::call::Settings;
use crate::task::fault::Fault;

impl Core {
    /// The key that a request gives. A task has the key of its first message; later messages can only give it again, because a restart has
    /// dropped it from memory. A task without a key gets none.
    pub(in crate::core) fn client_key(
        &self,
        task: Option<&TaskId>,
        settings: &Settings,
    ) -> Result<Option<Secret>, Fault> {
        let Some(key) = &settings.api_key else {
            return Ok(None);
        };
        if !self.settings.request_policy.client_keys {
            return Err(Fault::params(
                "This server takes no API keys from clients; leave apiKey out and use the server's own.",
            ));
        }
        let text = key.reveal();
        let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word || text.len() > CLIENT_KEY_CHARS {
            return Err(Fault::params("apiKey must be one word: a key for the model API."));
        }
        let known = task.and_then(|task| self.tasks.get(task)).map(|loaded| loaded.state.created.client_key);
        Ok((known != Some(false)).then(|| key.clone()))
    }

    /// Passes the key of a task to the shell.
    pub(in crate::core) fn hand_over_key(&mut self, task: &TaskId, key: Option<Secret>) {
        if let Some(key) = key {
            self.out.push(Out::ClientKey { task: task.clone(), key });
        }
    }
}
