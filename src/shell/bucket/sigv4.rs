//! AWS Signature Version 4 for S3: the path is encoded once and not normalised, and the hash of the payload is a header field.

use crate::base::clock::rfc3339;
use crate::base::secret::Secret;
use crate::task::log::blob::sha256;
use ring::hmac;

/// Static keys, and the session token if they are temporary.
#[derive(Clone, Debug)]
pub struct Keys {
    pub id: String,
    pub secret: Secret,
    pub session: Option<Secret>,
}

/// The parts of a request that are signed.
pub struct Signed<'a> {
    pub method: &'a str,
    /// Percent-encoded.
    pub path: &'a str,
    /// Percent-encoded, without `?`, in any order.
    pub query: &'a str,
    /// `host` and `x-amz-date` are among them. The names may be in any case and order.
    pub headers: &'a [(&'a str, &'a str)],
    /// The SHA-256 of the body in hexadecimal digits, as in `x-amz-content-sha256`.
    pub payload: &'a str,
}

/// `20261117T030000Z`, the form of `x-amz-date`.
pub fn amz_date(unix_ms: u64) -> String {
    let text = rfc3339(unix_ms);
    format!("{}Z", text[..19].replace(['-', ':'], ""))
}

/// The value of the field `Authorization`.
pub fn authorization(keys: &Keys, region: &str, amz_date: &str, signed: &Signed<'_>) -> String {
    let day = amz_date.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/s3/aws4_request");
    let (canonical, names) = canonical_request(signed);
    let to_sign = format!("AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let first = hmac(format!("AWS4{}", keys.secret.reveal()).as_bytes(), day);
    let key = [region, "s3", "aws4_request"].iter().fold(first, |key, part| hmac(key.as_ref(), part));
    let signature: String = hmac(key.as_ref(), &to_sign).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id)
}

fn hmac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// The canonical form of the request, and the names of its header fields.
fn canonical_request(signed: &Signed<'_>) -> (String, String) {
    let mut query: Vec<(&str, &str)> = signed
        .query
        .split('&')
        .filter(|piece| !piece.is_empty())
        .map(|piece| piece.split_once('=').unwrap_or((piece, "")))
        .collect();
    query.sort_unstable();
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let value = |value: &str| value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut headers: Vec<(String, String)> =
        signed.headers.iter().map(|(name, given)| (name.to_ascii_lowercase(), value(given))).collect();
    headers.sort_unstable();
    let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let (method, path, payload) = (signed.method, signed.path, signed.payload);
    (format!("{method}\n{path}\n{}\n{lines}\n{names}\n{payload}", query.join("&")), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_no_separators() {
        assert_eq!(amz_date(1_794_884_400_999), "20261117T030000Z");
    }

    /// The example "GET Object" of the Amazon S3 API reference. The signatures that other programs made are in `tests/bucket.rs`.
    #[test]
    fn the_published_example() {
        let keys = Keys {
            id: "TESTKEYID0001EXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            session: None,
        };
        let payload = sha256(b"");
        let headers = [
            ("Host", "examplebucket.s3.amazonaws.com"),
            ("Range", "bytes=0-9"),
            ("x-amz-content-sha256", &payload),
            ("x-amz-date", "20130524T000000Z"),
        ];
        let signed = Signed { method: "GET", path: "/test.txt", query: "", headers: &headers, payload: &payload };
        let value = authorization(&keys, "us-east-1", "20130524T000000Z", &signed);
        let expected = "AWS4-HMAC-SHA256 Credential=TESTKEYID0001EXAMPLE/20130524/us-east-1/s3/aws4_request, \
            SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
            Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert_eq!(value, expected);
    }
}
