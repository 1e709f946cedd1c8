//! The probe at startup: checks that the store honours preconditions. The protocol depends on them, and one emulator ignores them.

use crate::bucket::{Bucket, BucketError, BucketErrorKind, Deletion, Expect, Meta, Put};
use crate::shell::event_loop::sys::random;
use std::fmt;
use std::sync::Arc;

/// Why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// The configuration is wrong. The program exits with status 78.
    Configuration(String),
    /// The store did not answer. Try again later with the same name.
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

impl From<BucketError> for ProbeError {
    fn from(error: BucketError) -> ProbeError {
        match error.kind {
            BucketErrorKind::Unknown => ProbeError::Unreachable(error.message),
            BucketErrorKind::Forbidden | BucketErrorKind::Unsupported | BucketErrorKind::Damaged => {
                ProbeError::Configuration(error.message)
            }
        }
    }
}

/// The name of the object that the probe of one run of an instance creates and deletes.
pub fn probe_name(instance: &str) -> String {
    let random: String = random::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("probe/{instance}-{random}")
}

/// Creates an object twice and deletes it. The store must refuse the second creation. If an interrupted probe has left an object with this
/// name, deletes that object first.
pub fn probe(bucket: &dyn Bucket, name: &str) -> Result<(), ProbeError> {
    let checked = check(bucket, name);
    let deleted = bucket.delete(name, None);
    match (checked, deleted) {
        (Err(error), _) => Err(error),
        (Ok(()), Ok(deleted)) => match deleted.value {
            Deletion::Deleted => Ok(()),
            Deletion::PreconditionFailed => Err(ProbeError::Configuration(format!("the store does not delete {name}"))),
        },
        (Ok(()), Err(error)) => Err(error.into()),
    }
}

fn check(bucket: &dyn Bucket, name: &str) -> Result<(), ProbeError> {
    let create = || -> Result<Put, BucketError> {
        let bytes: Arc<[u8]> = Arc::from(&b"{}\n"[..]);
        Ok(bucket.put(name, &bytes, &Meta::new(), &Expect::Absent)?.value)
    };
    if create()? == Put::PreconditionFailed {
        bucket.delete(name, None)?;
        if create()? == Put::PreconditionFailed {
            return Err(ProbeError::Unreachable(format!("{name} exists although it was deleted")));
        }
    }
    match create()? {
        Put::PreconditionFailed => Ok(()),
        Put::Written(_) => {
            Err(ProbeError::Configuration("this store ignores preconditions and would lose events".into()))
        }
    }
}
