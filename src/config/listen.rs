//! Where the server listens: `--listen`, beside `--a2a-port`, `--host` and their variables. Only loopback and Unix sockets can be named:
//! whoever connects is known by the process at the other end, which is known only on this machine.

use super::{DEFAULT_PORT, Env};
use crate::args::Args;
use crate::limits::LISTENERS;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// All of them, in the order to be opened. The usual TCP port is among them if it is asked for in any way, or if nothing else is.
pub fn listens(args: &Args, env: Env) -> Result<Vec<Listen>, String> {
    let mut listens = args.listen.iter().map(|text| listen(text, "--listen")).collect::<Result<Vec<_>, _>>()?;
    let port = match (&args.a2a_port, env("CODER_AGENT_PORT")) {
        (Some(text), _) => Some(port(text, "--a2a-port")?),
        (None, Some(text)) => Some(port(&text, "CODER_AGENT_PORT")?),
        (None, None) => None,
    };
    let usual = |ip| Listen::Tcp(SocketAddr::new(ip, port.unwrap_or(DEFAULT_PORT)));
    match args.host.as_deref() {
        // With a port of its own it is the same as --listen.
        Some(text) if names_all(text) => {
            listens.insert(0, listen(text, "--host")?);
            if port.is_some() {
                listens.insert(0, usual(Ipv4Addr::LOCALHOST.into()));
            }
        }
        Some(text) => listens.insert(0, usual(address(text, "--host")?)),
        None if port.is_some() || listens.is_empty() => listens.insert(0, usual(Ipv4Addr::LOCALHOST.into())),
        None => {}
    }
    if listens.len() > LISTENERS {
        return Err(format!("--listen can be given {LISTENERS} times at most"));
    }
    Ok(listens)
}

/// Whether this is a whole place to listen on and not just an address.
fn names_all(text: &str) -> bool {
    text.starts_with("unix:") || text.parse::<SocketAddr>().is_ok() || text.starts_with("localhost:")
}

fn listen(text: &str, flag: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(format!("{flag} unix: names no socket; write {flag} unix:PATH"));
        }
        return Ok(Listen::Unix(path.into()));
    }
    let wrong = || format!("{flag} must be ADDR:PORT or unix:PATH, not {text}");
    let (ip, given) = text.rsplit_once(':').ok_or_else(wrong)?;
    let given = given.parse().map_err(|_| wrong())?;
    // Without its brackets an IPv6 address and a port cannot be told apart.
    if ip.contains(':') && !ip.starts_with('[') {
        return Err(wrong());
    }
    Ok(Listen::Tcp(SocketAddr::new(address(ip, flag)?, given)))
}

fn address(text: &str, flag: &str) -> Result<IpAddr, String> {
    let name = if text == "localhost" { "127.0.0.1" } else { text };
    let address: IpAddr =
        name.trim_matches(['[', ']']).parse().map_err(|_| format!("{flag} must be an IP address, not {text}"))?;
    if address.is_loopback() {
        Ok(address)
    } else {
        Err(format!(
            "{flag} {text} is not a loopback address: this server knows its user by the process that connects, which works on \
             this machine only; use 127.0.0.1, ::1 or unix:PATH"
        ))
    }
}

fn port(text: &str, name: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{name} must be a number from 0 to 65535, not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, env: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let args = crate::args::parse(line.split_whitespace().map(str::to_owned)).expect("a command line");
        let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let shown = |listen: Listen| match listen {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => format!("unix:{}", path.display()),
        };
        listens(&args, &env).map(|listens| listens.into_iter().map(shown).collect())
    }

    #[test]
    fn the_usual_port_is_there_unless_only_others_are_named() {
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
    fn mistakes_and_wide_addresses_are_refused() {
        for (line, words) in [
            ("--listen 0.0.0.0:80", "not a loopback address"),
            ("--listen [::]:80", "not a loopback address"),
            ("--listen 192.0.2.1:80", "not a loopback address"),
            ("--host 0.0.0.0", "not a loopback address"),
            ("--host 0.0.0.0:80", "not a loopback address"),
            ("--listen ::1:80", "ADDR:PORT or unix:PATH"),
            ("--listen 80", "ADDR:PORT or unix:PATH"),
            ("--listen 127.0.0.1", "ADDR:PORT or unix:PATH"),
            ("--listen 127.0.0.1:x", "ADDR:PORT or unix:PATH"),
            ("--listen example:80", "an IP address"),
            ("--listen unix:", "unix:PATH"),
            ("--a2a-port x", "--a2a-port"),
        ] {
            let error = of(line, &[]).expect_err(line);
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn there_is_a_limit_to_them() {
        let line = |count| "--listen unix:/a ".repeat(count);
        assert_eq!(of(&line(LISTENERS), &[]).map(|all| all.len()), Ok(LISTENERS));
        assert!(of(&line(LISTENERS + 1), &[]).is_err());
    }
}
