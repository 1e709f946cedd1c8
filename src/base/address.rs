//! IP addresses and host names as values: which addresses are public, and how the host of a URL is parsed. No names are resolved here.
//!
//! An address that a page, a model or a client chose must not lead to something that only this machine can reach: its own services, the
//! local network, the metadata server of the cloud. So it must be global unicast, and an IPv4 address inside an IPv6 address (mapped, translated or
//! tunnelled) is checked instead of the outer one.
//!
//! IPv4 addresses are accepted only as four decimal numbers. Programs disagree about `127.1`, `0x7f000001` and `017700000001`, and
//! nobody writes them by accident.

// From `core`, because an address is a value; `std::net` is for sockets.
use ::core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are not public, with the length of their prefix. Those of IPv6 are parts of [`GLOBAL_V6`]: protocol assignments
/// (Teredo among them) and documentation.
const RESERVED: [(IpAddr, u32); 18] = [
    (v4(0, 0, 0, 0), 8),
    (v4(10, 0, 0, 0), 8),
    (v4(100, 64, 0, 0), 10),
    (v4(127, 0, 0, 0), 8),
    (v4(169, 254, 0, 0), 16),
    (v4(172, 16, 0, 0), 12),
    (v4(192, 0, 0, 0), 24),
    (v4(192, 0, 2, 0), 24),
    (v4(192, 88, 99, 0), 24),
    (v4(192, 168, 0, 0), 16),
    (v4(198, 18, 0, 0), 15),
    (v4(198, 51, 100, 0), 24),
    (v4(203, 0, 113, 0), 24),
    (v4(224, 0, 0, 0), 4),
    (v4(240, 0, 0, 0), 4),
    (v6(0x2001 << 112), 23),
    (v6(0x2001_0db8 << 96), 32),
    (v6(0x3fff << 112), 20),
];
const GLOBAL_V6: (IpAddr, u32) = (v6(0x2000 << 112), 3);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits))
}

/// Whether the address is reachable from the internet.
pub fn is_public(address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(outer) => inner_v4(outer).map_or(address, IpAddr::V4),
    };
    let within = |(network, prefix): &(IpAddr, u32)| is_within(address, *network, *prefix);
    (address.is_ipv4() || within(&GLOBAL_V6)) && !RESERVED.iter().any(within)
}

/// Whether the first `prefix` bits of an address are those of the network.
pub fn is_within(address: IpAddr, network: IpAddr, prefix: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) if prefix <= 32 => {
            (a.to_bits() ^ b.to_bits()).checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) if prefix <= 128 => {
            (a.to_bits() ^ b.to_bits()).checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// The IPv4 address that packets to this address are delivered to: mapped (`::ffff:a.b.c.d`), NAT64 (`64:ff9b::a.b.c.d`) or 6to4
/// (`2002:aabb:ccdd::`).
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    match (bits >> 32, bits >> 112) {
        (0xffff | 0x0064_ff9b_0000_0000_0000_0000, _) => Some(Ipv4Addr::from_bits(bits as u32)),
        (_, 0x2002) => Some(Ipv4Addr::from_bits((bits >> 80) as u32)),
        _ => None,
    }
}

/// The host of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Address(IpAddr),
    /// A name to be resolved. `local`: its last label is reserved for this machine or its network.
    Name {
        local: bool,
    },
}

/// Parses the host of a URL, with an IPv6 address in brackets. An error says what is wrong.
pub fn host(text: &str) -> Result<Host, &'static str> {
    let lower = text.to_ascii_lowercase();
    if let Some(inner) = lower.strip_prefix('[') {
        let inner = inner.strip_suffix(']').and_then(|inner| inner.parse().ok());
        let address: Ipv6Addr = inner.ok_or("not a valid address")?;
        return Ok(Host::Address(address.into()));
    }
    if let Ok(address) = lower.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    if !is_name(&lower) {
        return Err("not a valid host name");
    }
    let last = lower.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if is_number(last) {
        return Err("an IPv4 address is written as four decimal numbers");
    }
    Ok(Host::Name { local: matches!(last, "localhost" | "local" | "internal") })
}

/// Whether the text consists of labels of letters, digits, `-` and `_`, separated by single dots; one dot at the end is allowed.
pub fn is_name(text: &str) -> bool {
    let in_label = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let mut labels = text.strip_suffix('.').unwrap_or(text).split('.');
    labels.all(|label| !label.is_empty() && label.bytes().all(in_label))
}

/// Whether a resolver might treat a name with this last label as an IPv4 address: a number, also octal or hexadecimal.
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

    /// The address itself, and the IPv6 addresses that contain it.
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
}
