//! A fake of Google Cloud Storage in threads of the test: one bucket, and a front with its own port for each instance. Each front has its own
//! faults, so that one instance can lose the store while the others reach it.

use super::gcs_api::{Api, Operation, Preconditions};
use crate::support::http::{Head, Message, Side};
use gemini_a2a::bucket::memory::{MemoryBucket, Request, Response};
use gemini_a2a::bucket::{Expect, List};
use rustix::net::sockopt::set_socket_linger;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// One bucket in the memory of the test.
pub struct FakeGcs {
    api: Arc<Api>,
}

/// How a front treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    /// Every request is executed after this time.
    Slow(Duration),
    /// Every request is refused with this status.
    Status(u16),
    /// Every third request is refused with this status, and the others are executed.
    Faulty(u16),
    /// Connections are reset, and no request is executed.
    Refused,
    /// Requests are read, but neither executed nor answered.
    Silent,
    /// Requests are executed, and then the connection is reset.
    LosesAnswers,
}

/// The store as one instance reaches it.
pub struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    api: Arc<Api>,
    link: Mutex<Link>,
    counts: Mutex<BTreeMap<Operation, u64>>,
    is_over: AtomicBool,
    /// The number of requests on a faulty link.
    faulty: AtomicU64,
}

impl FakeGcs {
    pub fn new() -> FakeGcs {
        FakeGcs::with(Preconditions::Honoured)
    }

    pub fn with(preconditions: Preconditions) -> FakeGcs {
        FakeGcs { api: Arc::new(Api::new(preconditions)) }
    }

    /// A bucket whose lists have pages of this many entries.
    pub fn with_pages_of(entries: usize) -> FakeGcs {
        FakeGcs { api: Arc::new(Api { page_entries: entries, ..Api::new(Preconditions::Honoured) }) }
    }

    pub fn bucket(&self) -> &MemoryBucket {
        &self.api.bucket
    }

    pub fn has_object(&self, name: &str) -> bool {
        self.bucket().objects().iter().any(|(object, _)| object == name)
    }

    /// Adds copies of a task's summary under other ids.
    pub fn repeat_summary(&self, task: &str, times: usize) {
        let list = List { prefix: format!("index/{task}"), ..List::default() };
        let Response::List(known) = self.bucket().execute(&Request::List(list)) else { panic!("a list was asked for") };
        let known = known.entries.first().expect("the task has a summary");
        for n in 0..times {
            let id = format!("00000000-0000-4000-8000-{n:012}");
            let meta = known.meta.iter().map(|(key, value)| (key.clone(), value.replace(task, &id))).collect();
            let name = format!("index/{id}");
            self.bucket().execute(&Request::Put { name, bytes: [].into(), meta, expect: Expect::Absent });
        }
    }

    /// Another port of the same bucket.
    pub fn front(&self) -> Front {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            api: self.api.clone(),
            link: Mutex::new(Link::Up),
            counts: Mutex::default(),
            is_over: AtomicBool::new(false),
            faulty: AtomicU64::new(0),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = accepting.clone();
                thread::spawn(move || serve(connection, &shared));
            }
        });
        Front { address, shared }
    }
}

impl Front {
    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn set_link(&self, link: Link) {
        *guard(&self.shared.link) = link;
    }

    /// How many requests of a kind were executed.
    pub fn count(&self, operation: Operation) -> u64 {
        guard(&self.shared.counts).get(&operation).copied().unwrap_or_default()
    }

    /// How many requests of all kinds were executed.
    pub fn total(&self) -> u64 {
        guard(&self.shared.counts).values().sum()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // A connection wakes the thread that accepts. It fails only if the thread has ended.
        let _ = TcpStream::connect(self.address);
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread of the fake panics with the lock")
}

impl Shared {
    fn link(&self) -> Link {
        *guard(&self.link)
    }

    /// Whether a request on a faulty link is executed: two of three are.
    fn is_executed(&self) -> bool {
        !self.faulty.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
    }

    fn execute(&self, head: &Head, body: &[u8]) -> Vec<u8> {
        let (operation, reply) = self.api.respond(head, body);
        if let Some(operation) = operation {
            *guard(&self.counts).entry(operation).or_default() += 1;
        }
        reply
    }
}

fn serve(mut connection: TcpStream, shared: &Shared) -> Option<()> {
    connection.set_nodelay(true).ok()?;
    let (mut message, mut body) = (Message::new(Side::Request), Vec::new());
    loop {
        if shared.link() == Link::Refused {
            return reset(&connection);
        }
        while !message.is_done() {
            let mut bytes = [0; 16 * 1024];
            let count = connection.read(&mut bytes).ok().filter(|count| *count > 0)?;
            message.feed(&bytes[..count], &mut body).ok()?;
        }
        let head = message.head()?.clone();
        match shared.link() {
            Link::Up => {}
            Link::Slow(delay) => thread::sleep(delay),
            Link::Faulty(_) if shared.is_executed() => {}
            Link::Status(status) | Link::Faulty(status) => {
                let refused = format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n");
                connection.write_all(refused.as_bytes()).ok()?;
                body.clear();
                message.restart(Side::Request, &mut body).ok()?;
                continue;
            }
            Link::Refused => return reset(&connection),
            Link::Silent => return wait_for_the_end(&mut connection),
            Link::LosesAnswers => {
                shared.execute(&head, &body);
                return reset(&connection);
            }
        }
        connection.write_all(&shared.execute(&head, &body)).ok()?;
        body.clear();
        message.restart(Side::Request, &mut body).ok()?;
    }
}

fn reset(connection: &TcpStream) -> Option<()> {
    set_socket_linger(connection, Some(Duration::ZERO)).ok()
}

/// Reads until the client closes the connection.
fn wait_for_the_end(connection: &mut TcpStream) -> Option<()> {
    while connection.read(&mut [0; 1024]).ok()? > 0 {}
    None
}
