//! From an HTTP request to a call: admits the request, decodes it, and dispatches the call.

use crate::a2a::{self, Decoded};
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::access::Sender;
use crate::core::connections::guard::{self, Admission};
use crate::core::disk::Parked;
use crate::core::requests::Caller;
use crate::task::access::{Principal, Right};
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Source;

impl Core {
    pub(in crate::core) fn serve(&mut self, key: Key, request: Request, now: Now) {
        let Some(peer) = self.connections.get(key).map(|conn| conn.peer) else {
            return;
        };
        if self.connections.get(key).is_some_and(|conn| conn.only_metrics) {
            return self.serve_metrics(key, &request, now);
        }
        let origin = self.settings.host_policy.allowed_origin(&request);
        if let Some(conn) = self.connections.get_mut(key) {
            conn.allowed_origin.clone_from(&origin);
        }
        match self.check_sender(key, &request, now) {
            Ok(Sender::Known) => {}
            Ok(Sender::ToIdentify) => return self.identify(key, request),
            Err(fault) => return self.answer(key, &a2a::fault(&self.form_at(key, &request.path), &fault), now),
        }
        match guard::admit(&request, peer) {
            Admission::Serve => {}
            Admission::Identify => return self.identify(key, request),
            Admission::Refuse => return self.refuse_peer(key, &request, now),
        }
        if let Some(response) = origin.and_then(|origin| origin.preflight_response(&request)) {
            return self.answer(key, &response, now);
        }
        self.decode(key, request, now);
    }

    /// Carries out a request that was decoded.
    pub(in crate::core) fn decoded(&mut self, key: Key, request: &Request, mut decoded: Decoded, now: Now) {
        self.describe_exchange(key, &mut decoded);
        // Its credential may have been revoked while it was decoded.
        let Some(principal) = self.connections.get(key).and_then(|conn| conn.principal.clone()) else {
            let (Ok((_, form)) | Err((_, form))) = &decoded;
            let kind = FaultKind::Unauthenticated { shown: true, basic: false };
            return self.refuse(key, form, &Fault::new(kind, "The credential was revoked or changed."), now);
        };
        if let Ok((call, form)) = &decoded {
            self.log_request(key, call, &source(request, form, &principal), now);
        }
        match decoded {
            Ok((Call::Card, _)) => {
                let mut response = self.settings.card.answer(request);
                response.headers.extend(self.settings.host_policy.vary_header(request));
                self.answer(key, &response, now);
            }
            Ok((Call::ExtendedCard, form)) if !principal.rights.has(Right::View) => {
                let fault =
                    Fault::new(FaultKind::RightMissing(Right::View), "The extended card needs the right \"view\".");
                self.refuse(key, &form, &fault, now);
            }
            Ok((Call::ExtendedCard, form)) => {
                let response = self.settings.card.extended(request.headers.get("host"), &form);
                self.answer(key, &response, now);
            }
            Ok((call, form)) => {
                if let Call::Join(_) = call
                    && let Err(response) = self.prepare_upgrade(key, request, &form)
                {
                    return self.answer(key, &response, now);
                }
                let by = source(request, &form, &principal);
                self.dispatch(Parked::new(Caller { conn: key, form, by, principal }, call), now);
            }
            Err((fault, form)) => self.refuse(key, &form, &fault, now),
        }
    }
}

/// The source of a request, as other clients are shown it.
fn source(request: &Request, form: &a2a::Form, principal: &Principal) -> Source {
    let agent = request.headers.get("user-agent").and_then(|agent| agent.split_whitespace().next());
    let named = request.query("client").or(agent).unwrap_or("a client");
    let client: String = named.chars().take(80).collect();
    let subject = principal.credential.is_some().then(|| principal.subject.clone());
    Source { credential: principal.credential.clone(), subject, ..Source::new(client, form.dialect.via) }
}
