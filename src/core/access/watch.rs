//! Changes of the credentials file. They end the requests, streams and sockets of credentials that were revoked or changed or have expired.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::slots::Key;
use crate::core::access::{Change, Changes, Mode};
use crate::core::connections::guard;
use crate::core::operation::exchange::CloseReason;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::limits::access::CREDENTIALS_CHECK_MS;
use crate::task::access::Principal;
use crate::task::access::credentials::CredentialsFile;
use crate::task::audit::{Entry, Kind, What, Who};
use crate::task::fault::{Fault, FaultKind};
use serde_json::json;
use std::sync::Arc;

impl Core {
    /// A client has connected: the credentials file is checked for changes at intervals from now on. If nobody was connected for a while,
    /// requests wait for the first check.
    pub(in crate::core) fn watch_credentials(&mut self, now: Now) {
        let access = &mut self.access;
        if access.mode == Mode::Local || access.is_watched {
            return;
        }
        access.is_watched = true;
        let due = access.checked_at + CREDENTIALS_CHECK_MS;
        if now.mono_ms < due {
            return self.timers.arm(due, Timer::Credentials);
        }
        access.is_outdated = true;
        self.check_credentials_file();
    }

    /// Checks the credentials file at once, because the operator has asked for that (SIGHUP).
    pub(in crate::core) fn reload_credentials(&mut self) {
        if self.access.mode == Mode::Token {
            self.check_credentials_file();
        }
    }

    /// Requests a check of the credentials file from the shell.
    pub(in crate::core) fn check_credentials_file(&mut self) {
        self.out.push(Out::ReadCredentials);
    }

    /// Whether requests wait until the credentials file was checked.
    pub(in crate::core) fn waits_for_credentials(&self) -> bool {
        self.access.is_outdated
    }

    /// The credentials file was checked. None: it has not changed.
    pub(in crate::core) fn credentials_read(&mut self, read: Option<Result<CredentialsFile, String>>, now: Now) {
        self.access.checked_at = now.mono_ms;
        match read {
            None => {}
            Some(Err(why)) => {
                if self.access.problem.as_ref() != Some(&why) {
                    let text = format!(
                        "the credentials file was changed and is not used; the former credentials stay valid: {why}"
                    );
                    self.out.push(Out::warning(text));
                }
                self.access.problem = Some(why);
            }
            Some(Ok(file)) => {
                self.access.problem = None;
                let changes = self.access.replace(file);
                self.audit_credentials(&changes, now);
                let Changes { changed, removed, .. } = changes;
                let ended = changed.into_iter().filter(|(_, change)| *change != Change::Continued);
                let removed = removed.into_iter().map(|id| (id, Change::SecretWithdrawn));
                let ended: Vec<(Arc<str>, Change)> = ended.chain(removed).collect();
                if !ended.is_empty() {
                    let names: Vec<&str> = ended.iter().map(|(id, _)| &**id).collect();
                    self.out.push(Out::info(format!("credentials were changed or revoked: {}", names.join(", "))));
                }
                for (id, change) in ended {
                    self.end_connections_of(&id, change, now);
                }
            }
        }
        self.end_expired(now);
        if std::mem::take(&mut self.access.is_outdated) {
            let waiting: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
            for key in waiting {
                self.resume_request(key, now);
            }
        }
        self.access.is_watched = self.connections.iter().next().is_some();
        if self.access.is_watched {
            self.timers.arm(now.mono_ms + CREDENTIALS_CHECK_MS, Timer::Credentials);
        }
    }

    /// Serves a request. If the credentials file may have changed unnoticed, the request waits for its check. Public requests never wait.
    pub(in crate::core) fn serve_when_known(&mut self, key: Key, request: Box<Request>, now: Now) {
        if !self.waits_for_credentials() || guard::is_public(&request) {
            return self.serve(key, *request, now);
        }
        if let Some(conn) = self.connections.get_mut(key) {
            conn.waiting = Some(request);
            conn.awaits_credentials = true;
        }
    }

    /// The credentials file was checked: serves the request of a connection that waited for that.
    fn resume_request(&mut self, key: Key, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let waited = std::mem::take(&mut conn.awaits_credentials);
        if let Some(request) = waited.then(|| conn.waiting.take()).flatten() {
            self.serve(key, *request, now);
        } else if conn.awaits_check {
            self.check_head(key, now);
        }
        self.read_on(key, now);
    }
}

impl Core {
    fn audit_credentials(&mut self, changes: &Changes, now: Now) {
        let Changes { added, changed, removed } = changes;
        let changed: Vec<&Arc<str>> = changed.iter().map(|(id, _)| id).collect();
        let mut what = What::default();
        for (name, ids) in [("came", added.iter().collect()), ("changed", changed), ("went", removed.iter().collect())]
        {
            if !ids.is_empty() {
                what = what.with(name, json!(ids));
            }
        }
        if what != What::default() {
            self.audit(&Entry::new(Kind::Credentials, Who::server(), what), now);
        }
    }

    /// Audits that the secret of a credential before the last rotation was used, once until the file changes.
    pub(super) fn note_former(&mut self, principal: &Principal, now: Now) {
        let Some(id) = principal.credential.as_ref().filter(|id| !self.access.former_used.contains(*id)) else {
            return;
        };
        self.access.former_used.insert(id.clone());
        let who =
            Who { credential: Some(id.to_string()), subject: Some(principal.subject.to_string()), ..Who::default() };
        self.audit(&Entry::new(Kind::Credentials, who, What::default().with("former", json!(id))), now);
    }

    /// Arms the timer for a credential that expires at this time.
    pub(super) fn watch_end(&mut self, until: u64, now: Now) {
        let at = now.mono_ms + until.saturating_sub(now.unix_ms);
        if self.access.end_armed.is_none_or(|armed| at < armed) {
            self.access.end_armed = Some(at);
            self.timers.arm(at, Timer::AccessEnds);
        }
    }

    /// Ends the requests, streams and sockets of clients whose credential, or former secret, has expired.
    pub(in crate::core) fn end_expired(&mut self, now: Now) {
        self.access.end_armed = self.access.end_armed.filter(|armed| *armed > now.mono_ms);
        let mut expired = Vec::new();
        let mut next = None;
        for (key, conn) in self.connections.iter() {
            let of_socket = conn.socket().and_then(|socket| socket.caller.principal.until);
            let until = of_socket.or_else(|| conn.principal.as_ref()?.until);
            match until {
                Some(until) if until <= now.unix_ms => expired.push(key),
                Some(until) => next = Some(next.map_or(until, |next: u64| next.min(until))),
                None => {}
            }
        }
        for key in expired {
            self.end_access(key, 4401, "credential expired", now);
        }
        if let Some(next) = next {
            self.watch_end(next, now);
        }
    }

    /// Ends the requests, streams and sockets of a credential. The tasks continue.
    fn end_connections_of(&mut self, id: &Arc<str>, change: Change, now: Now) {
        let is_of = |principal: &Principal| principal.credential.as_ref() == Some(id);
        let affected = self.connections.iter().filter(|(_, conn)| {
            let of_socket = conn.socket().is_some_and(|socket| is_of(&socket.caller.principal));
            of_socket || conn.principal.as_ref().is_some_and(|principal| is_of(principal))
        });
        let affected: Vec<Key> = affected.map(|(key, _)| key).collect();
        let (code, reason) = match change {
            Change::Continued => return,
            Change::RightsChanged => (4403, "rights changed"),
            Change::SecretWithdrawn => (4401, "credential revoked"),
        };
        for key in affected {
            self.end_access(key, code, reason, now);
        }
    }

    /// Ends the request, stream or socket of a connection. Calls that wait and have not begun are not carried out.
    fn end_access(&mut self, key: Key, code: u16, reason: &str, now: Now) {
        // A request whose body is being read is answered and logged too.
        let head = self.connections.get(key).filter(|conn| conn.is_reading_body()).and_then(|conn| conn.head());
        if let Some(head) = head {
            self.begin_exchange(key, &head, now);
        }
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let subs = std::mem::take(&mut conn.subs);
        conn.principal = None;
        conn.waiting = None;
        conn.set_close_reason(CloseReason::Revoked);
        if conn.socket().is_some() {
            conn.close_socket(code, reason, now);
        } else if conn.is_live() {
            conn.end_stream(now);
        } else {
            let kind = FaultKind::Unauthenticated { shown: true, basic: false };
            let message = "The credential was revoked or changed while the call waited. The task goes on.";
            let form = conn.error_form();
            conn.refuse_access(&a2a::fault(&form, &Fault::new(kind, message)), now);
        }
        self.disk.drop_requests_of(key);
        for sub in subs {
            self.unsubscribe(sub);
        }
        self.after_io(key);
    }
}
