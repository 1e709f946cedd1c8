//! Deliveries to webhooks, one POST each, on threads of their own lane.
//!
//! The URL was sent by a client, so it is checked before every attempt, and so is every address that its host has then; the
//! connection is made to one of these addresses. Redirections are not followed and proxies not used, because the addresses that they
//! lead to were not checked. Only the status of the response is used, so that a client cannot read with the server's help what it cannot
//! reach itself. An error tells the owner of the webhook what happened and contains neither secrets nor parts of the response.

use crate::a2a::PushRules;
use crate::a2a::push::WebhookHost;
use crate::core::Input;
use crate::core::webhooks::{Delivery, DeliveryError, Retry};
use crate::limits::Limits;
use crate::shell::workers::jobs::{Jobs, WorkerMessage};
use crate::shell::workers::lanes::Lane;
use crate::tool::public_hosts::{CheckedResolver, is_public};
use std::io::{self, Read};
use std::time::Duration;
use ureq::Agent;
use ureq::http::Response;
use ureq::http::header::RETRY_AFTER;
use ureq::tls::TlsConfig;
use ureq::unversioned::transport::DefaultConnector;

/// Sends deliveries to the receivers of webhooks.
pub struct Webhooks {
    tls: TlsConfig,
    rules: PushRules,
}

impl Webhooks {
    pub fn new(tls: TlsConfig, rules: PushRules) -> Webhooks {
        Webhooks { tls, rules }
    }

    /// Makes one attempt.
    pub fn deliver(&self, delivery: Delivery, limits: &Limits) -> Result<(), DeliveryError> {
        let body = delivery.body()?;
        let Delivery { url, headers, .. } = delivery;
        let host = self.rules.check(&url);
        let host = host.map_err(|what| never(format!("not sent: its url {what}")))?;
        let agent = self.agent(&host, limits);
        let mut request = agent.post(&url);
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        let response = request.send(&body[..]).map_err(|e| failed(&e))?;
        let verdict = judge(&response);
        // An error in the rest of the response does not matter.
        let rest = response.into_body().into_reader();
        let _ = io::copy(&mut rest.take(limits.webhook_reply_bytes), &mut io::sink());
        verdict
    }

    /// An agent for one attempt. It checks the addresses of the host before it connects.
    fn agent(&self, host: &WebhookHost, limits: &Limits) -> Agent {
        let config = Agent::config_builder()
            .tls_config(self.tls.clone())
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_millis(limits.webhook_ms)))
            .max_response_header_size(limits.model_buffer_bytes)
            .user_agent(concat!("gemini-a2a/", env!("CARGO_PKG_VERSION")))
            .build();
        let judged = if host.public_only { CheckedResolver::new(is_public) } else { CheckedResolver::new(|_| true) };
        Agent::with_parts(config, DefaultConnector::default(), judged)
    }
}

impl Jobs {
    /// Starts one attempt to deliver an update.
    pub fn deliver(&mut self, delivery: Delivery) {
        let Delivery { task, hook, seq, .. } = delivery.clone();
        let answer = move |result| WorkerMessage::Input(Input::Delivered { task, hook, seq, result });
        let failed = answer.clone();
        self.ask(
            Lane::Hook,
            move |context| answer(context.webhooks.deliver(delivery, &context.settings.limits)),
            move |error| failed(Err(again(error.message))),
        );
    }
}

fn never(message: String) -> DeliveryError {
    DeliveryError { retry: Retry::Never, message }
}

fn again(message: String) -> DeliveryError {
    DeliveryError { retry: Retry::Again { after_ms: None }, message }
}

/// Whether a response means that the delivery has succeeded.
fn judge<B>(response: &Response<B>) -> Result<(), DeliveryError> {
    let status = response.status().as_u16();
    let message = format!("the receiver answered with status {status}");
    match status {
        200..=299 => Ok(()),
        300..=399 => Err(never(format!("{message}; redirections are not followed"))),
        408 | 425 | 429 | 500..=599 => {
            let asked = response.headers().get(RETRY_AFTER);
            let seconds = asked.and_then(|asked| asked.to_str().ok()?.trim().parse::<u64>().ok());
            Err(DeliveryError {
                retry: Retry::Again { after_ms: seconds.map(|seconds| seconds.saturating_mul(1_000)) },
                message,
            })
        }
        _ => Err(never(message)),
    }
}

/// The error of an attempt without a response. A host that may not be connected to is not tried again.
fn failed(error: &ureq::Error) -> DeliveryError {
    match error {
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            never(format!("not sent: {error}"))
        }
        ureq::Error::Io(error) => again(format!("the receiver cannot be reached: {error}")),
        ureq::Error::Timeout(_) => again("the receiver was too slow".into()),
        ureq::Error::HostNotFound => again("the receiver's host was not found".into()),
        error => again(format!("the receiver cannot be reached: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    /// Answers one request with these bytes; returns its head, in small letters, and its body.
    fn receiver(answer: String) -> (u16, JoinHandle<(String, String)>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let seen = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).expect("a head");
            }
            let head = head.to_lowercase();
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
            let mut body = vec![0; length.expect("a length")];
            reader.read_exact(&mut body).expect("a body");
            // The caller may hang up on an answer that is too long.
            let _ = stream.write_all(answer.as_bytes());
            (head, String::from_utf8(body).expect("UTF-8"))
        });
        (port, seen)
    }

    fn delivery(url: String) -> Delivery {
        Delivery {
            task: "t".into(),
            hook: "h".into(),
            seq: crate::base::id::Seq(7),
            url,
            headers: vec![
                ("Content-Type", "application/a2a+json".into()),
                ("X-A2A-Event-Id", "t:7".into()),
                ("Authorization", "Bearer s3cret".into()),
            ],
            encode: Arc::new(|| Some(b"{\"a\":1}".to_vec())),
        }
    }

    fn sent(url: String, rules: PushRules, limits: &Limits) -> Result<(), DeliveryError> {
        Webhooks::new(TlsConfig::default(), rules).deliver(delivery(url), limits)
    }

    fn anywhere() -> PushRules {
        PushRules { allow_private: true, ..PushRules::default() }
    }

    fn answered(answer: &str) -> Result<(), DeliveryError> {
        let (port, seen) = receiver(answer.to_owned());
        let url = format!("http://localhost:{port}/hook?x=1");
        let result = sent(url, anywhere(), &Limits::default());
        let (head, body) = seen.join().expect("the receiver lives");
        assert!(head.starts_with("post /hook?x=1 http/1.1\r\n"), "{head}");
        for line in [
            format!("host: localhost:{port}"),
            "content-type: application/a2a+json".into(),
            "x-a2a-event-id: t:7".into(),
            "authorization: bearer s3cret".into(),
            format!("user-agent: gemini-a2a/{}", env!("CARGO_PKG_VERSION")),
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
        }
        assert_eq!(body, "{\"a\":1}");
        result
    }

    #[test]
    fn the_status_decides_about_another_attempt() {
        let after = |after_ms| Retry::Again { after_ms };
        for (status, more, expected) in [
            ("200 OK", "", None),
            ("204 No Content", "", None),
            ("302 Found", "Location: http://127.0.0.1/\r\n", Some(Retry::Never)),
            ("400 Bad Request", "", Some(Retry::Never)),
            ("404 Not Found", "Retry-After: 7\r\n", Some(Retry::Never)),
            ("410 Gone", "", Some(Retry::Never)),
            ("408 Request Timeout", "", Some(after(None))),
            ("425 Too Early", "", Some(after(None))),
            ("429 Too Many Requests", "Retry-After: 7\r\n", Some(after(Some(7_000)))),
            ("500 Internal Server Error", "", Some(after(None))),
            ("503 Service Unavailable", "Retry-After: soon\r\n", Some(after(None))),
        ] {
            let answer = format!("HTTP/1.1 {status}\r\n{more}Content-Length: 6\r\nConnection: close\r\n\r\nsecret");
            let result = answered(&answer);
            let error = result.err();
            assert_eq!(error.as_ref().map(|e| e.retry), expected, "{status}");
            if let Some(error) = error {
                assert!(error.message.contains(&status[..3]), "{}", error.message);
                assert!(!error.message.contains("secret"), "{}", error.message);
            }
        }
    }

    #[test]
    fn a_long_answer_is_not_read_and_a_broken_one_does_not_matter() {
        let long = "x".repeat(1 << 20);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{long}", long.len());
        assert_eq!(answered(&answer), Ok(()));
        assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), Ok(()));
    }

    #[test]
    fn a_receiver_that_is_silent_or_not_there_is_tried_again() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("bound").port();
        let limits = Limits { webhook_ms: 50, ..Limits::default() };
        let url = || format!("http://127.0.0.1:{port}/");
        let slow = sent(url(), anywhere(), &limits).expect_err("nobody answers");
        assert_eq!(slow, again("the receiver was too slow".into()));
        drop(silent);
        let gone = sent(url(), anywhere(), &Limits::default()).expect_err("nobody is there");
        assert_eq!(gone.retry, Retry::Again { after_ms: None });
    }

    #[test]
    fn every_attempt_checks_the_url_and_the_address() {
        let limits = Limits::default();
        let refused = |url: &str, rules: PushRules| {
            let error = sent(url.to_owned(), rules, &limits).expect_err("it is not visited");
            assert_eq!(error.retry, Retry::Never, "{url}: {}", error.message);
            error.message
        };
        refused("http://127.0.0.1:9/", PushRules::default());
        refused("https://127.0.0.1:9999/", PushRules::default());
        // The name of this host is allowed, its address is not.
        let host = WebhookHost { host: "client.example".into(), public_only: true };
        let webhooks = Webhooks::new(TlsConfig::default(), PushRules::default());
        let agent = webhooks.agent(&host, &limits);
        let error = agent.post("http://127.0.0.1:9999/").send(&b""[..]);
        let error = failed(&error.expect_err("it is not visited"));
        assert_eq!(error, never("not sent: its address 127.0.0.1 is not on the public internet".into()));
    }
}
