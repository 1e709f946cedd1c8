//! Finds the server of an attached terminal and connects to it, in a thread: resolving names and connecting may take long.
//!
//! A server of this user on this machine is reached over its Unix socket, even if its port was given: the kernel tells the server which
//! process is at the other end. Over TCP the server would have to find this process in `/proc`, whose entry is unreadable; while a tool
//! runs, the server treats unknown processes as the tool's.
//!
//! With a token the Unix socket is used only if it was named: over it the client would have the operator's rights, not those of the
//! token.

use crate::base::secret::Secret;
use crate::config::remote::{self, Remote};
use crate::limits::ui::{LINK_ADDRESSES, LINK_CONNECT_MS};
use crate::shell::journal::instances::{self, Instance};
use crate::shell::terminal::connection::tls::{self, Stream};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustls::ClientConfig;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// The server to connect to.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    /// The server's name in messages.
    pub name: String,
    pub remote: Remote,
    pub instances: PathBuf,
    /// The credential that is sent.
    pub token: Option<Secret>,
    /// How certificates are checked; None without TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

/// The server that was started last, if one runs.
pub fn newest_server(instances: &Path, token: Option<Secret>) -> Option<ServerAddress> {
    let newest_server = instances::living(instances).into_iter().max_by(|a, b| a.started.cmp(&b.started))?;
    let by_url = remote::parse(&newest_server.url).ok();
    let socket = unix_socket(&newest_server).map(Remote::Unix);
    let name = by_url.as_ref().or(socket.as_ref())?.to_string();
    let remote = if token.is_some() { by_url.or(socket) } else { socket.or(by_url) }?;
    Some(ServerAddress { name, remote, instances: instances.to_owned(), token, tls: None })
}

/// The server's default Unix socket, which is its last listener: another socket may need a credential.
fn unix_socket(instance: &Instance) -> Option<PathBuf> {
    instance.listen.iter().rev().find_map(|listen| listen.strip_prefix("unix:")).map(PathBuf::from)
}

/// An attempt to connect.
pub struct Attempt {
    result: Receiver<io::Result<Stream>>,
    /// Readable when the attempt has ended: the thread closes the other end.
    ended: UnixStream,
}

impl Attempt {
    pub fn begin(address: ServerAddress) -> io::Result<Attempt> {
        let (ended, running) = UnixStream::pair()?;
        let (sender, result) = sync_channel(1);
        thread::Builder::new().name("connect".into()).spawn(move || {
            // Nobody receives it if the terminal has ended.
            let _ = sender.send(address.connect());
            drop(running);
        })?;
        Ok(Attempt { result, ended })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// The connection, which is non-blocking; None while the attempt is under way.
    pub fn result(&self) -> Option<io::Result<Stream>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::Error::other("the attempt to connect failed"))),
        }
    }
}

impl ServerAddress {
    fn connect(&self) -> io::Result<Stream> {
        match (&self.remote, &self.tls) {
            (Remote::Unix(path), _) => connect_unix(path),
            (Remote::Tcp { host, port, tls: true }, Some(config)) => {
                tls::handshake(connect_tcp(host, *port)?, config.clone(), host.trim_matches(['[', ']']))
            }
            (Remote::Tcp { tls: true, .. }, None) => Err(io::Error::other("no certificates are trusted")),
            (Remote::Tcp { host, port, tls: false }, _) => match self.own_socket(host, *port) {
                Some(path) => connect_unix(&path),
                None => Stream::plain(connect_tcp(host, *port)?),
            },
        }
    }

    /// The Unix socket of the server of this user that listens on a port of this machine.
    fn own_socket(&self, host: &str, port: u16) -> Option<PathBuf> {
        let loops_back = |ip: IpAddr| ip.is_loopback();
        if self.token.is_some() {
            return None;
        }
        if host != "localhost" && !host.trim_matches(['[', ']']).parse().is_ok_and(loops_back) {
            return None;
        }
        let listens = |instance: &Instance| {
            let mut addresses = instance.listen.iter().filter_map(|listen| listen.parse::<SocketAddr>().ok());
            addresses.any(|address| address.port() == port)
        };
        instances::living(&self.instances).iter().find(|instance| listens(instance)).and_then(unix_socket)
    }
}

/// Fails at once if the server does not accept connections; a blocking connect could wait for ever.
fn connect_unix(path: &Path) -> io::Result<Stream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(Stream::Plain(socket.into()))
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host.trim_matches(['[', ']']), port).to_socket_addrs()?.take(LINK_ADDRESSES) {
        match TcpStream::connect_timeout(&address, Duration::from_millis(LINK_CONNECT_MS)) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
