//! Who owns the other end of a TCP connection. If both ends are on this machine the kernel knows the owner of the peer's socket;
//! we ask for exactly that one socket (sock_diag, one question, one answer, no dump), whatever its address: an entry with exactly
//! this pair of addresses is a socket of this machine, and no entry means that the peer is elsewhere.
//!
//! What is admitted has to be proven: an entry that a process holds (its inode is not 0), of our own effective user. A peer that is
//! already gone shows uid 0 and inode 0 and is not admitted. Which process holds the socket is another question (`descent.rs`).
//!
//! Where netlink cannot be used the same facts are in /proc/net/tcp and tcp6, at the price of reading all of it. The loop reads no
//! files, so the disk lane does that. Whether netlink can be used is found out once, when the server starts.

use crate::shell::peers::own_address::OwnAddresses;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Who owns the peer's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    User {
        uid: u32,
        /// Names the socket among the descriptors of processes.
        inode: u64,
    },
    /// Not on this machine, or gone already.
    Nobody,
    /// Netlink cannot be used; [`in_tables`] can answer.
    Unknown,
}

/// Asks the kernel. Keeps its socket between questions.
pub struct Peers {
    /// None where netlink gives no answers.
    netlink: Option<OwnedFd>,
    question: u32,
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

impl Peers {
    /// Opens netlink and tries it on a connection of our own: a kernel without this ability answers as if there were no such socket.
    pub fn open() -> Peers {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG)).ok();
        let mut peers = Peers { netlink, question: 0, own_addresses: OwnAddresses::open() };
        if peers.try_out().is_none() {
            peers.netlink = None;
        }
        peers
    }

    fn try_out(&mut self) -> Option<()> {
        let local = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        let listener = local.into_iter().find_map(|ip| TcpListener::bind((ip, 0)).ok())?;
        let client = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let (from, to) = (client.local_addr().ok()?, client.peer_addr().ok()?);
        let entry = self.ask(from, to).ok()?;
        (entry.from == from && entry.to == to).then_some(())
    }

    /// Whether owners can be found out at all, in one way or the other.
    pub fn can_answer(&self) -> bool {
        self.netlink.is_some() || Path::new("/proc/net/tcp").exists()
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

    /// Whether the other end of an accepted connection is on this machine, also if its socket is gone.
    pub fn is_of_this_machine(&mut self, peer: SocketAddr, local: SocketAddr) -> bool {
        let (peer, local) = (canonical(peer).ip(), canonical(local).ip());
        peer == local || self.own_addresses.contains(peer)
    }

    /// One question, one answer. The kernel answers within the call that asks, so there is nothing to wait for: no answer now
    /// is no answer.
    fn ask(&mut self, peer: SocketAddr, local: SocketAddr) -> io::Result<Entry> {
        let netlink = self.netlink.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.question = self.question.wrapping_add(1);
        sendto(
            netlink,
            &diag::question(self.question, peer, local),
            SendFlags::empty(),
            &SocketAddrNetlink::new(0, 0),
        )?;
        let mut bytes = [0; 512];
        loop {
            let (count, _) = recv(netlink, &mut bytes, RecvFlags::empty())?;
            // Answers to earlier questions may still be queued.
            if let Some(answer) = diag::answer(&bytes[..count], self.question) {
                return answer;
            }
        }
    }
}

/// The tables of all connections. Not for the loop.
fn tables() -> impl Iterator<Item = String> {
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok())
}

/// Whether a process holds the socket with this inode.
pub fn is_in_tables(inode: u64) -> bool {
    tables().any(|table| table.lines().skip(1).filter_map(read_row).any(|entry| entry.inode == inode))
}

/// The same as [`Peers::owner`], by reading the tables of all connections.
pub fn in_tables(peer: SocketAddr, local: SocketAddr) -> Owner {
    let (peer, local) = (canonical(peer), canonical(local));
    tables()
        .find_map(|table| find_in_table(&table, peer, local))
        .map_or(Owner::Nobody, |entry| owner_of(entry, peer, local))
}

fn owner_of(entry: Entry, peer: SocketAddr, local: SocketAddr) -> Owner {
    // The kernel falls back to a listener on that port when the connection is gone: that is not the peer.
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

    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLMSG_ERROR: u16 = 2;
    const NLM_F_REQUEST: u16 = 1;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const IPPROTO_TCP: u8 = 6;
    /// `struct nlmsghdr`, and where in the answer the socket's addresses and owner are.
    const HEADER: usize = 16;
    const ADDRESSES: usize = HEADER + 4;
    const OWNER: usize = ADDRESSES + 48 + 12;
    const ANSWER: usize = OWNER + 8;

    pub fn question(number: u32, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        let family = match from {
            SocketAddr::V4(_) => AF_INET,
            SocketAddr::V6(_) => AF_INET6,
        };
        let mut out = Vec::with_capacity(HEADER + 56);
        out.extend_from_slice(&(HEADER as u32 + 56).to_ne_bytes());
        out.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        out.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
        out.extend_from_slice(&number.to_ne_bytes());
        out.extend_from_slice(&[0; 4]);
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

    /// The answer to the question of this number; None if it is to another one.
    pub fn answer(bytes: &[u8], number: u32) -> Option<io::Result<Entry>> {
        let kind = u16::from_ne_bytes(field(bytes, 4)?);
        if u32::from_ne_bytes(field(bytes, 8)?) != number {
            return None;
        }
        if kind == NLMSG_ERROR {
            let code = i32::from_ne_bytes(field(bytes, HEADER)?);
            return Some(Err(io::Error::from_raw_os_error(-code)));
        }
        if kind != SOCK_DIAG_BY_FAMILY || bytes.len() < ANSWER {
            return Some(Err(io::ErrorKind::InvalidData.into()));
        }
        let family = bytes[HEADER];
        let port = |at| Some(u16::from_be_bytes(field(bytes, ADDRESSES + at)?));
        let ip = |at| -> Option<IpAddr> {
            match family {
                AF_INET => Some(Ipv4Addr::from(field::<4>(bytes, ADDRESSES + at)?).into()),
                _ => Some(Ipv6Addr::from(field::<16>(bytes, ADDRESSES + at)?).into()),
            }
        };
        Some(Ok(Entry {
            from: canonical(SocketAddr::new(ip(4)?, port(0)?)),
            to: canonical(SocketAddr::new(ip(20)?, port(2)?)),
            uid: u32::from_ne_bytes(field(bytes, OWNER)?),
            inode: u32::from_ne_bytes(field(bytes, OWNER + 4)?).into(),
        }))
    }

    fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
        bytes.get(at..at + N)?.try_into().ok()
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

    /// Netlink and the tables in /proc, which must say the same.
    fn both(peers: &mut Peers, peer: SocketAddr, local: SocketAddr) -> Owner {
        let owner = peers.owner(peer, local);
        assert_eq!(in_tables(peer, local), owner);
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
    fn our_own_connection_is_ours() {
        let mut peers = Peers::open();
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
            assert_eq!(both(&mut peers, peer, local), expected, "{connect} at {bind}");
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
        assert_eq!(both(&mut Peers::open(), peer, local), expected);
    }

    #[test]
    fn a_closed_peer_has_no_owner() {
        let listener = listener("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, peer, local) = accepted(&listener);
        let mut peers = Peers::open();
        assert!(matches!(both(&mut peers, peer, local), Owner::User { .. }));
        drop(client);
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(both(&mut peers, peer, local), Owner::Nobody);
    }

    #[test]
    fn a_listener_on_the_port_of_a_peer_that_is_gone_is_not_the_peer() {
        let listener = listener("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer, local) = accepted(&listener);
        let mut peers = Peers::open();
        // Our side closes first, so it is the one that lingers and the peer's end vanishes at once.
        drop(stream);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        drop(client);
        let Some(_bystander) = bind_when_free(peer) else {
            println!("skipped: somebody else took {peer}");
            return;
        };
        let found = peers.ask(peer, local).unwrap();
        assert_eq!((found.from, found.to.port()), (peer, 0), "the bystander");
        assert_eq!(both(&mut peers, peer, local), Owner::Nobody);
    }

    #[test]
    fn a_peer_on_another_machine_has_no_owner() {
        let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let near: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let mut peers = Peers::open();
        for (peer, local) in [(far, near), (near, far)] {
            assert_eq!(both(&mut peers, peer, local), Owner::Nobody);
        }
    }

    #[test]
    fn without_netlink_nothing_is_known() {
        let listener = listener("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_stream, peer, local) = accepted(&listener);
        let mut without = Peers { netlink: None, question: 0, own_addresses: OwnAddresses::open() };
        assert_eq!(without.owner(peer, local), Owner::Unknown);
        assert!(without.try_out().is_none() && Peers::open().netlink.is_some());
    }

    #[test]
    fn another_user_is_another_user() {
        let switch = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let able = Command::new("setpriv").args(switch).arg("true").status();
        if !able.is_ok_and(|status| status.success()) {
            println!("skipped: becoming another user takes root and setpriv");
            return;
        }
        let listener = listener("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // It connects, and stays until its connection ends.
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
        let mut command = Command::new("setpriv");
        let child = command.args(switch).args(["bash", "-c", &script]).stdin(Stdio::null()).spawn();
        let (stream, peer, local) = accepted(&listener);
        assert!(matches!(both(&mut Peers::open(), peer, local), Owner::User { uid: 65534, .. }));
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
    fn a_short_answer_is_no_answer() {
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let question = diag::question(7, from, to);
        assert_eq!(question.len(), 72);
        assert!(diag::answer(&question, 8).is_none());
        for len in 0..question.len() {
            assert!(!matches!(diag::answer(&question[..len], 7), Some(Ok(_))));
        }
    }
}
