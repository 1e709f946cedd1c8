//! The agent card: what the server can do, said once and truthfully. It holds the members of both protocol generations, so that
//! clients of either find their way, but declares only what is served.

use crate::a2a::words::RESUME;
use crate::base::Shared;
use crate::base::clock::http_date;
use crate::base::crc::crc32;
use crate::base::http::{Request, Response};
use crate::base::json;
use serde_json::json;

/// The card encoded, with what identifies this edition of it.
pub struct Card {
    pub body: Shared,
    pub etag: String,
    pub last_modified: String,
}

/// `base_url` is where clients reach the server, from the configuration: what a request claims in `Host` is not to be
/// trusted with it. `unix_ms` is when the card came to be.
pub fn card(base_url: &str, version: &str, unix_ms: u64) -> Card {
    let url = format!("{}/", base_url.trim_end_matches('/'));
    let card = json!({
        "name": "Gemini SDLC Agent",
        "description": "Writes and edits code and runs commands in a workspace, asking before it changes anything.",
        "version": version,
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{ "url": url, "transport": "JSONRPC" }],
        "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3" }],
        "capabilities": {
            "streaming": true,
            "pushNotifications": false,
            "stateTransitionHistory": true,
            "extendedAgentCard": false,
            "extensions": [{
                "uri": RESUME,
                "description": "Every streamed event has an id; tasks/resubscribe with Last-Event-ID, or ?after=, continues \
                                behind it.",
                "required": false,
            }],
        },
        "supportsAuthenticatedExtendedCard": false,
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{
            "id": "code_generation",
            "name": "Code Generation",
            "description": "Generates and edits code in the workspace and runs tools, streaming what it does.",
            "tags": ["code", "development", "programming"],
        }],
    });
    let body = json::bytes(&card);
    Card {
        etag: format!("\"{:08x}\"", crc32(&body)),
        last_modified: http_date(unix_ms),
        body: body.into(),
    }
}

impl Card {
    /// The answer to a request for the card; 304 when the client has this edition.
    pub fn answer(&self, request: &Request) -> Response {
        let known = request
            .headers
            .all("if-none-match")
            .flat_map(|list| list.split(','))
            .map(|tag| tag.trim())
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag);
        let response = if known {
            Response::empty(304)
        } else {
            Response {
                status: 200,
                headers: vec![("Content-Type", "application/json".into())],
                body: self.body.clone(),
            }
        };
        response
            .with("Cache-Control", "public, max-age=300")
            .with("ETag", self.etag.as_str())
            .with("Last-Modified", self.last_modified.as_str())
            .with("Vary", "A2A-Version")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::http::Method;
    use serde_json::Value;

    fn ours() -> Card {
        card("http://localhost:41242", "0.1.0", 784_111_777_000)
    }

    #[test]
    fn it_declares_what_is_served_and_nothing_else() {
        let card: Value = serde_json::from_slice(&ours().body).unwrap();
        let url = "http://localhost:41242/";
        assert_eq!(card["url"], url);
        assert_eq!(
            card["supportedInterfaces"],
            json!([{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}])
        );
        assert_eq!(
            card["additionalInterfaces"],
            json!([{"url": url, "transport": "JSONRPC"}])
        );
        assert_eq!(card["protocolVersion"], "0.3.0");
        assert_eq!(card["version"], "0.1.0");
        assert_eq!(card["capabilities"]["streaming"], true);
        assert_eq!(card["capabilities"]["pushNotifications"], false);
        assert_eq!(card["capabilities"]["extensions"][0]["uri"], RESUME);
        assert_eq!(card["capabilities"]["extensions"][0]["required"], false);
        for absent in ["securitySchemes", "security", "securityRequirements"] {
            assert_eq!(card.get(absent), None);
        }
        assert_eq!(card["skills"].as_array().map(Vec::len), Some(1));
        let trailing = super::card("http://localhost:41242/", "0.1.0", 0);
        assert_eq!(trailing.body, ours().body);
    }

    #[test]
    fn who_has_it_is_told_so() {
        let card = ours();
        let mut request = sample::post("/.well-known/agent-card.json", "");
        request.method = Method::Get;
        let whole = card.answer(&request);
        assert_eq!((whole.status, &whole.body), (200, &card.body));
        let held = [
            ("Cache-Control", "public, max-age=300".into()),
            ("ETag", card.etag.clone()),
            ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT".into()),
            ("Vary", "A2A-Version".into()),
        ];
        assert_eq!(whole.headers[1..], held);
        for (tag, status) in [
            (card.etag.clone(), 304),
            (format!("\"x\", W/{}", card.etag), 304),
            ("*".into(), 304),
            ("\"x\"".into(), 200),
        ] {
            request.headers = Default::default();
            request.headers.push("If-None-Match", &tag);
            let answer = card.answer(&request);
            assert_eq!(answer.status, status, "{tag}");
            assert_eq!(answer.body.is_empty(), status == 304);
        }
        assert_ne!(
            card.etag,
            super::card("http://localhost:1", "0.1.0", 0).etag
        );
    }
}
