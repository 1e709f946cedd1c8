//! The server that a command connects to: a URL, a Unix socket or a port.

use super::listen::DEFAULT_PORT;
use crate::base::address;
use ::core::net::IpAddr;
use std::fmt;
use std::path::PathBuf;

const HTTPS_PORT: u16 = 443;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// The host is a name or an address, an IPv6 address in brackets.
    Tcp {
        host: String,
        port: u16,
        /// Over TLS: `https://` or `wss://`.
        tls: bool,
    },
    Unix(PathBuf),
}

impl Remote {
    /// Whether what is sent to it can be read on the way: it is on another machine, and not over TLS.
    pub fn is_exposed(&self) -> bool {
        match self {
            Remote::Tcp { host, tls: false, .. } => {
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                let is_loopback = bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
                !is_loopback && host != "localhost" && !host.ends_with(".localhost")
            }
            Remote::Tcp { tls: true, .. } | Remote::Unix(_) => false,
        }
    }

    /// The value of the field `Host`.
    pub fn host_field(&self) -> String {
        match self {
            Remote::Tcp { host, port: HTTPS_PORT, tls: true } => host.clone(),
            Remote::Tcp { host, port, .. } => format!("{host}:{port}"),
            Remote::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Tcp { host, port, tls: false } => write!(f, "{host}:{port}"),
            Remote::Tcp { tls: true, .. } => write!(f, "https://{}", self.host_field()),
            Remote::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Parses `http://HOST[:PORT]`, the same with `https://`, `ws://` and `wss://`, `HOST:PORT`, `unix:PATH`, or a port of this machine.
/// An error is one line.
pub fn parse(text: &str) -> Result<Remote, String> {
    let shown = text.escape_debug();
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("unix: needs the path of a socket: unix:PATH".into()),
            path => Ok(Remote::Unix(path.into())),
        };
    }
    if let Ok(port) = text.parse() {
        return Ok(Remote::Tcp { host: "localhost".into(), port, tls: false });
    }
    let forms = "http://HOST:PORT, https://HOST, ws://HOST:PORT, wss://HOST, unix:PATH, or a port";
    let (scheme, rest) = match text.split_once("://") {
        Some(parts) => parts,
        None if text.contains(':') => ("http", text),
        None => return Err(format!("{shown} is no server; a server is {forms}")),
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => false,
        "https" | "wss" => true,
        _ => return Err(format!("unknown scheme in {shown}; a server is {forms}")),
    };
    let authority = match rest.split_once('/') {
        None => rest,
        Some((authority, "" | "ws")) => authority,
        Some(_) => return Err(format!("{shown} has a path; leave out what follows the host and the port")),
    };
    let wrong = |why| format!("{shown}: {why}; a server is {forms}");
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong("the port is a number from 0 to 65535"))?),
        None => (authority, if tls { HTTPS_PORT } else { DEFAULT_PORT }),
    };
    address::host(host).map_err(wrong)?;
    Ok(Remote::Tcp { host: host.to_ascii_lowercase(), port, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_server() {
        for (text, expected) in [
            ("http://localhost:7", "localhost:7"),
            ("http://LocalHost:7/", "localhost:7"),
            ("ws://127.0.0.1:7/ws", "127.0.0.1:7"),
            ("HTTP://host.example", "host.example:41242"),
            ("http://[::1]:7", "[::1]:7"),
            ("ws://[::1]", "[::1]:41242"),
            ("https://Host.example", "https://host.example"),
            ("wss://host:7/ws", "https://host:7"),
            ("HTTPS://[::1]:443/", "https://[::1]"),
            ("localhost:7", "localhost:7"),
            ("7", "localhost:7"),
            ("unix:/run/a b.sock", "unix:/run/a b.sock"),
        ] {
            assert_eq!(parse(text).map(|remote| remote.to_string()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_sent_to_another_machine_without_tls_is_exposed() {
        for (text, expected) in [
            ("http://host.example", true),
            ("ws://10.0.0.1:7", true),
            ("http://[2001:db8::1]:7", true),
            ("http://localhost.example:7", true),
            ("https://host.example", false),
            ("http://localhost:7", false),
            ("http://a.localhost:7", false),
            ("http://127.0.0.2:7", false),
            ("http://[::1]:7", false),
            ("http://[::ffff:127.0.0.1]:7", false),
            ("7", false),
            ("unix:/run/a.sock", false),
        ] {
            assert_eq!(parse(text).map(|remote| remote.is_exposed()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_servers_are_refused_with_the_valid_forms() {
        for (text, words) in [
            ("", "http://HOST:PORT"),
            ("localhost", "http://HOST:PORT"),
            ("localhost:x", "http://HOST:PORT"),
            ("65536", "http://HOST:PORT"),
            ("unix:", "unix:PATH"),
            ("ftp://host", "unknown scheme in ftp://host"),
            ("http://host:x", "the port is a number"),
            ("http://host:65536", "the port is a number"),
            ("http://a b", "not a valid host name"),
            ("http://user@host", "not a valid host name"),
            ("http://::1", "not a valid host name"),
            ("http://[::g]", "not a valid address"),
            ("http://a\r\nX", "not a valid host name"),
            ("http://host/x", "leave out what follows"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
