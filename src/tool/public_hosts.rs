//! Connections to public hosts only, for the web tools and for webhooks.
//!
//! The resolver looks a name up, checks all of its addresses, and the connection is made to one of them. So a name cannot get another
//! address between the check and the connection.

pub use crate::base::address::is_public;
use std::io;
use std::net::IpAddr;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Says whether an address may be visited: [`is_public`], except in tests, whose servers are on this machine.
pub type Judge = fn(IpAddr) -> bool;

/// Looks names up, and refuses a name if any of its addresses may not be visited.
#[derive(Debug)]
pub struct Judged {
    judge: Judge,
    /// Where the addresses are that it accepts.
    place: &'static str,
    names: DefaultResolver,
}

impl Judged {
    pub fn new(judge: Judge) -> Judged {
        Judged { judge, place: "on the public internet", names: DefaultResolver::default() }
    }

    /// Only addresses of this machine.
    pub fn loopback() -> Judged {
        Judged { judge: |address| address.is_loopback(), place: "on this machine", ..Judged::new(is_public) }
    }
}

impl Resolver for Judged {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        check(found.iter().map(|address| address.ip()), self)?;
        Ok(found)
    }
}

fn check(mut addresses: impl Iterator<Item = IpAddr>, judged: &Judged) -> io::Result<()> {
    match addresses.find(|address| !(judged.judge)(*address)) {
        None => Ok(()),
        Some(address) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its address {address} is not {}", judged.place),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_by_all_its_addresses() {
        let of = |list: &[&str]| {
            let addresses = list.iter().map(|text| text.parse().expect("an address"));
            [Judged::new(is_public), Judged::loopback()].map(|judged| check(addresses.clone(), &judged).is_ok())
        };
        assert_eq!(of(&["93.184.216.34", "2606:4700::1"]), [true, false]);
        assert_eq!(of(&["93.184.216.34", "127.0.0.1"]), [false, false]);
        assert_eq!(of(&["::ffff:10.0.0.1"]), [false, false]);
        assert_eq!(of(&["127.0.0.1", "::1"]), [false, true]);
        assert_eq!(of(&["127.0.0.1", "10.0.0.1"]), [false, false]);
    }
}
