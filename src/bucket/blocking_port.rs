//! A port for the tests of this folder: requests are answered at once, and the clock moves only when the port waits.

use crate::bucket::instance::{Instance, Times};
use crate::bucket::memory::MemoryBucket;
use crate::bucket::port::Port;
use crate::bucket::{Answer, Bucket, Deletion, Expect, List, Meta, Object, Page, Put, Version};
use std::cell::Cell;
use std::sync::Arc;

/// A blocking port, as in the program. Its clock moves only when the port waits.
pub(super) struct Blocking<'a> {
    bucket: &'a MemoryBucket,
    pub(super) now_ms: Cell<u64>,
    tries: u32,
}

impl<'a> Blocking<'a> {
    /// A port that makes one attempt of each request.
    pub(super) fn at(bucket: &'a MemoryBucket) -> Blocking<'a> {
        Blocking { bucket, now_ms: Cell::new(0), tries: 1 }
    }
}

impl Port for Blocking<'_> {
    async fn get(&self, name: &str) -> Answer<Option<Object>> {
        self.bucket.get(name)
    }

    async fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        self.bucket.put(name, bytes, meta, expect)
    }

    async fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        self.bucket.delete(name, version)
    }

    async fn list(&self, list: &List) -> Answer<Page> {
        self.bucket.list(list)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    async fn sleep(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }

    fn random(&self, limit: u64) -> u64 {
        limit / 2
    }

    fn gives_up(&self, tries: u32) -> bool {
        tries >= self.tries
    }
}

/// An instance whose port makes five attempts of each request.
pub(super) fn instance<'a>(bucket: &'a MemoryBucket, id: &str) -> Instance<Blocking<'a>> {
    Instance::new(Blocking { bucket, now_ms: Cell::new(0), tries: 5 }, id.into(), Times::default())
}
