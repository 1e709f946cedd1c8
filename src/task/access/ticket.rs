//! Tickets, with which web pages open WebSockets, because browsers do not let pages set header fields there. A ticket is issued for a
//! credential, is valid for a short time and for one connection from one origin, and may have fewer rights than the credential.
//!
//! A ticket contains its rights and an HMAC of its content. The key of the HMAC is derived from the stored hash of the credential, so every
//! server with the same credentials file can check a ticket, and a ticket of a changed credential is invalid.

use crate::base::id::TaskId;
use crate::task::access::credentials::RightWord;
use crate::task::access::token::{Hash, RANDOM_BYTES};
use crate::task::access::{Principal, Right, Rights};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};

const PREFIX: &str = "tk_";
const TAG_BYTES: usize = 32;

/// The content of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The id of its credential. None: it was issued to the operator without a credential.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Until when it can be used to open a connection, in Unix milliseconds.
    #[serde(rename = "e")]
    pub expires: u64,
    /// A random value that makes every ticket unique.
    #[serde(rename = "n")]
    pub nonce: String,
    #[serde(rename = "r")]
    rights: Vec<RightWord>,
    /// The only task that it may be used for.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The only origin of a page that may use it.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// When the credential or token that it was issued for expires.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

impl Ticket {
    /// A ticket for a principal, with the wanted rights or all of the principal's. The error is a wanted right that the principal lacks.
    pub fn new(
        principal: &Principal,
        wanted: Option<Rights>,
        task: Option<TaskId>,
        origin: Option<String>,
        expires: u64,
        nonce: String,
    ) -> Result<Ticket, Right> {
        let rights = wanted.unwrap_or(principal.rights);
        if let Some(missing) = principal.rights.lacks(rights) {
            return Err(missing);
        }
        Ok(Ticket {
            credential: principal.credential.as_deref().map(str::to_owned),
            expires,
            nonce,
            rights: rights.iter().map(RightWord).collect(),
            task: task.or_else(|| principal.task.clone()),
            origin,
            until: principal.until,
        })
    }

    pub fn rights(&self) -> Rights {
        self.rights.iter().map(|right| right.0).collect()
    }

    /// The principal of the ticket's bearer, given the present principal of the ticket's credential.
    pub fn narrow(&self, owner: &Principal) -> Principal {
        Principal {
            rights: self.rights().within(owner.rights),
            task: self.task.clone(),
            until: self.until,
            ..owner.clone()
        }
    }

    /// The text of the ticket.
    pub fn write(&self, key: &TicketKey) -> String {
        let mut bytes = serde_json::to_vec(self).expect("it has names and numbers only");
        let tag = hmac::sign(&key.0, &bytes);
        bytes.extend_from_slice(tag.as_ref());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// A ticket whose HMAC was not checked yet.
#[derive(Debug)]
pub struct Unchecked {
    ticket: Ticket,
    signed: Vec<u8>,
    tag: Vec<u8>,
}

impl Unchecked {
    pub fn read(text: &str) -> Option<Unchecked> {
        let mut signed = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let tag = signed.split_off(signed.len().checked_sub(TAG_BYTES)?);
        let ticket = serde_json::from_slice(&signed).ok()?;
        Some(Unchecked { ticket, signed, tag })
    }

    /// The id of the credential that the ticket names.
    pub fn credential(&self) -> Option<&str> {
        self.ticket.credential.as_deref()
    }

    /// The ticket, if it was signed with this key and has not expired.
    pub fn check(self, key: &TicketKey, unix_ms: u64) -> Option<Ticket> {
        hmac::verify(&key.0, &self.signed, &self.tag).ok()?;
        Some(self.ticket).filter(|ticket| unix_ms < ticket.expires)
    }
}

/// The key that signs tickets.
#[derive(Clone)]
pub struct TicketKey(hmac::Key);

impl TicketKey {
    /// The key for tickets of a credential. It changes with every property of the credential that affects access.
    pub fn of_credential(hash: &Hash, principal: &Principal) -> TicketKey {
        let Principal { subject, credential, rights, roots, tenant, .. } = principal;
        let all = format!("ticket 1 {subject:?} {credential:?} {rights:?} {roots:?} {tenant:?}");
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, hash.as_bytes()), all.as_bytes());
        TicketKey(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    /// The key for tickets that only this process can check.
    pub fn of_process(random: &[u8; RANDOM_BYTES]) -> TicketKey {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, random), b"ticket 1");
        TicketKey(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Principal {
        let rights = [Right::View, Right::Prompt].into_iter().collect();
        Principal { subject: "ann".into(), credential: Some("laptop".into()), rights, ..Principal::nobody() }
    }

    fn ticket(wanted: Option<Rights>) -> Result<Ticket, Right> {
        Ticket::new(&ann(), wanted, Some("t-1".into()), Some("https://a.example".into()), 30_000, "n".into())
    }

    #[test]
    fn a_ticket_is_read_as_it_was_written_by_whoever_has_the_key() {
        let ticket = ticket(None).expect("nothing is missing");
        let key = TicketKey::of_credential(&Hash::of("secret"), &ann());
        let text = ticket.write(&key);
        assert!(text.starts_with("tk_") && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)));
        let read =
            |text: &str, key: &TicketKey, ms| Unchecked::read(text).and_then(|unchecked| unchecked.check(key, ms));
        assert_eq!(read(&text, &key, 29_999), Some(ticket.clone()));
        assert_eq!(read(&text, &key, 30_000), None, "its time is over");
        let changed = Principal { rights: Rights::ALL, ..ann() };
        for other in [
            TicketKey::of_credential(&Hash::of("other"), &ann()),
            TicketKey::of_credential(&Hash::of("secret"), &changed),
            TicketKey::of_process(&[7; 32]),
        ] {
            assert_eq!(read(&text, &other, 0), None);
        }
        assert_eq!(ticket.narrow(&ann()).task, Some("t-1".into()));
    }

    #[test]
    fn no_changed_ticket_is_valid() {
        let key = TicketKey::of_process(&[7; 32]);
        let text = ticket(None).expect("nothing is missing").write(&key);
        for at in 3..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("letters");
            // Some bits of the last letter are not part of the content.
            let is_same = URL_SAFE_NO_PAD.decode(&changed[3..]) == URL_SAFE_NO_PAD.decode(&text[3..]);
            let found = Unchecked::read(&changed).and_then(|unchecked| unchecked.check(&key, 0));
            assert!(found.is_none() || is_same, "{at}");
        }
        for wrong in ["", "tk_", "tk_AAAA", "AAAA", "tk_!"] {
            assert!(Unchecked::read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_ticket_allows_no_more_than_its_credential() {
        let view = Rights::NONE.and(Right::View);
        assert_eq!(ticket(Some(view)).map(|ticket| ticket.rights()), Ok(view));
        assert_eq!(ticket(Some(view.and(Right::Approve))), Err(Right::Approve));
        let admin = Principal { rights: Rights::NONE.and(Right::Admin), ..ann() };
        let narrowed = Ticket::new(&admin, Some(view), None, None, 1, "n".into()).expect("admin contains it");
        assert_eq!(narrowed.narrow(&admin).rights, view);
        assert_eq!(ticket(Some(view)).expect("it has it").narrow(&Principal::nobody()).rights, Rights::NONE);
    }
}
