//! From a request on a connection to a call: whether it is admitted, what it asks for, in which dialect.

use crate::a2a::{self, Decoded};
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::connections::guard::{self, Admission};
use crate::core::disk::Parked;
use crate::core::requests::Caller;
use crate::task::call::Call;
use crate::task::message::Source;

impl Core {
    pub(in crate::core) fn serve(&mut self, key: Key, request: Request, now: Now) {
        let Some((link, peer)) = self.connections.get(key).map(|conn| (conn.link, conn.peer)) else {
            return;
        };
        if let Err(fault) = self.settings.host_policy.check(&request, link) {
            let form = a2a::Form::at(&request.path);
            self.count_refused(key, &fault.message, now);
            return self.answer(key, &a2a::fault(&form, &fault), now);
        }
        match guard::admit(&request, peer) {
            Admission::Serve => {}
            Admission::Identify => return self.identify(key, request),
            Admission::Refuse => return self.turn_stranger_away(key, &request, now),
        }
        if let Some(origin) = self.settings.host_policy.allowed_origin(&request) {
            let preflight = origin.preflight_response(&request);
            if let Some(conn) = self.connections.get_mut(key) {
                conn.allowed_origin = Some(origin);
            }
            if let Some(response) = preflight {
                return self.answer(key, &response, now);
            }
        }
        self.decode(key, request, now);
    }

    /// A request was decoded.
    pub(in crate::core) fn decoded(&mut self, key: Key, request: &Request, decoded: Decoded, now: Now) {
        if let Ok((call, form)) = &decoded {
            self.log_request(key, call, &source(request, form), now);
        }
        match decoded {
            Ok((Call::Card, _)) => {
                let mut response = self.settings.card.answer(request);
                response.headers.extend(self.settings.host_policy.vary_header(request));
                self.answer(key, &response, now);
            }
            Ok((Call::ExtendedCard, form)) => {
                let response = self.settings.card.extended(request.headers.get("host"), &form);
                self.answer(key, &response, now);
            }
            Ok((call, form)) => {
                if let Call::Join(_) = call
                    && let Err(response) = self.shake_hands(key, request)
                {
                    return self.answer(key, &response, now);
                }
                let by = source(request, &form);
                self.dispatch(Parked::new(Caller { conn: key, form, by }, call), now);
            }
            Err((fault, form)) => self.refuse(key, &form, &fault, now),
        }
    }
}

/// The sender of a request, as other clients are shown it.
fn source(request: &Request, form: &a2a::Form) -> Source {
    let agent = request.headers.get("user-agent").and_then(|agent| agent.split_whitespace().next());
    let named = request.query("client").or(agent).unwrap_or("a client");
    Source { client: named.chars().take(80).collect(), via: form.dialect.via.to_owned() }
}
