//! The request that a connection serves, as the access log and the metrics show it.

use super::Conn;
use crate::a2a::{self, Dialect, Form};
use crate::base::clock::Now;
use crate::base::http::{Headers, Method, Request};
use crate::base::id::TaskId;
use crate::core::connections::guard::AllowedOrigin;
use crate::core::operation::exchange::{CloseReason, Details, Exchange, RequestId, Shape};

/// The header with the id of a request, in requests and in answers.
const REQUEST_ID: &str = "X-Request-Id";

impl Conn {
    /// Begins the exchange of a request that was received.
    pub fn begin(&mut self, request: &Request, details: Option<Details>, now: Now) {
        let id = RequestId::of(&request.headers, &mut self.ids);
        let mut exchange = Exchange::new(id, request.method, a2a::route(&request.path));
        exchange.error_dialect = Form::at(&request.path).dialect;
        self.put(exchange, details, now);
    }

    /// Begins the exchange of a request that cannot be read to its end.
    pub(super) fn begin_rejected(&mut self, status: u16, now: Now) {
        self.set_close_reason(match status {
            408 => CloseReason::Idle,
            413 | 414 | 431 | 503 => CloseReason::Limit,
            _ => CloseReason::Peer,
        });
        let none = Headers::default();
        let id = RequestId::of(self.reader.headers().unwrap_or(&none), &mut self.ids);
        let path = self.reader.path().unwrap_or_default().to_owned();
        let exchange = Exchange::new(id, Method::Other, a2a::route(&path));
        self.put(exchange, Some(Details { path, ..Details::default() }), now);
    }

    fn put(&mut self, exchange: Exchange, details: Option<Details>, now: Now) {
        self.finish(CloseReason::Done);
        self.exchange = Some(Box::new(Exchange {
            at: now.unix_ms,
            began_ms: now.mono_ms,
            bytes_in: std::mem::take(&mut self.bytes_in),
            // Output that was queued before belongs to earlier requests.
            bytes_out: self.output.queued(),
            details: details.map(Box::new),
            ..exchange
        }));
    }

    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_deref()
    }

    pub fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        self.exchange.as_deref_mut()
    }

    /// The form of an error for a request of which only the path was decoded.
    pub fn form_at(&self, path: &str) -> Form {
        Form { request: self.sent_id(), ..Form::at(path) }
    }

    /// The form of an error for the request being served, whatever the request asks for.
    pub fn error_form(&self) -> Form {
        let dialect = self.exchange().map_or(Dialect::GEMINI, |exchange| exchange.error_dialect);
        Form { request: self.sent_id(), ..Form::of(dialect) }
    }

    /// The id that the client gave to its request.
    pub fn sent_id(&self) -> Option<Box<str>> {
        self.exchange().filter(|exchange| exchange.id.is_sent).map(|exchange| exchange.id.text.clone())
    }

    /// Notes the task that the request is about.
    pub fn is_about(&mut self, task: &TaskId) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.task.get_or_insert_with(|| task.clone());
        }
    }

    /// Notes why the connection is going to be closed. The first reason counts.
    pub fn set_close_reason(&mut self, reason: CloseReason) {
        self.close_reason.get_or_insert(reason);
    }

    pub fn close_reason(&self) -> CloseReason {
        self.close_reason.unwrap_or(CloseReason::Peer)
    }

    /// The headers that every answer to the request gets.
    pub(super) fn own_headers(&self) -> Vec<(&'static str, String)> {
        let id = self.exchange().map(|exchange| (REQUEST_ID, exchange.id.text.to_string()));
        id.into_iter().chain(self.allowed_origin.iter().flat_map(AllowedOrigin::headers)).collect()
    }

    pub(super) fn answered_with(&mut self, status: u16, shape: Shape) {
        if let Some(exchange) = self.exchange_mut() {
            (exchange.status, exchange.shape) = (Some(status), shape);
        }
    }

    /// Ends the exchange, for this reason if no other was noted.
    pub fn finish(&mut self, reason: CloseReason) {
        let Some(mut exchange) = self.exchange.take() else {
            return;
        };
        exchange.bytes_out = self.output.queued() - exchange.bytes_out;
        if exchange.shape == Shape::Socket {
            exchange.bytes_in += std::mem::take(&mut self.bytes_in);
        }
        let is_answered = exchange.shape == Shape::Answer && exchange.status.is_some();
        exchange.ended = (!is_answered).then(|| self.close_reason.unwrap_or(reason));
        self.finished.push(*exchange);
    }
}
