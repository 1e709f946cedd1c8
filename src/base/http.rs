//! HTTP messages as values: what the wire reads and writes, and what routes and dialects look at.

use crate::base::Shared;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    /// A well-formed method we do not serve anywhere.
    Other,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Patch => "PATCH",
            Method::Other => "OTHER",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// Header fields in the order they came; names are lower case, values are trimmed and hold no control bytes.
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

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

/// A whole request: head checked, body complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Percent-decoded, repeated slashes collapsed, no trailing slash (but `/` itself).
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

/// A whole answer. Streams are not responses: they have a head and then frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Beyond `Content-Length`, `Date` and `Connection`, which the writer adds.
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
