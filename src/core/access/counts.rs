//! How many turns, or streams, each credential has under way. Credentials without any take no space.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct CountsByCredential(HashMap<Arc<str>, usize>);

impl CountsByCredential {
    /// The counts of these credentials, for the checks of invariants.
    #[cfg(debug_assertions)]
    pub fn of<'a>(credentials: impl Iterator<Item = &'a Arc<str>>) -> CountsByCredential {
        let mut counts = CountsByCredential::default();
        credentials.for_each(|credential| counts.add(Some(credential.clone())));
        counts
    }

    pub fn get(&self, credential: &str) -> usize {
        self.0.get(credential).copied().unwrap_or(0)
    }

    /// Counts one of this credential. What belongs to no credential is not counted.
    pub fn add(&mut self, credential: Option<Arc<str>>) {
        if let Some(credential) = credential {
            *self.0.entry(credential).or_default() += 1;
        }
    }

    /// One of this credential has ended.
    pub fn remove(&mut self, credential: Option<Arc<str>>) {
        if let Some(credential) = credential
            && let Entry::Occupied(mut count) = self.0.entry(credential)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
