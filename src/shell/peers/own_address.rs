//! Whether an address is one of this machine: a peer with such an address is a process of this machine, also if its socket is gone.
//! We ask the kernel for the route to that address (rtnetlink, one question, one answer): for addresses of this machine its type is
//! `local`. The list of addresses would not do, because whole networks can be local.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `struct nlmsghdr`, `struct rtmsg` and `struct rtattr`.
const HEADER: usize = 16;
const ROUTE_MESSAGE: usize = 12;
const ATTRIBUTE: usize = 4;
/// Where the type of the route is.
const TYPE: usize = HEADER + 7;

/// Asks the kernel. Keeps its socket between questions.
pub struct OwnAddresses {
    netlink: Option<OwnedFd>,
    question: u32,
}

impl OwnAddresses {
    pub fn open() -> OwnAddresses {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The protocol of that number is rtnetlink.
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, None).ok();
        OwnAddresses { netlink, question: 0 }
    }

    pub fn contains(&mut self, address: IpAddr) -> bool {
        if address.is_loopback() {
            return true;
        }
        // Where the kernel does not answer, only an address of this machine can be bound.
        self.is_local_route(address).unwrap_or_else(|_| UdpSocket::bind((address, 0)).is_ok())
    }

    /// The kernel answers within the call that asks: no answer now is no answer.
    fn is_local_route(&mut self, address: IpAddr) -> io::Result<bool> {
        let netlink = self.netlink.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.question = self.question.wrapping_add(1);
        sendto(netlink, &question(self.question, address), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut bytes = [0; 1024];
        loop {
            let (count, _) = recv(netlink, &mut bytes, RecvFlags::empty())?;
            if let Some(answer) = answer(&bytes[..count.min(bytes.len())], self.question) {
                return answer;
            }
        }
    }
}

fn question(number: u32, address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let attribute = ATTRIBUTE + bytes.len();
    let mut out = Vec::with_capacity(HEADER + ROUTE_MESSAGE + attribute);
    out.extend_from_slice(&((HEADER + ROUTE_MESSAGE + attribute) as u32).to_ne_bytes());
    out.extend_from_slice(&RTM_GETROUTE.to_ne_bytes());
    out.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    out.extend_from_slice(&number.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    // Family and length of the destination in bits; any source, service, table, protocol, scope, type; no flags.
    out.extend_from_slice(&[family, (bytes.len() * 8) as u8, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(attribute as u16).to_ne_bytes());
    out.extend_from_slice(&RTA_DST.to_ne_bytes());
    out.extend_from_slice(&bytes);
    out
}

/// The answer to the question of this number; None if it is to another one. Without a route the address is not ours.
fn answer(bytes: &[u8], number: u32) -> Option<io::Result<bool>> {
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    if u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?) != number {
        return None;
    }
    if kind == NLMSG_ERROR {
        let code = i32::from_ne_bytes(bytes.get(HEADER..HEADER + 4)?.try_into().ok()?);
        let error = io::Error::from_raw_os_error(-code);
        let has_no_route = matches!(error.kind(), io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable);
        return Some(if has_no_route { Ok(false) } else { Err(error) });
    }
    match (kind, bytes.get(TYPE)) {
        (RTM_NEWROUTE, Some(found)) => Some(Ok(*found == RTN_LOCAL)),
        _ => Some(Err(io::ErrorKind::InvalidData.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By netlink, and without it.
    fn both(address: &str) -> bool {
        let address = address.parse().unwrap();
        let mut asked = OwnAddresses::open();
        assert!(asked.netlink.is_some());
        let found = asked.contains(address);
        assert_eq!(asked.contains(address), found, "asked again");
        assert_eq!(OwnAddresses { netlink: None, question: 0 }.contains(address), found, "{address} by binding it");
        found
    }

    #[test]
    fn addresses_of_this_machine_are_told_from_others() {
        for own in ["127.0.0.1", "127.0.0.9", "::1"] {
            assert!(both(own), "{own}");
        }
        for other in ["192.0.2.1", "198.51.100.7", "2001:db8::7"] {
            assert!(!both(other), "{other}");
        }
    }

    #[test]
    fn an_address_of_this_machine_need_not_be_a_loopback_one() {
        let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
        let routed = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
        let Some(ip) = routed.ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback()) else {
            println!("skipped: this machine has only loopback");
            return;
        };
        assert!(both(&ip.to_string()));
    }

    #[test]
    fn a_short_or_foreign_answer_is_no_answer() {
        let asked = question(7, "192.0.2.1".parse().unwrap());
        assert_eq!(asked.len(), HEADER + ROUTE_MESSAGE + ATTRIBUTE + 4);
        assert!(answer(&asked, 8).is_none());
        for len in 0..asked.len() {
            assert!(!matches!(answer(&asked[..len], 7), Some(Ok(_))));
        }
    }
}
