//! Connections to public hosts only, for the web tools and for webhooks.
//!
//! The resolver looks up a name and checks all of its addresses, and the connection is made to one of them. So the name cannot get another
//! address between the check and the connection.

pub use crate::base::address::is_public;
use std::io;
use std::net::IpAddr;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Whether an address may be connected to: [`is_public`], except in tests, whose servers are on this machine.
pub type AddressRule = fn(IpAddr) -> bool;

/// Resolves names, and refuses a name if the rule forbids any of its addresses.
#[derive(Debug)]
pub struct CheckedResolver {
    rule: AddressRule,
    /// Where allowed addresses are, for error messages.
    allowed: &'static str,
    resolver: DefaultResolver,
}

impl CheckedResolver {
    pub fn new(rule: AddressRule) -> CheckedResolver {
        CheckedResolver { rule, allowed: "on the public internet", resolver: DefaultResolver::default() }
    }

    /// Allows only addresses of this machine.
    pub fn loopback() -> CheckedResolver {
        let rule = |address: IpAddr| address.is_loopback();
        CheckedResolver { rule, allowed: "on this machine", ..CheckedResolver::new(is_public) }
    }
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        check(found.iter().map(|address| address.ip()), self)?;
        Ok(found)
    }
}

fn check(mut addresses: impl Iterator<Item = IpAddr>, checked: &CheckedResolver) -> io::Result<()> {
    match addresses.find(|address| !(checked.rule)(*address)) {
        None => Ok(()),
        Some(address) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its address {address} is not {}", checked.allowed),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_judged_by_all_its_addresses() {
        let of = |list: &[&str]| {
            let addresses = list.iter().map(|text| text.parse().expect("an address"));
            let resolvers = [CheckedResolver::new(is_public), CheckedResolver::loopback()];
            resolvers.map(|resolver| check(addresses.clone(), &resolver).is_ok())
        };
        assert_eq!(of(&["93.184.216.34", "2606:4700::1"]), [true, false]);
        assert_eq!(of(&["93.184.216.34", "127.0.0.1"]), [false, false]);
        assert_eq!(of(&["::ffff:10.0.0.1"]), [false, false]);
        assert_eq!(of(&["127.0.0.1", "::1"]), [false, true]);
        assert_eq!(of(&["127.0.0.1", "10.0.0.1"]), [false, false]);
    }
}
