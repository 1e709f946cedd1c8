//! The options that decide who may connect, `--access` and others, and the combinations of them that are refused.

use crate::base::secret::Secret;
use crate::config::listen::Listen;
use crate::limits::access::ENVIRONMENT_TOKEN_CHARS;
use crate::task::access::AccessMode;
use ::core::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// None: `local`, or `token` on Cloud Run.
    pub mode: Option<AccessMode>,
    /// None: in the state directory.
    pub credentials: Option<PathBuf>,
    /// A token that the environment gives.
    pub token: Option<Secret>,
    /// Clients with credentials share the live session, too.
    pub shared_session: bool,
    /// The URL by which clients reach the server, if it is behind a proxy.
    pub public_url: Option<PublicUrl>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub proxies: Vec<(IpAddr, u32)>,
    /// The file that says whose tokens name subjects.
    pub identity: Option<PathBuf>,
    /// The name of the service on Cloud Run; None elsewhere.
    pub platform: Option<String>,
}

/// The URL of the server behind a proxy: a scheme and a host, perhaps with a port and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// With a slash at its end.
    pub url: String,
    pub host: String,
    pub origin: String,
}

impl AccessSettings {
    pub fn mode(&self) -> AccessMode {
        let platform = if self.platform.is_some() { AccessMode::Token } else { AccessMode::Local };
        self.mode.unwrap_or(platform)
    }

    /// A warning if tokens are sent unencrypted over the network.
    pub fn warning(&self, listens: &[Listen]) -> Option<String> {
        let address = wide(listens).filter(|_| self.mode() == AccessMode::Token)?;
        Some(format!(
            "{address} can be reached from other machines, and this server has no TLS: tokens and conversations can be read on \
             the way. Put a proxy with TLS in front of it, or listen on 127.0.0.1"
        ))
    }

    /// Refuses combinations that would let everybody in who can connect. The address of an inherited listener is checked when it is
    /// opened.
    pub fn check(&self, listens: &[Listen]) -> Result<(), String> {
        if let Some(token) = &self.token
            && token.reveal().chars().count() < ENVIRONMENT_TOKEN_CHARS
        {
            return Err(format!(
                "A2A_TOKEN is shorter than {ENVIRONMENT_TOKEN_CHARS} characters and could be guessed; make one with: \
                 openssl rand -hex 32"
            ));
        }
        if self.mode() == AccessMode::Token {
            return Ok(());
        }
        let wide = wide(listens);
        let needs_token = |what: String| {
            Err(format!(
                "{what}: with --access local clients are known by their process, which is only possible on this machine. Use \
                 --access token, and make a credential with: gemini-a2a token add"
            ))
        };
        match (wide, &self.public_url, self.proxies.is_empty()) {
            (Some(address), _, _) => needs_token(format!("{address} is not a loopback address")),
            (None, Some(_), _) => needs_token("--public-url means that a proxy is in front of the server".into()),
            (None, None, false) => needs_token("--trusted-proxy means that a proxy is in front of the server".into()),
            (None, None, true) => Ok(()),
        }
    }
}

/// The first address that other machines can connect to.
fn wide(listens: &[Listen]) -> Option<&SocketAddr> {
    listens.iter().find_map(|listen| match listen {
        Listen::Tcp(address) if !address.ip().is_loopback() => Some(address),
        Listen::Tcp(_) | Listen::Unix(_) | Listen::Inherited => None,
    })
}

/// A network as `ADDR/PREFIX`, or a single address.
pub fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok())?;
    (prefix <= longest).then_some((address, prefix))
}

pub fn public_url(text: &str) -> Option<PublicUrl> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    let authority = rest.split('/').next().filter(|authority| !authority.is_empty())?;
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#' | '\\' | '"' | '<' | '>');
    if !rest.chars().all(is_plain) {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    let url = format!("{scheme}://{}/", rest.trim_end_matches('/'));
    Some(PublicUrl { url, host: host.to_lowercase(), origin: format!("{scheme}://{}", authority.to_lowercase()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::listen;

    #[test]
    fn a_server_that_others_can_reach_needs_credentials() {
        let listens = |text: &str| vec![listen::parse(text).expect(text)];
        let local = AccessSettings::default();
        let token = AccessSettings { mode: Some(AccessMode::Token), ..AccessSettings::default() };
        for (place, is_warned) in
            [("127.0.0.1:80", false), ("[::1]:80", false), ("unix:/x", false), ("0.0.0.0:80", true)]
        {
            let warning = token.warning(&listens(place));
            assert_eq!(warning.is_some_and(|text| text.contains("TLS")), is_warned, "{place}");
            assert_eq!(local.warning(&listens(place)), None);
        }
        for loopback in ["127.0.0.1:80", "[::1]:80", "127.8.9.1:0", "unix:/x"] {
            assert_eq!(local.check(&listens(loopback)), Ok(()), "{loopback}");
        }
        for remote in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
            let error = local.check(&listens(remote)).expect_err(remote);
            assert!(error.contains("is not a loopback address") && error.contains("--access token"), "{error}");
            assert_eq!(token.check(&listens(remote)), Ok(()), "{remote}");
        }
        let public = AccessSettings { public_url: public_url("https://a.example"), ..AccessSettings::default() };
        assert!(public.check(&[]).expect_err("local").contains("--public-url"));
        let proxied = AccessSettings { proxies: vec![network("10.0.0.0/8").expect("it is one")], ..local };
        assert!(proxied.check(&[]).expect_err("local").contains("--trusted-proxy"));
    }

    #[test]
    fn cloud_run_means_tokens() {
        let on_platform = AccessSettings { platform: Some("s".into()), ..AccessSettings::default() };
        assert_eq!(on_platform.mode(), AccessMode::Token);
        assert_eq!(AccessSettings::default().mode(), AccessMode::Local);
    }

    #[test]
    fn a_token_from_the_environment_has_a_minimum_length() {
        let with = |token: &str| AccessSettings { token: Some(Secret::new(token)), ..AccessSettings::default() };
        assert_eq!(with(&"x".repeat(32)).check(&[]), Ok(()));
        assert!(with(&"x".repeat(31)).check(&[]).expect_err("short").contains("A2A_TOKEN is shorter than 32"));
    }

    #[test]
    fn networks_and_public_urls_are_parsed() {
        assert_eq!(network("10.0.0.0/8"), Some(("10.0.0.0".parse().expect("one"), 8)));
        assert_eq!(network("::1").map(|(_, prefix)| prefix), Some(128));
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/"] {
            assert_eq!(network(wrong), None, "{wrong}");
        }
        let url = public_url("https://Agent.Example:8443/a").expect("it is one");
        assert_eq!((url.url.as_str(), url.host.as_str()), ("https://Agent.Example:8443/a/", "agent.example"));
        assert_eq!(url.origin, "https://agent.example:8443");
        assert_eq!(public_url("http://[::1]:80").map(|url| url.host), Some("::1".into()));
        for wrong in ["", "agent.example", "ftp://a", "https://", "https://u@a", "https://a b", "https://a?x"] {
            assert_eq!(public_url(wrong), None, "{wrong}");
        }
    }
}
