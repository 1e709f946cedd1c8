//! The port of the program: every operation blocks the thread that calls it, so that
//! [`block_on`](crate::bucket::port::block_on) polls a procedure once.

use crate::bucket::port::Port;
use crate::bucket::{
    Answer, Bucket, Dated, Deletion, Expect, List, Meta, Object, Page, Put, Trouble, TroubleKind, Version,
    meta_of_body, names,
};
use crate::shell::event_loop::sys;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The stack of a thread that reads one object: a TLS handshake fits.
const STACK_BYTES: usize = 512 * 1024;

#[derive(Clone)]
pub struct BlockingPort {
    bucket: Arc<dyn Bucket>,
    /// After so many attempts of one request nobody waits for it any longer.
    tries: u32,
}

impl BlockingPort {
    pub fn new(bucket: Arc<dyn Bucket>, tries: u32) -> BlockingPort {
        BlockingPort { bucket, tries }
    }

    /// Reads the metadata of objects from their bodies, if lists do not give it.
    fn complete(&self, list: &List, page: &mut Page) -> Result<(), Trouble> {
        let has_metadata = [names::OPEN, names::CONTEXTS, names::INDEX].iter().any(|at| list.prefix.starts_with(at));
        if self.bucket.lists_metadata() || !has_metadata {
            return Ok(());
        }
        let names: Vec<String> = page.entries.iter().map(|entry| entry.name.clone()).collect();
        for (at, answer) in self.read_all(&names).into_iter().enumerate() {
            // An object that was deleted since it was listed has none.
            let body = answer?.value.map(|object| object.bytes);
            page.entries[at].meta = body.and_then(|body| meta_of_body(&body)).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads several objects, [`LOADED_AT_ONCE`](crate::limits::store::LOADED_AT_ONCE) at the same time.
    fn read_all(&self, names: &[String]) -> Vec<Answer<Option<Object>>> {
        let lost = || Trouble { kind: TroubleKind::Unknown, message: "a thread that read an object has died".into() };
        let mut answers = Vec::with_capacity(names.len());
        for names in names.chunks(crate::limits::store::LOADED_AT_ONCE) {
            if let [name] = names {
                answers.push(self.bucket.get(name));
                continue;
            }
            thread::scope(|scope| {
                let reading: Vec<_> = names
                    .iter()
                    .map(|name| {
                        let thread = thread::Builder::new().name("bucket".into()).stack_size(STACK_BYTES);
                        (name, thread.spawn_scoped(scope, || self.bucket.get(name)))
                    })
                    .collect();
                answers.extend(reading.into_iter().map(|(name, thread)| match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|_| Err(lost())),
                    Err(_) => self.bucket.get(name),
                }));
            });
        }
        answers
    }
}

impl Port for BlockingPort {
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
        let Dated { value: mut page, unix_ms } = self.bucket.list(list)?;
        self.complete(list, &mut page)?;
        Ok(Dated { value: page, unix_ms })
    }

    async fn get_all(&self, names: &[String]) -> Vec<Answer<Option<Object>>> {
        self.read_all(names)
    }

    fn now_ms(&self) -> u64 {
        sys::boot_ms()
    }

    async fn sleep(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }

    fn random(&self, limit: u64) -> u64 {
        u64::from_le_bytes(sys::random()) % limit.max(1)
    }

    fn gives_up(&self, tries: u32) -> bool {
        tries >= self.tries
    }
}
