//! Which places on the network a tool may visit: public ones only.
//!
//! A page on the internet, or a model that read one, must not reach what only this machine can: its own services, the local
//! network, the cloud's metadata. So an address must be global unicast, and an address inside an address (mapped, translated or
//! tunnelled IPv4) is judged by what is inside. Names are judged by every address they resolve to, at the moment of connecting;
//! that is `web.rs`'s part. Here is what can be said of a URL without asking anybody.
//!
//! IPv4 addresses count only in their usual spelling. `127.1`, `0x7f000001` and `017700000001` mean the same to some programs and
//! nothing to others, and nobody writes them by accident.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ureq::http::Uri;

/// Longer URLs are refused.
const LONGEST: usize = 2048;

/// Networks of IPv4 that are not public, with the length of their prefix.
const RESERVED_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// The only part of IPv6 that is global unicast, and what in it is not public: protocols of their own (Teredo among them) and
/// documentation.
const GLOBAL_V6: (u128, u32) = (0x2000 << 112, 3);
const RESERVED_V6: [(u128, u32); 3] = [
    (0x2001 << 112, 23),
    (0x2001_0db8 << 96, 32),
    (0x3fff << 112, 20),
];

/// Whether anybody on the internet can reach it.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match inner_v4(address) {
            Some(inner) => is_public_v4(inner),
            None => {
                let within = |(network, prefix): &(u128, u32)| {
                    (address.to_bits() ^ network) >> (128 - prefix) == 0
                };
                within(&GLOBAL_V6) && !RESERVED_V6.iter().any(within)
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !RESERVED_V4.iter().any(|(network, prefix)| {
        (address.to_bits() ^ u32::from_be_bytes(*network)) >> (32 - prefix) == 0
    })
}

/// The IPv4 address that packets to this one end up at: mapped (`::ffff:a.b.c.d`), NAT64 (`64:ff9b::a.b.c.d`) or 6to4
/// (`2002:aabb:ccdd::`).
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    match (bits >> 32, bits >> 112) {
        (0xffff | 0x0064_ff9b_0000_0000_0000_0000, _) => Some(Ipv4Addr::from_bits(bits as u32)),
        (_, 0x2002) => Some(Ipv4Addr::from_bits((bits >> 80) as u32)),
        _ => None,
    }
}

/// Judges addresses. Tests have another opinion than [`is_public`], because their servers are on this machine.
pub type Judge = fn(IpAddr) -> bool;

/// A URL that may be visited, as far as can be told by looking at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(Uri);

/// Why a URL may not be visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is no URL that tools understand.
    Malformed(String),
    /// It is not on the public internet.
    Private(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Malformed(text) | Wrong::Private(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Url {
    pub fn parse(text: &str, judge: Judge) -> Result<Url, Wrong> {
        let malformed = |what: &str| Wrong::Malformed(format!("{text}: {what}"));
        if text.len() > LONGEST {
            let start: String = text.chars().take(60).collect();
            return Err(Wrong::Malformed(format!(
                "{start}…: longer than {LONGEST} bytes"
            )));
        }
        let bare = text.split('#').next().unwrap_or(text);
        let uri: Uri = bare.parse().map_err(|_| malformed("not a valid URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(malformed("only http and https can be fetched"));
        }
        let authority = uri.authority().ok_or_else(|| malformed("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(malformed("must not hold a user name or password"));
        }
        if !matches!(authority.port_u16(), None | Some(80 | 443 | 1024..)) {
            return Err(malformed("the port must be 80, 443, or 1024 and above"));
        }
        check_host(authority.host(), judge).map_err(|wrong| match wrong {
            Wrong::Malformed(what) => Wrong::Malformed(format!("{text}: {what}")),
            Wrong::Private(what) => Wrong::Private(format!("{text}: {what}")),
        })?;
        Ok(Url(uri))
    }

    /// What a redirection from here means.
    pub fn join(&self, target: &str, judge: Judge) -> Result<Url, Wrong> {
        let scheme = self.0.scheme_str().unwrap_or("https");
        let host = self
            .0
            .authority()
            .map_or("", |authority| authority.as_str());
        let path = self.0.path();
        let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        let absolute = if target.contains("://") {
            target.to_owned()
        } else if target.starts_with("//") {
            format!("{scheme}:{target}")
        } else if target.starts_with('/') {
            format!("{scheme}://{host}{target}")
        } else if target.starts_with('?') {
            format!("{scheme}://{host}{path}{target}")
        } else {
            format!("{scheme}://{host}{folder}{target}")
        };
        Url::parse(&absolute, judge)
    }

    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// The host in small letters, for counting.
    pub fn host(&self) -> String {
        self.0.host().unwrap_or_default().to_ascii_lowercase()
    }
}

fn check_host(host: &str, judge: Judge) -> Result<(), Wrong> {
    let not_public = || Wrong::Private("not on the public internet".into());
    let lower = host.to_ascii_lowercase();
    let judged = |address: IpAddr| {
        if judge(address) {
            Ok(())
        } else {
            Err(not_public())
        }
    };
    if let Some(inner) = lower.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        let address: Ipv6Addr = inner
            .parse()
            .map_err(|_| Wrong::Malformed("not a valid address".into()))?;
        return judged(address.into());
    }
    if let Ok(address) = lower.parse::<Ipv4Addr>() {
        return judged(address.into());
    }
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    let labels: Vec<&str> = name.split('.').collect();
    let plain = |label: &&str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.chars().all(allowed)
    };
    if !labels.iter().all(plain) {
        return Err(Wrong::Malformed("not a valid host name".into()));
    }
    let last = labels.last().copied().unwrap_or_default();
    if is_number(last) {
        let what = "an IPv4 address is written as four decimal numbers";
        return Err(Wrong::Malformed(what.into()));
    }
    if matches!(last, "localhost" | "local" | "internal") {
        return Err(not_public());
    }
    Ok(())
}

/// Whether a resolver might take a name that ends so for an IPv4 address: a number, also in octal or hexadecimal.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => label.chars().all(|c| c.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reserved_network_is_refused_to_its_edges() {
        let table = [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ];
        for (first, last) in table {
            let [first, last]: [Ipv4Addr; 2] = [first, last].map(|text| text.parse().unwrap());
            for inside in [first, last] {
                for form in forms(inside) {
                    assert!(!is_public(form), "{form}");
                }
            }
            let before = first.to_bits().checked_sub(1).map(Ipv4Addr::from_bits);
            let after = last.to_bits().checked_add(1).map(Ipv4Addr::from_bits);
            for outside in [before, after].into_iter().flatten() {
                // No two networks of the table touch.
                for form in forms(outside) {
                    assert!(is_public(form), "{form}");
                }
            }
        }
    }

    /// The address itself and everything it can hide in.
    fn forms(address: Ipv4Addr) -> [IpAddr; 4] {
        let bits = u128::from(address.to_bits());
        [
            address.into(),
            address.to_ipv6_mapped().into(),
            Ipv6Addr::from_bits((0x0064_ff9b << 96) | bits).into(),
            Ipv6Addr::from_bits((0x2002 << 112) | (bits << 80) | 1).into(),
        ]
    }

    #[test]
    fn ipv6_is_public_only_where_it_is_global_unicast() {
        let table = [
            ("::", false),
            ("::1", false),
            ("::8.8.8.8", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("::fffe:8.8.8.8", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::8.8.8.8", true),
            ("64:ff9b:1::8.8.8.8", false),
            ("100::1", false),
            ("1fff:ffff::1", false),
            ("2001::1", false),
            ("2001:1ff:ffff::1", false),
            ("2001:200::1", true),
            ("2001:db7::1", true),
            ("2001:db8::1", false),
            ("2001:db9::1", true),
            ("2002:7f00:1::1", false),
            ("2002:a9fe:a9fe::1", false),
            ("2002:808:808::1", true),
            ("2606:4700:4700::1111", true),
            ("3ffe::1", true),
            ("3fff::1", false),
            ("3fff:fff::1", false),
            ("3fff:1000::1", true),
            ("4000::1", false),
            ("5f00::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ];
        for (text, expected) in table {
            let address: Ipv6Addr = text.parse().unwrap();
            assert_eq!(is_public(address.into()), expected, "{text}");
        }
    }

    #[test]
    fn urls_that_may_be_visited_and_others() {
        let said = |text: &str| match Url::parse(text, is_public) {
            Ok(url) => format!("ok {url}"),
            Err(Wrong::Malformed(_)) => "malformed".into(),
            Err(Wrong::Private(_)) => "private".into(),
        };
        let ok = [
            ("https://example.com", "ok https://example.com/"),
            (
                "HTTP://Example.COM:8080/a?b=c#d",
                "ok http://Example.COM:8080/a?b=c",
            ),
            ("https://8.8.8.8/", "ok https://8.8.8.8/"),
            (
                "https://[2606:4700::1]:443/x",
                "ok https://[2606:4700::1]:443/x",
            ),
            ("https://example.com./", "ok https://example.com./"),
            ("https://1.example/", "ok https://1.example/"),
        ];
        for (text, expected) in ok {
            assert_eq!(said(text), expected);
        }
        let private = [
            "http://127.0.0.1/",
            "http://10.1.2.3:8080/",
            "http://169.254.169.254/latest/meta-data/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fd00::1]/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://metadata.google.internal/",
            "http://printer.local/",
        ];
        for text in private {
            assert_eq!(said(text), "private", "{text}");
        }
        let malformed = [
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://0x7f.0.0.1/",
            "http://0x7f000001/",
            "http://017700000001/",
            "http://127.1/",
            "http://127.0.1/",
            "http://1.2.3.4.5/",
            "http://256.256.256.256/",
            "http://127.0.0.1./",
            "http://%31%32%37.0.0.1/",
            "http://a..b/",
            "http://[fe80::1%25eth0]/",
            "http://user:secret@example.com/",
            "http://example.com@127.0.0.1/",
            "https://example.com:22/",
            "https://example.com:0/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "javascript://x",
            "https://",
            "example.com",
            "http://exa mple.com/",
            "http://１２７.0.0.1/",
        ];
        for text in malformed {
            assert_eq!(said(text), "malformed", "{text}");
        }
        let long = |n: usize| format!("https://example.com/{}", "a".repeat(n - 20));
        assert!(said(&long(LONGEST)).starts_with("ok"));
        assert_eq!(said(&long(LONGEST + 1)), "malformed");
    }

    #[test]
    fn redirections_are_read_from_where_they_come_and_judged_again() {
        let from = Url::parse("https://example.com:8443/a/b?c", is_public).unwrap();
        let to = |target: &str| from.join(target, is_public).map(|url| url.to_string());
        let host = "https://example.com:8443";
        assert_eq!(to("/x"), Ok(format!("{host}/x")));
        assert_eq!(to("x?y#z"), Ok(format!("{host}/a/x?y")));
        assert_eq!(to("?y"), Ok(format!("{host}/a/b?y")));
        assert_eq!(to("//other.test/x"), Ok("https://other.test/x".into()));
        assert_eq!(to("http://other.test"), Ok("http://other.test/".into()));
        for target in [
            "http://127.0.0.1/",
            "//localhost/x",
            "http://[::1]/",
            "http://2130706433/",
            "file:///etc/passwd",
        ] {
            assert!(to(target).is_err(), "{target}");
        }
    }
}
