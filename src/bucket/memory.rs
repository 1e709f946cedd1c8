//! A bucket in memory, for tests and for hosts that embed the server without a store. It can lose requests and responses, and execute
//! requests twice or late, as networks and object stores do.

use crate::base::lock::lock;
use crate::bucket::{
    Answer, Bucket, BucketError, BucketErrorKind, Dated, Deletion, Entry, Expect, List, Meta, Object, Page, Put,
    Version,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// A bucket in memory. Its clock advances by a millisecond with every request, and when [`MemoryBucket::set_time`] sets it.
#[derive(Default)]
pub struct MemoryBucket {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    versions: u64,
    unix_ms: u64,
    requests: u64,
    page_entries: Option<usize>,
    plan: Option<Plan>,
    /// Delayed requests. Each is executed when the bucket receives the request with this number.
    delayed: VecDeque<(u64, Request)>,
}

type Plan = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

struct Stored {
    bytes: Arc<[u8]>,
    meta: Meta,
    version: u64,
    created_unix_ms: u64,
}

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request does not arrive.
    LostRequest,
    /// The request is executed, but the response is lost.
    LostAnswer,
    /// The request is executed and answered, and executed again after so many other requests.
    Twice { after: u64 },
    /// The request is executed after so many other requests, without a response.
    Late { after: u64 },
    /// The request is not executed, and the response is an error.
    Refused(BucketErrorKind),
}

/// An operation of a [`Bucket`] as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Get { name: String },
    Put { name: String, bytes: Arc<[u8]>, meta: Meta, expect: Expect },
    Delete { name: String, version: Option<Version> },
    List(List),
}

/// The result of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Get(Option<Object>),
    Put(Put),
    Delete(Deletion),
    List(Page),
}

impl MemoryBucket {
    pub fn new() -> MemoryBucket {
        MemoryBucket::default()
    }

    /// A bucket that calls `plan` for the fault of each request.
    pub fn with_faults(plan: impl FnMut(&Request) -> Option<Fault> + Send + 'static) -> MemoryBucket {
        let bucket = MemoryBucket::new();
        lock(&bucket.state).plan = Some(Box::new(plan));
        bucket
    }

    /// Lists give at most so many entries per page.
    pub fn with_pages_of(self, entries: usize) -> MemoryBucket {
        lock(&self.state).page_entries = Some(entries.max(1));
        self
    }

    /// Sets the clock of the store.
    pub fn set_time(&self, unix_ms: u64) {
        lock(&self.state).unix_ms = unix_ms;
    }

    /// The time of the store's clock.
    pub fn time(&self) -> u64 {
        lock(&self.state).unix_ms
    }

    /// Executes a request without faults.
    pub fn execute(&self, request: &Request) -> Response {
        lock(&self.state).execute(request)
    }

    /// The names of all objects, and their bytes.
    pub fn objects(&self) -> Vec<(String, Arc<[u8]>)> {
        let state = lock(&self.state);
        state.objects.iter().map(|(name, stored)| (name.clone(), stored.bytes.clone())).collect()
    }

    fn answer(&self, request: Request) -> Answer<Response> {
        let mut state = lock(&self.state);
        state.requests += 1;
        state.unix_ms += 1;
        state.execute_delayed();
        let fault = match &mut state.plan {
            Some(plan) => plan(&request),
            None => None,
        };
        let due = |after: u64| state.requests + after;
        match fault {
            Some(Fault::LostRequest) => return Err(lost()),
            Some(Fault::Refused(kind)) => return Err(BucketError { kind, ..lost() }),
            Some(Fault::Late { after }) => {
                let due = due(after);
                state.delayed.push_back((due, request));
                return Err(lost());
            }
            Some(Fault::LostAnswer) => {
                state.execute(&request);
                return Err(lost());
            }
            Some(Fault::Twice { after }) => {
                let due = due(after);
                state.delayed.push_back((due, request.clone()));
            }
            None => {}
        }
        let value = state.execute(&request);
        Ok(Dated { value, unix_ms: state.unix_ms })
    }
}

fn lost() -> BucketError {
    BucketError { kind: BucketErrorKind::Unknown, message: "the bucket did not answer".to_owned() }
}

impl State {
    fn execute_delayed(&mut self) {
        let requests = self.requests;
        let (due, delayed): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.delayed).into_iter().partition(|(due, _)| *due <= requests);
        self.delayed = delayed;
        for (_, request) in due {
            self.execute(&request);
        }
    }

    fn execute(&mut self, request: &Request) -> Response {
        match request {
            Request::Get { name } => Response::Get(self.objects.get(name).map(Stored::object)),
            Request::Put { name, bytes, meta, expect } => Response::Put(self.put(name, bytes, meta, expect)),
            Request::Delete { name, version } => Response::Delete(self.delete(name, version.as_ref())),
            Request::List(list) => Response::List(self.list(list)),
        }
    }

    fn put(&mut self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Put {
        let expected = match (expect, self.objects.get(name)) {
            (Expect::Any, _) | (Expect::Absent, None) => true,
            (Expect::Version(version), Some(stored)) => stored.version() == *version,
            (Expect::Absent, Some(_)) | (Expect::Version(_), None) => false,
        };
        if !expected {
            return Put::PreconditionFailed;
        }
        self.versions += 1;
        let stored =
            Stored { bytes: bytes.clone(), meta: meta.clone(), version: self.versions, created_unix_ms: self.unix_ms };
        let version = stored.version();
        self.objects.insert(name.to_owned(), stored);
        Put::Written(version)
    }

    fn delete(&mut self, name: &str, version: Option<&Version>) -> Deletion {
        let other = |stored: &Stored| version.is_some_and(|version| stored.version() != *version);
        if self.objects.get(name).is_some_and(other) {
            return Deletion::PreconditionFailed;
        }
        self.objects.remove(name);
        Deletion::Deleted
    }

    fn list(&self, list: &List) -> Page {
        let start = match &list.after {
            Some(after) if *after >= list.prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(list.prefix.as_str()),
        };
        let most = self.page_entries.unwrap_or(usize::MAX);
        let mut page = Page::default();
        let mut folders = BTreeSet::new();
        let mut last = None;
        let objects = self.objects.range::<str, _>((start, Bound::Unbounded));
        for (name, stored) in objects.take_while(|(name, _)| name.starts_with(&list.prefix)) {
            let rest = &name[list.prefix.len()..];
            let folder = rest.find('/').filter(|_| list.folders).map(|at| &name[..list.prefix.len() + at + 1]);
            let is_known = folder.is_some_and(|folder| {
                folders.contains(folder) || list.after.as_ref().is_some_and(|after| after.starts_with(folder))
            });
            if is_known {
                continue;
            }
            if page.entries.len() + folders.len() >= most {
                page.next = last;
                break;
            }
            match folder {
                Some(folder) => {
                    folders.insert(folder.to_owned());
                }
                None => page.entries.push(stored.entry(name)),
            }
            last = Some(name.clone());
        }
        page.folders = folders.into_iter().collect();
        page
    }
}

impl Stored {
    fn version(&self) -> Version {
        Version(self.version.to_string())
    }

    fn object(&self) -> Object {
        Object { bytes: self.bytes.clone(), version: self.version() }
    }

    fn entry(&self, name: &str) -> Entry {
        Entry {
            name: name.to_owned(),
            version: self.version(),
            meta: self.meta.clone(),
            created_unix_ms: self.created_unix_ms,
        }
    }
}

/// Unpacks the response to an operation of [`Bucket`].
macro_rules! operation {
    ($response:path, $answer:expr) => {
        $answer.map(|answer| match answer.value {
            $response(value) => Dated { value, unix_ms: answer.unix_ms },
            other => unreachable!("another operation was answered: {other:?}"),
        })
    };
}

impl Bucket for MemoryBucket {
    fn get(&self, name: &str) -> Answer<Option<Object>> {
        operation!(Response::Get, self.answer(Request::Get { name: name.to_owned() }))
    }

    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        let (name, bytes, meta, expect) = (name.to_owned(), bytes.clone(), meta.clone(), expect.clone());
        operation!(Response::Put, self.answer(Request::Put { name, bytes, meta, expect }))
    }

    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        let request = Request::Delete { name: name.to_owned(), version: version.cloned() };
        operation!(Response::Delete, self.answer(request))
    }

    fn list(&self, list: &List) -> Answer<Page> {
        operation!(Response::List, self.answer(Request::List(list.clone())))
    }
}

#[cfg(test)]
mod tests;
