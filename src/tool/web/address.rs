//! Checks the URLs that a tool fetches: only public hosts are allowed.
//!
//! A page on the internet, or a model that has read one, must not reach hosts that only this machine can reach: its own services, the local
//! network, the cloud's metadata server. `base::address` says which addresses those are. The addresses of a name are checked when a
//! connection is made, by `tool/public_hosts.rs`; this file checks a URL without resolving its host.

use crate::base::address::{Host, host};
use crate::limits::URL_BYTES;
use crate::tool::public_hosts::AddressRule;
use std::fmt;
use ureq::http::Uri;

/// A URL that may be fetched, unless its host resolves to a forbidden address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(Uri);

/// Why a URL may not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The URL is invalid or has a part that tools do not support.
    Malformed(String),
    /// The host is not on the public internet.
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
    pub fn parse(text: &str, rule: AddressRule) -> Result<Url, Wrong> {
        let malformed = |what: &str| Wrong::Malformed(format!("{text}: {what}"));
        if text.len() > URL_BYTES {
            let start: String = text.chars().take(60).collect();
            return Err(Wrong::Malformed(format!("{start}…: longer than {URL_BYTES} bytes")));
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
        let is_public = match host(authority.host()) {
            Ok(Host::Address(address)) => rule(address),
            Ok(Host::Name { local }) => !local,
            Err(what) => return Err(malformed(what)),
        };
        if !is_public {
            return Err(Wrong::Private(format!("{text}: not on the public internet")));
        }
        Ok(Url(uri))
    }

    /// The target of a redirection from this URL.
    pub fn join(&self, target: &str, rule: AddressRule) -> Result<Url, Wrong> {
        let scheme = self.0.scheme_str().unwrap_or("https");
        let host = self.0.authority().map_or("", |authority| authority.as_str());
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
        Url::parse(&absolute, rule)
    }

    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// The host in lower case, for counting visits.
    pub fn host(&self) -> String {
        self.0.host().unwrap_or_default().to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::public_hosts::is_public;

    const PRIVATE: &[&str] = &[
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

    const MALFORMED: &[&str] = &[
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

    fn parsed(text: &str) -> String {
        match Url::parse(text, is_public) {
            Ok(url) => format!("ok {url}"),
            Err(Wrong::Malformed(_)) => "malformed".into(),
            Err(Wrong::Private(_)) => "private".into(),
        }
    }

    #[test]
    fn only_well_formed_urls_of_public_hosts_are_accepted() {
        let accepted = [
            ("https://example.com", "ok https://example.com/"),
            ("HTTP://Example.COM:8080/a?b=c#d", "ok http://Example.COM:8080/a?b=c"),
            ("https://8.8.8.8/", "ok https://8.8.8.8/"),
            ("https://[2606:4700::1]:443/x", "ok https://[2606:4700::1]:443/x"),
            ("https://example.com./", "ok https://example.com./"),
            ("https://1.example/", "ok https://1.example/"),
        ];
        for (text, expected) in accepted {
            assert_eq!(parsed(text), expected);
        }
        for text in PRIVATE {
            assert_eq!(parsed(text), "private", "{text}");
        }
        for text in MALFORMED {
            assert_eq!(parsed(text), "malformed", "{text}");
        }
        let long = |n: usize| format!("https://example.com/{}", "a".repeat(n - 20));
        assert!(parsed(&long(URL_BYTES)).starts_with("ok"));
        assert_eq!(parsed(&long(URL_BYTES + 1)), "malformed");
    }

    #[test]
    fn redirections_are_relative_to_their_url_and_checked() {
        let from = Url::parse("https://example.com:8443/a/b?c", is_public).unwrap();
        let to = |target: &str| from.join(target, is_public).map(|url| url.to_string());
        let host = "https://example.com:8443";
        assert_eq!(to("/x"), Ok(format!("{host}/x")));
        assert_eq!(to("x?y#z"), Ok(format!("{host}/a/x?y")));
        assert_eq!(to("?y"), Ok(format!("{host}/a/b?y")));
        assert_eq!(to("//other.test/x"), Ok("https://other.test/x".into()));
        assert_eq!(to("http://other.test"), Ok("http://other.test/".into()));
        for target in
            ["http://127.0.0.1/", "//localhost/x", "http://[::1]/", "http://2130706433/", "file:///etc/passwd"]
        {
            assert!(to(target).is_err(), "{target}");
        }
    }
}
