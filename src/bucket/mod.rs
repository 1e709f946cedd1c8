//! Tasks in a bucket of an object store, shared by several instances. Pure: the clients that speak to Google Cloud Storage and S3 are
//! in `shell/bucket`.
//!
//! A [`Bucket`] has four operations. Instances agree by one of them: of all [`Bucket::put`] requests for a name that expect
//! [`Expect::Absent`], exactly one succeeds. There is no other coordination between instances.
//!
//! The procedures of the protocol are methods of [`Instance`](instance::Instance), written as `async fn` over a [`Port`](port::Port): the
//! operations of the bucket, a clock, waiting and random numbers. There is no async runtime: in the program every operation of the port blocks the
//! worker thread that called it, and its future is ready at once, so [`block_on`](port::block_on) polls a procedure a single time. In
//! `tests/store_sim.rs` the operations are pending until a scheduler with a seed carries them out, loses them or delays them, so that several
//! instances take turns at every request. Both run the same code, and the protocol that was simulated is the one that runs.
//!
//! | file | content |
//! |---|---|
//! | `names` | the names of objects |
//! | `port`, `instance` | what the protocol needs from outside; requests that are tried again |
//! | `replica` | what the protocol needs to know of a task |
//! | `log` | the log of a task: segments are appended, read and joined |
//! | `ownership` | claims, heartbeats, requests to the owner |
//! | `lifecycle` | creation, markers of unfinished work, deletion, the scan for work that other instances left |
//! | `journal` | tasks of the program: the fold of journal lines, and lines that the event loop appended |
//! | `index` | summaries for lists, and content that logs name |
//! | `memory` | a bucket in memory, with faults |

pub mod index;
pub mod instance;
pub mod journal;
pub mod lifecycle;
pub mod log;
pub mod memory;
pub mod names;
pub mod ownership;
pub mod port;
pub mod replica;

#[cfg(test)]
mod blocking_port;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// An object store. Every method blocks for at most [`ATTEMPT_MS`] and makes a single attempt. The caller decides whether to repeat it, because
/// only the caller knows what an unknown result means.
pub trait Bucket: Send + Sync {
    /// An object's content, or `None` if there is no object of this name.
    fn get(&self, name: &str) -> Answer<Option<Object>>;

    /// Writes an object whole.
    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put>;

    /// Deletes an object, or this version of it only. An object that does not exist counts as deleted.
    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion>;

    /// The objects whose names begin with `list.prefix`, in the order of their names.
    fn list(&self, list: &List) -> Answer<Page>;

    /// Whether lists contain the metadata of objects. If not, the body of an object that has metadata is that metadata: see [`meta_of_body`].
    fn lists_metadata(&self) -> bool {
        true
    }
}

/// The time limit of one attempt.
pub const ATTEMPT_MS: u64 = 10_000;

/// The result of one attempt, with the time of the store's clock.
pub type Answer<T> = Result<Dated<T>, BucketError>;

/// A value with the `Date` of the response that contained it. Ages of objects are measured by the store's clock only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated<T> {
    pub value: T,
    pub unix_ms: u64,
}

/// Custom metadata of an object. Lists contain it, so that the objects need not be read.
pub type Meta = BTreeMap<String, String>;

/// Parses the metadata that is stored as the body of an object. For a store whose lists have no metadata (S3), the client writes the
/// metadata of an object without bytes into its body, and lists have entries with empty metadata. `None` if the body is not metadata.
pub fn meta_of_body(body: &[u8]) -> Option<Meta> {
    if body.is_empty() { Some(Meta::new()) } else { serde_json::from_slice(body).ok() }
}

/// The version of an object: a generation (Google Cloud Storage) or an entity tag (S3). Two versions of one name are equal only if the object
/// has the same content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub bytes: Arc<[u8]>,
    pub version: Version,
}

/// The precondition of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    Any,
    /// No object has this name.
    Absent,
    /// The object has this version.
    Version(Version),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Written(Version),
    /// Nothing was written.
    PreconditionFailed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// No object has this name any more, or none had it.
    Deleted,
    /// The object has another version and was not deleted.
    PreconditionFailed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub prefix: String,
    /// Only names that sort after this one.
    pub after: Option<String>,
    /// Group names that have a `/` after the prefix: each part up to that `/` is listed once, in [`Page::folders`].
    pub folders: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub folders: Vec<String>,
    /// The [`List::after`] of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub version: Version,
    pub meta: Meta,
    pub created_unix_ms: u64,
}

/// Why an attempt has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketError {
    pub kind: BucketErrorKind,
    /// What failed, for people. Contains no credentials.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketErrorKind {
    /// The store refused the request temporarily, was not reached, or its response was incomplete. It is unknown whether a write was
    /// done. Worth trying again.
    Unknown,
    /// The credentials do not allow the request. An operator has to change that, so it is tried again only rarely.
    Forbidden,
    /// There is no such bucket, or the store does not know the operation.
    Unsupported,
    /// The received bytes are not the bytes that were sent, or the store says that the request is invalid.
    Damaged,
}

impl BucketError {
    pub fn new(kind: BucketErrorKind, message: impl Into<String>) -> BucketError {
        BucketError { kind, message: message.into() }
    }
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BucketError {}
