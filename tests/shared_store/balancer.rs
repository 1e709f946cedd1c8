//! A TCP load balancer in front of several instances. It forwards connections round-robin, without health checks.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::thread;

pub struct Balancer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// The ports of the instances; 0 while one has none.
    ports: Vec<AtomicU16>,
    next: AtomicUsize,
    is_over: AtomicBool,
}

impl Balancer {
    /// A balancer for this many instances, which have no port yet.
    pub fn new(instances: usize) -> Balancer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            ports: (0..instances).map(|_| AtomicU16::new(0)).collect(),
            next: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = accepting.clone();
                thread::spawn(move || forward(client, shared.next_port()));
            }
        });
        Balancer { address, shared }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the port of an instance, or `None` if it does not listen.
    pub fn set_port(&self, instance: usize, port: Option<u16>) {
        self.shared.ports[instance].store(port.unwrap_or_default(), Ordering::Relaxed);
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // A connection wakes the thread that accepts. It fails only if the thread has ended.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn next_port(&self) -> u16 {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.ports[turn % self.ports.len()].load(Ordering::Relaxed)
    }
}

/// Copies bytes in both directions until both are closed. An instance without a port refuses, so the client's connection is closed.
fn forward(client: TcpStream, port: u16) -> Option<()> {
    let server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let (from, to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    thread::spawn(move || copy(from, to));
    copy(server, client)
}

fn copy(mut from: TcpStream, mut to: TcpStream) -> Option<()> {
    let mut bytes = [0; 16 * 1024];
    loop {
        match from.read(&mut bytes) {
            Ok(count) if count > 0 && to.write_all(&bytes[..count]).is_ok() => {}
            _ => break,
        }
    }
    // They fail only for connections that are closed already.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
    Some(())
}
