//! Tests of JSON Web Tokens, and an issuer for tests of other modules.

use super::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

/// A public key and tokens made with Python's `cryptography`; the private key was not kept.
const RSA: &str = include_str!("rsa.json");
const NOW: u64 = 1_800_000_000_000;

/// An issuer with a key of its own.
pub struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
    kid: String,
}

impl Issuer {
    pub fn new(kid: &str) -> Issuer {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).expect("a key");
        Issuer { key, random, kid: kid.into() }
    }

    pub fn jwk(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "x": part(&point[1..33]), "y": part(&point[33..])})
    }

    pub fn keys(&self) -> Vec<Key> {
        keys(json!({ "keys": [self.jwk()] }).to_string().as_bytes()).expect("keys")
    }

    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.key.sign(&self.random, signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    pub fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.kid}), claims)
    }
}

pub fn rules() -> Rules {
    let rights = |words: &[Right]| words.iter().copied().collect::<Rights>();
    Rules {
        issuer: "https://issuer.example".into(),
        audience: "here".into(),
        subject: "email".into(),
        rights: vec![
            ("*@example.com".into(), rights(&[Right::View])),
            ("ann@example.com".into(), rights(&[Right::Prompt])),
        ],
    }
}

pub fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "here", "email": "ann@example.com", "email_verified": true,
        "iat": NOW / 1_000, "nbf": NOW / 1_000, "exp": NOW / 1_000 + 600})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().expect("claims").remove(name)),
        value => claims[name] = value,
    }
    claims
}

#[test]
fn both_algorithms_are_accepted() {
    let issuer = Issuer::new("ec-1");
    let (principal, expires) = verify(&issuer.token(&claims()), &issuer.keys(), &rules(), NOW).expect("a subject");
    assert_eq!((principal.subject, expires), (Subject::from("ann@example.com"), NOW + 600_000));
    assert_eq!(principal.credential.as_deref(), Some("jwt:ann@example.com"));
    assert_eq!(principal.until, Some(NOW + 660_000), "streams end then");
    assert_eq!(principal.rights, [Right::View, Right::Prompt].into_iter().collect());
    let vectors: Value = serde_json::from_str(RSA).expect("JSON");
    let keys = keys(json!({ "keys": [vectors["jwk"]] }).to_string().as_bytes()).expect("keys");
    let token = vectors["RS256"].as_str().expect("a token");
    assert!(verify(token, &keys, &rules(), NOW).is_ok());
    let changed = format!("{}A{}", &token[..token.len() - 10], &token[token.len() - 9..]);
    assert_eq!(verify(&changed, &keys, &rules(), NOW).err(), Some(Defect::Signature));
    let pss = vectors["PS256"].as_str().expect("a token");
    assert_eq!(verify(pss, &keys, &rules(), NOW).err(), Some(Defect::Algorithm));
    let bob = with("email", json!("bob@example.com"));
    let bob = verify(&issuer.token(&bob), &issuer.keys(), &rules(), NOW).expect("a subject").0;
    assert_eq!(bob.rights, Rights::NONE.and(Right::View));
    let eve = with("email", json!("eve@example.org"));
    let eve = verify(&issuer.token(&eve), &issuer.keys(), &rules(), NOW).expect("a subject").0;
    assert_eq!(eve.rights, Rights::NONE);
}

#[test]
fn every_wrong_claim_is_refused() {
    let issuer = Issuer::new("ec-1");
    let seconds = NOW / 1_000;
    for (name, value, expected) in [
        ("iss", json!("https://issuer.example/"), Defect::Issuer),
        ("iss", Value::Null, Defect::Issuer),
        ("aud", json!("there"), Defect::Audience),
        ("aud", json!(["there", "HERE"]), Defect::Audience),
        ("aud", Value::Null, Defect::Audience),
        ("exp", json!(seconds - 60), Defect::Expired),
        ("exp", Value::Null, Defect::Expired),
        ("exp", json!("soon"), Defect::Form),
        ("nbf", json!(seconds + 61), Defect::NotYet),
        ("iat", json!(seconds + 61), Defect::NotYet),
        ("email", json!("operator"), Defect::Subject),
        ("email", json!("ann@example.com@example.org"), Defect::Subject),
        ("email", json!("ann bob@example.com"), Defect::Subject),
        ("email", json!("a".repeat(200) + "@example.com"), Defect::Subject),
        ("email", Value::Null, Defect::Subject),
        ("email_verified", json!(false), Defect::NotVerified),
        ("email_verified", json!("true"), Defect::NotVerified),
        ("email_verified", Value::Null, Defect::NotVerified),
    ] {
        let token = issuer.token(&with(name, value.clone()));
        assert_eq!(verify(&token, &issuer.keys(), &rules(), NOW).err(), Some(expected), "{name} {value}");
    }
    for (name, value) in [("exp", json!(seconds - 59)), ("nbf", json!(seconds + 60)), ("aud", json!(["x", "here"]))] {
        let token = issuer.token(&with(name, value.clone()));
        assert!(verify(&token, &issuer.keys(), &rules(), NOW).is_ok(), "{name} {value}");
    }
    let by_id = Rules { subject: "sub".into(), ..rules() };
    let operator = issuer.token(&with("sub", json!("operator")));
    assert_eq!(verify(&operator, &issuer.keys(), &by_id, NOW).err(), Some(Defect::Subject));
    let iap = Rules { issuer: IAP.into(), ..rules() };
    let mut unverified = with("email_verified", Value::Null);
    unverified["iss"] = IAP.into();
    assert!(verify(&issuer.token(&unverified), &issuer.keys(), &iap, NOW).is_ok());
}

#[test]
fn every_wrong_form_signature_and_algorithm_is_refused() {
    let (issuer, other) = (Issuer::new("ec-1"), Issuer::new("ec-1"));
    let keys = issuer.keys();
    let check = |token: &str| verify(token, &keys, &rules(), NOW).err();
    assert_eq!(check(&other.token(&claims())), Some(Defect::Signature), "another's key of the same id");
    assert_eq!(check(&Issuer::new("ec-2").token(&claims())), Some(Defect::UnknownKey));
    assert_eq!(check(&issuer.sign(&json!({"alg": "ES256"}), &claims())), Some(Defect::UnknownKey));
    for alg in ["none", "NONE", "HS256", "RS256", "PS256", "ES384", "EdDSA", ""] {
        let token = issuer.sign(&json!({"alg": alg, "kid": "ec-1"}), &claims());
        assert_eq!(check(&token), Some(Defect::Algorithm), "{alg}");
    }
    let critical = issuer.sign(&json!({"alg": "ES256", "kid": "ec-1", "crit": ["b64"]}), &claims());
    assert_eq!(check(&critical), Some(Defect::Algorithm));
    let token = issuer.token(&claims());
    let (signed, signature) = token.rsplit_once('.').expect("a token");
    let (header, _) = signed.split_once('.').expect("a token");
    let eve = URL_SAFE_NO_PAD.encode(with("email", json!("eve@example.com")).to_string());
    assert_eq!(check(&format!("{header}.{eve}.{signature}")), Some(Defect::Signature));
    assert_eq!(check(&format!("{signed}.")), Some(Defect::Signature));
    for wrong in ["", "a.b", "a.b.c", &format!("{token}.x"), signed, &format!("{token}="), &"a.b.".repeat(4_000)] {
        assert_eq!(check(wrong), Some(Defect::Form), "{wrong}");
    }
}

#[test]
fn keys_that_cannot_be_used_are_left_out() {
    let good = Issuer::new("ec-1").jwk();
    let changed = |name: &str, value: Value| {
        let mut key = good.clone();
        key[name] = value;
        key
    };
    let wrong = [
        changed("crv", json!("P-384")),
        changed("alg", json!("ES384")),
        changed("use", json!("enc")),
        changed("kty", json!("oct")),
        changed("kid", Value::Null),
        changed("x", json!("AAAA")),
        changed("y", json!("?")),
    ];
    for key in &wrong {
        assert!(keys(json!({ "keys": [key] }).to_string().as_bytes()).is_err(), "{key}");
    }
    let mut all = wrong.to_vec();
    all.push(good);
    assert_eq!(keys(json!({ "keys": all }).to_string().as_bytes()).map(|keys| keys.len()), Ok(1));
    for text in ["", "{", "[]", "{}", r#"{"keys":7}"#, r#"{"keys":[]}"#] {
        assert!(keys(text.as_bytes()).is_err(), "{text}");
    }
}
