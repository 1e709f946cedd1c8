//! What a service manager is told, as sd_notify(3) describes it: a datagram when the server is ready, and one when it begins to end.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How long a manager that does not read its datagrams may delay the event loop.
const PATIENCE: Duration = Duration::from_secs(1);

/// The manager that started this process. Each message is sent once.
pub struct ServiceManager {
    socket: OwnedFd,
    address: SocketAddrUnix,
    knows_ready: bool,
    knows_stopping: bool,
}

impl ServiceManager {
    /// `name` is the value of `NOTIFY_SOCKET`: a path, or an abstract name behind an `@`.
    pub fn at(name: &Path) -> rustix::io::Result<ServiceManager> {
        let address = match name.as_os_str().as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(name)?,
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        Ok(ServiceManager { socket, address, knows_ready: false, knows_stopping: false })
    }

    /// Says that connections are served.
    pub fn ready(&mut self) {
        if !std::mem::replace(&mut self.knows_ready, true) {
            self.send("READY=1");
        }
    }

    /// Says that the server ends.
    pub fn stopping(&mut self) {
        if !std::mem::replace(&mut self.knows_stopping, true) {
            self.send("STOPPING=1");
        }
    }

    /// A manager that has gone need not be told.
    fn send(&self, message: &str) {
        let _ = sendto(&self.socket, message.as_bytes(), SendFlags::NOSIGNAL, &self.address);
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
    fn a_manager_that_has_gone_is_no_problem() {
        let scratch = Scratch::new();
        let mut manager = ServiceManager::at(&scratch.path().join("none")).expect("a socket");
        manager.ready();
        assert!(ServiceManager::at(Path::new(&format!("/{}", "x".repeat(200)))).is_err());
    }
}
