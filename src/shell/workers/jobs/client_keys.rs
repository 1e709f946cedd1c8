//! The keys for the model API that clients sent with their tasks. They are kept in memory only: not in the log, not on disk, not in the
//! environment of child processes.

use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::limits::access::CLIENT_KEYS;
use crate::task::log::event::Created;
use crate::task::machine::job::{ModelError, ModelErrorKind};
use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Default)]
pub struct ClientKeys(Mutex<KeptKeys>);

#[derive(Default)]
struct KeptKeys {
    /// The key of each task, with a number by which the oldest one is found.
    keys: HashMap<TaskId, (u64, Secret)>,
    last: u64,
}

impl ClientKeys {
    /// Keeps the key of a task. If there are too many, the oldest is dropped; the client of its task has to send it again.
    pub fn keep(&self, task: TaskId, key: Secret) {
        let mut state = lock(&self.0);
        state.last += 1;
        let number = state.last;
        state.keys.insert(task, (number, key));
        if state.keys.len() > CLIENT_KEYS {
            let oldest = state.keys.iter().min_by_key(|(_, (number, _))| *number).map(|(task, _)| task.clone());
            oldest.and_then(|task| state.keys.remove(&task));
        }
    }

    pub fn forget(&self, task: &TaskId) {
        lock(&self.0).keys.remove(task);
    }

    pub fn has(&self, task: &TaskId) -> bool {
        lock(&self.0).keys.contains_key(task)
    }

    /// The key that a task uses instead of the server's own. A task that was created with a key uses no other one.
    pub fn of(&self, created: &Created) -> Result<Option<Secret>, ModelError> {
        if !created.client_key {
            return Ok(None);
        }
        match lock(&self.0).keys.get(&created.task) {
            Some((_, key)) => Ok(Some(key.clone())),
            None => Err(ModelError {
                kind: ModelErrorKind::NeedsKey,
                message: "This task uses the API key of its client, which this server keeps in memory only and does not have any \
                          more. Send the next message with apiKey."
                    .into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::test_created;

    fn created(task: &str, client_key: bool) -> Created {
        Created { client_key, ..test_created::created(task) }
    }

    #[test]
    fn a_key_is_used_for_its_own_task_only() {
        let keys = ClientKeys::default();
        keys.keep("a".into(), Secret::new("planted"));
        assert_eq!(keys.of(&created("a", true)), Ok(Some(Secret::new("planted"))));
        assert_eq!(keys.of(&created("b", false)), Ok(None));
        let missing = keys.of(&created("b", true)).expect_err("there is none");
        assert_eq!(missing.kind, ModelErrorKind::NeedsKey);
        assert!(keys.has(&"a".into()) && !keys.has(&"b".into()));
        keys.forget(&"a".into());
        assert!(keys.of(&created("a", true)).is_err());
    }

    #[test]
    fn the_oldest_of_too_many_is_dropped() {
        let keys = ClientKeys::default();
        for number in 0..=CLIENT_KEYS {
            keys.keep(number.to_string().into(), Secret::new("k"));
        }
        assert!(!keys.has(&"0".into()) && keys.has(&"1".into()) && keys.has(&CLIENT_KEYS.to_string().into()));
    }
}
