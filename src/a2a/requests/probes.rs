//! The probes `/live` and `/ready`. Their answers say nothing about tasks, so they need no credential.

use crate::base::http::Response;
use crate::base::text::words::words;
use serde_json::json;

words! {
    /// Why the server is not ready for requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Unready {
        /// Tasks cannot be stored.
        Store = "store",
        /// The credentials cannot be read.
        Credentials = "credentials",
        /// The keys of the identity provider cannot be fetched.
        Identity = "identity",
        /// The audit cannot be written.
        Audit = "audit",
        /// Jobs wait for threads.
        Lanes = "lanes",
        /// The server is about to end.
        Draining = "draining",
    }
}

/// The answer to `GET /live`. It shows only that the event loop runs, because a restart would help with no other problem.
pub fn live() -> Response {
    uncached(200, &json!({ "live": true }))
}

/// The answer to `GET /ready`.
pub fn ready(why: &[Unready]) -> Response {
    if why.is_empty() {
        return uncached(200, &json!({ "ready": true }));
    }
    let words: Vec<&str> = why.iter().map(|why| why.word()).collect();
    uncached(503, &json!({ "ready": false, "why": words }))
}

fn uncached(status: u16, body: &serde_json::Value) -> Response {
    Response::json(status, body.to_string().into_bytes()).with("Cache-Control", "no-store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_for_not_being_ready() {
        let ready_now = ready(&[]);
        assert_eq!((ready_now.status, &*ready_now.body), (200, &b"{\"ready\":true}"[..]));
        let unready = ready(&Unready::ALL);
        assert_eq!(unready.status, 503);
        assert_eq!(
            std::str::from_utf8(&unready.body).expect("text"),
            r#"{"ready":false,"why":["store","credentials","identity","audit","lanes","draining"]}"#
        );
        assert!(unready.headers.contains(&("Cache-Control", "no-store".to_owned())));
        assert_eq!(live().status, 200);
    }
}
