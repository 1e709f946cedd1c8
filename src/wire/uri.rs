//! Parses request targets, hosts and origins into values that can be compared.
//!
//! Everything is decoded before it is checked, so that no spelling (`%2e%2e`, `%2F`, upper case, a long IPv6 address) means one thing
//! here and another to a route or an allow-list. A path never names a file: dot segments are refused, not resolved. An escaped
//! slash is a slash.

use crate::base::address::is_name;
// From `core`, because an address is a value: nothing here opens a socket.
use ::core::net::Ipv6Addr;

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The server, when the target was absolute (`http://host/path`).
    pub authority: Option<Authority>,
    /// Decoded. It begins with a slash and has no empty segments and no trailing slash, unless it is `/`.
    pub path: String,
    /// Decoded parameters in order; one without `=` has an empty value.
    pub query: Vec<(String, String)>,
}

/// A host and its port, as in `Host` or a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Lower case. An IPv6 address is without brackets and in its shortest form: `::1`.
    pub host: String,
    pub port: Option<u16>,
}

/// The origin of the page that makes a request, according to the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `null`: a sandbox, a local file, a redirect across sites. Any page can have this origin.
    Opaque,
    Site {
        /// Lower case, without `://`.
        scheme: String,
        /// As in [`Authority`].
        host: String,
        /// The default port is filled in for `http` and `https`, so `http://a` equals `http://a:80`.
        port: Option<u16>,
    },
}

/// Splits and decodes a request target in origin form (`/path?query`) or absolute form.
pub fn target_of(text: &str) -> Result<Target, &'static str> {
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("the target holds more than printable ASCII");
    }
    if text.contains('#') {
        return Err("the target has a fragment");
    }
    let (authority, local) = match text.get(..7) {
        Some(scheme) if scheme.eq_ignore_ascii_case("http://") => {
            let rest = &text[7..];
            let (authority, local) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let authority = host_of(authority).ok_or("the target names no proper host")?;
            (Some(authority), local)
        }
        _ if text.starts_with('/') => (None, text),
        _ => return Err("the target is not a path on this server"),
    };
    let (path, query) = local.split_once('?').unwrap_or((local, ""));
    Ok(Target { authority, path: path_of(path)?, query: query_of(query)? })
}

/// Parses `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`. None for anything else: user info, blanks, an empty port, a name with
/// invalid characters.
pub fn host_of(text: &str) -> Option<Authority> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (literal, port) = rest.split_once(']')?;
            let address: Ipv6Addr = literal.parse().ok()?;
            (address.to_string(), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_valid = name.len() <= 255 && is_name(name);
            (is_valid.then(|| name.to_ascii_lowercase())?, port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => Some(port_of(digits)?),
        None if port.is_empty() => None,
        None => return None,
    };
    Some(Authority { host, port })
}

/// Parses the value of an `Origin` field: `scheme://host[:port]` and nothing after it, or `null`.
pub fn origin_of(text: &str) -> Option<Origin> {
    if text == "null" {
        return Some(Origin::Opaque);
    }
    let (scheme, authority) = text.split_once("://")?;
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_part) {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let Authority { host, port } = host_of(authority)?;
    let own_port = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    Some(Origin::Site { scheme, host, port: port.or(own_port) })
}

fn path_of(text: &str) -> Result<String, &'static str> {
    let decoded = decode(text.as_bytes(), Plus::IsItself)?;
    let mut path = String::with_capacity(decoded.len() + 1);
    for segment in decoded.split('/').filter(|segment| !segment.is_empty()) {
        if matches!(segment, "." | "..") {
            return Err("the path has a dot segment");
        }
        path.push('/');
        path.push_str(segment);
    }
    if path.is_empty() {
        path.push('/');
    }
    Ok(path)
}

fn query_of(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    text.split('&')
        .filter(|piece| !piece.is_empty())
        .map(|piece| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            let name = decode(name.as_bytes(), Plus::IsSpace)?;
            Ok((name, decode(value.as_bytes(), Plus::IsSpace)?))
        })
        .collect()
}

/// The text without percent escapes. None if one is malformed or hides a control character.
pub fn decoded(text: &str) -> Option<String> {
    decode(text.as_bytes(), Plus::IsItself).ok()
}

#[derive(Clone, Copy)]
enum Plus {
    IsItself,
    IsSpace,
}

fn decode(text: &[u8], plus: Plus) -> Result<String, &'static str> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, plus) {
            (b'%', _) => {
                let [high, low, after @ ..] = after else {
                    return Err("a percent escape is cut short");
                };
                let digit = |b: u8| (b as char).to_digit(16);
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err("a percent escape is not hexadecimal");
                };
                ((high << 4 | low) as u8, after)
            }
            (b'+', Plus::IsSpace) => (b' ', after),
            (byte, Plus::IsSpace | Plus::IsItself) => (*byte, after),
        };
        out.push(byte);
        rest = after;
    }
    let text = String::from_utf8(out).map_err(|_| "a percent escape is not UTF-8")?;
    if text.contains(char::is_control) {
        return Err("a percent escape hides a control character");
    }
    Ok(text)
}

/// 1 to 65535 in digits only: no sign, no leading zero.
fn port_of(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (String, Vec<(String, String)>);

    fn parts(text: &str) -> Result<Parts, &'static str> {
        target_of(text).map(|target| (target.path, target.query))
    }

    fn path(text: &str) -> Result<String, &'static str> {
        parts(text).map(|(path, _)| path)
    }

    #[test]
    fn paths_have_one_spelling() {
        for (given, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("///?", "/"),
            ("/a", "/a"),
            ("/a/", "/a"),
            ("//v1//card//", "/v1/card"),
            ("/message%3Asend", "/message:send"),
            ("/a%2Fb%2f", "/a/b"),
            ("/a+b", "/a+b"),
            ("/%E2%82%AC/%c3%a9", "/€/é"),
            ("/...", "/..."),
            ("/.well-known/agent-card.json", "/.well-known/agent-card.json"),
            ("/a%25zz", "/a%zz"),
            ("/a%3Fb", "/a?b"),
        ] {
            assert_eq!(path(given), Ok(expected.to_owned()), "{given}");
        }
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        for (given, reason) in [
            ("/..", "the path has a dot segment"),
            ("/a/../b", "the path has a dot segment"),
            ("/a/./b", "the path has a dot segment"),
            ("/%2e%2E/b", "the path has a dot segment"),
            ("/a%2f..%2fb", "the path has a dot segment"),
            ("/%", "a percent escape is cut short"),
            ("/%4", "a percent escape is cut short"),
            ("/%4g", "a percent escape is not hexadecimal"),
            ("/%+1", "a percent escape is not hexadecimal"),
            ("/%ff", "a percent escape is not UTF-8"),
            ("/%c0%ae", "a percent escape is not UTF-8"),
            ("/%ed%a0%80", "a percent escape is not UTF-8"),
            ("/%00", "a percent escape hides a control character"),
            ("/a?b=%0d%0a", "a percent escape hides a control character"),
            ("/%7f", "a percent escape hides a control character"),
            ("/%c2%85", "a percent escape hides a control character"),
            ("/a#b", "the target has a fragment"),
            ("/é", "the target holds more than printable ASCII"),
            ("", "the target is not a path on this server"),
            ("a", "the target is not a path on this server"),
            ("*", "the target is not a path on this server"),
            ("host:80", "the target is not a path on this server"),
            ("https://a/", "the target is not a path on this server"),
            ("http://", "the target names no proper host"),
            ("http:///a", "the target names no proper host"),
            ("http://u@a/", "the target names no proper host"),
        ] {
            assert_eq!(target_of(given), Err(reason), "{given}");
        }
    }

    #[test]
    fn absolute_targets_name_their_server() {
        for (given, host, port, path) in [
            ("http://A.example", "a.example", None, "/"),
            ("HTTP://a:8080/b", "a", Some(8080), "/b"),
            ("http://[::1]:80?x", "::1", Some(80), "/"),
        ] {
            let target = target_of(given).expect(given);
            let host = host.to_owned();
            assert_eq!(target.authority, Some(Authority { host, port }), "{given}");
            assert_eq!(target.path, path, "{given}");
        }
    }

    #[test]
    fn queries_keep_order_and_repeats() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parts("/?b=2&a=1+%2B+1&&b&=x&c==?/"),
            Ok((
                "/".to_owned(),
                vec![pair("b", "2"), pair("a", "1 + 1"), pair("b", ""), pair("", "x"), pair("c", "=?/"),]
            ))
        );
    }

    #[test]
    fn hosts() {
        for (given, host, port) in [
            ("localhost", "localhost", None),
            ("LocalHost:41242", "localhost", Some(41242)),
            ("127.0.0.1:1", "127.0.0.1", Some(1)),
            ("a-b_c.example.:65535", "a-b_c.example.", Some(65535)),
            ("[::1]", "::1", None),
            ("[0:0:0:0:0:0:0:1]:80", "::1", Some(80)),
            ("[2001:DB8::A]:443", "2001:db8::a", Some(443)),
        ] {
            let host = host.to_owned();
            assert_eq!(host_of(given), Some(Authority { host, port }), "{given}");
        }
        for given in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:080",
            "a:+80",
            "a:65536",
            "a:8 0",
            "a:b",
            "a:80:80",
            "u@a",
            "u:p@a",
            "a b",
            " a",
            "a/",
            "a?b",
            "a#b",
            "a,b",
            "a%41",
            "é",
            ".",
            ".a",
            "a..b",
            "::1",
            "[::1",
            "[]",
            "[::1]80",
            "[::1]:",
            "[127.0.0.1]",
            "[::1%25lo]",
            "[fe80::1%lo]",
            "[::g]",
            "a\tb",
            "a\0",
        ] {
            assert_eq!(host_of(given), None, "{given:?}");
        }
        assert_eq!(host_of(&"a".repeat(256)), None);
    }

    #[test]
    fn origins() {
        let site = |scheme: &str, host: &str, port| {
            let (scheme, host) = (scheme.to_owned(), host.to_owned());
            Some(Origin::Site { scheme, host, port })
        };
        assert_eq!(origin_of("null"), Some(Origin::Opaque));
        assert_eq!(origin_of("http://localhost"), site("http", "localhost", Some(80)));
        assert_eq!(origin_of("http://localhost:80"), site("http", "localhost", Some(80)));
        assert_eq!(origin_of("HTTPS://[::1]"), site("https", "::1", Some(443)));
        assert_eq!(origin_of("vscode-webview://0ab"), site("vscode-webview", "0ab", None));
        for given in [
            "",
            "localhost",
            "http:",
            "http://",
            "://a",
            "1http://a",
            "http://a/",
            "http://a/b",
            "http://u@a",
            "http://a b",
            "file://",
            "NULL",
            "http://a http://b",
            "ht tp://a",
        ] {
            assert_eq!(origin_of(given), None, "{given:?}");
        }
    }
}
