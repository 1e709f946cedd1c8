//! HTTP requests and responses as values: read and written by `wire`, used by routes and dialects.

use crate::base::Shared;
use crate::base::text::words::words;

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Method {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Delete = "DELETE",
        Options = "OPTIONS",
        Patch = "PATCH",
        /// A valid method that no route serves.
        Other = "OTHER",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// Header fields in the order of the message. Names are lower case; values are trimmed and have no control bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.to_ascii_lowercase(), value.to_owned()));
    }

    /// The first value of a field; `name` is lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The elements of a comma-separated list that may be spread over several fields; empty ones are skipped (RFC 9110 §5.6.1).
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let elements = self.all(name).flat_map(|value| value.split(','));
        elements.map(|element| element.trim_matches([' ', '\t'])).filter(|element| !element.is_empty())
    }

    /// Whether the list of [`Headers::list`] contains a word, ignoring case.
    pub fn lists(&self, name: &str, word: &str) -> bool {
        self.list(name).any(|element| element.eq_ignore_ascii_case(word))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

/// A complete and valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Percent-decoded, without repeated slashes, and without a trailing slash unless it is `/`.
    pub path: String,
    /// Decoded query parameters in order.
    pub query: Vec<(String, String)>,
    pub version: Version,
    pub headers: Headers,
    pub body: Vec<u8>,
    /// Whether the connection may serve another request afterwards.
    pub keep_alive: bool,
}

impl Request {
    /// A query parameter by its exact name.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A complete response. Streams do not use this type: they have a head and then frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Without `Content-Length`, `Date` and `Connection`, which the writer adds.
    pub headers: Vec<(&'static str, String)>,
    pub body: Shared,
}

impl Response {
    pub fn json(status: u16, body: Vec<u8>) -> Response {
        Response { status, headers: vec![("Content-Type", "application/json".into())], body: body.into() }
    }

    pub fn empty(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Shared::from([]) }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }
}
