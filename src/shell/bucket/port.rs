//! The port of the program. Every operation blocks the calling thread, so that [`block_on`](crate::bucket::port::block_on) polls a
//! procedure only once.

use crate::base::lock::lock;
use crate::bucket::port::Port;
use crate::bucket::{
    Answer, Bucket, BucketError, BucketErrorKind, Dated, Deletion, Entry, Expect, List, Meta, Object, Page, Put,
    Version, meta_of_body, names,
};
use crate::limits::store::SUMMARIES_KEPT;
use crate::shell::event_loop::sys;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The stack size of a thread that reads one object. It suffices for a TLS handshake.
const STACK_BYTES: usize = 512 * 1024;

#[derive(Clone)]
pub struct BlockingPort {
    bucket: Arc<dyn Bucket>,
    /// The number of attempts of one request.
    tries: u32,
    /// If this returns true, failed requests are not tried again.
    should_give_up: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// Shared by the clones.
    summaries: Arc<Mutex<Summaries>>,
}

/// A cache of the metadata of summaries that was read from their bodies, with the version of each: most summaries do not change between two
/// lists.
#[derive(Default)]
struct Summaries {
    /// Entries of the list that is being read.
    now: HashMap<String, (Version, Meta)>,
    /// Entries of the previous list.
    before: HashMap<String, (Version, Meta)>,
}

impl Summaries {
    /// Begins a list. Drops the entries that were not in the previous list.
    fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    fn find(&self, entry: &Entry) -> Option<Meta> {
        let known = self.now.get(&entry.name).or_else(|| self.before.get(&entry.name));
        known.filter(|(version, _)| *version == entry.version).map(|(_, meta)| meta.clone())
    }

    fn keep(&mut self, entry: &Entry) {
        if self.now.len() < SUMMARIES_KEPT {
            self.now.insert(entry.name.clone(), (entry.version.clone(), entry.meta.clone()));
        }
    }
}

impl BlockingPort {
    pub fn new(bucket: Arc<dyn Bucket>, tries: u32) -> BlockingPort {
        BlockingPort { bucket, tries, should_give_up: None, summaries: Arc::default() }
    }

    /// The same port, but failed requests are not tried again while `should_give_up` returns true.
    pub fn giving_up_when(self, should_give_up: Arc<dyn Fn() -> bool + Send + Sync>) -> BlockingPort {
        BlockingPort { should_give_up: Some(should_give_up), ..self }
    }

    /// Reads the metadata of objects from their bodies, if lists do not contain it.
    fn complete(&self, list: &List, page: &mut Page) -> Result<(), BucketError> {
        let has_metadata = [names::OPEN, names::CONTEXTS, names::INDEX].iter().any(|at| list.prefix.starts_with(at));
        if self.bucket.lists_metadata() || !has_metadata {
            return Ok(());
        }
        let keeps = list.prefix == names::INDEX;
        if keeps && list.after.is_none() {
            lock(&self.summaries).begin();
        }
        let (mut unread, mut names) = (Vec::new(), Vec::new());
        for (at, entry) in page.entries.iter_mut().enumerate() {
            match lock(&self.summaries).find(entry).filter(|_| keeps) {
                Some(meta) => entry.meta = meta,
                None => {
                    unread.push(at);
                    names.push(entry.name.clone());
                }
            }
        }
        for (at, answer) in unread.into_iter().zip(self.read_all(&names)) {
            // An object that was deleted since it was listed has no metadata.
            let body = answer?.value.map(|object| object.bytes);
            page.entries[at].meta = body.and_then(|body| meta_of_body(&body)).unwrap_or_default();
        }
        if keeps {
            let mut summaries = lock(&self.summaries);
            page.entries.iter().for_each(|entry| summaries.keep(entry));
        }
        Ok(())
    }

    /// Reads several objects, up to [`LOADED_AT_ONCE`](crate::limits::store::LOADED_AT_ONCE) of them concurrently.
    fn read_all(&self, names: &[String]) -> Vec<Answer<Option<Object>>> {
        let lost =
            || BucketError { kind: BucketErrorKind::Unknown, message: "a thread that read an object has died".into() };
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
        tries >= self.tries || self.should_give_up.as_ref().is_some_and(|should_give_up| should_give_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::memory::{MemoryBucket, Request};
    use crate::bucket::port::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A bucket whose lists have no metadata, as those of S3.
    struct Bare(MemoryBucket);

    impl Bucket for Bare {
        fn get(&self, name: &str) -> Answer<Option<Object>> {
            self.0.get(name)
        }

        fn put(&self, name: &str, _: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
            self.0.put(name, &crate::base::json::bytes(meta).into(), &Meta::new(), expect)
        }

        fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
            self.0.delete(name, version)
        }

        fn list(&self, list: &List) -> Answer<Page> {
            self.0.list(list)
        }

        fn lists_metadata(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_bodies_of_summaries_are_read_again_only_when_they_have_changed() {
        let gets = Arc::new(AtomicUsize::new(0));
        let counted = gets.clone();
        let bucket = Arc::new(Bare(MemoryBucket::with_faults(move |request| {
            counted.fetch_add(usize::from(matches!(request, Request::Get { .. })), Ordering::Relaxed);
            None
        })));
        let port = BlockingPort::new(bucket.clone(), 1);
        let put = |name: &str, text: &str| {
            let meta = Meta::from([("brief".to_owned(), text.to_owned())]);
            bucket.put(name, &Arc::default(), &meta, &Expect::Any).expect("it is written");
        };
        let read = |name: &str| {
            let before = gets.load(Ordering::Relaxed);
            let list = List { prefix: names::INDEX.to_owned(), ..List::default() };
            let page = block_on(port.list(&list)).expect("a list").value;
            let entry = page.entries.iter().find(|entry| entry.name == name).expect("it is listed");
            (entry.meta["brief"].clone(), gets.load(Ordering::Relaxed) - before)
        };
        put("index/a", "1");
        put("index/b", "1");
        assert_eq!(read("index/a"), ("1".into(), 2));
        assert_eq!(read("index/a"), ("1".into(), 0));
        put("index/b", "2");
        assert_eq!(read("index/b"), ("2".into(), 1));
        assert_eq!(read("index/b"), ("2".into(), 0));
    }
}
