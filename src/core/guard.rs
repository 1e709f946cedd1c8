//! Who may ask at all. Looked at before a request is understood: where it was sent to (`Host`), which page sent it
//! (`Origin`, `Sec-Fetch-Site`) and who is at the other end of the connection.
//!
//! A name that leads here is not proof that the sender means us: any web page can make a browser connect to loopback, and
//! any name can be made to resolve to it.

use crate::base::http::{Method, Request, Response};
use crate::core::conn::Peer;
use crate::task::fault::{Fault, FaultKind};
use crate::wire::uri::{self, Origin};

/// For how many seconds a browser may remember what a page was allowed: a server that is started again may know others.
const REMEMBERED_S: u32 = 600;

/// What pages may read of our answers beside what every page may.
const EXPOSED: &str = "A2A-Extensions, X-A2A-Extensions, X-Total-Count, ETag";

/// Answers differ by the page they are for.
const VARY: &str = "Vary";
const ORIGIN: &str = "Origin";

/// The names this server answers to.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// Host names beside the loopback ones, lower case.
    pub hosts: Vec<String>,
    /// Origins beside our own, as browsers write them.
    pub origins: Vec<String>,
    pub port: u16,
}

impl Door {
    /// Lets a request in, or says why not.
    pub fn admit(&self, request: &Request, peer: Peer) -> Result<(), Fault> {
        let host = request.headers.get("host").and_then(uri::host_of);
        if !host.is_some_and(|authority| self.knows(&authority.host)) {
            return Err(forbidden(
                "This server does not answer to that Host. Use localhost, or allow the name with --allowed-host.",
            ));
        }
        if let Some(origin) = request.headers.get("origin")
            && !self.knows_origin(origin)
        {
            return Err(forbidden(
                "Requests from that web origin are not allowed. Allow it with --allowed-origin if you trust it.",
            ));
        }
        if matches!(request.headers.get("sec-fetch-site"), Some("cross-site" | "same-site"))
            && request.headers.get("origin").is_none_or(|origin| !self.knows_origin(origin))
        {
            return Err(forbidden("Requests from other web sites are not allowed."));
        }
        match peer {
            Peer::SameUser => Ok(()),
            Peer::OwnChild if is_public(request) || only_reads(request) => Ok(()),
            Peer::OwnChild => {
                Err(forbidden("A process that the agent started may not prompt the agent or answer for its user."))
            }
            Peer::Stranger if is_public(request) => Ok(()),
            Peer::Stranger => Err(forbidden("Only processes of the user who runs this server may use it.")),
        }
    }

    /// The origin to be told that its page may read the answer: one that the operator allows. Our own pages need no leave.
    pub fn page(&self, request: &Request) -> Option<Page> {
        let origin = request.headers.get("origin")?;
        let known = self.origins.iter().find(|known| *known == origin)?;
        Some(Page(known.as_str().into()))
    }

    /// What an answer that browsers may keep has to say when it is for no such page: otherwise they would give what they kept to
    /// one, which would look in vain for its leave.
    pub fn caution(&self, request: &Request) -> Option<(&'static str, String)> {
        let told = self.origins.is_empty() || self.page(request).is_some();
        (!told).then(|| (VARY, ORIGIN.to_owned()))
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
                scheme == "http" && self.knows(&host) && port == Some(self.port)
            }
            Some(Origin::Opaque) | None => false,
        }
    }
}

/// A web page of another origin that is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page(Box<str>);

impl Page {
    /// What a browser must read beside an answer before the page is given it.
    pub fn headers(&self) -> [(&'static str, String); 3] {
        [
            ("Access-Control-Allow-Origin", self.0.as_ref().to_owned()),
            ("Access-Control-Expose-Headers", EXPOSED.to_owned()),
            (VARY, ORIGIN.to_owned()),
        ]
    }

    /// The answer to a browser that asks, before it sends what a form could not send, whether it may. What is asked for is
    /// granted: the page has been let in, and every request is looked at again.
    pub fn preflight(&self, request: &Request) -> Option<Response> {
        let asked = request.headers.get("access-control-request-method")?;
        if request.method != Method::Options {
            return None;
        }
        let mut leave = Response::empty(204)
            .with("Access-Control-Allow-Methods", asked)
            .with("Access-Control-Max-Age", REMEMBERED_S.to_string());
        if let Some(fields) = request.headers.get("access-control-request-headers") {
            leave = leave.with("Access-Control-Allow-Headers", fields);
        }
        Some(leave)
    }
}

/// What anybody may see: that we are here, and our card.
fn is_public(request: &Request) -> bool {
    matches!(request.method, Method::Get | Method::Head)
        && matches!(request.path.as_str(), "/health" | "/.well-known/agent-card.json" | "/.well-known/agent.json")
}

/// A socket is opened with GET, but prompts and answers come over it; and where webhooks are shown, so are their secrets.
fn only_reads(request: &Request) -> bool {
    let mut segments = request.path.split('/');
    matches!(request.method, Method::Get | Method::Head)
        && request.path != "/ws"
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
    fn only_pages_that_are_let_in_may_read() {
        let door = Door { origins: vec!["http://localhost:5173".into()], port: 41242, ..Door::default() };
        let page = |origin| door.page(&request(Method::Get, "/", &[("Origin", origin)]));
        for stranger in ["http://localhost:41242", "https://evil.example", "null", ""] {
            assert_eq!(page(stranger), None, "{stranger}");
        }
        // What a browser keeps of an answer to nobody in particular is not for a page that is let in.
        let caution = |door: &Door, fields| door.caution(&request(Method::Get, "/", fields));
        let vary = Some(("Vary", "Origin".to_owned()));
        assert_eq!(caution(&door, &[]), vary);
        assert_eq!(caution(&door, &[("Origin", "http://localhost:41242")]), vary);
        assert_eq!(caution(&door, &[("Origin", "http://localhost:5173")]), None);
        assert_eq!(caution(&Door::default(), &[]), None);
        let page = page("http://localhost:5173").expect("it is allowed");
        assert_eq!(
            page.headers().map(|(name, value)| format!("{name}: {value}")),
            [
                "Access-Control-Allow-Origin: http://localhost:5173",
                "Access-Control-Expose-Headers: A2A-Extensions, X-A2A-Extensions, X-Total-Count, ETag",
                "Vary: Origin",
            ]
        );
        let asks =
            [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "a2a-version,content-type")];
        assert_eq!(
            page.preflight(&request(Method::Options, "/message:send", &asks)),
            Some(
                Response::empty(204)
                    .with("Access-Control-Allow-Methods", "POST")
                    .with("Access-Control-Max-Age", "600")
                    .with("Access-Control-Allow-Headers", "a2a-version,content-type")
            )
        );
        assert_eq!(page.preflight(&request(Method::Options, "/", &[])), None);
        assert_eq!(page.preflight(&request(Method::Post, "/", &asks)), None);
    }

    #[test]
    fn children_see_tasks_but_no_secrets() {
        let door = Door::default();
        let lets = |method, path: &str| {
            let request = request(method, path, &[]);
            door.admit(&request, Peer::OwnChild).is_ok()
        };
        assert!(lets(Method::Get, "/tasks/t") && lets(Method::Head, "/tasks/t"));
        assert!(!lets(Method::Post, "/tasks/t:cancel"));
        for path in [
            "/ws",
            "/tasks/t/pushNotificationConfigs",
            "/tasks/t/pushNotificationConfigs/c",
            "/v1/tasks/t/pushNotificationConfigs/c",
            "/acme/tasks/t/pushNotificationConfigs",
        ] {
            assert!(!lets(Method::Get, path) && !lets(Method::Head, path), "{path}");
        }
    }
}
