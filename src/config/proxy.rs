//! Which proxy a request uses: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case.
//!
//! A loopback address never uses a proxy: for the proxy it would be another machine.

use crate::base::address::is_within;
use crate::base::secret::Secret;
use ::core::net::IpAddr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The addresses may contain passwords.
    https: Option<Secret>,
    http: Option<Secret>,
    except: Vec<String>,
}

impl Proxies {
    pub fn new(env: &dyn Fn(&str) -> Option<String>) -> Proxies {
        let either = |name: &str| {
            let found = env(name).filter(|value| !value.is_empty());
            found.or_else(|| env(&name.to_lowercase()).filter(|value| !value.is_empty()))
        };
        let except = either("NO_PROXY").unwrap_or_default();
        Proxies {
            https: either("HTTPS_PROXY").or_else(|| either("ALL_PROXY")).map(Secret::new),
            http: either("HTTP_PROXY").or_else(|| either("ALL_PROXY")).map(Secret::new),
            except: except
                .split([',', ' '])
                .map(|entry| entry.trim().to_lowercase())
                .filter(|entry| !entry.is_empty())
                .collect(),
        }
    }

    /// The proxy for a URL; None connects directly.
    pub fn to(&self, url: &str) -> Option<&str> {
        let (scheme, rest) = url.split_once("://")?;
        let (proxy, port) = match scheme.to_ascii_lowercase().as_str() {
            "https" => (self.https.as_ref()?, "443"),
            "http" => (self.http.as_ref()?, "80"),
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let authority = authority.rsplit('@').next().unwrap_or(authority);
        let (host, given) = split_port(authority);
        let host = host.trim_end_matches('.').to_lowercase();
        let port = given.unwrap_or(port);
        let excepted = || self.except.iter().any(|entry| matches(entry, &host, port));
        (!is_loopback(&host) && !excepted()).then_some(proxy.reveal())
    }
}

/// Splits `host:port` or `[v6]:port`, with or without a port. The brackets of an address are removed.
fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some(inside) = text.strip_prefix('[') {
        let (host, rest) = inside.split_once(']').unwrap_or((inside, ""));
        return (host, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        // An IPv6 address without brackets has several colons and no port.
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

/// Whether an entry of `NO_PROXY` matches: `*`, a host and its subdomains, an address, or a range `10.0.0.0/8`; each may have a port.
fn matches(entry: &str, host: &str, port: &str) -> bool {
    if entry == "*" {
        return true;
    }
    if let (Some((network, prefix)), Ok(address)) = (entry.split_once('/'), host.parse()) {
        let network = network.parse().ok().zip(prefix.parse().ok());
        return network.is_some_and(|(network, prefix)| is_within(address, network, prefix));
    }
    let (name, wanted) = split_port(entry);
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let name = name.strip_prefix('*').unwrap_or(name).trim_start_matches('.');
    if name.is_empty() {
        return false;
    }
    // An address has no parent domains.
    if let Ok(address) = host.parse::<IpAddr>() {
        return name.parse() == Ok(address);
    }
    let above = host.strip_suffix(name);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(env: &[(&str, &str)]) -> Proxies {
        Proxies::new(&|name| {
            let given = env.iter().find(|(known, _)| *known == name);
            given.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn the_scheme_chooses_and_loopback_is_direct() {
        let both = proxies(&[("HTTPS_PROXY", "http://s:1"), ("http_proxy", "http://p:1")]);
        assert_eq!(both.to("https://a.com/x"), Some("http://s:1"));
        assert_eq!(both.to("HTTP://a.com"), Some("http://p:1"));
        for url in [
            "http://127.0.0.1:80/",
            "https://localhost",
            "http://u:p@[::1]:9/x",
            "http://127.9.9.9",
            "http://x.localhost./",
            "ftp://a.com",
            "nonsense",
        ] {
            assert_eq!(both.to(url), None, "{url}");
        }
        let all = proxies(&[("ALL_PROXY", "http://all:1"), ("HTTP_PROXY", "")]);
        assert_eq!(all.to("https://a.com"), Some("http://all:1"));
        assert_eq!(proxies(&[]).to("https://a.com"), None);
        let secret = proxies(&[("HTTPS_PROXY", "http://u:s3cret@p:1")]);
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn exceptions_use_no_proxy() {
        for (entry, host, direct) in [
            ("*", "a.com", true),
            ("a.com", "a.com", true),
            ("a.com", "b.a.com", true),
            (".a.com", "b.a.com", true),
            ("*.a.com", "b.a.com", true),
            ("A.com", "a.COM.", true),
            ("a.com", "ba.com", false),
            ("a.com", "a.com.evil", false),
            ("x, a.com", "a.com", true),
            ("a.com:443", "a.com", true),
            ("a.com:444", "a.com", false),
            ("a.com:444", "a.com:444", true),
            ("10.0.0.0/8", "10.9.8.7", true),
            ("10.0.0.0/8", "11.9.8.7", false),
            ("10.0.0.0/33", "10.9.8.7", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("10.1.2.3", "10.1.2.3:8080", true),
            ("1.2.3", "0.1.2.3", false),
            ("fd00::/8", "[fd12::1]", true),
            ("fe80::1", "[fe80:0::1]:80", true),
            (".", "a.com", false),
        ] {
            let proxies = proxies(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", entry)]);
            let url = format!("https://{host}/x");
            assert_eq!(proxies.to(&url).is_none(), direct, "{entry} {host}");
        }
    }
}
