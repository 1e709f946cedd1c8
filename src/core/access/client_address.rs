//! The address of the client that sends a request, which may be behind proxies.

use crate::base::address::is_within;
use crate::base::http::Request;
use crate::core::access::Access;
use crate::core::connections::connection::{Conn, Link};
use ::core::net::{IpAddr, SocketAddr};

impl Access {
    /// The address that a request comes from: that of the peer, or of the client before trusted proxies. A peer at a Unix socket has no
    /// address; at one that the operator named, a process of our user is a proxy if trusted proxies are configured.
    pub(super) fn address(&self, conn: &Conn, request: &Request) -> Option<IpAddr> {
        let is_local_proxy = conn.link == Link::NamedUnix && conn.is_own_user && !self.proxies.is_empty();
        if conn.address.is_none() && !is_local_proxy {
            return None;
        }

        let is_proxy =
            |address: &IpAddr| self.proxies.iter().any(|(network, prefix)| is_within(*address, *network, *prefix));
        let mut address = conn.address.map(|address| address.to_canonical());
        let forwarded: Vec<&str> = request.headers.list("x-forwarded-for").collect();
        for text in forwarded.into_iter().rev() {
            if !address.as_ref().is_none_or(is_proxy) {
                break;
            }
            match forwarded_address(text) {
                Some(before) => address = Some(before),
                None => break,
            }
        }
        address
    }
}

/// An address in `X-Forwarded-For`; some proxies add the port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    text.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}
