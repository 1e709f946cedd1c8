//! AWS signatures: the published examples, and the signatures that botocore made for the recorded requests.

use crate::s3::{RECORDING, keys};
use gemini_a2a::shell::bucket::sigv4::{Signed, authorization};
use serde_json::Value;

/// The address of the emulator when the requests were signed.
const HOST: &str = "127.0.0.1:32010";

#[test]
fn every_recorded_signature_is_the_same() {
    let mut compared = 0;
    for line in RECORDING.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
        let name = line["name"].as_str().expect("a name");
        // These signatures are intentionally wrong.
        if ["auth-off-wrong-signature", "auth-on-wrong-signature", "auth-on-header-changed"].contains(&name) {
            continue;
        }
        let signing = if line["kind"] == "sigv4" { &line } else { &line["signing"] };
        let mut keys = keys(if line["kind"] == "sigv4" { &line["credentials"] } else { signing });
        keys.session = None;
        let request = &line["request"];
        let fields = request["headers"].as_object().expect("fields");
        let field = |name: &str| {
            let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.and_then(|(_, value)| value.as_str())
        };
        let given = field("authorization").expect("it is signed");
        let names = given.split("SignedHeaders=").nth(1).and_then(|rest| rest.split(',').next()).expect("names");
        let headers: Vec<(&str, &str)> = names
            .split(';')
            .map(|name| {
                (name, field(name).map(|value| if value == "{host}" { HOST } else { value }).expect("it is sent"))
            })
            .collect();
        let (path, query) = {
            let target = request["path"].as_str().expect("a path");
            target.split_once('?').unwrap_or((target, ""))
        };
        let payload = field("x-amz-content-sha256").expect("a hash");
        let signed =
            Signed { method: request["method"].as_str().expect("a method"), path, query, headers: &headers, payload };
        let text = |name: &str| signing[name].as_str().expect("a text");
        assert_eq!(authorization(&keys, text("region"), text("amz_date"), &signed), given, "{name}");
        compared += 1;
    }
    assert!(compared > 70, "{compared} signatures");
}
