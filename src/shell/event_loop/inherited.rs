//! The listening socket that a service manager passes as standard input: `StandardInput=socket` of systemd, or an inetd that lets the
//! program accept. The manager keeps the socket open, so connections that arrive while the server restarts wait in its queue.
//!
//! Standard input is replaced by `/dev/null`, so that nothing that is started later can inherit the socket. `systemd-socket-activate
//! --inetd` passes it as standard output too, where it is replaced as well.

use rustix::fs::{Mode, OFlags, fstat};
use rustix::net::{SocketAddrUnix, SocketType, getsockname, sockopt};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The lowest descriptor that is no standard stream.
const FIRST_FREE: i32 = 3;

/// The address of an inherited socket.
pub enum InheritedAddress {
    Tcp(SocketAddr),
    /// The path of the socket; None if its name is abstract. The file belongs to the service manager.
    Unix(Option<PathBuf>),
}

/// Takes the socket from standard input.
pub fn take_standard_input() -> Result<(OwnedFd, InheritedAddress), String> {
    let stdin = io::stdin();
    if !is_listener(stdin.as_fd()) {
        return Err(
            "--listen fd: standard input is no socket that listens for streams. A service manager passes one: \
                    StandardInput=socket in a service of systemd that has a socket unit"
                .into(),
        );
    }
    let failed = |error: rustix::io::Errno| format!("--listen fd: the socket cannot be used: {error}");
    let socket = rustix::io::fcntl_dupfd_cloexec(&stdin, FIRST_FREE).map_err(failed)?;
    rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
    let name = getsockname(&socket).map_err(failed)?;
    let address = match (SocketAddr::try_from(name.clone()), SocketAddrUnix::try_from(name)) {
        (Ok(address), _) => InheritedAddress::Tcp(address),
        (_, Ok(address)) => {
            InheritedAddress::Unix(address.path().map(|path| PathBuf::from(OsStr::from_bytes(path.to_bytes()))))
        }
        (Err(_), Err(_)) => return Err("--listen fd: standard input is neither a TCP nor a Unix socket".into()),
    };
    replace_standard_streams(&socket);
    Ok((socket, address))
}

fn is_listener(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_acceptconn(socket) == Ok(true) && sockopt::socket_type(socket) == Ok(SocketType::STREAM)
}

/// Replaces standard input, and standard output if it is the same socket, by `/dev/null`. Without `/dev/null` they stay as they are; no
/// command can be started then.
fn replace_standard_streams(socket: &OwnedFd) {
    let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let id = |fd: BorrowedFd<'_>| fstat(fd).map(|status| (status.st_dev, status.st_ino));
    if id(io::stdout().as_fd()) == id(socket.as_fd()) {
        let _ = dup2_stdout(&null);
    }
    let _ = dup2_stdin(&null);
}
