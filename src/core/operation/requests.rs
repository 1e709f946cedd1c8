//! Records the requests of connections from their beginning to their end, for the access log and the metrics.

use crate::a2a::{Decoded, Form};
use crate::base::clock::Now;
use crate::base::http::{Method, Request};
use crate::base::slots::Key;
use crate::core::connections::connection::Conn;
use crate::core::operation::access_log::Entry;
use crate::core::operation::exchange::{CloseReason, Details, Exchange};
use crate::core::requests::Caller;
use crate::core::requests::needs::Needs;
use crate::core::{Close, Core, Out};
use crate::task::access::Principal;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Source;
use std::sync::Arc;

/// The path of the metrics.
const METRICS: &str = "/metrics";

impl Core {
    /// Begins the exchange of a request that was received.
    pub(in crate::core) fn begin_exchange(&mut self, key: Key, request: &Request, now: Now) {
        self.operation.now = now;
        self.note_finished(key);
        let details = self.settings.operation.access_log.then(|| Details::of(request));
        if let Some(conn) = self.connections.get_mut(key) {
            conn.begin(request, details, now);
        }
    }

    /// A request was decoded: notes what it asks for, and gives its form the id that the client chose.
    pub(in crate::core) fn describe_exchange(&mut self, key: Key, decoded: &mut Decoded) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let request = conn.sent_id();
        let (Ok((_, form)) | Err((_, form))) = decoded;
        form.request = request;
        let dialect = form.dialect.name;
        if let Some(exchange) = conn.exchange_mut() {
            exchange.dialect = Some(dialect);
            if let Ok((call, _)) = decoded {
                exchange.call = Some(call.name());
                exchange.task = Needs::of(call).task.cloned();
            }
        }
    }

    /// Serves a request at the listener for metrics. Everybody may read them there, and nothing else is served.
    pub(in crate::core) fn serve_metrics(&mut self, key: Key, request: &Request, now: Now) {
        let form = self.form_at(key, &request.path);
        let mut decoded = match (request.method, request.path.as_str()) {
            (Method::Get | Method::Head, METRICS) => Ok((Call::Metrics, form)),
            _ => Err((Fault::new(FaultKind::NotFound, "Here is nothing but GET /metrics."), form)),
        };
        self.describe_exchange(key, &mut decoded);
        match decoded {
            Ok((_, form)) => {
                let by = Source::new("a monitor", form.dialect.via);
                let caller = Caller { conn: key, form, by, principal: Arc::new(Principal::nobody()) };
                // It is never refused.
                let _ = self.scrape(&caller);
            }
            Err((fault, form)) => self.refuse(key, &form, &fault, now),
        }
    }

    /// The form of an error for a request of which only the path was decoded.
    pub(in crate::core) fn form_at(&self, key: Key, path: &str) -> Form {
        self.connections.get(key).map_or_else(|| Form::at(path), |conn| conn.form_at(path))
    }

    /// Closes a connection for this reason, unless another one was noted.
    pub(in crate::core) fn close_for(&mut self, key: Key, reason: CloseReason, how: Close) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.set_close_reason(reason);
        }
        self.close_conn(key, how);
    }

    /// Records the requests of a connection that have ended.
    pub(in crate::core) fn note_finished(&mut self, key: Key) {
        let Some(conn) = self.connections.get_mut(key).filter(|conn| !conn.finished.is_empty()) else {
            return;
        };
        let finished = std::mem::take(&mut conn.finished);
        let address = conn.client_address;
        finished.into_iter().for_each(|exchange| self.note_exchange(exchange, address));
    }

    /// Records a connection that was closed, and its last request.
    pub(in crate::core) fn note_closed(&mut self, conn: &mut Conn) {
        conn.finish(CloseReason::Peer);
        self.operation.metrics.close(conn.close_reason());
        let address = conn.client_address;
        std::mem::take(&mut conn.finished).into_iter().for_each(|exchange| self.note_exchange(exchange, address));
    }

    fn note_exchange(&mut self, exchange: Exchange, peer: Option<::core::net::IpAddr>) {
        let ms = self.operation.now.mono_ms.saturating_sub(exchange.began_ms);
        self.operation.metrics.request(&exchange, ms);
        if self.settings.operation.access_log {
            self.out.push(Out::AccessLog(Box::new(Entry { exchange, peer, ms })));
        }
    }
}
