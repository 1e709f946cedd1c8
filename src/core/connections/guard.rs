//! Which requests are admitted. Checked before a request is decoded: its `Host`, the page that sent it (`Origin`, `Sec-Fetch-Site`)
//! and the peer of the connection.
//!
//! A name that leads here is not proof that the sender means us: any web page can make a browser connect to loopback, and
//! any name can be made to resolve to it.

use crate::base::http::{Method, Request, Response};
use crate::core::access::Mode;
use crate::core::connections::connection::{Link, Peer};
use crate::task::fault::{Fault, FaultKind};
use crate::wire::uri::{self, Origin};

/// For how many seconds a browser may cache a preflight response. Short, because a restarted server may allow other origins.
const REMEMBERED_S: u32 = 600;

/// The response headers that pages of allowed origins may read beside those that every page may.
const EXPOSED: &str = "A2A-Extensions, X-A2A-Extensions, X-Total-Count, ETag, X-Request-Id";

/// Responses differ by the origin that they are for.
const VARY: &str = "Vary";
const ORIGIN: &str = "Origin";

/// The host names and origins that this server accepts in requests.
#[derive(Clone, Debug, Default)]
pub struct HostPolicy {
    /// Host names beside the loopback ones, lower case.
    pub hosts: Vec<String>,
    /// Origins beside our own, as browsers write them.
    pub origins: Vec<String>,
    /// The TCP ports we listen on.
    pub ports: Vec<u16>,
    /// The Unix socket that is recommended to a peer whose process cannot be found over TCP.
    pub socket: Option<String>,
}

/// What is done with a request, depending on its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Serve,
    /// It waits until the process of its peer is known.
    Identify,
    Refuse,
}

impl HostPolicy {
    /// Refuses a request for its headers, whatever its peer.
    ///
    /// The Host list holds on Unix sockets too: no name leads to one, but `ssh -L 8080:/run/…/x.sock` puts a TCP port in front of
    /// it, and behind that may be a browser on another machine. For the same reason no page may use it at all.
    pub fn check(&self, request: &Request, link: Link, mode: Mode) -> Result<(), Fault> {
        // In the mode `token` a request with a credential is meant for this server, whatever its Host says.
        let is_known_otherwise = mode == Mode::Token && link != Link::Unix;
        if !is_known_otherwise && !is_probe(request) {
            self.check_host(request)?;
        }
        if link.is_unix() && request.headers.get("origin").is_some() {
            return Err(forbidden(
                "Web pages may not use the Unix socket, so no Origin is allowed there. Use the TCP port for them.",
            ));
        }
        // Any Origin may fetch the card: back-ends forward the Origin of their page, and without CORS headers a page cannot read it.
        let is_foreign = |origin: &str| !self.knows_origin(origin) && !is_card(request);
        if request.headers.get("origin").is_some_and(is_foreign) {
            return Err(forbidden(
                "Requests from that web origin are not allowed. Allow it with --allowed-origin if you trust it.",
            ));
        }
        if matches!(request.headers.get("sec-fetch-site"), Some("cross-site" | "same-site"))
            && request.headers.get("origin").is_none_or(is_foreign)
        {
            return Err(forbidden("Requests from other web sites are not allowed."));
        }
        let proxied = request.headers.iter().find(|(name, _)| !is_known_otherwise && is_of_a_proxy(name));
        if let Some((name, _)) = proxied {
            let message = format!(
                "The header {name} says that a proxy sent this request. This server knows its user by the process that \
                 connects, and through a proxy everybody would be that user. Connect to it directly."
            );
            return Err(forbidden(&message));
        }
        Ok(())
    }

    /// Refuses a request that is not for a name of this server.
    pub fn check_host(&self, request: &Request) -> Result<(), Fault> {
        match self.knows_host(request) {
            true => Ok(()),
            false => Err(forbidden(
                "This server does not answer to that Host. Use localhost, or allow the name with --allowed-host.",
            )),
        }
    }

    /// The error for a peer whose process cannot be distinguished from a tool's.
    pub fn unclear(&self, link: Link) -> String {
        let or = match (link, &self.socket) {
            (Link::Tcp, Some(path)) => format!(", or connect over the Unix socket {path}"),
            (Link::Unix | Link::NamedUnix, _) => {
                ", or send the request from the process that connects, while it runs".to_owned()
            }
            (Link::Tcp, None) => String::new(),
        };
        format!(
            "A tool of the agent or another server is running, and the process behind this connection could not be told from \
             what they started, so it may only read. Wait until the tool has ended{or}."
        )
    }

    /// The origin of the request, if the operator allows it. Pages of the server's own origin need no CORS headers.
    pub fn allowed_origin(&self, request: &Request) -> Option<AllowedOrigin> {
        let origin = request.headers.get("origin")?;
        let known = self.origins.iter().find(|known| *known == origin)?;
        Some(AllowedOrigin(known.as_str().into()))
    }

    /// Whether a request is the CORS preflight of a page that the operator allows.
    pub fn is_preflight(&self, request: &Request) -> bool {
        request.method == Method::Options
            && request.headers.get("access-control-request-method").is_some()
            && self.allowed_origin(request).is_some()
    }

    /// `Vary: Origin` for cacheable responses without CORS headers, so that a cache does not serve them to an allowed origin.
    pub fn vary_header(&self, request: &Request) -> Option<(&'static str, String)> {
        let is_needed = !self.origins.is_empty() && self.allowed_origin(request).is_none();
        is_needed.then(|| (VARY, ORIGIN.to_owned()))
    }

    /// Whether the request is for a name of this server.
    pub fn knows_host(&self, request: &Request) -> bool {
        let host = request.headers.get("host").and_then(uri::host_of);
        host.is_some_and(|authority| self.knows(&authority.host))
    }

    fn knows(&self, name: &str) -> bool {
        matches!(name, "localhost" | "127.0.0.1" | "::1") || self.hosts.iter().any(|host| host == name)
    }

    fn knows_origin(&self, origin: &str) -> bool {
        if self.origins.iter().any(|known| known == origin) {
            return true;
        }
        match uri::origin_of(origin) {
            Some(Origin::Site { scheme, host, port }) => {
                scheme == "http" && self.knows(&host) && port.is_some_and(|port| self.ports.contains(&port))
            }
            Some(Origin::Opaque) | None => false,
        }
    }
}

/// A web origin that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(Box<str>);

impl AllowedOrigin {
    /// The CORS headers, without which a browser does not give the response to the page.
    pub fn headers(&self) -> [(&'static str, String); 3] {
        [
            ("Access-Control-Allow-Origin", self.0.as_ref().to_owned()),
            ("Access-Control-Expose-Headers", EXPOSED.to_owned()),
            (VARY, ORIGIN.to_owned()),
        ]
    }

    /// The response to a CORS preflight request. It permits whatever is asked for: the origin is allowed, and the request itself is
    /// checked again.
    pub fn preflight_response(&self, request: &Request) -> Option<Response> {
        let asked = request.headers.get("access-control-request-method")?;
        if request.method != Method::Options {
            return None;
        }
        let mut response = Response::empty(204)
            .with("Access-Control-Allow-Methods", asked)
            .with("Access-Control-Max-Age", REMEMBERED_S.to_string());
        if let Some(fields) = request.headers.get("access-control-request-headers") {
            response = response.with("Access-Control-Allow-Headers", fields);
        }
        Some(response)
    }
}

/// Whether a request is served. Tools may only read, so other requests of a peer that may be a tool wait until it is identified.
pub fn admit(request: &Request, peer: Peer) -> Admission {
    match peer {
        Peer::SameUser | Peer::Anybody => Admission::Serve,
        Peer::MaybeTool if only_reads(request) => Admission::Serve,
        Peer::OwnerUnknown | Peer::Stranger if is_public(request) => Admission::Serve,
        Peer::Gone if only_reads(request) => Admission::Serve,
        Peer::MaybeTool | Peer::OwnerUnknown => Admission::Identify,
        Peer::Stranger | Peer::OtherUser | Peer::Gone => Admission::Refuse,
    }
}

/// Headers that proxies add.
fn is_of_a_proxy(name: &str) -> bool {
    matches!(name, "forwarded" | "via") || name.starts_with("x-forwarded-")
}

/// The paths of health probes. Monitors may use any Host; the answers contain nothing that a web page could use.
fn is_probe(request: &Request) -> bool {
    matches!(request.method, Method::Get | Method::Head) && matches!(request.path.as_str(), "/live" | "/ready")
}

/// Whether every peer may read it: probes, health and the agent card.
pub fn is_public(request: &Request) -> bool {
    is_card(request)
        || is_probe(request)
        || (matches!(request.method, Method::Get | Method::Head) && request.path == "/health")
}

fn is_card(request: &Request) -> bool {
    matches!(request.method, Method::Get | Method::Head)
        && matches!(request.path.as_str(), "/.well-known/agent-card.json" | "/.well-known/agent.json")
}

/// Whether a request only reads. An upgrade is never a read, because prompts come over the socket; and configurations of webhooks
/// contain secrets.
fn only_reads(request: &Request) -> bool {
    let mut segments = request.path.split('/');
    matches!(request.method, Method::Get | Method::Head)
        && request.path != "/ws"
        && request.headers.get("upgrade").is_none()
        && !segments.any(|segment| segment == "pushNotificationConfigs")
}

fn forbidden(message: &str) -> Fault {
    Fault::new(FaultKind::Forbidden, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::http::{Headers, Version};

    fn request(method: Method, path: &str, fields: &[(&str, &str)]) -> Request {
        let mut headers = Headers::default();
        headers.push("Host", "localhost");
        for (name, value) in fields {
            headers.push(name, value);
        }
        Request {
            version: Version::Http11,
            method,
            path: path.into(),
            query: Vec::new(),
            headers,
            body: Vec::new(),
            keep_alive: true,
        }
    }

    #[test]
    fn only_allowed_origins_get_cors_headers() {
        let host_policy =
            HostPolicy { origins: vec!["http://localhost:5173".into()], ports: vec![41242], ..HostPolicy::default() };
        let page = |origin| host_policy.allowed_origin(&request(Method::Get, "/", &[("Origin", origin)]));
        for stranger in ["http://localhost:41242", "https://evil.example", "null", ""] {
            assert_eq!(page(stranger), None, "{stranger}");
        }
        // A cached response without CORS headers is not for an allowed origin.
        let vary_header =
            |host_policy: &HostPolicy, fields| host_policy.vary_header(&request(Method::Get, "/", fields));
        let vary = Some(("Vary", "Origin".to_owned()));
        assert_eq!(vary_header(&host_policy, &[]), vary);
        assert_eq!(vary_header(&host_policy, &[("Origin", "http://localhost:41242")]), vary);
        assert_eq!(vary_header(&host_policy, &[("Origin", "http://localhost:5173")]), None);
        assert_eq!(vary_header(&HostPolicy::default(), &[]), None);
        let page = page("http://localhost:5173").expect("it is allowed");
        assert_eq!(
            page.headers().map(|(name, value)| format!("{name}: {value}")),
            [
                "Access-Control-Allow-Origin: http://localhost:5173",
                "Access-Control-Expose-Headers: A2A-Extensions, X-A2A-Extensions, X-Total-Count, ETag, X-Request-Id",
                "Vary: Origin",
            ]
        );
        let asks =
            [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "a2a-version,content-type")];
        assert_eq!(
            page.preflight_response(&request(Method::Options, "/message:send", &asks)),
            Some(
                Response::empty(204)
                    .with("Access-Control-Allow-Methods", "POST")
                    .with("Access-Control-Max-Age", "600")
                    .with("Access-Control-Allow-Headers", "a2a-version,content-type")
            )
        );
        assert_eq!(page.preflight_response(&request(Method::Options, "/", &[])), None);
        assert_eq!(page.preflight_response(&request(Method::Post, "/", &asks)), None);
    }

    #[test]
    fn a_peer_that_may_be_a_tool_reads_tasks_but_no_secrets() {
        let admitted = |method, path: &str, peer| admit(&request(method, path, &[]), peer);
        let asked = |method, path: &str| admitted(method, path, Peer::MaybeTool);
        for method in [Method::Get, Method::Head] {
            assert_eq!(asked(method, "/tasks/t"), Admission::Serve);
            assert_eq!(admitted(method, "/tasks/t", Peer::OwnerUnknown), Admission::Identify);
            assert_eq!(admitted(method, "/tasks/t", Peer::Stranger), Admission::Refuse);
            assert_eq!(admitted(method, "/tasks/t", Peer::SameUser), Admission::Serve);
            assert_eq!(admitted(method, "/tasks/t", Peer::Gone), Admission::Serve);
        }
        for (method, path) in [(Method::Post, "/message:send"), (Method::Get, "/ws"), (Method::Delete, "/tasks/t")] {
            assert_eq!(admitted(method, path, Peer::Gone), Admission::Refuse, "{path}");
        }
        assert_eq!(asked(Method::Post, "/tasks/t:cancel"), Admission::Identify);
        for path in [
            "/ws",
            "/tasks/t/pushNotificationConfigs",
            "/tasks/t/pushNotificationConfigs/c",
            "/v1/tasks/t/pushNotificationConfigs/c",
            "/acme/tasks/t/pushNotificationConfigs",
        ] {
            for method in [Method::Get, Method::Head] {
                assert_eq!(asked(method, path), Admission::Identify, "{path}");
            }
        }
        for path in ["/ws", "/tasks/t", "/health", "/acme/ws", "/"] {
            let upgrade = request(Method::Get, path, &[("Upgrade", "websocket")]);
            assert_eq!(admit(&upgrade, Peer::MaybeTool), Admission::Identify, "{path}");
        }
    }

    #[test]
    fn requests_that_came_through_a_proxy_are_refused() {
        let host_policy = HostPolicy::default();
        let check = |fields: &[(&str, &str)]| {
            host_policy.check(&request(Method::Get, "/health", fields), Link::Tcp, Mode::Local)
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("X-Forward", "x"), ("Viable", "x")]), Ok(()));
        for name in ["Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "Via"] {
            let fault = check(&[(name, "1.1 proxy")]).expect_err(name);
            assert!(
                fault.message.contains("proxy") && fault.message.contains(&name.to_lowercase()),
                "{}",
                fault.message
            );
        }
    }

    #[test]
    fn the_error_for_an_unidentified_peer_says_what_to_do() {
        let host_policy = HostPolicy { socket: Some("/run/x.sock".into()), ..HostPolicy::default() };
        assert!(host_policy.unclear(Link::Tcp).ends_with("has ended, or connect over the Unix socket /run/x.sock."));
        assert!(host_policy.unclear(Link::Unix).ends_with("from the process that connects, while it runs."));
        assert!(HostPolicy::default().unclear(Link::Tcp).ends_with("Wait until the tool has ended."));
    }

    #[test]
    fn no_page_may_use_the_unix_socket() {
        let host_policy =
            HostPolicy { origins: vec!["http://localhost:5173".into()], ports: vec![41242], ..HostPolicy::default() };
        let check = |link, fields: &[(&str, &str)]| {
            host_policy.check(&request(Method::Get, "/tasks", fields), link, Mode::Local).is_ok()
        };
        assert!(check(Link::Unix, &[]));
        for origin in ["http://localhost:5173", "http://localhost:41242"] {
            assert!(check(Link::Tcp, &[("Origin", origin)]) && !check(Link::Unix, &[("Origin", origin)]), "{origin}");
        }
        assert!(!check(Link::Unix, &[("Sec-Fetch-Site", "cross-site")]));
        let named = Request { headers: Headers::default(), ..request(Method::Get, "/tasks", &[]) };
        assert!(host_policy.check(&named, Link::Unix, Mode::Local).is_err(), "without a Host");
    }

    #[test]
    fn probes_need_no_name_of_this_server() {
        let host_policy = HostPolicy::default();
        let check = |path: &str, fields: &[(&str, &str)]| {
            let mut headers = Headers::default();
            fields.iter().for_each(|(name, value)| headers.push(name, value));
            host_policy.check(&Request { headers, ..request(Method::Get, path, &[]) }, Link::Tcp, Mode::Local).is_ok()
        };
        for path in ["/live", "/ready"] {
            assert!(check(path, &[("Host", "10.0.0.7:8080")]) && check(path, &[]), "{path}");
            assert!(!check(path, &[("Host", "localhost"), ("Origin", "https://evil.example")]), "{path}");
            for peer in [Peer::Stranger, Peer::OwnerUnknown, Peer::MaybeTool] {
                assert_eq!(admit(&request(Method::Head, path, &[]), peer), Admission::Serve, "{path}");
                assert_ne!(admit(&request(Method::Post, path, &[]), peer), Admission::Serve, "{path}");
            }
        }
        assert!(!check("/health", &[("Host", "10.0.0.7:8080")]));
    }
}
