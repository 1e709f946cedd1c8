//! Finds out which user owns the socket at the other end of a TCP connection. If both ends are on this machine the kernel knows the owner of the
//! peer's socket. We ask it for exactly that one socket (sock_diag, without a dump), whatever its address: an entry with exactly this
//! pair of addresses is a socket of this machine, and no entry means that the peer is on another machine.
//!
//! A peer is admitted only if the entry proves it: a process holds the socket (its inode is not 0), and it belongs to our own effective
//! user. A peer that has already closed its socket has uid 0 and inode 0 and is not admitted. `descent.rs` finds out which process holds
//! the socket.
//!
//! Where netlink cannot be used, /proc/net/tcp and tcp6 contain the same facts, but all of both has to be read. The loop reads no
//! files, so the disk lane does that. Whether netlink can be used is found out once, when the server starts.

use crate::shell::peers::netlink::{AF_INET, AF_INET6, Netlink, Response, field};
use crate::shell::peers::own_address::OwnAddresses;
use rustix::net::netlink::SOCK_DIAG;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

/// The owner of the peer's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    User {
        uid: u32,
        /// Names the socket among the descriptors of processes.
        inode: u64,
    },
    /// The socket is not on this machine, or is closed already.
    Nobody,
    /// Netlink cannot be used; [`owner_by_tables`] can tell.
    Unknown,
}

/// Asks the kernel for the owners of sockets.
pub struct SocketOwners {
    /// Closed where the kernel does not respond.
    netlink: Netlink,
    own_addresses: OwnAddresses,
}

/// One end of a connection, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    from: SocketAddr,
    to: SocketAddr,
    uid: u32,
    inode: u64,
}

impl SocketOwners {
    /// Opens netlink and tries it on a connection of our own: a kernel without sock_diag responds as if there were no such socket.
    pub fn open() -> SocketOwners {
        let netlink = Netlink::open(Some(SOCK_DIAG));
        let mut owners = SocketOwners { netlink, own_addresses: OwnAddresses::open() };
        if owners.try_out().is_none() {
            owners.netlink = Netlink::closed();
        }
        owners
    }

    fn try_out(&mut self) -> Option<()> {
        let local = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        let listener = local.into_iter().find_map(|ip| TcpListener::bind((ip, 0)).ok())?;
        let client = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let (from, to) = (client.local_addr().ok()?, client.peer_addr().ok()?);
        let entry = self.ask(from, to).ok()?;
        (entry.from == from && entry.to == to).then_some(())
    }

    /// Whether owners can be found out, by netlink or by the tables in /proc.
    pub fn can_answer(&self) -> bool {
        self.netlink.is_open() || Path::new("/proc/net/tcp").exists()
    }

    /// The owner of the other end of an accepted connection: `peer` is its address for the other end, `local` for ours.
    pub fn owner(&mut self, peer: SocketAddr, local: SocketAddr) -> Owner {
        let (peer, local) = (canonical(peer), canonical(local));
        match self.ask(peer, local) {
            Ok(entry) => owner_of(entry, peer, local),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Owner::Nobody,
            Err(_) => Owner::Unknown,
        }
    }

    /// Whether the other end of an accepted connection is on this machine, also if its socket is closed already.
    pub fn is_of_this_machine(&mut self, peer: SocketAddr, local: SocketAddr) -> bool {
        let (peer, local) = (canonical(peer).ip(), canonical(local).ip());
        peer == local || self.own_addresses.contains(peer)
    }

    fn ask(&mut self, peer: SocketAddr, local: SocketAddr) -> io::Result<Entry> {
        self.netlink.request(diag::SOCK_DIAG_BY_FAMILY, &diag::request(peer, local), diag::entry)
    }
}

/// The tables of all connections. Reading them is file access, which the loop may not do.
fn tables() -> impl Iterator<Item = String> {
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok())
}

/// Whether a process holds the socket with this inode.
pub fn is_in_tables(inode: u64) -> bool {
    tables().any(|table| table.lines().skip(1).filter_map(read_row).any(|entry| entry.inode == inode))
}

/// The same as [`SocketOwners::owner`], by reading the tables of all connections.
pub fn owner_by_tables(peer: SocketAddr, local: SocketAddr) -> Owner {
    let (peer, local) = (canonical(peer), canonical(local));
    tables()
        .find_map(|table| find_in_table(&table, peer, local))
        .map_or(Owner::Nobody, |entry| owner_of(entry, peer, local))
}

fn owner_of(entry: Entry, peer: SocketAddr, local: SocketAddr) -> Owner {
    // If the connection has ended, the kernel returns a listener on that port, which is not the peer.
    if entry.from != peer || entry.to != local || entry.inode == 0 {
        return Owner::Nobody;
    }
    Owner::User { uid: entry.uid, inode: entry.inode }
}

/// An IPv4 connection to an IPv6 listener is an IPv4 connection.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// `inet_diag_req_v2` and `inet_diag_msg` of linux/inet_diag.h, as bytes.
mod diag {
    use super::*;

    pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const IPPROTO_TCP: u8 = 6;
    /// The positions of the socket's addresses and owner in the response, and the response's length.
    const ADDRESSES: usize = 4;
    const OWNER: usize = ADDRESSES + 48 + 12;
    const RESPONSE: usize = OWNER + 8;

    pub fn request(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        let family = match from {
            SocketAddr::V4(_) => AF_INET,
            SocketAddr::V6(_) => AF_INET6,
        };
        let mut out = Vec::with_capacity(56);
        // Family, protocol, no extensions, padding, every state.
        out.extend_from_slice(&[family, IPPROTO_TCP, 0, 0]);
        out.extend_from_slice(&u32::MAX.to_ne_bytes());
        out.extend_from_slice(&from.port().to_be_bytes());
        out.extend_from_slice(&to.port().to_be_bytes());
        for address in [from, to] {
            let mut bytes = [0; 16];
            match address.ip() {
                IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => bytes = ip.octets(),
            }
            out.extend_from_slice(&bytes);
        }
        // Any interface, and no cookie.
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[0xff; 8]);
        out
    }

    /// The entry in a response; None if the response is not valid.
    pub fn entry(Response { kind, body }: Response<'_>) -> Option<Entry> {
        if kind != SOCK_DIAG_BY_FAMILY || body.len() < RESPONSE {
            return None;
        }
        let port = |at| Some(u16::from_be_bytes(field(body, ADDRESSES + at)?));
        let ip = |at| -> Option<IpAddr> {
            match body[0] {
                AF_INET => Some(Ipv4Addr::from(field::<4>(body, ADDRESSES + at)?).into()),
                _ => Some(Ipv6Addr::from(field::<16>(body, ADDRESSES + at)?).into()),
            }
        };
        Some(Entry {
            from: canonical(SocketAddr::new(ip(4)?, port(0)?)),
            to: canonical(SocketAddr::new(ip(20)?, port(2)?)),
            uid: u32::from_ne_bytes(field(body, OWNER)?),
            inode: u32::from_ne_bytes(field(body, OWNER + 4)?).into(),
        })
    }
}

/// Finds a connection in the text of /proc/net/tcp or tcp6.
fn find_in_table(table: &str, from: SocketAddr, to: SocketAddr) -> Option<Entry> {
    table.lines().skip(1).filter_map(read_row).find(|entry| entry.from == from && entry.to == to)
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid timeout inode …`
fn read_row(row: &str) -> Option<Entry> {
    let fields: Vec<&str> = row.split_ascii_whitespace().collect();
    Some(Entry {
        from: read_address(fields.get(1)?)?,
        to: read_address(fields.get(2)?)?,
        uid: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// `0100007F:1F90`: the address in words of the machine's own byte order, the port as a number.
fn read_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::event_loop::sys;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// The connection a client made, as the server has it.
    fn accepted(listener: &TcpListener) -> (TcpStream, SocketAddr, SocketAddr) {
        let (stream, peer) = listener.accept().unwrap();
        let local = stream.local_addr().unwrap();
        (stream, peer, local)
    }

    /// The owner by netlink, which must be the same by the tables in /proc.
    fn owner_in_both_ways(owners: &mut SocketOwners, peer: SocketAddr, local: SocketAddr) -> Owner {
        let owner = owners.owner(peer, local);
        assert_eq!(owner_by_tables(peer, local), owner);
        owner
    }

    fn listener(address: &str) -> Option<TcpListener> {
        let listener = TcpListener::bind(address);
        if let Err(error) = &listener {
            println!("skipped: {address}: {error}");
        }
        listener.ok()
    }

    /// The kernel, or a process that is being started elsewhere, may hold the port for a moment longer.
    fn bind_when_free(address: SocketAddr) -> Option<TcpListener> {
        (0..1_000).find_map(|_| {
            let bound = TcpListener::bind(address).ok();
            if bound.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            bound
        })
    }

    #[test]
    fn a_connection_of_this_process_belongs_to_our_user() {
        let mut owners = SocketOwners::open();
        for (bind, connect) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::ffff:127.0.0.1")]
        {
            let Some(listener) = listener(bind) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let ip: IpAddr = connect.parse().unwrap();
            let client = TcpStream::connect((ip, port)).unwrap();
            let (_stream, peer, local) = accepted(&listener);
            let expected = Owner::User { uid: sys::effective_uid(), inode: rustix::fs::fstat(&client).unwrap().st_ino };
            assert_eq!(owner_in_both_ways(&mut owners, peer, local), expected, "{connect} at {bind}");
        }
    }

    /// An address of this machine need not be a loopback one.
    #[test]
    fn a_peer_on_another_address_of_this_machine_is_found_too() {
        let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let routed = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
        let Some(ip) = routed.ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback()) else {
            println!("skipped: this machine has only loopback");
            return;
        };
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_stream, peer, local) = accepted(&listener);
        let expected = Owner::User { uid: sys::effective_uid(), inode: rustix::fs::fstat(&client).unwrap().st_ino };
        assert_eq!(owner_in_both_ways(&mut SocketOwners::open(), peer, local), expected);
    }

    #[test]
    fn a_closed_peer_has_no_owner() {
        let listener = listener("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, peer, local) = accepted(&listener);
        let mut owners = SocketOwners::open();
        assert!(matches!(owner_in_both_ways(&mut owners, peer, local), Owner::User { .. }));
        drop(client);
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(owner_in_both_ways(&mut owners, peer, local), Owner::Nobody);
    }

    #[test]
    fn a_listener_on_the_port_of_an_ended_connection_is_not_the_peer() {
        let listener = listener("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer, local) = accepted(&listener);
        let mut owners = SocketOwners::open();
        // Our side closes first, so it is the one that lingers and the peer's end vanishes at once.
        drop(stream);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        drop(client);
        let Some(_bystander) = bind_when_free(peer) else {
            println!("skipped: somebody else took {peer}");
            return;
        };
        let found = owners.ask(peer, local).unwrap();
        assert_eq!((found.from, found.to.port()), (peer, 0), "the bystander");
        assert_eq!(owner_in_both_ways(&mut owners, peer, local), Owner::Nobody);
    }

    #[test]
    fn a_peer_on_another_machine_has_no_owner() {
        let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let near: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let mut owners = SocketOwners::open();
        for (peer, local) in [(far, near), (near, far)] {
            assert_eq!(owner_in_both_ways(&mut owners, peer, local), Owner::Nobody);
        }
    }

    #[test]
    fn without_netlink_the_owner_is_unknown() {
        let listener = listener("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_stream, peer, local) = accepted(&listener);
        let mut without = SocketOwners { netlink: Netlink::closed(), own_addresses: OwnAddresses::open() };
        assert_eq!(without.owner(peer, local), Owner::Unknown);
        assert!(without.try_out().is_none() && SocketOwners::open().netlink.is_open());
    }

    #[test]
    fn a_connection_of_another_user_belongs_to_that_user() {
        let switch = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let able = Command::new("setpriv").args(switch).arg("true").status();
        if !able.is_ok_and(|status| status.success()) {
            println!("skipped: becoming another user takes root and setpriv");
            return;
        }
        let listener = listener("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // The child connects, and runs until its connection ends.
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
        let mut command = Command::new("setpriv");
        let child = command.args(switch).args(["bash", "-c", &script]).stdin(Stdio::null()).spawn();
        let (stream, peer, local) = accepted(&listener);
        assert!(matches!(owner_in_both_ways(&mut SocketOwners::open(), peer, local), Owner::User { uid: 65534, .. }));
        drop(stream);
        child.unwrap().wait().unwrap();
    }

    #[test]
    fn rows_of_the_tables_are_read() {
        let row =
            "   2: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 31337 1 x";
        let expected = Entry {
            from: "127.0.0.1:40000".parse().unwrap(),
            to: "127.0.0.1:8080".parse().unwrap(),
            uid: 1000,
            inode: 31337,
        };
        assert_eq!(read_row(row), Some(expected));
        let mapped = row.replace("0100007F", "0000000000000000FFFF00000100007F");
        assert_eq!(read_row(&mapped), Some(expected));
        for broken in ["", "sl local_address", "1: 0100007F 0100007F:1F90", "1: é:1 é:1"] {
            assert_eq!(read_row(broken), None);
        }
    }

    #[test]
    fn a_short_response_has_no_entry() {
        let entry = |kind: u16, len: usize| diag::entry(Response { kind, body: &[0; 72][..len] });
        assert!(entry(diag::SOCK_DIAG_BY_FAMILY, 72).is_some());
        assert!(entry(diag::SOCK_DIAG_BY_FAMILY + 1, 72).is_none());
        for len in 0..72 {
            assert!(entry(diag::SOCK_DIAG_BY_FAMILY, len).is_none());
        }
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        assert_eq!(diag::request(from, to).len(), 56);
    }
}
