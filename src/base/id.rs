//! Ids as types, so that a task's id cannot be used as a call's. Only task and context ids need entropy, which is passed in: by the
//! shell from the system, by tests from a counter.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                $name(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

ids! {
    /// A task: one conversation with its log.
    TaskId,
    /// A context: tasks that share a conversation's memory.
    ContextId,
    /// A tool call, unique within its task.
    CallId,
    /// A webhook, unique within its task.
    ConfigId,
    /// A partition of the tasks. Requests that name none use the empty one.
    Tenant,
    /// Who owns tasks. The operator is the user who runs the server.
    Subject,
    /// A message; user messages keep the id their client chose, agent messages are `<task>-<seq>`.
    MessageId,
}

impl Default for Tenant {
    fn default() -> Tenant {
        Tenant::from("")
    }
}

impl Tenant {
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Subject {
    fn default() -> Subject {
        Subject::from("operator")
    }
}

impl Subject {
    pub fn is_operator(&self) -> bool {
        &*self.0 == "operator"
    }
}

/// Position of an event in a task's log. The first event is 1; 0 is the position before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source of random bytes.
pub struct Entropy(Box<dyn FnMut() -> [u8; 16] + Send>);

impl Entropy {
    pub fn new(source: impl FnMut() -> [u8; 16] + Send + 'static) -> Entropy {
        Entropy(Box::new(source))
    }

    /// A source for simulations and tests that counts upwards from `n + 1`, so that every run gets the same ids.
    pub fn counting_after(mut n: u128) -> Entropy {
        Entropy::new(move || {
            n += 1;
            n.to_be_bytes()
        })
    }

    /// A number below `limit`, uniformly distributed.
    pub fn below(&mut self, limit: u64) -> u64 {
        let number = u128::from_be_bytes(self.bytes());
        (number % u128::from(limit.max(1))) as u64
    }

    pub fn bytes(&mut self) -> [u8; 16] {
        (self.0)()
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> String {
        let mut bytes = self.bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (i, byte) in bytes.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_version_and_variant() {
        let mut entropy = Entropy::counting_after(0);
        assert_eq!(entropy.uuid(), "00000000-0000-4000-8000-000000000001");
        assert_eq!(entropy.uuid(), "00000000-0000-4000-8000-000000000002");
        assert_eq!(Entropy::new(|| [0xff; 16]).uuid(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
