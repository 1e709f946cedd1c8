//! Checks the URL of a webhook: a client must not be able to make the server connect to addresses that only the server can reach. The
//! addresses of a host name are checked when a delivery connects, because they can change at any time.

use crate::a2a::switches::PushRules;
use crate::base::address::{self, Host, is_public};
use crate::limits::URL_BYTES;

/// The host of a webhook's URL, and the check that a delivery makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookHost {
    /// The host in lower case, without a trailing dot.
    pub host: String,
    /// Every address of the host must be public.
    pub public_only: bool,
}

impl PushRules {
    /// Checks a URL. The error is the rest of a sentence that begins with the name of the field, as in "url must …".
    pub fn check(&self, url: &str) -> Result<WebhookHost, String> {
        if url.len() > URL_BYTES {
            return Err(format!("must not be longer than {URL_BYTES} bytes."));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains(['\\', '"', '<', '>']) {
            return Err("must be a URL in ASCII; encode other characters.".into());
        }
        if url.contains('#') {
            return Err("must not have a fragment; leave out what begins with #.".into());
        }
        let (is_plain, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (true, rest),
            Some(_) | None => return Err("must be an absolute https URL.".into()),
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("must not hold a user name or password; use authentication.".into());
        }
        let (name, port) = split(authority)?;
        let host = name.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
        let is_allowed = self.allow_hosts.iter().any(|allowed| {
            let allowed = allowed.strip_suffix('.').unwrap_or(allowed);
            allowed.eq_ignore_ascii_case(&host)
        });
        let allows_http = self.allow_http || self.allow_private || is_allowed;
        if is_plain && !allows_http {
            return Err(
                "must be an https URL; the operator can allow others with --push-allow-http or --push-allow-host."
                    .into(),
            );
        }
        let public_only = !self.allow_private && !is_allowed;
        let public = match address::host(name) {
            Ok(Host::Address(address)) => is_public(address),
            Ok(Host::Name { local }) => !local,
            Err(what) => return Err(format!("must name a host: {what}.")),
        };
        if public_only && !public {
            return Err(
                "must be on the public internet; the operator can allow other hosts with --push-allow-host.".into()
            );
        }
        match port {
            None | Some(443 | 1024..) => {}
            Some(80) if allows_http => {}
            Some(_) => return Err("must use port 443, or one from 1024 on.".into()),
        }
        Ok(WebhookHost { host, public_only })
    }
}

/// Host and port.
fn split(authority: &str) -> Result<(&str, Option<u16>), String> {
    // The colons of an IPv6 address are inside brackets.
    let end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match authority[end..].find(':') {
        Some(colon) => (&authority[..end + colon], &authority[end + colon + 1..]),
        None => (authority, ""),
    };
    if host.is_empty() {
        return Err("must name a host.".into());
    }
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits => Ok((host, Some(port))),
        _ => Err("must have a valid port.".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(rules: &PushRules, url: &str) -> String {
        match rules.check(url) {
            Ok(place) if place.public_only => format!("ok {}", place.host),
            Ok(place) => format!("ok {} anywhere", place.host),
            Err(what) => what.split([' ', ':']).take(3).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn receivers_on_the_public_internet_over_tls() {
        let rules = PushRules::default();
        for (url, host) in [
            ("https://client.example/a2a", "client.example"),
            ("https://client.example", "client.example"),
            ("https://client.example?x=1", "client.example"),
            ("HTTPS://Client.EXAMPLE:443/a?b=c%20d", "client.example"),
            ("https://client.example.:8443/", "client.example"),
            ("https://client.example:/", "client.example"),
            ("https://client.example:1024/", "client.example"),
            ("https://client.example:65535/", "client.example"),
            ("https://8.8.8.8/", "8.8.8.8"),
            ("https://[2606:4700::1]/", "[2606:4700::1]"),
            ("https://[2606:4700::1]:8443/", "[2606:4700::1]"),
            ("https://[::ffff:8.8.8.8]/", "[::ffff:8.8.8.8]"),
            ("https://1.client.example/", "1.client.example"),
            ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
            ("https://localhost.client.example/", "localhost.client.example"),
            ("https://internal.client.example/", "internal.client.example"),
        ] {
            assert_eq!(says(&rules, url), format!("ok {host}"), "{url}");
        }
    }

    const NOT_PUBLIC: &str = "must be on";
    const NOT_A_HOST: &str = "must name a";

    /// URLs that are refused by default, and the beginning of the reason.
    const REFUSED: &[(&str, &str)] = &[
        // Another scheme than HTTPS.
        ("http://client.example/", "must be an"),
        ("ftp://client.example/", "must be an"),
        ("file:///etc/passwd", "must be an"),
        ("gopher://client.example/", "must be an"),
        ("//client.example/", "must be an"),
        ("client.example", "must be an"),
        ("javascript:alert(1)", "must be an"),
        ("", "must be an"),
        // Malformed.
        ("https://", NOT_A_HOST),
        ("https:///a", NOT_A_HOST),
        ("https://:443/", NOT_A_HOST),
        ("https://user@client.example/", "must not hold"),
        ("https://user:secret@client.example/", "must not hold"),
        ("https://client.example@127.0.0.1/", "must not hold"),
        ("https://client.example/#top", "must not have"),
        ("https://client.example\\@127.0.0.1/", "must be a"),
        ("https://client .example/", "must be a"),
        ("https://client.example/\r\nX: y", "must be a"),
        ("https://bücher.example/", "must be a"),
        ("https://１２７.0.0.1/", "must be a"),
        ("https://127。0。0。1/", "must be a"),
        ("https://client..example/", NOT_A_HOST),
        ("https://%6c%6f%63alhost/", NOT_A_HOST),
        ("https://[::1/", "must have a"),
        ("https://[::1]x/", NOT_A_HOST),
        ("https://[fe80::1%25eth0]/", NOT_A_HOST),
        ("https://client.example:x/", "must have a"),
        ("https://client.example:+443/", "must have a"),
        ("https://client.example:65536/", "must have a"),
        ("https://client.example:0/", "must use port"),
        ("https://client.example:22/", "must use port"),
        ("https://client.example:80/", "must use port"),
        ("https://client.example:1023/", "must use port"),
        // Names of this machine and of its network.
        ("https://localhost/", NOT_PUBLIC),
        ("https://LOCALHOST./", NOT_PUBLIC),
        ("https://a.localhost/", NOT_PUBLIC),
        ("https://printer.local/", NOT_PUBLIC),
        ("https://metadata.google.internal/", NOT_PUBLIC),
        // IPv4 addresses that are not public.
        ("https://127.0.0.1/", NOT_PUBLIC),
        ("https://127.255.255.254/", NOT_PUBLIC),
        ("https://0.0.0.0/", NOT_PUBLIC),
        ("https://10.1.2.3:8443/", NOT_PUBLIC),
        ("https://172.16.0.1/", NOT_PUBLIC),
        ("https://172.31.255.255/", NOT_PUBLIC),
        ("https://192.168.1.1/", NOT_PUBLIC),
        ("https://100.64.0.1/", NOT_PUBLIC),
        ("https://169.254.169.254/latest/meta-data/", NOT_PUBLIC),
        ("https://192.0.0.1/", NOT_PUBLIC),
        ("https://192.0.2.1/", NOT_PUBLIC),
        ("https://198.18.0.1/", NOT_PUBLIC),
        ("https://198.51.100.1/", NOT_PUBLIC),
        ("https://203.0.113.1/", NOT_PUBLIC),
        ("https://224.0.0.1/", NOT_PUBLIC),
        ("https://255.255.255.255/", NOT_PUBLIC),
        // IPv6 addresses that are not public, or that hold such an IPv4 address.
        ("https://[::]/", NOT_PUBLIC),
        ("https://[::1]/", NOT_PUBLIC),
        ("https://[::ffff:127.0.0.1]/", NOT_PUBLIC),
        ("https://[::ffff:7f00:1]/", NOT_PUBLIC),
        ("https://[::127.0.0.1]/", NOT_PUBLIC),
        ("https://[64:ff9b::7f00:1]/", NOT_PUBLIC),
        ("https://[64:ff9b::10.0.0.1]/", NOT_PUBLIC),
        ("https://[2002:7f00:1::]/", NOT_PUBLIC),
        ("https://[2002:a9fe:a9fe::1]/", NOT_PUBLIC),
        ("https://[fc00::1]/", NOT_PUBLIC),
        ("https://[fd00:ec2::254]/", NOT_PUBLIC),
        ("https://[fe80::1]/", NOT_PUBLIC),
        ("https://[ff02::1]/", NOT_PUBLIC),
        ("https://[2001:db8::1]/", NOT_PUBLIC),
        // Spellings of an IPv4 address that only some programs accept.
        ("https://127.1/", NOT_A_HOST),
        ("https://127.0.1/", NOT_A_HOST),
        ("https://2130706433/", NOT_A_HOST),
        ("https://0177.0.0.1/", NOT_A_HOST),
        ("https://017700000001/", NOT_A_HOST),
        ("https://0x7f.0.0.1/", NOT_A_HOST),
        ("https://0X7F000001/", NOT_A_HOST),
        ("https://0x7f000001/", NOT_A_HOST),
        ("https://127.0.0.1./", NOT_A_HOST),
        ("https://256.256.256.256/", NOT_A_HOST),
        ("https://1.2.3.4.5/", NOT_A_HOST),
    ];

    #[test]
    fn urls_that_are_not_public_https_are_refused() {
        let rules = PushRules::default();
        for (url, reason) in REFUSED {
            let answer = says(&rules, url);
            assert!(answer.starts_with(reason), "{url}: {answer}");
        }
        let long = |n: usize| format!("https://client.example/{}", "a".repeat(n - 23));
        assert_eq!(says(&rules, &long(URL_BYTES)), "ok client.example");
        assert_eq!(says(&rules, &long(URL_BYTES + 1)), "must not be");
    }

    #[test]
    fn hosts_that_the_operator_allows() {
        let http = PushRules { allow_http: true, ..PushRules::default() };
        assert_eq!(says(&http, "http://client.example/"), "ok client.example");
        assert_eq!(says(&http, "http://client.example:80/"), "ok client.example");
        assert_eq!(says(&http, "http://client.example:81/"), "must use port");
        assert_eq!(says(&http, "http://127.0.0.1:8080/"), "must be on");

        let hosts = PushRules { allow_hosts: vec!["CI.internal.".into(), "10.0.0.7".into()], ..PushRules::default() };
        assert_eq!(says(&hosts, "http://ci.internal:8080/"), "ok ci.internal anywhere");
        assert_eq!(says(&hosts, "https://Ci.Internal./"), "ok ci.internal anywhere");
        assert_eq!(says(&hosts, "http://10.0.0.7/"), "ok 10.0.0.7 anywhere");
        assert_eq!(says(&hosts, "https://a.ci.internal/"), "must be on");
        assert_eq!(says(&hosts, "http://client.example/"), "must be an");
        assert_eq!(says(&hosts, "https://10.0.0.8/"), "must be on");

        let anywhere = PushRules { allow_private: true, ..PushRules::default() };
        let ok = "ok localhost anywhere";
        assert_eq!(says(&anywhere, "http://localhost:9999/webhook"), ok);
        assert_eq!(says(&anywhere, "http://[::1]:9999/"), "ok [::1] anywhere");
        assert_eq!(says(&anywhere, "http://127.1:9999/"), "must name a");
        assert_eq!(says(&anywhere, "http://u@localhost:9999/"), "must not hold");
        assert_eq!(says(&anywhere, "ftp://localhost:9999/"), "must be an");
    }
}
