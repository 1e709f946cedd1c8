//! Who is at the other end of a loopback connection. Both ends of it live on this machine, so the kernel knows the owner of
//! the peer's socket; we ask for exactly that one socket (sock_diag, one question, one answer, no dump).
//!
//! What is admitted has to be proven: an entry with exactly this pair of addresses, held by a process (its inode is not 0) of
//! our own effective user. A peer that is gone already shows uid 0 and inode 0 and is nobody. Where netlink cannot be used
//! the same facts are in /proc/net/tcp and tcp6, at the price of reading all of it.
//!
//! Being the same user is not enough for everything: our own tools run as that user too, and one that could connect back could
//! approve itself. So while children run, the socket is also looked for among our descendants and among processes that carry
//! our marker in their environment. A child that wants to hide has to shed both: fork away from its parents and clear its
//! environment. Where the server adopts orphans (as a subreaper) even that does not help, for descent cannot be shed then.

use crate::shell::sys;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of our own effective user: admitted without a token.
    SameUser,
    /// A process that one of our tools started: it may look, but not prompt or approve.
    OwnChild,
    Other {
        uid: u32,
    },
    /// Not on this machine, gone already, or not to be found out.
    Unknown,
}

/// Whether there may be processes that our tools started.
#[derive(Clone, Copy, Debug)]
pub enum Children<'a> {
    None,
    /// Their environment has an entry that begins with `marker`, e.g. `NAME=instance`.
    Running {
        marker: &'a str,
    },
}

/// Asks the kernel. Keeps its socket between questions.
pub struct Peers {
    netlink: Option<OwnedFd>,
    /// Netlink gave an answer once, so "no such socket" is an answer too and not a kernel without this ability.
    trusted: bool,
    question: u32,
}

/// One end of a connection, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    from: SocketAddr,
    to: SocketAddr,
    uid: u32,
    inode: u64,
}

impl Default for Peers {
    fn default() -> Peers {
        Peers::new()
    }
}

impl Peers {
    pub fn new() -> Peers {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Peers {
            netlink: socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG)).ok(),
            trusted: false,
            question: 0,
        }
    }

    /// Who made an accepted connection: `peer` is its address for the other end, `local` for ours.
    pub fn of(&mut self, peer: SocketAddr, local: SocketAddr, children: Children<'_>) -> Peer {
        let (peer, local) = (canonical(peer), canonical(local));
        if !peer.ip().is_loopback() || !local.ip().is_loopback() {
            return Peer::Unknown;
        }
        match self.find(peer, local) {
            Some(entry) => judge(entry, sys::effective_uid(), children),
            None => Peer::Unknown,
        }
    }

    fn find(&mut self, peer: SocketAddr, local: SocketAddr) -> Option<Entry> {
        let entry = match self.ask(peer, local) {
            Ok(entry) => {
                self.trusted = true;
                Some(entry)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.trusted => None,
            Err(_) => ["/proc/net/tcp", "/proc/net/tcp6"]
                .into_iter()
                .filter_map(|path| fs::read_to_string(path).ok())
                .find_map(|table| find_in_table(&table, peer, local)),
        };
        // The kernel falls back to a listener on that port when the connection is gone: that is not the peer.
        entry.filter(|entry| entry.from == peer && entry.to == local)
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

/// Whether the socket `inode` is held by a process that one of our tools started. Reads /proc, a file or two per process:
/// only worth asking while there are such processes.
pub fn from_child(inode: u64, marker: &str) -> bool {
    let ours = std::process::id();
    let held_by = |pid: u32| holds(pid, inode) == Some(true);
    if held_by(ours) {
        // What a child has of our own sockets it was handed while it was started.
        return false;
    }
    let parents = parents();
    let (children, others): (Vec<u32>, Vec<u32>) = parents
        .keys()
        .filter(|pid| **pid != ours)
        .partition(|pid| descends(&parents, **pid, ours) || is_marked(**pid, marker));
    let mut hidden = false;
    for pid in children {
        match holds(pid, inode) {
            Some(true) => return true,
            Some(false) => {}
            None => hidden = true,
        }
    }
    // A child that does not let us look is cleared only by finding the socket somewhere else.
    hidden && !others.into_iter().any(held_by)
}

fn judge(entry: Entry, uid: u32, children: Children<'_>) -> Peer {
    if entry.inode == 0 {
        return Peer::Unknown;
    }
    if entry.uid != uid {
        return Peer::Other { uid: entry.uid };
    }
    match children {
        Children::Running { marker } if from_child(entry.inode, marker) => Peer::OwnChild,
        Children::Running { .. } | Children::None => Peer::SameUser,
    }
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

/// Every process and its parent.
fn parents() -> HashMap<u32, u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything, parentheses too: what follows the last one is the state.
            let end = stat.iter().rposition(|byte| *byte == b')')?;
            let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
            Some((pid, rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
        })
        .collect()
}

fn descends(parents: &HashMap<u32, u32>, pid: u32, ancestor: u32) -> bool {
    let mut at = pid;
    // Processes come and go while they are listed, so a chain of parents may loop; none is longer than the list.
    for _ in 0..parents.len() {
        match parents.get(&at) {
            Some(parent) if *parent == ancestor => return true,
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    false
}

fn is_marked(pid: u32, marker: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(marker.as_bytes())))
}

/// Whether the process has the socket open; None if it does not let us look.
fn holds(pid: u32, inode: u64) -> Option<bool> {
    let wanted = format!("socket:[{inode}]");
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(fds) => Some(
            fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
                .any(|target| target.as_os_str() == wanted.as_str()),
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};

    const MARKER: &str = "PEER_TEST_MARKER=";

    /// The connection a client made, as the server has it.
    fn accepted(listener: &TcpListener) -> (TcpStream, SocketAddr, SocketAddr) {
        let (stream, peer) = listener.accept().unwrap();
        let local = stream.local_addr().unwrap();
        (stream, peer, local)
    }

    /// Netlink and the tables in /proc, which must say the same.
    fn both() -> [Peers; 2] {
        let without = Peers { netlink: None, ..Peers::new() };
        [Peers::new(), without]
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

    /// A process that connects, and stays until its connection ends.
    fn connecting(mut command: Command, port: u16) -> Connecting {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
        let child = command.args(["bash", "-c", &script]).stdin(Stdio::null()).spawn();
        Connecting(child.unwrap())
    }

    struct Connecting(Child);

    impl Drop for Connecting {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn env() -> Command {
        Command::new("env")
    }

    #[test]
    fn our_own_connection_is_the_same_user() {
        for (bind, connect) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::ffff:127.0.0.1")]
        {
            let Some(listener) = listener(bind) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let ip: IpAddr = connect.parse().unwrap();
            let _client = TcpStream::connect((ip, port)).unwrap();
            let (_stream, peer, local) = accepted(&listener);
            for mut peers in both() {
                for children in [Children::None, Children::Running { marker: MARKER }] {
                    let found = peers.of(peer, local, children);
                    assert_eq!(found, Peer::SameUser, "{connect} at {bind}");
                }
            }
        }
    }

    #[test]
    fn both_ways_of_asking_tell_the_same_entry() {
        let listener = listener("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_stream, peer, local) = accepted(&listener);
        let [mut netlink, mut tables] = both();
        let entry = netlink.ask(peer, local).unwrap();
        assert_eq!(tables.find(peer, local), Some(entry));
        assert_eq!(entry.uid, sys::effective_uid());
        let inode = rustix::fs::fstat(&client).unwrap().st_ino;
        assert_eq!(entry.inode, inode);
    }

    #[test]
    fn a_peer_that_is_gone_is_nobody() {
        let listener = listener("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, peer, local) = accepted(&listener);
        let [mut netlink, mut tables] = both();
        assert_eq!(netlink.of(peer, local, Children::None), Peer::SameUser);
        drop(client);
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        for peers in [&mut netlink, &mut tables] {
            assert_eq!(peers.of(peer, local, Children::None), Peer::Unknown);
        }
    }

    #[test]
    fn a_listener_on_the_port_of_a_peer_that_is_gone_is_not_the_peer() {
        let listener = listener("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer, local) = accepted(&listener);
        let [mut netlink, mut tables] = both();
        assert_eq!(netlink.of(peer, local, Children::None), Peer::SameUser);
        // Our side closes first, so it is the one that lingers and the peer's end vanishes at once.
        drop(stream);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        drop(client);
        let Some(_bystander) = bind_when_free(peer) else {
            println!("skipped: somebody else took {peer}");
            return;
        };
        let found = netlink.ask(peer, local).unwrap();
        assert_eq!((found.from, found.to.port()), (peer, 0), "the bystander");
        for peers in [&mut netlink, &mut tables] {
            assert_eq!(peers.of(peer, local, Children::None), Peer::Unknown);
        }
    }

    #[test]
    fn what_is_not_on_loopback_is_not_asked_for() {
        let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let near: SocketAddr = "127.0.0.1:80".parse().unwrap();
        for (peer, local) in [(far, near), (near, far)] {
            assert_eq!(Peers::new().of(peer, local, Children::None), Peer::Unknown);
        }
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
        let mut command = Command::new("setpriv");
        command.args(switch);
        let _child = connecting(command, listener.local_addr().unwrap().port());
        let (_stream, peer, local) = accepted(&listener);
        for mut peers in both() {
            let found = peers.of(peer, local, Children::Running { marker: MARKER });
            assert_eq!(found, Peer::Other { uid: 65534 });
        }
    }

    #[test]
    fn a_child_is_known_by_descent_and_by_its_marker() {
        let listener = listener("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut bare = env();
        bare.arg("-i");
        let mut marked = env();
        marked.arg(format!("{MARKER}1"));
        // It leaves the family: its parent is gone before it connects, so only the marker tells.
        let mut orphan = Command::new("setsid");
        orphan.args(["--fork", "env", &format!("{MARKER}1")]);
        for command in [bare, marked, orphan] {
            let _child = connecting(command, port);
            let (_stream, peer, local) = accepted(&listener);
            let mut peers = Peers::new();
            let running = Children::Running { marker: MARKER };
            assert_eq!(peers.of(peer, local, running), Peer::OwnChild);
            assert_eq!(peers.of(peer, local, Children::None), Peer::SameUser);
        }
    }

    #[test]
    fn a_process_that_is_no_child_is_just_the_same_user() {
        let listener = listener("127.0.0.1:0").unwrap();
        let mut command = Command::new("setsid");
        command.args(["--fork", "env", "-i"]);
        let mut child = connecting(command, listener.local_addr().unwrap().port());
        let (_stream, peer, local) = accepted(&listener);
        // Its parent ends at once, and nothing leads from it to us any more.
        child.0.wait().unwrap();
        let running = Children::Running { marker: MARKER };
        assert_eq!(Peers::new().of(peer, local, running), Peer::SameUser);
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
