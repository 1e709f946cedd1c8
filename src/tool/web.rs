//! The web tools. They fetch pages from public hosts only, and each host only a few times a minute. Part of the feature `web-tools`.
//!
//! `tool/public_hosts.rs` resolves names and checks their addresses. Redirections are not followed by the library: each target is checked
//! and requested like any other URL. Proxies are not used, because the hosts that they connect to could not be checked.

pub mod address;
mod google_web_search;
mod grounding;
mod html;
mod web_fetch;

use crate::base::cancel::Cancel;
use crate::base::lock::lock;
use crate::limits::Limits;
use crate::tool::Tool;
use crate::tool::public_hosts::{AddressRule, CheckedResolver, is_public};
use address::{Url, Wrong};
use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::Body;
use ureq::http::Response;
use ureq::http::header::LOCATION;
use ureq::tls::TlsConfig;
use ureq::unversioned::transport::DefaultConnector;

/// The tools that use the network, in the order they are declared.
pub(super) fn tools() -> Vec<Box<dyn Tool>> {
    vec![Box::new(web_fetch::WebFetch), Box::new(google_web_search::WebSearch)]
}

/// Access to the public internet.
pub struct Web {
    tls: TlsConfig,
    rule: AddressRule,
    visits: Mutex<Visits>,
}

impl Default for Web {
    fn default() -> Web {
        Web::new(TlsConfig::default())
    }
}

impl Web {
    pub fn new(tls: TlsConfig) -> Web {
        Web { tls, rule: is_public, visits: Mutex::default() }
    }

    /// Parses a URL, and checks whether it may be fetched.
    pub(super) fn url(&self, text: &str) -> Result<Url, Wrong> {
        Url::parse(text, self.rule)
    }

    /// Whether another page of a host may be fetched now. If so, the visit is counted.
    pub(super) fn may_visit(&self, host: &str, limits: &Limits) -> bool {
        lock(&self.visits).count(host, Instant::now(), limits)
    }

    /// Fetches the text of a page. The error is the reason why there is none.
    pub(super) fn text(&self, url: &Url, cancel: &Cancel, limits: &Limits) -> Result<String, String> {
        let agent = self.agent(limits);
        let cancelled = agent.clone();
        cancel.on_set(move || cancelled.shutdown());
        let text = self.follow(&agent, url, limits);
        cancel.clear();
        text
    }

    /// An agent for one page, so that interrupting it affects no other page.
    fn agent(&self, limits: &Limits) -> Agent {
        let config = Agent::config_builder()
            .tls_config(self.tls.clone())
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .max_response_header_size(limits.model_buffer_bytes)
            .user_agent(concat!("gemini-a2a/", env!("CARGO_PKG_VERSION")))
            .accept("text/html, text/plain, text/*;q=0.9, application/json;q=0.9, */*;q=0.1")
            .build();
        Agent::with_parts(config, DefaultConnector::default(), CheckedResolver::new(self.rule))
    }

    fn follow(&self, agent: &Agent, url: &Url, limits: &Limits) -> Result<String, String> {
        let until = Instant::now() + Duration::from_millis(limits.fetch_ms);
        let mut url = url.clone();
        for _ in 0..=limits.fetch_redirects {
            let remaining = until.saturating_duration_since(Instant::now());
            let request = agent.get(url.uri().clone()).config();
            let request = request.timeout_global(Some(remaining)).build();
            let response = request.call().map_err(|error| words(&error))?;
            let status = response.status();
            if !status.is_redirection() {
                return if status.is_success() {
                    readable(response, limits)
                } else {
                    Err(format!("the server answered with status {status}"))
                };
            }
            let target = response.headers().get(LOCATION);
            let target = target.and_then(|target| target.to_str().ok());
            let target = target.ok_or("the server redirects to nowhere")?;
            url = url
                .join(target, self.rule)
                .map_err(|wrong| format!("redirected to a place that is not visited: {wrong}"))?;
        }
        Err(format!("redirected more than {} times", limits.fetch_redirects))
    }
}

fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "the server was too slow".into(),
        ureq::Error::HostNotFound => "the host was not found".into(),
        error => error.to_string(),
    }
}

fn readable(response: Response<Body>, limits: &Limits) -> Result<String, String> {
    let kind = response.body().mime_type().unwrap_or_default().to_ascii_lowercase();
    let is_html = matches!(kind.as_str(), "text/html" | "application/xhtml+xml");
    let is_text = kind.is_empty()
        || kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(kind.as_str(), "application/json" | "application/xml" | "application/javascript");
    if !is_html && !is_text {
        return Err(format!("it is {kind}, not text"));
    }
    let latin = matches!(
        response.body().charset().map(str::to_ascii_lowercase).as_deref(),
        Some("iso-8859-1" | "latin1" | "windows-1252")
    );
    let mut bytes = Vec::new();
    response
        .into_body()
        .into_reader()
        .take(limits.fetch_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| words(&error.into()))?;
    if bytes.len() as u64 > limits.fetch_bytes {
        return Err(format!("it is larger than {} MiB", limits.fetch_bytes >> 20));
    }
    let text = if latin {
        bytes.iter().map(|byte| char::from(*byte)).collect()
    } else {
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(if is_html { html::text_of(&text) } else { text })
}

/// The times of the visits of each host in the last minute.
#[derive(Default)]
struct Visits {
    hosts: HashMap<String, VecDeque<Instant>>,
}

impl Visits {
    const MINUTE: Duration = Duration::from_secs(60);

    fn count(&mut self, host: &str, now: Instant, limits: &Limits) -> bool {
        let is_old = |at: &Instant| now.duration_since(*at) >= Visits::MINUTE;
        if !self.hosts.contains_key(host) && self.hosts.len() >= limits.fetch_hosts {
            self.hosts.retain(|_, visits| visits.back().is_some_and(|last| !is_old(last)));
            if self.hosts.len() >= limits.fetch_hosts {
                return false;
            }
        }
        let visits = self.hosts.entry(host.to_owned()).or_default();
        while visits.front().is_some_and(is_old) {
            visits.pop_front();
        }
        let may = visits.len() < limits.fetch_per_minute;
        if may {
            visits.push_back(now);
        }
        may
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::task::machine::job::{ModelError, ModelErrorKind};
    use crate::tool::tests::{Scratch, in_ctx};
    use crate::tool::{Ask, Ctx};
    use serde_json::Value;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    /// A model that gives these answers in order, and records the requests.
    pub(in crate::tool) struct FakeModel {
        answers: Mutex<VecDeque<Result<Value, &'static str>>>,
        asked: Mutex<Vec<Value>>,
    }

    impl FakeModel {
        pub(in crate::tool) fn new(answers: Vec<Result<Value, &'static str>>) -> FakeModel {
            FakeModel { answers: Mutex::new(answers.into()), asked: Mutex::default() }
        }

        pub(in crate::tool) fn asked(&self) -> Vec<Value> {
            self.asked.lock().expect("no test panics with it").clone()
        }
    }

    impl Ask for FakeModel {
        fn ask(&self, body: &Value, _: &Cancel) -> Result<Value, ModelError> {
            self.asked.lock().expect("no test panics with it").push(body.clone());
            let mut answers = self.answers.lock().expect("no test panics with it");
            let answer = answers.pop_front().expect("it is not asked more often");
            answer.map_err(|message| ModelError { kind: ModelErrorKind::Fatal, message: message.into() })
        }
    }

    /// Calls `f` with a context that has a model.
    pub(in crate::tool) fn with_model<T>(
        scratch: &Scratch,
        limits: &Limits,
        model: &FakeModel,
        f: impl FnOnce(&Ctx) -> T,
    ) -> T {
        in_ctx(scratch, limits, Some(model), &Web::default(), f)
    }

    /// Calls `f` with a context that has a model and this web.
    pub(in crate::tool) fn with_web<T>(
        scratch: &Scratch,
        limits: &Limits,
        model: &FakeModel,
        web: &Web,
        f: impl FnOnce(&Ctx) -> T,
    ) -> T {
        in_ctx(scratch, limits, Some(model), web, f)
    }

    /// A web that may fetch from one address of this machine.
    pub(in crate::tool) fn local() -> Web {
        Web { rule: |address| address == Ipv4Addr::LOCALHOST, ..Web::default() }
    }

    /// Serves one request for each of these paths, in order, each with its bytes. Returns the port.
    pub(in crate::tool) fn serve(answers: Vec<(&'static str, Vec<u8>)>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || {
            for (path, answer) in answers {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut first = String::new();
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                reader.read_line(&mut first).expect("a request");
                let mut line = String::from("x");
                while line.trim_end() != "" {
                    line.clear();
                    reader.read_line(&mut line).expect("a head");
                }
                assert_eq!(first, format!("GET {path} HTTP/1.1\r\n"));
                // The client may close the connection when the body is too long.
                let _ = stream.write_all(&answer);
            }
        });
        port
    }

    pub(in crate::tool) fn page(kind: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }

    fn redirect(to: &str) -> Vec<u8> {
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
    }

    fn get(port: u16, path: &str, limits: &Limits) -> Result<String, String> {
        let web = local();
        let url = web.url(&format!("http://127.0.0.1:{port}{path}")).expect("a URL");
        web.text(&url, &Cancel::default(), limits)
    }

    #[test]
    fn pages_are_read_as_text() {
        let limits = Limits::default();
        let html = "<html><body><h1>Hi</h1>there &amp; here</body></html>";
        for (answer, expected) in [
            (page("text/html; charset=utf-8", html), Ok("Hi\n\nthere & here")),
            (page("text/plain", html), Ok(html)),
            (page("application/json", "{\"a\": 1}"), Ok("{\"a\": 1}")),
            (page("image/png", "x"), Err("it is image/png, not text")),
            (
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
                Err("the server answered with status 404 Not Found"),
            ),
            (
                redirect("ftp://a.test/"),
                Err("redirected to a place that is not visited: ftp://a.test/: only http and https can be fetched"),
            ),
        ] {
            let port = serve(vec![("/a?b", answer)]);
            let found = get(port, "/a?b", &limits);
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
        }
    }

    #[test]
    fn every_redirection_is_checked() {
        let limits = Limits::default();
        // Another address of this machine stands for a private one.
        for target in ["http://127.0.0.2:8080/secret", "//[::1]:8080/", "http://10.0.0.1/", "http://localhost:8080/"] {
            let port = serve(vec![("/", redirect(target))]);
            let error = get(port, "/", &limits).expect_err("it is not visited");
            assert!(error.starts_with("redirected to a place that is not visited:"), "{error}");
        }
        let port = serve(vec![("/1", redirect("2")), ("/2", redirect("/3?x")), ("/3?x", page("text/plain", "end"))]);
        assert_eq!(get(port, "/1", &limits), Ok("end".into()));
    }

    #[test]
    fn the_number_of_redirections_is_limited() {
        let limits = Limits { fetch_redirects: 2, ..Limits::default() };
        let hop = || ("/", redirect("/"));
        let enough = serve(vec![hop(), hop(), ("/", page("text/plain", "end"))]);
        assert_eq!(get(enough, "/", &limits), Ok("end".into()));
        let endless = serve(vec![hop(), hop(), hop()]);
        assert_eq!(get(endless, "/", &limits), Err("redirected more than 2 times".into()));
    }

    #[test]
    fn the_resolver_checks_addresses_that_the_url_does_not_show() {
        let web = local();
        let strict = Web { rule: |address| address.is_unspecified(), ..Web::default() };
        let url = web.url("http://127.0.0.1:1024/").expect("allowed by this rule");
        assert_eq!(
            strict.text(&url, &Cancel::default(), &Limits::default()),
            Err("its address 127.0.0.1 is not on the public internet".into())
        );
    }

    #[test]
    fn pages_that_are_too_large_or_too_slow_are_given_up() {
        let limits = Limits { fetch_bytes: 4, ..Limits::default() };
        let port = serve(vec![("/", page("text/plain", "1234"))]);
        assert_eq!(get(port, "/", &limits), Ok("1234".into()));
        let port = serve(vec![("/", page("text/plain", "12345"))]);
        assert_eq!(get(port, "/", &limits), Err("it is larger than 0 MiB".into()));
        let limits = Limits { fetch_ms: 50, ..Limits::default() };
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("bound").port();
        assert_eq!(get(port, "/", &limits), Err("the server was too slow".into()));
    }

    #[test]
    fn a_cancel_interrupts_a_page() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("bound").port();
        let cancel = Cancel::default();
        let web = local();
        let url = web.url(&format!("http://127.0.0.1:{port}/")).expect("a URL");
        thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = silent.accept().expect("a caller");
                let mut first = String::new();
                let mut reader = BufReader::new(stream);
                reader.read_line(&mut first).expect("a request");
                cancel.set();
                // The connection is held open until the client closes it, so only the cancellation can end the wait.
                let _ = std::io::copy(&mut reader, &mut std::io::sink());
            });
            let text = web.text(&url, &cancel, &Limits::default());
            assert!(text.is_err());
        });
    }

    #[test]
    fn visits_per_minute_and_counted_hosts_are_limited() {
        let limits = Limits { fetch_per_minute: 2, fetch_hosts: 2, ..Limits::default() };
        let mut visits = Visits::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(visits.count("a", at(0), &limits));
        assert!(visits.count("a", at(30), &limits));
        assert!(!visits.count("a", at(59), &limits));
        assert!(visits.count("b", at(59), &limits));
        assert!(visits.count("a", at(60), &limits));
        assert!(!visits.count("a", at(61), &limits));
        assert!(!visits.count("c", at(61), &limits), "both are still counted");
        assert!(visits.count("c", at(121), &limits), "both are forgotten");
        assert_eq!(visits.hosts.len(), 1);
    }
}
