//! One HTTP request and its complete response, for the clients of object stores and for Google's tokens.
//!
//! A successful response counts only if its whole body has arrived. Otherwise it is unknown whether a write was done.

use crate::base::clock::read_http_date;
use crate::bucket::{ATTEMPT_MS, BucketError, BucketErrorKind, Dated};
use crate::limits::bucket::{ANSWER_BYTES, BUFFER_BYTES, EXPLANATION_CHARS, IDLE_CONNECTIONS, IDLE_MS};
use std::io::Read;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, Request};
use ureq::tls::TlsConfig;
use ureq::{Agent, Proxy};

/// A request to an absolute URL.
pub struct Outgoing<'a> {
    pub method: &'static str,
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    /// `None` for methods that have no body.
    pub body: Option<&'a [u8]>,
    /// The longest allowed body of a successful response.
    pub max_bytes: usize,
    pub deadline: Instant,
}

/// A response with any status.
pub struct Received {
    pub status: u16,
    headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All values of a header field that may be repeated.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Adds the `Date` of this response to a value. A response without one is an error, because ages could not be measured.
    pub fn dated<T>(&self, value: T) -> Result<Dated<T>, BucketError> {
        match self.header("date").and_then(read_http_date) {
            Some(unix_ms) => Ok(Dated { value, unix_ms }),
            None => Err(unknown("the answer has no valid Date")),
        }
    }
}

/// Creates an agent for requests to one address. If the proxy cannot be used, fails with a message for the user.
pub fn agent(tls: TlsConfig, proxy: Option<&str>) -> Result<Agent, String> {
    let proxy = proxy.map(Proxy::new).transpose().map_err(|error| format!("the proxy cannot be used: {error}"))?;
    let config = Agent::config_builder()
        .tls_config(tls)
        .proxy(proxy)
        .http_status_as_error(false)
        .max_redirects(0)
        .input_buffer_size(BUFFER_BYTES)
        .output_buffer_size(BUFFER_BYTES)
        .max_response_header_size(BUFFER_BYTES)
        .max_idle_connections(IDLE_CONNECTIONS)
        .max_idle_connections_per_host(IDLE_CONNECTIONS)
        .max_idle_age(Duration::from_millis(IDLE_MS));
    Ok(config.build().new_agent())
}

/// The deadline of an operation that begins now.
pub fn deadline() -> Instant {
    Instant::now() + Duration::from_millis(ATTEMPT_MS)
}

/// Makes one attempt, which ends before the deadline. Error messages do not name the server; the caller adds it.
pub fn send(agent: &Agent, outgoing: &Outgoing<'_>) -> Result<Received, BucketError> {
    let left = outgoing.deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(unknown("no time was left for the request"));
    }
    let mut request = Request::builder().method(outgoing.method).uri(outgoing.url);
    for (name, value) in outgoing.headers {
        request = request.header(*name, *value);
    }
    let wrong = |error: ureq::http::Error| {
        BucketError::new(BucketErrorKind::Damaged, format!("the request cannot be sent: {error}"))
    };
    let answer = match outgoing.body {
        Some(body) => {
            let request = request.body(body).map_err(wrong)?;
            agent.run(agent.configure_request(request).timeout_global(Some(left)).build())
        }
        None => {
            let request = request.body(()).map_err(wrong)?;
            agent.run(agent.configure_request(request).timeout_global(Some(left)).build())
        }
    };
    let answer = answer.map_err(|error| unknown(format!("no answer: {error}")))?;
    let (head, body) = answer.into_parts();
    let mut received = Received { status: head.status.as_u16(), headers: head.headers, body: Vec::new() };
    let max_bytes = if received.is_success() { outgoing.max_bytes } else { ANSWER_BYTES };
    let read = body.into_reader().take(max_bytes as u64 + 1).read_to_end(&mut received.body);
    match read {
        Ok(_) if received.body.len() <= max_bytes => Ok(received),
        Ok(_) if received.is_success() => {
            Err(BucketError::new(BucketErrorKind::Damaged, format!("the answer is longer than {max_bytes} bytes")))
        }
        Err(error) if received.is_success() => Err(unknown(format!("the answer broke off: {error}"))),
        // For an error response the status is enough.
        Ok(_) | Err(_) => Ok(received),
    }
}

/// Puts what was attempted before the message of an error.
pub fn in_context(what: &str) -> impl Fn(BucketError) -> BucketError {
    move |error| BucketError { message: format!("{what}: {}", error.message), ..error }
}

pub fn unknown(message: impl Into<String>) -> BucketError {
    BucketError::new(BucketErrorKind::Unknown, message)
}

/// Makes a server's text a part of a message: one line of limited length.
pub fn explanation(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ").chars().take(EXPLANATION_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    /// Sends a request with a short deadline to a server that sends these bytes and keeps the connection open.
    fn against(bytes: &'static [u8]) -> Result<Received, BucketError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            connection.write_all(bytes).expect("it is read");
            // Ends when the client closes the connection.
            let _ = connection.read_to_end(&mut Vec::new());
        });
        let agent = agent(TlsConfig::default(), None).expect("an agent");
        let deadline = Instant::now() + Duration::from_millis(300);
        send(&agent, &Outgoing { method: "GET", url: &url, headers: &[], body: None, max_bytes: 4, deadline })
    }

    fn kind(bytes: &'static [u8]) -> Option<BucketErrorKind> {
        against(bytes).err().map(|error| error.kind)
    }

    #[test]
    fn an_answer_that_does_not_come_or_end_is_unknown() {
        for bytes in
            [&b""[..], b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", b"SSH-2.0-x\r\n\r\n"]
        {
            assert_eq!(kind(bytes), Some(BucketErrorKind::Unknown), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn the_limit_is_for_successful_answers() {
        let received = against(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd").expect("an answer");
        assert_eq!((received.status, &received.body[..]), (200, &b"abcd"[..]));
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"), Some(BucketErrorKind::Damaged));
        let received = against(b"HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\nabcde").expect("an answer");
        assert_eq!((received.status, &received.body[..]), (403, &b"abcde"[..]));
        let broken = against(b"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nabcde").expect("the status is enough");
        assert_eq!(broken.status, 503);
    }

    #[test]
    fn explanations_are_one_short_line() {
        assert_eq!(explanation(" a\r\n\tb\u{1b}[0m "), "a b [0m");
        assert_eq!(explanation(&"é".repeat(1_000)).chars().count(), EXPLANATION_CHARS);
    }
}
