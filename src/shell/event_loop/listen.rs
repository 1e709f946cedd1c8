//! Listeners: TCP, Unix sockets for this user alone, and a socket that a service manager passes.
//!
//! A Unix socket is created with mode 0600. A file with its path is removed only if it is a socket on which no process listens, which a
//! connection attempt shows. When the server ends in an orderly way it removes its socket files, unless another file has taken
//! their place.

use crate::config::listen::Listen;
use crate::core::connections::connection::Link;
use crate::shell::event_loop::inherited::{InheritedAddress, take_standard_input};
use crate::shell::event_loop::sys;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, connect, listen, socket_with,
    sockopt,
};
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest path of a Unix socket, in bytes: what fits into the kernel's `sun_path` with its final zero.
const MOST_PATH_BYTES: usize = 107;

/// The accept queue of a Unix socket: as long as the system allows, because a connection that finds it full is refused at once.
const BACKLOG: i32 = -1;

/// The flags of every socket here.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

pub struct Listener {
    pub socket: OwnedFd,
    address: Address,
    /// The Unix socket that every server has, whatever its settings.
    is_default: bool,
    /// A service manager keeps the socket open.
    is_inherited: bool,
    serves: Serves,
}

/// Which requests a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    Everything,
    /// Only `/metrics`, from everybody.
    Metrics,
}

enum Address {
    Tcp(SocketAddr),
    Unix(SocketFile),
    /// A Unix socket of the service manager, with its path if it has one.
    InheritedUnix(Option<PathBuf>),
}

/// The file of a Unix socket. It is removed when this is dropped.
struct SocketFile {
    path: PathBuf,
    /// Device and inode, by which another file with the same path is recognised.
    id: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.id);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    fn new(socket: OwnedFd, address: Address) -> Listener {
        Listener { socket, address, serves: Serves::Everything, is_default: false, is_inherited: false }
    }

    pub fn open(listen: &Listen) -> Result<Listener, String> {
        match listen {
            Listen::Tcp(address) => tcp(*address),
            Listen::Unix(path) => {
                let path =
                    std::path::absolute(path).map_err(|e| format!("cannot listen on {}: {e}", path.display()))?;
                let dir = path.parent().unwrap_or(Path::new("/"));
                check_directory(dir).and_then(|()| unix(&path))
            }
            Listen::Inherited => inherited(),
        }
    }

    /// A listener for metrics alone.
    pub fn open_metrics(address: SocketAddr) -> Result<Listener, String> {
        let failed = |error| format!("--metrics-listen: cannot listen on {address}: {error}");
        Ok(Listener { serves: Serves::Metrics, ..bind_tcp(address).map_err(failed)? })
    }

    /// Whether the socket stays open when this process ends, so that connections that were not accepted wait for the next server.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    pub fn serves(&self) -> Serves {
        self.serves
    }

    /// Opens the Unix socket that every server has: `NAME.sock` in a directory of its own, for its owner only.
    pub fn open_default(dir: &Path, name: &str) -> Result<Listener, String> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|e| format!("the directory {} cannot be made: {e}", dir.display()))?;
        let metadata = fs::symlink_metadata(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        if !metadata.is_dir() || metadata.uid() != sys::effective_uid() || metadata.mode() & 0o022 != 0 {
            return Err(format!("{} is not a directory that only this user can write to", dir.display()));
        }
        unix(&dir.join(format!("{name}.sock"))).map(|listener| Listener { is_default: true, ..listener })
    }

    /// The link of connections to this listener, if it is a Unix socket.
    pub fn unix_link(&self) -> Link {
        if self.is_default { Link::Unix } else { Link::NamedUnix }
    }

    /// Accepts the next connection. Returns its stream, and the address of the peer if it is a TCP connection.
    pub fn accept(&self) -> rustix::io::Result<(OwnedFd, Option<SocketAddr>)> {
        let (stream, remote) = acceptfrom_with(&self.socket, FLAGS)?;
        let address = remote.and_then(|remote| SocketAddr::try_from(remote).ok());
        if address.is_some() {
            let _ = sockopt::set_tcp_nodelay(&stream, true);
        }
        Ok((stream, address))
    }

    /// The address in the form of the option `--listen`.
    pub fn name(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(file) => format!("unix:{}", file.path.display()),
            Address::InheritedUnix(Some(path)) => format!("unix:{}", path.display()),
            Address::InheritedUnix(None) => "an abstract Unix socket".into(),
        }
    }

    /// The address of a TCP listener.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.address {
            Address::Tcp(address) => Some(address),
            Address::Unix(_) | Address::InheritedUnix(_) => None,
        }
    }

    /// The path of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.address {
            Address::Tcp(_) => None,
            Address::Unix(file) => Some(&file.path),
            Address::InheritedUnix(path) => path.as_deref(),
        }
    }
}

fn tcp(address: SocketAddr) -> Result<Listener, String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "port {} is in use; choose another with --a2a-port or --listen (0 takes a free one)",
                address.port()
            )
        }
        _ => format!("cannot listen on {address}: {error}"),
    };
    bind_tcp(address).map_err(failed)
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = Address::Tcp(listener.local_addr()?);
    Ok(Listener::new(listener.into(), address))
}

/// Takes the socket that is standard input. Its file stays when the server ends.
fn inherited() -> Result<Listener, String> {
    let (socket, address) = take_standard_input()?;
    let address = match address {
        InheritedAddress::Tcp(address) => Address::Tcp(address),
        InheritedAddress::Unix(path) => Address::InheritedUnix(path),
    };
    Ok(Listener { is_inherited: true, ..Listener::new(socket, address) })
}

/// An error if another user could replace a socket in this directory.
fn check_directory(dir: &Path) -> Result<(), String> {
    const STICKY: u32 = 0o1000;
    let metadata = fs::metadata(dir).map_err(|e| format!("the directory {} cannot be used: {e}", dir.display()))?;
    let is_owned = metadata.uid() == sys::effective_uid() || metadata.uid() == 0;
    // In a sticky directory, as /tmp is one, only its owner can replace a file.
    let is_shared = metadata.mode() & 0o022 != 0 && metadata.mode() & STICKY == 0;
    if !is_owned || is_shared {
        return Err(format!(
            "others could replace a socket in {}; choose a directory that only you can write to",
            dir.display()
        ));
    }
    Ok(())
}

fn unix(path: &Path) -> Result<Listener, String> {
    let shown = path.display();
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MOST_PATH_BYTES {
        return Err(format!(
            "the socket {shown} cannot be made: its path has {} bytes, and the system allows {MOST_PATH_BYTES}; choose a shorter one \
             with --listen unix:PATH",
            bytes.len()
        ));
    }
    remove_dead_socket(path)?;
    let socket = bind_private(path).map_err(|e| format!("cannot listen on unix:{shown}: {e}"))?;
    let metadata = fs::symlink_metadata(path).map_err(|e| format!("cannot look at {shown}: {e}"))?;
    let file = SocketFile { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) };
    Ok(Listener::new(socket, Address::Unix(file)))
}

/// Creates the socket file with mode 0600: Linux gives it the mode of the unbound socket. Setting the umask would affect all threads.
fn bind_private(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket on which no process listens. Any other file with this path stays, and is an error.
fn remove_dead_socket(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("cannot look at {shown}: {error}")),
    };
    if !metadata.file_type().is_socket() {
        return Err(format!("{shown} exists and is not a socket; remove it or choose another path"));
    }
    match try_connect(path) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path)
            .map_err(|e| format!("the socket {shown} of a server that has ended cannot be removed: {e}")),
        // A full queue means that the server is alive, but busy.
        Ok(()) | Err(Errno::AGAIN) => {
            Err(format!("another server listens on unix:{shown}; end it or choose another path"))
        }
        Err(error) => Err(format!(
            "cannot find out whether a server listens on unix:{shown}: {error}; remove the file if none does"
        )),
    }
}

fn try_connect(path: &Path) -> rustix::io::Result<()> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn open(path: &Path) -> Result<Listener, String> {
        Listener::open(&Listen::Unix(path.to_owned()))
    }

    fn error(result: Result<Listener, String>) -> String {
        match result {
            Ok(listener) => panic!("{} was opened", listener.name()),
            Err(error) => error,
        }
    }

    #[test]
    fn a_socket_is_for_its_owner_and_is_removed_with_its_server() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("run/gemini-a2a");
        let listener = Listener::open_default(&dir, "x").unwrap();
        let path = dir.join("x.sock");
        assert_eq!((mode(&dir), mode(&path)), (0o700, 0o600));
        assert_eq!(listener.name(), format!("unix:{}", path.display()));
        assert_eq!(try_connect(&path), Ok(()));
        drop(listener);
        assert!(!path.exists());
        // Another file with the same path is not removed.
        let listener = Listener::open_default(&dir, "x").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[test]
    fn only_its_owner_may_write_to_the_default_directory() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("run");
        fs::create_dir(&dir).unwrap();
        for shared in [0o770, 0o702, 0o1777] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(shared)).unwrap();
            assert!(error(Listener::open_default(&dir, "x")).contains("only this user"), "{shared:o}");
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Listener::open_default(&dir, "x").is_ok());
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(error(Listener::open_default(&link, "x")).contains("only this user"), "a link");
    }

    #[test]
    fn others_must_not_be_able_to_replace_a_socket() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("d");
        fs::create_dir(&dir).unwrap();
        let path = dir.join("x");
        for (mode, fits) in [(0o777, false), (0o720, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            match open(&path) {
                Ok(_) => assert!(fits, "{mode:o}"),
                Err(error) => assert!(!fits && error.contains("others could replace"), "{mode:o}: {error}"),
            }
        }
        assert!(error(open(&scratch.path().join("none/x"))).contains("cannot be used"));
    }

    #[test]
    fn only_a_dead_socket_is_removed() {
        let scratch = Scratch::new();
        let path = scratch.path().join("x");
        // Bound and closed without removing its file, as a server that was killed leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        // A program that another test starts may have a copy of the socket for a moment.
        while try_connect(&path).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(try_connect(&path), Err(Errno::CONNREFUSED));
        let listener = open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(error(open(&path)).contains("another server listens"));
        assert_eq!(try_connect(&path), Ok(()), "it still does");
        drop(listener);
        fs::write(&path, "mine").unwrap();
        assert!(error(open(&path)).contains("is not a socket"));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn the_length_of_a_path_is_limited() {
        let scratch = Scratch::new();
        let room = MOST_PATH_BYTES - scratch.path().as_os_str().len() - 1;
        assert!(open(&scratch.path().join("x".repeat(room))).is_ok());
        let error = error(open(&scratch.path().join("x".repeat(room + 1))));
        assert!(error.contains("has 108 bytes"), "{error}");
    }
}
