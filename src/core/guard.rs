//! Who may ask at all. Looked at before a request is understood: where it was sent to (`Host`), which page sent it
//! (`Origin`, `Sec-Fetch-Site`) and who is at the other end of the connection.
//!
//! A name that leads here is not proof that the sender means us: any web page can make a browser connect to loopback, and
//! any name can be made to resolve to it.

use crate::base::http::{Method, Request};
use crate::core::conn::Peer;
use crate::task::fault::{Fault, FaultKind};
use crate::wire::uri::{self, Origin};

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
        if matches!(
            request.headers.get("sec-fetch-site"),
            Some("cross-site" | "same-site")
        ) && request
            .headers
            .get("origin")
            .is_none_or(|origin| !self.knows_origin(origin))
        {
            return Err(forbidden("Requests from other web sites are not allowed."));
        }
        match peer {
            Peer::SameUser => Ok(()),
            Peer::OwnChild if is_public(request) || only_reads(request) => Ok(()),
            Peer::OwnChild => Err(forbidden(
                "A process that the agent started may not prompt the agent or answer for its user.",
            )),
            Peer::Stranger if is_public(request) => Ok(()),
            Peer::Stranger => Err(forbidden(
                "Only processes of the user who runs this server may use it.",
            )),
        }
    }

    fn knows(&self, name: &str) -> bool {
        matches!(name, "localhost" | "127.0.0.1" | "::1")
            || self.hosts.iter().any(|host| host == name)
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

/// What anybody may see: that we are here, and our card.
fn is_public(request: &Request) -> bool {
    matches!(request.method, Method::Get | Method::Head)
        && matches!(
            request.path.as_str(),
            "/health" | "/.well-known/agent-card.json" | "/.well-known/agent.json"
        )
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

    #[test]
    fn children_see_tasks_but_no_secrets() {
        let door = Door::default();
        let lets = |method, path: &str| {
            let mut headers = Headers::default();
            headers.push("Host", "localhost");
            let request = Request {
                version: Version::Http11,
                method,
                path: path.into(),
                query: Vec::new(),
                headers,
                body: Vec::new(),
                keep_alive: true,
            };
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
            assert!(
                !lets(Method::Get, path) && !lets(Method::Head, path),
                "{path}"
            );
        }
    }
}
