//! Finds out whether an address belongs to this machine. A peer with such an address is a process of this machine, also if its socket is
//! closed already.
//! We ask the kernel for the route to that address (rtnetlink): for addresses of this machine its type is `local`. The list of addresses
//! would not do, because whole networks can be local.

use crate::shell::peers::netlink::{AF_INET, AF_INET6, Netlink, Response};
use std::io;
use std::net::{IpAddr, UdpSocket};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;
/// The lengths of `struct rtmsg` and `struct rtattr`.
const ROUTE_MESSAGE: usize = 12;
const ATTRIBUTE: usize = 4;
/// The position of the route's type in `struct rtmsg`.
const TYPE: usize = 7;

/// Asks the kernel which addresses belong to this machine.
pub struct OwnAddresses(Netlink);

impl OwnAddresses {
    pub fn open() -> OwnAddresses {
        OwnAddresses(Netlink::open(None))
    }

    pub fn contains(&mut self, address: IpAddr) -> bool {
        if address.is_loopback() {
            return true;
        }
        // If the kernel does not respond: only an address of this machine can be bound.
        self.is_local_route(address).unwrap_or_else(|_| UdpSocket::bind((address, 0)).is_ok())
    }

    /// Without a route the address is not one of this machine.
    fn is_local_route(&mut self, address: IpAddr) -> io::Result<bool> {
        use io::ErrorKind::{HostUnreachable, NetworkUnreachable};
        match self.0.request(RTM_GETROUTE, &route_request(address), is_local) {
            Err(error) if matches!(error.kind(), NetworkUnreachable | HostUnreachable) => Ok(false),
            result => result,
        }
    }
}

/// Asks for the route to an address: `struct rtmsg` and one `struct rtattr`.
fn route_request(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let attribute = ATTRIBUTE + bytes.len();
    let mut out = Vec::with_capacity(ROUTE_MESSAGE + attribute);
    // Family and length of the destination in bits; any source, service, table, protocol, scope, type; no flags.
    out.extend_from_slice(&[family, (bytes.len() * 8) as u8, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(attribute as u16).to_ne_bytes());
    out.extend_from_slice(&RTA_DST.to_ne_bytes());
    out.extend_from_slice(&bytes);
    out
}

/// Whether the route in a response is one to this machine. None if the response contains no route.
fn is_local(response: Response<'_>) -> Option<bool> {
    let route_type = response.body.get(TYPE)?;
    (response.kind == RTM_NEWROUTE).then_some(*route_type == RTN_LOCAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an address is found, both by netlink and without it.
    fn is_found_in_both_ways(address: &str) -> bool {
        let address = address.parse().unwrap();
        let mut addresses = OwnAddresses::open();
        assert!(addresses.0.is_open());
        let found = addresses.contains(address);
        assert_eq!(addresses.contains(address), found, "asked again");
        assert_eq!(OwnAddresses(Netlink::closed()).contains(address), found, "{address} by binding it");
        found
    }

    #[test]
    fn addresses_of_this_machine_and_others_are_distinguished() {
        for own in ["127.0.0.1", "127.0.0.9", "::1"] {
            assert!(is_found_in_both_ways(own), "{own}");
        }
        for other in ["192.0.2.1", "198.51.100.7", "2001:db8::7"] {
            assert!(!is_found_in_both_ways(other), "{other}");
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
        assert!(is_found_in_both_ways(&ip.to_string()));
    }

    #[test]
    fn a_short_response_has_no_route() {
        let mut body = route_request("192.0.2.1".parse().unwrap());
        assert_eq!(body.len(), ROUTE_MESSAGE + ATTRIBUTE + 4);
        body[TYPE] = RTN_LOCAL;
        assert_eq!(is_local(Response { kind: RTM_NEWROUTE, body: &body }), Some(true));
        assert_eq!(is_local(Response { kind: RTM_GETROUTE, body: &body }), None);
        for len in 0..=TYPE {
            assert_eq!(is_local(Response { kind: RTM_NEWROUTE, body: &body[..len] }), None);
        }
    }
}
