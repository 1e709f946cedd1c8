//! Tasks in a bucket of an object store, shared by several instances. Pure: the clients that speak to Google Cloud Storage and S3 are
//! in `shell/bucket`.
//!
//! A [`Bucket`] has four operations. Everything that instances agree on rests on one of them: a [`Bucket::put`] that expects
//! [`Expect::Absent`] succeeds for exactly one of all that try it. Nothing of ours decides who is alive.
//!
//! The procedures of the protocol are methods of [`Instance`](instance::Instance), written as `async fn` over a [`Port`](port::Port): the
//! operations of the bucket, a clock, waiting and random numbers. There is no async runtime: in the program every operation of the port blocks the
//! worker thread that called it and is ready at once, so [`block_on`](port::block_on) polls a procedure a single time. In
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

/// An object store. Every method blocks, for [`ATTEMPT_MS`] at most, and makes a single attempt: who calls it knows what an unknown result means for him.
pub trait Bucket: Send + Sync {
    /// An object's content, or `None` if there is no object of this name.
    fn get(&self, name: &str) -> Answer<Option<Object>>;

    /// Writes an object whole.
    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put>;

    /// Deletes an object, or this version of it only. An object that does not exist counts as deleted.
    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion>;

    /// The objects whose names begin with `list.prefix`, in the order of their names.
    fn list(&self, list: &List) -> Answer<Page>;

    /// Whether lists give the metadata of objects. If not, an object that has metadata has it as its body: see [`meta_of_body`].
    fn lists_metadata(&self) -> bool {
        true
    }
}

/// The longest that one attempt takes.
pub const ATTEMPT_MS: u64 = 10_000;

/// The result of one attempt, and what the store's clock said.
pub type Answer<T> = Result<Dated<T>, Trouble>;

/// A value with the `Date` of the answer that brought it. Ages are measured by the store's clock alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated<T> {
    pub value: T,
    pub unix_ms: u64,
}

/// Custom metadata. It is what lists give without reading the objects.
pub type Meta = BTreeMap<String, String>;

/// The metadata that is the body of an object. A store whose lists have no metadata (S3) writes it there if the object has no bytes, and
/// gives entries with empty metadata. `None` if the body is something else.
pub fn meta_of_body(body: &[u8]) -> Option<Meta> {
    if body.is_empty() { Some(Meta::new()) } else { serde_json::from_slice(body).ok() }
}

/// What one state of an object is called: a generation, or an entity tag. Equal only for equal states of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub bytes: Arc<[u8]>,
    pub version: Version,
}

/// What must be true of a name so that it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    Any,
    /// Nothing has this name.
    Absent,
    /// The object is in this state.
    Version(Version),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Made(Version),
    /// What was expected is not so. Nothing was written.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is no object of this name now.
    Gone,
    /// The object is in another state. It was left alone.
    Refused,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub prefix: String,
    /// Only names behind this one.
    pub after: Option<String>,
    /// Names that contain a `/` behind the prefix are given once, up to it, as [`Page::folders`].
    pub folders: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub folders: Vec<String>,
    /// What to give as [`List::after`] to get the next page; `None` at the end.
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

/// Why an attempt brought no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// What failed, for people: without credentials.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The store refused it for now, or was not reached, or its answer broke off: whether a write was done is unknown. Again later.
    Unknown,
    /// The credentials do not allow it. Somebody has to change that; it is tried again, but rarely.
    Forbidden,
    /// There is no such bucket, or the store does not know the operation.
    Unsupported,
    /// What came or went is not what was sent, or the store calls the request wrong.
    Damaged,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Trouble {}
