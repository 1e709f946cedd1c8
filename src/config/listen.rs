//! The addresses that the server listens on: `--listen`, `--a2a-port` and `--host`. Only loopback addresses and Unix sockets are
//! allowed: a client is identified by the process at the other end, which is only known on this machine.

use super::Settings;
use crate::limits::LISTENERS;
use ::core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub const DEFAULT_PORT: u16 = 41_242;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
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
/// is no other.
pub fn addresses(settings: &Settings) -> Result<Vec<Listen>, String> {
    let usual = |ip| Listen::Tcp(SocketAddr::new(ip, settings.port.unwrap_or(DEFAULT_PORT)));
    let localhost = Ipv4Addr::LOCALHOST.into();
    let mut listens = match &settings.host {
        Some(Host::Address(ip)) => vec![usual(*ip)],
        Some(Host::Whole(whole)) if settings.port.is_some() => vec![usual(localhost), whole.clone()],
        Some(Host::Whole(whole)) => vec![whole.clone()],
        None if settings.port.is_some() || settings.listen.is_empty() => vec![usual(localhost)],
        None => Vec::new(),
    };
    listens.extend(settings.listen.iter().cloned());
    match listens.len() {
        ..=LISTENERS => Ok(listens),
        _ => Err(format!("--listen can be given {LISTENERS} times at most")),
    }
}

pub fn host(text: &str) -> Option<Host> {
    parse(text).map(Host::Whole).or_else(|| loopback(text).map(Host::Address))
}

/// `ADDR:PORT` with a loopback address, an IPv6 address in brackets, or `unix:PATH`.
pub fn parse(text: &str) -> Option<Listen> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Listen::Unix(path.into()));
    }
    let (ip, port) = text.rsplit_once(':')?;
    // Without brackets the port cannot be told from the end of an IPv6 address.
    if ip.contains(':') && !ip.starts_with('[') {
        return None;
    }
    Some(Listen::Tcp(SocketAddr::new(loopback(ip)?, port.parse().ok()?)))
}

fn loopback(text: &str) -> Option<IpAddr> {
    let name = if text == "localhost" { "127.0.0.1" } else { text };
    name.trim_matches(['[', ']']).parse().ok().filter(IpAddr::is_loopback)
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
        ] {
            assert_eq!(of(line, env).expect(line), expected, "{line}");
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
            ("--listen ::1:80", "or unix:PATH"),
            ("--listen 80", "or unix:PATH"),
            ("--listen 127.0.0.1", "or unix:PATH"),
            ("--listen 127.0.0.1:x", "or unix:PATH"),
            ("--listen example:80", "a loopback address"),
            ("--listen unix:", "unix:PATH"),
            ("--a2a-port x", "--a2a-port"),
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
