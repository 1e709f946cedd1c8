//! The file of `--identity`: the issuer whose JSON Web Tokens identify subjects, and the rights of these subjects.

use crate::task::access::jwt::{self, Rules};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentitySettings {
    /// The header field with the token, in lower case.
    pub header: String,
    /// The URL of the issuer's keys.
    pub jwks: String,
    pub rules: Rules,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kind: String,
    header: String,
    issuer: String,
    audience: String,
    jwks: String,
    subject: String,
    rights: BTreeMap<String, Vec<String>>,
}

impl IdentitySettings {
    /// The URL of the issuer's OpenID configuration.
    pub fn discovery(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.rules.issuer.trim_end_matches('/'))
    }

    /// Reads the content of the file. The error says what is wrong.
    pub fn parse(text: &[u8]) -> Result<IdentitySettings, String> {
        let file: File = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if file.kind != "jwt" {
            return Err(format!("the kind \"{}\" is unknown; it has to be jwt", file.kind));
        }
        for (name, value) in [("issuer", &file.issuer), ("audience", &file.audience), ("subject", &file.subject)] {
            if value.is_empty() {
                return Err(format!("{name} is empty"));
            }
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if file.header.is_empty() || !file.header.bytes().all(is_name) {
            return Err("header has to be the name of a header field".into());
        }
        if !is_safe(&file.jwks) {
            return Err("jwks has to be an address with https://, or one of this machine".into());
        }
        let mut rights = Vec::new();
        for (pattern, words) in file.rights {
            if pattern.is_empty() || pattern[1..].contains('*') {
                return Err(format!("\"{pattern}\": * stands at the beginning only, such as *@example.com"));
            }
            rights.push((pattern, jwt::rights(&words)?));
        }
        let rules = Rules { issuer: file.issuer, audience: file.audience, subject: file.subject, rights };
        Ok(IdentitySettings { header: file.header.to_ascii_lowercase(), jwks: file.jwks, rules })
    }
}

/// Whether the keys can be fetched safely: with TLS, or from this machine. Otherwise an attacker could replace them.
fn is_safe(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = || host == "localhost" || host.parse().is_ok_and(|ip: ::core::net::IpAddr| ip.is_loopback());
    let is_plain = !host.is_empty() && !authority.contains('@') && url.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain && (scheme == "https" || (scheme == "http" && is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn file() -> Value {
        json!({"kind": "jwt", "header": "X-Goog-IAP-JWT-Assertion", "issuer": "https://cloud.google.com/iap",
            "audience": "/projects/1", "jwks": "https://www.gstatic.com/iap/verify/public_key-jwk", "subject": "email",
            "rights": {"*@example.com": ["view"], "ann@example.com": ["prompt", "approve"]}})
    }

    #[test]
    fn a_file_is_read() {
        let read = IdentitySettings::parse(file().to_string().as_bytes()).expect("settings");
        assert_eq!(read.header, "x-goog-iap-jwt-assertion");
        assert_eq!(read.rules.rights.len(), 2);
        assert_eq!(read.discovery(), "https://cloud.google.com/iap/.well-known/openid-configuration");
    }

    #[test]
    fn mistakes_in_the_file_are_reported() {
        for (name, value, words) in [
            ("kind", json!("saml"), "has to be jwt"),
            ("header", json!("a b"), "header"),
            ("issuer", json!(""), "issuer is empty"),
            ("jwks", json!("http://example.com/keys"), "https://"),
            ("jwks", json!("http://localhost.example/keys"), "https://"),
            ("jwks", json!("http://user@localhost/keys"), "https://"),
            ("rights", json!({"a*": ["view"]}), "at the beginning"),
            ("rights", json!({"*": ["veiw"]}), "veiw"),
            ("other", json!(1), "unknown field"),
        ] {
            let mut file = file();
            file[name] = value;
            let error = IdentitySettings::parse(file.to_string().as_bytes()).expect_err(words);
            assert!(error.contains(words), "{error}");
        }
        for loopback in ["http://localhost:7/k", "http://127.0.0.1/k", "http://[::1]:7/k"] {
            assert!(is_safe(loopback), "{loopback}");
        }
    }
}
