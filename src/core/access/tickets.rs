//! Tickets: a client with a credential gets one, and a web page opens one WebSocket with it.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::core::Core;
use crate::core::access::{Access, ENVIRONMENT, KnownCredential, Verified};
use crate::core::requests::Caller;
use crate::core::requests::admission::right_missing;
use crate::limits::access::{TICKET_MS, TICKETS};
use crate::task::access::Principal;
use crate::task::access::ticket::{Ticket, TicketKey, Unchecked};
use crate::task::audit::{Kind, What};
use crate::task::call::TicketRequest;
use crate::task::fault::{Fault, FaultKind};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The only path at which a ticket is accepted.
const PATH: &str = "/ws";

/// Tickets that were used: the nonce of each, and when it expires, in Unix milliseconds.
#[derive(Default)]
pub(in crate::core) struct UsedTickets(HashMap<String, u64>);

impl UsedTickets {
    /// Notes that a ticket was used. False if it was used before, or if no more can be remembered.
    pub(super) fn note(&mut self, ticket: &Ticket, now: Now) -> bool {
        self.0.retain(|_, expires| now.unix_ms < *expires);
        self.0.len() < TICKETS && self.0.insert(ticket.nonce.clone(), ticket.expires).is_none()
    }
}

impl Access {
    fn credential(&self, id: &str) -> Option<&KnownCredential> {
        self.known.get(id).or_else(|| self.environment.as_ref().filter(|_| id == ENVIRONMENT))
    }

    /// The key that signs tickets of a principal.
    fn ticket_key(&self, principal: &Principal) -> TicketKey {
        let known = principal.credential.as_deref().and_then(|id| self.credential(id));
        known.map_or_else(|| self.process_key.clone(), |known| TicketKey::of_credential(&known.hash, &known.principal))
    }

    /// The principal of a valid ticket that is used for the first time. The error is for a ticket that was issued to another origin.
    pub(super) fn redeem(&mut self, text: &str, request: &Request, now: Now) -> Result<Option<Verified>, Fault> {
        let Some(unchecked) = Unchecked::read(text).filter(|_| request.path == PATH) else {
            return Ok(None);
        };
        let (owner, rate, key) = match unchecked.credential() {
            None => (Arc::new(Principal::operator()), Default::default(), self.process_key.clone()),
            Some(id) => match self.credential(id) {
                Some(known) => {
                    let key = TicketKey::of_credential(&known.hash, &known.principal);
                    (known.principal.clone(), known.rate, key)
                }
                None => match self.identity.as_ref().and_then(|identity| identity.principal_of(id)) {
                    Some(principal) => (Arc::new(principal), Default::default(), self.process_key.clone()),
                    None => return Ok(None),
                },
            },
        };
        let is_over = |end: Option<u64>| end.is_some_and(|end| now.unix_ms >= end);
        let Some(ticket) = unchecked.check(&key, now.unix_ms).filter(|ticket| !is_over(ticket.until.or(owner.until)))
        else {
            return Ok(None);
        };
        if !self.used_tickets.note(&ticket, now) {
            return Ok(None);
        }
        if ticket.origin.as_deref() != request.headers.get("origin") {
            return Err(Fault::new(FaultKind::Forbidden, "This ticket was issued to a page of another origin."));
        }
        Ok(Some(Verified { principal: Arc::new(ticket.narrow(&owner)), rate, is_former: false }))
    }
}

impl Core {
    /// Issues a ticket.
    pub(in crate::core) fn issue_ticket(
        &mut self,
        caller: &Caller,
        wish: TicketRequest,
        now: Now,
    ) -> Result<(), Fault> {
        let TicketRequest { rights, task, origin } = wish;
        let nonce = self.settings.entropy.uuid();
        let ticket = Ticket::new(&caller.principal, rights, task, origin, now.unix_ms + TICKET_MS, nonce);
        let ticket = ticket.map_err(right_missing)?;
        let words: Vec<&str> = ticket.rights().iter().map(|right| right.word()).collect();
        let what = What::default().with("rights", json!(words)).optional("origin", ticket.origin.clone());
        self.audit_as(caller, Kind::Ticket, ticket.task.as_ref(), what, now);
        let text = ticket.write(&self.access.ticket_key(&caller.principal));
        self.answer_now(caller.conn, &a2a::ticket(&text, TICKET_MS), now)
    }
}
