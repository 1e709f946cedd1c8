//! JSON Web Tokens of a proxy that authenticates its users: RS256 and ES256, checked with the keys that the issuer publishes. A token is
//! refused unless every check succeeds.

use super::{Principal, Right, Rights};
use crate::base::id::Subject;
use crate::limits::access::{JWT_BYTES, JWT_CONNECTION_MS, JWT_KEYS, JWT_LEEWAY_MS, SUBJECT_CHARS};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// What tokens must contain, and which rights their subjects have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub issuer: String,
    pub audience: String,
    /// The claim that names the subject.
    pub subject: String,
    /// Rights by subject; a `*` at the beginning of a subject matches any text.
    pub rights: Vec<(String, Rights)>,
}

/// A public key of the issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    id: String,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

/// Why a token is not accepted. Clients do not get the reason, because it would help to forge a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    Form,
    Algorithm,
    /// No key has this id; the issuer may have new keys.
    UnknownKey,
    Signature,
    Issuer,
    Audience,
    Expired,
    NotYet,
    Subject,
    NotVerified,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// The issuer of Identity-Aware Proxy, whose tokens have only verified addresses.
const IAP: &str = "https://cloud.google.com/iap";

/// The usable keys of a key set. A set without any is an error.
pub fn keys(text: &[u8]) -> Result<Vec<Key>, String> {
    let set: Value = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let all = set["keys"].as_array().ok_or("it has no member keys")?;
    let keys: Vec<Key> = all.iter().filter_map(Key::read).take(JWT_KEYS).collect();
    if keys.is_empty() { Err("it has no key for RS256 or ES256".into()) } else { Ok(keys) }
}

impl Key {
    fn read(key: &Value) -> Option<Key> {
        let is_for = |name: &str, wanted: &str| key[name].is_null() || key[name] == *wanted;
        let bytes = |name: &str| key[name].as_str().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let material = match key["kty"].as_str()? {
            "RSA" if is_for("alg", "RS256") => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            "EC" if is_for("alg", "ES256") && key["crv"] == "P-256" => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                (x.len() == 32 && y.len() == 32).then_some(Material::P256(point))?
            }
            _ => return None,
        };
        is_for("use", "sig").then_some(Key { id: key["kid"].as_str()?.to_owned(), material })
    }

    fn algorithm(&self) -> &'static str {
        match self.material {
            Material::Rsa { .. } => "RS256",
            Material::P256(_) => "ES256",
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
        }
    }
}

/// The prefix of the credential of a principal that a token names; its subject follows.
pub const CREDENTIAL: &str = "jwt:";

/// Whether a text has the form of a token: three parts with dots between them.
pub fn is_token(text: &str) -> bool {
    text.len() <= JWT_BYTES && text.split('.').count() == 3
}

/// The subject of a token with its rights, and when the token expires, in Unix milliseconds.
pub fn verify(token: &str, keys: &[Key], rules: &Rules, unix_ms: u64) -> Result<(Principal, u64), Defect> {
    if !is_token(token) {
        return Err(Defect::Form);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(Defect::Form)?;
    let (header, claims) = signed.split_once('.').ok_or(Defect::Form)?;
    let part = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| Defect::Form);
    let header: Header = serde_json::from_slice(&part(header)?).map_err(|_| Defect::Form)?;
    if !matches!(header.alg.as_str(), "RS256" | "ES256") || header.crit.is_some() {
        return Err(Defect::Algorithm);
    }
    let kid = header.kid.ok_or(Defect::UnknownKey)?;
    let key = keys.iter().find(|key| key.id == kid).ok_or(Defect::UnknownKey)?;
    if key.algorithm() != header.alg {
        return Err(Defect::Algorithm);
    }
    if !key.verifies(signed.as_bytes(), &part(signature)?) {
        return Err(Defect::Signature);
    }
    let claims: Value = serde_json::from_slice(&part(claims)?).map_err(|_| Defect::Form)?;
    rules.check(&claims, unix_ms)
}

impl Rules {
    fn check(&self, claims: &Value, unix_ms: u64) -> Result<(Principal, u64), Defect> {
        if claims["iss"] != *self.issuer {
            return Err(Defect::Issuer);
        }
        let audiences = claims["aud"].as_array().map_or(std::slice::from_ref(&claims["aud"]), Vec::as_slice);
        if !audiences.iter().any(|audience| *audience == *self.audience) {
            return Err(Defect::Audience);
        }
        let time = |name: &str| match &claims[name] {
            Value::Null => Ok(None),
            seconds => seconds.as_f64().map(|seconds| Some((seconds * 1_000.0) as u64)).ok_or(Defect::Form),
        };
        let expires = time("exp")?.ok_or(Defect::Expired)?;
        if unix_ms >= expires.saturating_add(JWT_LEEWAY_MS) {
            return Err(Defect::Expired);
        }
        for begin in [time("nbf")?, time("iat")?].into_iter().flatten() {
            if begin > unix_ms.saturating_add(JWT_LEEWAY_MS) {
                return Err(Defect::NotYet);
            }
        }
        let subject = self.subject_of(claims)?;
        let principal = self.principal_of(subject).ok_or(Defect::Subject)?;
        // An expiry in the far future is shortened, so that timers do not overflow.
        let until = expires.saturating_add(JWT_LEEWAY_MS).min(unix_ms.saturating_add(JWT_CONNECTION_MS));
        Ok((Principal { until: Some(until), ..principal }, expires))
    }

    /// A subject with the rights that it has. None if no token may name it.
    pub fn principal_of(&self, subject: &str) -> Option<Principal> {
        if !is_subject(subject) {
            return None;
        }
        let rights = self.rights.iter().filter(|(pattern, _)| fits(pattern, subject));
        let rights = rights.fold(Rights::NONE, |all, (_, rights)| all.union(*rights));
        let credential: Arc<str> = format!("{CREDENTIAL}{subject}").into();
        Some(Principal { subject: subject.into(), credential: Some(credential), rights, ..Principal::nobody() })
    }

    fn subject_of<'a>(&self, claims: &'a Value) -> Result<&'a str, Defect> {
        let subject = claims[&self.subject].as_str().ok_or(Defect::Subject)?;
        if !is_subject(subject) {
            return Err(Defect::Subject);
        }
        if self.subject == "email" {
            if subject.matches('@').count() != 1 {
                return Err(Defect::Subject);
            }
            if claims["email_verified"] != true && self.issuer != IAP {
                return Err(Defect::NotVerified);
            }
        }
        Ok(subject)
    }
}

/// Whether a token may name this subject. The names of the operator and of clients without a credential are reserved.
fn is_subject(subject: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@._-".contains(&byte);
    let is_reserved =
        Subject::from(subject).is_operator() || subject.eq_ignore_ascii_case("operator") || subject == "nobody";
    !subject.is_empty() && subject.len() <= SUBJECT_CHARS && subject.bytes().all(is_plain) && !is_reserved
}

fn fits(pattern: &str, subject: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => subject.ends_with(end),
        None => subject == pattern,
    }
}

/// Parses the rights in a configuration file.
pub fn rights(words: &[String]) -> Result<Rights, String> {
    let right = |word: &String| Right::from_word(word).ok_or_else(|| format!("there is no right \"{word}\""));
    words.iter().map(right).collect()
}

#[cfg(test)]
pub mod tests;
