//! URLs of servers. A URL may contain secrets (user name, password, query), so only the part without them is ever shown.

use crate::base::address::{Host, host, is_public};
use crate::base::secret::Secret;
use crate::limits::URL_BYTES;
use crate::wire::uri::{Origin, origin_of};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    whole: Secret,
    origin: Origin,
    /// `scheme://host:port` as it is written, without user name and password.
    base: String,
    path: String,
    has_user: bool,
}

impl Url {
    /// Parses an absolute http or https URL. The error is the end of a sentence that begins with the name of the setting: "must …".
    pub fn parse(text: &str) -> Result<Url, String> {
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"' | '<' | '>');
        if text.len() > URL_BYTES || !text.chars().all(is_plain) {
            return Err(format!("must be a URL in ASCII of at most {URL_BYTES} bytes"));
        }
        let text = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = text.split_once("://").ok_or("must be a URL that begins with http:// or https://")?;
        if !["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
            return Err("must be a URL that begins with http:// or https://".into());
        }
        let (authority, local) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        let base = format!("{}://{place}", scheme.to_ascii_lowercase());
        let origin = origin_of(&base).ok_or("must name a host")?;
        let path = local.split('?').next().filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
        Ok(Url { whole: Secret::new(text), origin, base, path, has_user: user.is_some() })
    }

    /// Resolves a reference against this URL: the endpoint that a server names, or the target of a redirection. The result must have the same
    /// origin.
    pub fn join(&self, reference: &str) -> Result<Url, String> {
        let scheme = self.base.split("://").next().unwrap_or_default();
        let folder = &self.path[..self.path.rfind('/').map_or(0, |slash| slash + 1)];
        let absolute = match reference {
            _ if reference.split(['/', '?']).next().is_some_and(|first| first.contains(':')) => reference.to_owned(),
            _ if reference.starts_with("//") => format!("{scheme}:{reference}"),
            _ if reference.starts_with('/') => format!("{}{reference}", self.base),
            _ if reference.starts_with('?') => format!("{}{}{reference}", self.base, self.path),
            _ => format!("{}{folder}{reference}", self.base),
        };
        let joined = Url::parse(&absolute).map_err(|why| format!("the server named an address that {why}"))?;
        match joined.origin == self.origin && !joined.has_user {
            true => Ok(joined),
            false => {
                Err(format!("the server named {}, which is not at {}; it is not visited", joined.shown(), self.base))
            }
        }
    }

    /// The URL without user name, password and query.
    pub fn shown(&self) -> String {
        format!("{}{}", self.base, self.path)
    }

    /// Scheme, host and port as they are written.
    pub fn site(&self) -> &str {
        &self.base
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn has_origin_of(&self, other: &Url) -> bool {
        self.origin == other.origin
    }

    /// Whether the host is an address or a name that is not on the public internet. Other names may still resolve to private addresses.
    pub fn is_private(&self) -> bool {
        match self.host() {
            Ok(Host::Address(address)) => !is_public(address),
            Ok(Host::Name { local }) => local,
            Err(_) => false,
        }
    }

    /// The whole URL, for the code that connects.
    pub fn whole(&self) -> &Secret {
        &self.whole
    }

    /// The parts that are never shown: user name with password, and the values of the query.
    pub fn secrets(&self) -> Vec<Secret> {
        let text = self.whole.reveal();
        let user = text.split("://").nth(1).and_then(|rest| rest.split(['/', '?']).next()?.rsplit_once('@'));
        let user = user.into_iter().flat_map(|(user, _)| user.split(':'));
        let query = text.split_once('?').into_iter().flat_map(|(_, query)| query.split(['&', '=']));
        user.chain(query).map(Secret::new).collect()
    }

    pub fn has_user(&self) -> bool {
        self.has_user
    }

    pub fn is_https(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// The host and the port, which may be the default of the scheme.
    pub fn host_and_port(&self) -> (&str, u16) {
        match &self.origin {
            Origin::Site { host, port, .. } => (host, port.unwrap_or(if self.is_https() { 443 } else { 80 })),
            Origin::Opaque => ("", 0),
        }
    }

    /// Whether the host is written as an address.
    pub fn is_address(&self) -> bool {
        matches!(self.host(), Ok(Host::Address(_)))
    }

    fn host(&self) -> Result<Host, &'static str> {
        let (name, _) = self.host_and_port();
        if name.contains(':') { host(&format!("[{name}]")) } else { host(name) }
    }

    /// Whether the host is a loopback address or `localhost`.
    pub fn is_loopback(&self) -> bool {
        match self.host() {
            Ok(Host::Address(address)) => address.is_loopback(),
            Ok(Host::Name { .. }) => matches!(self.host_and_port().0, "localhost" | "localhost."),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    #[test]
    fn only_the_beginning_of_a_url_is_shown() {
        let secret = url("https://user:passw0rd@Example.org:8443/mcp/x?api_key=s3cret-key#f");
        assert_eq!(secret.shown(), "https://Example.org:8443/mcp/x");
        assert!(!format!("{secret:?}").contains("s3cret") && !format!("{secret:?}").contains("passw0rd"));
        assert_eq!(secret.whole().reveal(), "https://user:passw0rd@Example.org:8443/mcp/x?api_key=s3cret-key");
        assert_eq!(secret.secrets(), ["user", "passw0rd", "api_key", "s3cret-key"].map(Secret::new));
        assert_eq!(secret.host_and_port(), ("example.org", 8443));
        for wrong in ["", "x", "ftp://h/", "http://", "http://a b/", "http:///x", "http://é/", "file:///x"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Url::parse(&format!("http://h/{}", "x".repeat(URL_BYTES - 9))).is_ok());
        assert!(Url::parse(&format!("http://h/{}", "x".repeat(URL_BYTES - 8))).is_err());
    }

    #[test]
    fn check_20_references_stay_at_their_origin() {
        let base = url("http://h:1/a/sse?x=1");
        for (reference, expected) in [
            ("/message?sessionId=1", Some("http://h:1/message?sessionId=1")),
            ("messages/", Some("http://h:1/a/messages/")),
            ("?s=1", Some("http://h:1/a/sse?s=1")),
            ("http://H:1/m", Some("http://H:1/m")),
            ("//h:1/m", Some("http://h:1/m")),
            ("http://h:2/m", None),
            ("https://h:1/m", None),
            ("//other/m", None),
            ("http://u@h:1/m", None),
            ("file:/etc/passwd", None),
            ("javascript:x", None),
        ] {
            let joined = base.join(reference).ok();
            assert_eq!(joined.as_ref().map(|url| url.whole().reveal()), expected, "{reference}");
        }
        assert!(url("http://h/").join("http://h:80/x").is_ok(), "the default port may be written");
    }

    #[test]
    fn which_hosts_are_private() {
        for (text, expected) in [
            ("http://localhost:1/", true),
            ("http://10.0.0.1/", true),
            ("http://[fd00::1]/", true),
            ("http://x.internal/", true),
            ("https://example.org/", false),
            ("https://8.8.8.8/", false),
        ] {
            assert_eq!(url(text).is_private(), expected, "{text}");
        }
    }

    #[test]
    fn which_hosts_are_this_machine() {
        for (text, expected) in [
            ("http://localhost:1/", true),
            ("http://127.0.0.9/", true),
            ("http://[::1]/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
            ("http://0.0.0.0/", false),
        ] {
            assert_eq!(url(text).is_loopback(), expected, "{text}");
        }
    }
}
