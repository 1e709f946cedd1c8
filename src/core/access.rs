//! Authentication of requests. In the access mode `local`, the sender is the process at the other end of the connection
//! (`connections/identity.rs`). In the mode `token`, every request but the public ones shows a credential, which is checked when the head
//! of the request is complete.

pub mod budget;
mod client_address;
pub(in crate::core) mod counts;
#[cfg(feature = "identity")]
pub mod identity;
#[cfg(not(feature = "identity"))]
#[path = "access/identity/none.rs"]
pub mod identity;
pub mod presented;
#[cfg(test)]
pub(in crate::core) mod tests;
mod tickets;
mod turns;
mod watch;

use crate::a2a;
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::connections::connection::{Link, Peer};
use crate::core::connections::guard;
use crate::core::operation::metrics::labels::Refused;
use crate::limits::access::BUDGETS;
pub use crate::task::access::AccessMode as Mode;
use crate::task::access::Principal;
use crate::task::access::credentials::{Credential, CredentialsFile, Rate};
use crate::task::access::ticket::TicketKey;
use crate::task::access::token::{self, Comparison, Hash, RANDOM_BYTES, Tag};
use crate::task::audit::Kind;
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Source;
use ::core::net::IpAddr;
use budget::{Budget, Budgets, WrongAttempts};
use identity::{IdentityProvider, IdentitySetup};
use presented::Presented;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tickets::UsedTickets;
use turns::DelayedTurns;

/// How clients are admitted.
pub struct AccessSetup {
    pub mode: Mode,
    /// The credentials at the start.
    pub credentials: CredentialsFile,
    /// The token that the environment gives, for the operator.
    pub environment: Option<Hash>,
    /// Proxies whose `X-Forwarded-For` is believed: networks and the lengths of their prefixes.
    pub proxies: Vec<(IpAddr, u32)>,
    /// Random bytes for the keys of comparisons and tickets. Never stored.
    pub random: [u8; RANDOM_BYTES],
    /// The identity provider whose tokens name subjects, if there is one.
    pub identity: Option<IdentitySetup>,
}

impl Default for AccessSetup {
    fn default() -> AccessSetup {
        AccessSetup {
            mode: Mode::Local,
            credentials: CredentialsFile::default(),
            environment: None,
            proxies: Vec::new(),
            random: [0; RANDOM_BYTES],
            identity: None,
        }
    }
}

/// Whether the sender of a request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Sender {
    Known,
    /// The process at the other end of the connection has to be identified first.
    ToIdentify,
}

/// The name of the credential that the environment gives.
const ENVIRONMENT: &str = "env";

/// The credentials, and what their clients have used of their limits.
pub(in crate::core) struct Access {
    pub mode: Mode,
    comparison: Comparison,
    known: HashMap<Arc<str>, KnownCredential>,
    environment: Option<KnownCredential>,
    proxies: Vec<(IpAddr, u32)>,
    wrong: WrongAttempts,
    budgets: HashMap<Arc<str>, Budgets>,
    pub turns: DelayedTurns,
    /// Credentials whose former secret was used since the file was read, which was audited.
    former_used: HashSet<Arc<str>>,
    /// The key that signs tickets of callers without a credential in the file.
    process_key: TicketKey,
    /// The tickets that were used.
    used_tickets: UsedTickets,
    /// When the timer for expiring credentials fires, in monotonic milliseconds, if it is armed.
    end_armed: Option<u64>,
    /// Why the credentials file could not be read again.
    problem: Option<String>,
    /// When the file was last checked for changes, in monotonic milliseconds, and whether a timer is armed to check it again.
    checked_at: u64,
    is_watched: bool,
    /// The file may have changed unnoticed, because nobody was connected for a while.
    is_outdated: bool,
    /// The identity provider whose tokens name subjects, if there is one.
    pub(in crate::core) identity: Option<IdentityProvider>,
}

/// The sender that a valid token or ticket names.
struct Verified {
    principal: Arc<Principal>,
    rate: Rate,
    /// The token is the one before the last rotation.
    is_former: bool,
}

/// The ids of the credentials that a new file has added, changed and removed.
#[derive(Debug, Default)]
struct Changes {
    added: Vec<Arc<str>>,
    changed: Vec<(Arc<str>, Change)>,
    removed: Vec<Arc<str>>,
}

/// What a change of a credential means for clients that have shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Their requests continue.
    Continued,
    /// Their secret is invalid.
    SecretWithdrawn,
    /// Their secret is valid, with other rights or another expiry.
    RightsChanged,
}

/// A credential in the form in which tokens are compared with it.
#[derive(Debug)]
struct KnownCredential {
    tag: Tag,
    hash: Hash,
    /// The secret before the last rotation, and until when it is accepted, in Unix milliseconds.
    former: Option<(Tag, u64)>,
    not_after: Option<u64>,
    rate: Rate,
    principal: Arc<Principal>,
    /// Its entry in the file, to find out what a new file changes.
    entry: Option<Credential>,
}

impl Access {
    pub fn new(setup: AccessSetup) -> Access {
        let comparison = Comparison::new(&setup.random);
        let environment = setup.environment.map(|hash| KnownCredential {
            tag: comparison.tag(&hash),
            hash,
            former: None,
            not_after: None,
            rate: Rate::default(),
            principal: Arc::new(Principal { credential: Some(ENVIRONMENT.into()), ..Principal::operator() }),
            entry: None,
        });
        let mut access = Access {
            mode: setup.mode,
            comparison,
            known: HashMap::new(),
            environment,
            proxies: setup.proxies,
            wrong: WrongAttempts::default(),
            budgets: HashMap::new(),
            turns: DelayedTurns::default(),
            former_used: HashSet::new(),
            process_key: TicketKey::of_process(&setup.random),
            used_tickets: UsedTickets::default(),
            end_armed: None,
            problem: None,
            checked_at: 0,
            is_watched: false,
            is_outdated: false,
            identity: setup.identity.map(IdentityProvider::new),
        };
        access.replace(setup.credentials);
        access
    }

    /// Replaces the credentials with those of a new file.
    fn replace(&mut self, file: CredentialsFile) -> Changes {
        let before = std::mem::take(&mut self.known);
        self.former_used.clear();
        for credential in file.credentials {
            let known = KnownCredential {
                tag: self.comparison.tag(&credential.sha256),
                hash: credential.sha256,
                former: credential.was.as_ref().map(|was| (self.comparison.tag(&was.sha256), was.until.unix_ms)),
                not_after: credential.not_after.as_ref().map(|time| time.unix_ms),
                rate: credential.rate.unwrap_or_default(),
                principal: Arc::new(credential.principal()),
                entry: Some(credential.clone()),
            };
            self.known.insert(credential.id, known);
        }
        self.budgets.retain(|id, _| self.known.contains_key(id) || !before.contains_key(id));
        let mut changes = Changes::default();
        for (id, old) in &before {
            match self.known.get(id) {
                None => changes.removed.push(id.clone()),
                Some(new) if old.entry == new.entry => {}
                Some(new) => changes.changed.push((id.clone(), old.change_to(new))),
            }
        }
        let added = self.known.keys().filter(|id| !before.contains_key(*id));
        changes.added = added.cloned().collect();
        changes.added.sort_unstable();
        changes.changed.sort_unstable();
        changes.removed.sort_unstable();
        changes
    }

    /// What the access mode makes of a peer. In the mode `token`, other users are as good as anybody else, unless their process may be a
    /// tool's.
    pub fn peer(&self, link: Link, peer: Peer) -> Peer {
        match (self.mode, link, peer) {
            (Mode::Token, Link::Tcp | Link::NamedUnix, Peer::Stranger) => Peer::Anybody,
            (Mode::Token, Link::Tcp | Link::NamedUnix, Peer::OtherUser) => Peer::MaybeTool,
            (_, _, Peer::OtherUser) | (Mode::Local, _, Peer::Gone) => Peer::Stranger,
            (_, _, peer) => peer,
        }
    }

    /// Why the credentials file could not be read again.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The principal of a token, if it is valid now.
    fn verify(&self, token: &str, now: Now) -> Option<Verified> {
        let id = token::credential(token);
        let known = id.and_then(|id| self.known.get(id));
        // A token of an unknown form can only be that of the environment.
        let candidate = known.or(self.environment.as_ref());
        let is_current = self.comparison.is_equal(token, candidate.map(|known| &known.tag));
        let former = candidate.and_then(|known| known.former.as_ref()).filter(|(_, until)| now.unix_ms < *until);
        let is_former = self.comparison.is_equal(token, former.map(|(tag, _)| tag));
        let known = candidate.filter(|_| is_current || is_former)?;
        let is_valid = known.not_after.is_none_or(|end| now.unix_ms < end);
        let former_until = former.filter(|_| !is_current).map(|(_, until)| *until);
        let principal = match former_until {
            None => known.principal.clone(),
            Some(until) => {
                let until = known.not_after.map_or(until, |end| end.min(until));
                Arc::new(Principal { until: Some(until), ..Principal::clone(&known.principal) })
            }
        };
        is_valid.then_some(Verified { principal, rate: known.rate, is_former: former_until.is_some() })
    }

    /// The sender of a request that came through another instance, with the rights that its credential has here and now. None if there
    /// is no such credential here.
    pub fn principal_of(&self, by: &Source, now: Now) -> Option<Arc<Principal>> {
        let Some(id) = &by.credential else {
            return Some(Arc::new(Principal::operator()));
        };
        let environment = || self.environment.as_ref().filter(|known| known.principal.credential.as_ref() == Some(id));
        let known = self.known.get(id).or_else(environment);
        let valid = known.filter(|known| known.not_after.is_none_or(|end| now.unix_ms < end));
        let principal = match (valid, &self.identity) {
            (Some(known), _) => Some(known.principal.clone()),
            (None, Some(identity)) => identity.principal_of(id).map(Arc::new),
            (None, None) => None,
        };
        principal.filter(|principal| by.subject.as_ref() == Some(&principal.subject))
    }

    /// The budgets of a credential. If too many credentials have budgets, full ones are dropped, and then any of another credential.
    fn budgets(&mut self, id: &Arc<str>, rate: Rate, now: Now) -> &mut Budgets {
        if self.budgets.len() >= BUDGETS && !self.budgets.contains_key(id) {
            self.budgets.retain(|_, budgets| !budgets.is_full(now));
            if self.budgets.len() >= BUDGETS {
                let any = self.budgets.keys().find(|id| !self.known.contains_key(*id)).cloned();
                any.map(|id| self.budgets.remove(&id));
            }
        }
        let budgets = self.budgets.entry(id.clone()).or_insert_with(|| Budgets::new(rate, now));
        if budgets.rate != rate {
            *budgets = Budgets::new(rate, now);
        }
        budgets
    }
}

impl KnownCredential {
    /// What the new entry of this credential means for clients that have shown it.
    fn change_to(&self, new: &KnownCredential) -> Change {
        let (Some(old), Some(new)) = (&self.entry, &new.entry) else {
            return Change::SecretWithdrawn;
        };
        if old.sha256 != new.sha256 && new.was.as_ref().is_none_or(|was| was.sha256 != old.sha256) {
            return Change::SecretWithdrawn;
        }
        let is_same = old.principal() == new.principal() && old.not_after == new.not_after;
        if is_same { Change::Continued } else { Change::RightsChanged }
    }
}

impl Core {
    /// Checks the head of a request: whether its Host and Origin are allowed, and who sends it. A refusal is counted and audited; its fault
    /// is the answer.
    pub(in crate::core) fn check_sender(&mut self, key: Key, request: &Request, now: Now) -> Result<Sender, Fault> {
        let Some(conn) = self.connections.get_mut(key) else {
            return Ok(Sender::Known);
        };
        let (link, peer) = (conn.link, conn.peer);
        conn.client_address = self.access.address(conn, request);
        if let Err(fault) = self.settings.host_policy.check(request, link, self.access.mode) {
            let is_host = self.settings.host_policy.knows_host(request);
            self.operation.metrics.refuse(if is_host { Refused::Origin } else { Refused::Host });
            self.audit_refused_peer(Kind::Denied, key, "host_or_origin", now);
            self.count_refused(key, &fault.message, now);
            return Err(fault);
        }
        // A preflight comes without a credential.
        if self.settings.host_policy.is_preflight(request) {
            return Ok(Sender::Known);
        }
        if matches!(Presented::of(request), Ok(Presented::Ticket(_)))
            && let Err(fault) = self.settings.host_policy.check_host(request)
        {
            self.operation.metrics.refuse(Refused::Host);
            self.audit_refused_peer(Kind::Denied, key, "host_or_origin", now);
            return Err(fault);
        }
        // A tool's process could use the server's own socket without a credential.
        let is_own_socket = self.access.mode == Mode::Token && link == Link::Unix;
        let shows_nothing = Presented::of(request) == Ok(Presented::Nothing);
        if is_own_socket && peer == Peer::MaybeTool && shows_nothing && !guard::is_public(request) {
            return Ok(Sender::ToIdentify);
        }
        let fault = match self.authenticate(key, request, now) {
            Ok(_) => return Ok(Sender::Known),
            Err(fault) => fault,
        };
        let reason = if let FaultKind::RateLimited { .. } = fault.kind { "rate" } else { "credential" };
        self.operation.metrics.fault(&fault);
        self.audit_refused_peer(Kind::Denied, key, reason, now);
        self.count_refused(key, &fault.message, now);
        Err(fault)
    }

    /// Finds out the sender of a request from its head. The error is the answer.
    fn authenticate(&mut self, key: Key, request: &Request, now: Now) -> Result<Arc<Principal>, Fault> {
        let Some(conn) = self.connections.get(key) else {
            return Ok(Arc::new(Principal::nobody()));
        };
        let (address, known) = (conn.client_address, conn.principal.clone());
        let shown = Presented::of(request);
        let (shows_nothing, shows_ticket) =
            (shown == Ok(Presented::Nothing), matches!(shown, Ok(Presented::Ticket(_))));
        let is_operator = match (self.access.mode, conn.link, conn.peer) {
            (Mode::Local, _, peer) => matches!(peer, Peer::SameUser | Peer::MaybeTool),
            (Mode::Token, Link::Unix, Peer::SameUser) => shows_nothing,
            (Mode::Token, _, _) => false,
        };
        let nobody = || Arc::new(Principal::nobody());
        let principal = match (self.access.mode, guard::is_public(request)) {
            // The head was checked before.
            _ if let Some(known) = known => known,
            (_, false) if shows_ticket => self.check_credential(request, address, now)?,
            _ if is_operator => Arc::new(Principal::operator()),
            // Other peers are served or refused by their process, not here.
            (Mode::Local, _) => nobody(),
            // A public request with a credential is answered with more, unless checking that would have to wait.
            (Mode::Token, true) if shows_nothing || self.access.is_outdated => nobody(),
            (Mode::Token, true) => self.check_credential(request, address, now).unwrap_or_else(|_| nobody()),
            (Mode::Token, false) => self.check_credential(request, address, now)?,
        };
        if let Some(conn) = self.connections.get_mut(key) {
            conn.principal = Some(principal.clone());
            if let Some(exchange) = conn.exchange_mut().filter(|_| !principal.is_nobody()) {
                exchange.subject = Some(principal.subject.as_str().into());
                exchange.credential = principal.credential.as_deref().map(Into::into);
            }
        }
        if let Some(until) = principal.until {
            self.watch_end(until, now);
        }
        Ok(principal)
    }

    /// The sender that the credential, ticket or identity token of a request names. A request is counted among the calls of its credential.
    fn check_credential(
        &mut self,
        request: &Request,
        address: Option<IpAddr>,
        now: Now,
    ) -> Result<Arc<Principal>, Fault> {
        let is_browser = request.headers.iter().any(|(name, _)| name == "origin" || name.starts_with("sec-fetch-"));
        let refusal =
            |shown: bool, message: &str| Fault::new(FaultKind::Unauthenticated { shown, basic: !is_browser }, message);
        let shown = Presented::of(request).map_err(|why| Fault::new(FaultKind::InvalidRequest, why))?;
        // A credential takes precedence over the token of the identity provider.
        let identity = self.access.identity.as_ref();
        let sent = identity.and_then(|identity| identity.token(request));
        let named = sent.filter(|named| match &shown {
            Presented::Nothing => true,
            Presented::Token(token) => token == named,
            Presented::Basic { .. } | Presented::Ticket(_) => false,
        });
        let token = match &shown {
            Presented::Nothing if named.is_some() => None,
            Presented::Nothing if self.access.has_no_credentials() => {
                let message = "This server has no credentials yet. Its operator gives it some with A2A_TOKEN or \
                               A2A_CREDENTIALS_FILE.";
                return Err(refusal(false, message));
            }
            Presented::Nothing => {
                return Err(refusal(false, "This server needs a credential: send Authorization: Bearer TOKEN."));
            }
            Presented::Ticket(_) => None,
            Presented::Token(token) => Some(token.as_str()),
            Presented::Basic { id, token } => Some(token.as_str()).filter(|token| token::credential(token) == Some(id)),
        };
        let found = match (&shown, named) {
            (Presented::Ticket(ticket), _) => self.access.redeem(ticket, request, now)?,
            (_, Some(named)) => {
                let principal = self.identify_token(named, now);
                principal.map(|principal| Verified { principal, rate: Rate::default(), is_former: false })
            }
            (_, None) => token.and_then(|token| self.access.verify(token, now)),
        };
        let Some(Verified { principal, rate, is_former }) = found else {
            return Err(match self.access.wrong.count(address, now) {
                None => refusal(true, "The credential is not valid: it is unknown, revoked or expired."),
                Some(retry_after_ms) => {
                    let message = "Too many wrong credentials came from this address. Wait, then use a valid one.";
                    Fault::new(FaultKind::RateLimited { retry_after_ms }, message)
                }
            });
        };
        if is_former {
            self.note_former(&principal, now);
        }
        self.spend(&principal, rate, |budgets| &mut budgets.calls, "calls", now)?;
        let other = sent.filter(|_| named.is_none()).and_then(|sent| self.identify_token(sent, now));
        Ok(other.map_or(principal.clone(), |other| Arc::new(principal.with_identity(&other.subject))))
    }

    /// Takes one from a budget of the credential. The error says when to try again. In the mode `local` there are no budgets.
    fn spend(
        &mut self,
        principal: &Principal,
        rate: Rate,
        which: impl FnOnce(&mut Budgets) -> &mut Budget,
        what: &str,
        now: Now,
    ) -> Result<(), Fault> {
        let Some(id) = &principal.credential else {
            return Ok(());
        };
        match which(self.access.budgets(id, rate, now)).take(now) {
            Ok(()) => Ok(()),
            Err(retry_after_ms) => {
                let message = format!("This credential has used up its {what} per minute. Wait, then try again.");
                Err(Fault::new(FaultKind::RateLimited { retry_after_ms }, message))
            }
        }
    }

    /// Counts a message of a socket among the calls of its credential.
    pub(in crate::core) fn spend_call(&mut self, principal: &Principal, now: Now) -> Result<(), Fault> {
        let rate = self.access.rate(principal);
        self.spend(principal, rate, |budgets| &mut budgets.calls, "calls", now)
    }

    /// Counts a prompt of a credential.
    pub(in crate::core) fn spend_prompt(&mut self, principal: &Principal, now: Now) -> Result<(), Fault> {
        let rate = self.access.rate(principal);
        self.spend(principal, rate, |budgets| &mut budgets.prompts, "prompts", now)
    }

    /// Checks the head of a request before its body is read, so that clients without a credential cannot send long bodies.
    pub(in crate::core) fn check_head(&mut self, key: Key, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let head = if self.access.mode == Mode::Token { conn.head() } else { None };
        let Some(head) = head else {
            return conn.admit_body();
        };
        conn.awaits_check = false;
        conn.allowed_origin = self.settings.host_policy.allowed_origin(&head);
        let response = self.check_sender(key, &head, now).err().map(|fault| {
            self.begin_exchange(key, &head, now);
            a2a::fault(&self.form_at(key, &head.path), &fault)
        });
        match (self.connections.get_mut(key), response) {
            (Some(conn), None) => conn.admit_body(),
            (Some(conn), Some(response)) => conn.refuse_body(&response, now),
            (None, _) => {}
        }
    }
}

impl Access {
    fn rate(&self, principal: &Principal) -> Rate {
        principal.credential.as_ref().map(|id| self.rate_of(id)).unwrap_or_default()
    }

    /// Whether no token can be valid.
    fn has_no_credentials(&self) -> bool {
        self.known.is_empty() && self.environment.is_none() && self.identity.is_none()
    }

    /// The limits of a credential.
    fn rate_of(&self, id: &str) -> Rate {
        self.known.get(id).map(|known| known.rate).unwrap_or_default()
    }
}
