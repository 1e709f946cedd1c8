//! The addresses that the server listens on: `--listen`, `--a2a-port` and `--host`, and their variables. Addresses other than
//! loopback ones and Unix sockets need credentials (`config/access.rs`), because the process of a client is known only on this machine.

use super::Settings;
use crate::limits::LISTENERS;
use ::core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub const DEFAULT_PORT: u16 = 41_242;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Descriptor 0, on which a service manager listens: `StandardInput=socket` of systemd.
    Inherited,
}

/// The value of `--host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address, to be combined with the port.
    Address(IpAddr),
    /// An address with a port of its own, or a Unix socket.
    Whole(Listen),
}

/// All addresses, in the order to be opened. The usual TCP port is the first if `--a2a-port` or `--host` asks for it, or if there
/// is no other. `A2A_LISTEN` counts if no flag names an address.
pub fn addresses(settings: &Settings) -> Result<Vec<Listen>, String> {
    let port = port(settings)?;
    let address = if settings.access.platform.is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    let usual = |ip| Listen::Tcp(SocketAddr::new(ip, port.unwrap_or(DEFAULT_PORT)));
    let beside = |other: &Listen, port: Option<u16>| match port {
        Some(_) => vec![usual(address.into()), other.clone()],
        None => vec![other.clone()],
    };
    let mut listens = match (&settings.host, &settings.listen_variable) {
        (Some(Host::Address(ip)), _) => vec![usual(*ip)],
        (Some(Host::Whole(whole)), _) => beside(whole, settings.port),
        (None, _) if !settings.listen.is_empty() => settings.port.map(|_| usual(address.into())).into_iter().collect(),
        (None, Some(Listen::Tcp(variable))) => {
            vec![Listen::Tcp(SocketAddr::new(variable.ip(), port.unwrap_or(variable.port())))]
        }
        (None, Some(variable @ (Listen::Unix(_) | Listen::Inherited))) => beside(variable, port),
        (None, None) => vec![usual(address.into())],
    };
    listens.extend(settings.listen.iter().cloned());
    if listens.len() > LISTENERS {
        return Err(format!("--listen can be given {LISTENERS} times at most"));
    }
    if listens.iter().filter(|listen| **listen == Listen::Inherited).count() > 1 {
        return Err("--listen fd can be given once: there is one standard input".into());
    }
    settings.access.check(&listens)?;
    Ok(listens)
}

/// The port that a flag or a variable gives.
fn port(settings: &Settings) -> Result<Option<u16>, String> {
    match (settings.port, &settings.access.platform, &settings.platform_port) {
        (None, Some(_), Some(port)) => {
            port.parse().map(Some).map_err(|_| format!("PORT must be a number from 0 to 65535, not {port}"))
        }
        (port, _, _) => Ok(port),
    }
}

pub fn host(text: &str) -> Option<Host> {
    parse(text).map(Host::Whole).or_else(|| address(text).map(Host::Address))
}

/// `ADDR:PORT`, an IPv6 address in brackets, `unix:PATH`, or `fd`.
pub fn parse(text: &str) -> Option<Listen> {
    if text == "fd" {
        return Some(Listen::Inherited);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Listen::Unix(path.into()));
    }
    let (ip, port) = text.rsplit_once(':')?;
    // Without brackets the port cannot be told from the end of an IPv6 address.
    if ip.contains(':') && !ip.starts_with('[') {
        return None;
    }
    Some(Listen::Tcp(SocketAddr::new(address(ip)?, port.parse().ok()?)))
}

fn address(text: &str) -> Option<IpAddr> {
    let name = if text == "localhost" { "127.0.0.1" } else { text };
    name.trim_matches(['[', ']']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Variables;
    use crate::config::options::tests::flags;

    fn of(line: &str, env: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mut settings = Settings::default();
        let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        settings.apply_variables(&env, &Variables::default())?;
        settings.apply_flags(&flags(line)?);
        let shown = |listen: Listen| match listen {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => format!("unix:{}", path.display()),
            Listen::Inherited => "fd".into(),
        };
        addresses(&settings).map(|listens| listens.into_iter().map(shown).collect())
    }

    #[test]
    fn the_default_port_is_used_unless_only_other_addresses_are_given() {
        let port = [("CODER_AGENT_PORT", "7")];
        for (line, env, expected) in [
            ("", [].as_slice(), ["127.0.0.1:41242"].as_slice()),
            ("", &port, &["127.0.0.1:7"]),
            ("--a2a-port 8", &port, &["127.0.0.1:8"]),
            ("--host ::1", &[], &["[::1]:41242"]),
            ("--host localhost --a2a-port 8", &[], &["127.0.0.1:8"]),
            ("--host [::1]:9", &[], &["[::1]:9"]),
            ("--host unix:/a --a2a-port 8", &[], &["127.0.0.1:8", "unix:/a"]),
            ("--listen 127.0.0.2:0", &[], &["127.0.0.2:0"]),
            ("--listen localhost:5 --listen [::1]:6 --listen unix:/a:b", &[], &["127.0.0.1:5", "[::1]:6", "unix:/a:b"]),
            ("--listen unix:/a", &port, &["127.0.0.1:7", "unix:/a"]),
            ("--listen unix:a --a2a-port 8", &[], &["127.0.0.1:8", "unix:a"]),
            ("--listen fd", &[], &["fd"]),
        ] {
            assert_eq!(of(line, env).expect(line), expected, "{line}");
        }
    }

    #[test]
    fn variables_name_an_address_if_no_flag_does() {
        let listen = ("A2A_LISTEN", "127.0.0.2:5");
        let unix = ("A2A_LISTEN", "unix:/a");
        let wide = ("A2A_LISTEN", "0.0.0.0:8080");
        let port = ("CODER_AGENT_PORT", "7");
        let (service, platform) = (("K_SERVICE", "agent"), ("PORT", "9"));
        for (line, env, expected) in [
            ("", [listen].as_slice(), ["127.0.0.2:5"].as_slice()),
            ("", &[listen, port], &["127.0.0.2:7"]),
            ("--a2a-port 8", &[listen, port], &["127.0.0.2:8"]),
            ("--listen unix:/b", &[listen], &["unix:/b"]),
            ("--host ::1", &[listen], &["[::1]:41242"]),
            ("", &[unix], &["unix:/a"]),
            ("", &[unix, port], &["127.0.0.1:7", "unix:/a"]),
            ("", &[("A2A_LISTEN", "fd")], &["fd"]),
            ("--access token", &[wide], &["0.0.0.0:8080"]),
            ("", &[("PORT", "tcp://x")], &["127.0.0.1:41242"]),
            ("", &[service], &["0.0.0.0:41242"]),
            ("", &[service, platform], &["0.0.0.0:9"]),
            ("", &[service, platform, port], &["0.0.0.0:7"]),
            ("", &[service, platform, wide], &["0.0.0.0:9"]),
            ("--listen 0.0.0.0:6", &[service, platform], &["0.0.0.0:6"]),
        ] {
            assert_eq!(of(line, env).expect(line), expected, "{line} {env:?}");
        }
        for (line, env, words) in [
            ("", [service, ("PORT", "http")].as_slice(), "PORT must be"),
            ("", &[("A2A_LISTEN", "8080")], "A2A_LISTEN must be"),
            ("", &[wide], "a loopback address"),
            ("--access local", &[service], "a loopback address"),
        ] {
            let error = of(line, env).expect_err(line);
            assert!(error.contains(words), "{line} {env:?}: {error}");
        }
    }

    #[test]
    fn invalid_and_public_addresses_are_refused() {
        for (line, words) in [
            ("--listen 0.0.0.0:80", "a loopback address"),
            ("--listen [::]:80", "a loopback address"),
            ("--listen 192.0.2.1:80", "a loopback address"),
            ("--host 0.0.0.0", "a loopback address"),
            ("--host 0.0.0.0:80", "a loopback address"),
            ("--listen ::1:80", "unix:PATH or fd"),
            ("--listen 80", "unix:PATH or fd"),
            ("--listen 127.0.0.1", "unix:PATH or fd"),
            ("--listen 127.0.0.1:x", "unix:PATH or fd"),
            ("--listen example:80", "unix:PATH or fd"),
            ("--listen unix:", "unix:PATH"),
            ("--a2a-port x", "--a2a-port"),
            ("--listen fd --listen fd", "can be given once"),
        ] {
            let error = of(line, &[]).expect_err(line);
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let line = |count| "--listen unix:/a ".repeat(count);
        assert_eq!(of(&line(LISTENERS), &[]).map(|all| all.len()), Ok(LISTENERS));
        assert!(of(&line(LISTENERS + 1), &[]).is_err());
    }
}
