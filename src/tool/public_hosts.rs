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
    names: DefaultResolver,
}

impl Judged {
    pub fn new(judge: Judge) -> Judged {
        Judged { judge, names: DefaultResolver::default() }
    }
}

impl Resolver for Judged {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        check(found.iter().map(|address| address.ip()), self.judge)?;
        Ok(found)
    }
}

fn check(mut addresses: impl Iterator<Item = IpAddr>, judge: Judge) -> io::Result<()> {
    match addresses.find(|address| !judge(*address)) {
        None => Ok(()),
        Some(address) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its address {address} is not on the public internet"),
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
            check(addresses, is_public).is_ok()
        };
        assert!(of(&["93.184.216.34", "2606:4700::1"]));
        assert!(!of(&["93.184.216.34", "127.0.0.1"]));
        assert!(!of(&["::ffff:10.0.0.1"]));
    }
}
