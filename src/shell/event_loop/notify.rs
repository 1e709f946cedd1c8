//! Tells a service manager the state of the server, as sd_notify(3) describes it: a datagram when the server is ready, and one when it
//! begins to end. The loop sends them, so a manager that does not read them is not waited for: they are sent again later.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// When to send a datagram again that the manager's queue had no room for.
pub const RETRY_MS: u64 = 100;

/// The manager that started this process. It gets each message once.
pub struct ServiceManager {
    socket: OwnedFd,
    address: SocketAddrUnix,
    knows_ready: bool,
    knows_stopping: bool,
    /// The manager's queue was full when the last message was sent.
    is_queue_full: bool,
}

impl ServiceManager {
    /// `name` is the value of `NOTIFY_SOCKET`: a path, or an abstract name behind an `@`.
    pub fn at(name: &Path) -> rustix::io::Result<ServiceManager> {
        let address = match name.as_os_str().as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(name)?,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(ServiceManager { socket, address, knows_ready: false, knows_stopping: false, is_queue_full: false })
    }

    /// Tells the manager that connections are served.
    pub fn ready(&mut self) {
        if !self.knows_ready {
            self.knows_ready = self.send("READY=1");
        }
    }

    /// Tells the manager that the server ends.
    pub fn stopping(&mut self) {
        if !self.knows_stopping {
            self.knows_stopping = self.send("STOPPING=1");
        }
    }

    /// Whether the last message has to be sent again, by calling the same function after [`RETRY_MS`].
    pub fn must_retry(&self) -> bool {
        self.is_queue_full
    }

    /// False: the manager's queue is full. Any other error means that the manager is gone; then nobody needs the message.
    fn send(&mut self, message: &str) -> bool {
        let sent = sendto(&self.socket, message.as_bytes(), SendFlags::NOSIGNAL, &self.address);
        self.is_queue_full = sent == Err(Errno::AGAIN);
        !self.is_queue_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn every_message_is_sent_once_to_paths_and_abstract_names() {
        let scratch = Scratch::new();
        let path = scratch.path().join("notify");
        let name = format!("gemini-a2a-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        let receivers = [
            (UnixDatagram::bind(&path), path.clone()),
            (UnixDatagram::bind_addr(&abstract_name), format!("@{name}").into()),
        ];
        for (receiver, name) in receivers {
            let receiver = receiver.expect("a free name");
            receiver.set_nonblocking(true).expect("a mode");
            let mut manager = ServiceManager::at(&name).expect("a socket");
            for _ in 0..2 {
                manager.ready();
                manager.stopping();
            }
            let mut bytes = [0; 32];
            let mut received = || receiver.recv(&mut bytes).ok().map(|count| bytes[..count].to_vec());
            assert_eq!(received().as_deref(), Some(b"READY=1".as_slice()));
            assert_eq!(received().as_deref(), Some(b"STOPPING=1".as_slice()));
            assert_eq!(received(), None);
        }
    }

    #[test]
    fn a_manager_that_reads_nothing_is_not_waited_for_and_gets_the_message_later() {
        let scratch = Scratch::new();
        let path = scratch.path().join("notify");
        let receiver = UnixDatagram::bind(&path).expect("a free name");
        let other = UnixDatagram::unbound().expect("a socket");
        other.set_nonblocking(true).expect("a mode");
        while other.send_to(b"WATCHDOG=1", &path).is_ok() {}
        let mut manager = ServiceManager::at(&path).expect("a socket");
        assert!(rustix::fs::fcntl_getfl(&manager.socket).expect("its flags").contains(rustix::fs::OFlags::NONBLOCK));
        manager.ready();
        assert!(manager.must_retry());
        receiver.set_nonblocking(true).expect("a mode");
        let mut bytes = [0; 32];
        let mut received = || receiver.recv(&mut bytes).ok().map(|count| bytes[..count].to_vec());
        while received().is_some() {}
        manager.ready();
        manager.ready();
        assert!(!manager.must_retry());
        assert_eq!(received().as_deref(), Some(b"READY=1".as_slice()));
        assert_eq!(received(), None);
    }

    #[test]
    fn a_manager_that_is_gone_is_ignored() {
        let scratch = Scratch::new();
        let mut manager = ServiceManager::at(&scratch.path().join("none")).expect("a socket");
        manager.ready();
        assert!(ServiceManager::at(Path::new(&format!("/{}", "x".repeat(200)))).is_err());
    }
}
