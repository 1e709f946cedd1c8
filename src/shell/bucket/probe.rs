//! The check at the start: whether the store honours preconditions. Everything rests on that, and one emulator does not.

use crate::bucket::{Bucket, Deletion, Expect, Meta, Put, Trouble, TroubleKind};
use crate::shell::event_loop::sys::random;
use std::fmt;
use std::sync::Arc;

/// Why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// Somebody has to change something: the program ends with the status 78.
    Configuration(String),
    /// The store gave no result for now: try again later, with the same name.
    Unreachable(String),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Configuration(message) | ProbeError::Unreachable(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ProbeError {}

impl From<Trouble> for ProbeError {
    fn from(trouble: Trouble) -> ProbeError {
        match trouble.kind {
            TroubleKind::Unknown => ProbeError::Unreachable(trouble.message),
            TroubleKind::Forbidden | TroubleKind::Unsupported | TroubleKind::Damaged => {
                ProbeError::Configuration(trouble.message)
            }
        }
    }
}

/// The name of the object that one start of an instance creates and deletes.
pub fn probe_name(instance: &str) -> String {
    let random: String = random::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("probe/{instance}-{random}")
}

/// Creates an object twice and deletes it. The second time must be refused. An object that an interrupted probe left under the same
/// name is deleted first, so no object stays when a later probe succeeds.
pub fn probe(bucket: &dyn Bucket, name: &str) -> Result<(), ProbeError> {
    let checked = check(bucket, name);
    let deleted = bucket.delete(name, None);
    match (checked, deleted) {
        (Err(error), _) => Err(error),
        (Ok(()), Ok(deleted)) => match deleted.value {
            Deletion::Gone => Ok(()),
            Deletion::Refused => Err(ProbeError::Configuration(format!("the store does not delete {name}"))),
        },
        (Ok(()), Err(trouble)) => Err(trouble.into()),
    }
}

fn check(bucket: &dyn Bucket, name: &str) -> Result<(), ProbeError> {
    let create = || -> Result<Put, Trouble> {
        let bytes: Arc<[u8]> = Arc::from(&b"{}\n"[..]);
        Ok(bucket.put(name, &bytes, &Meta::new(), &Expect::Absent)?.value)
    };
    if create()? == Put::Refused {
        bucket.delete(name, None)?;
        if create()? == Put::Refused {
            return Err(ProbeError::Unreachable(format!("{name} exists although it was deleted")));
        }
    }
    match create()? {
        Put::Refused => Ok(()),
        Put::Made(_) => Err(ProbeError::Configuration("this store ignores preconditions and would lose events".into())),
    }
}
