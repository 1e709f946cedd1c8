//! `gemini-a2a token`: makes, lists, replaces and revokes credentials. A running server notices the change within a second.

use super::credentials::{CredentialsReader, Readers, change};
use crate::args::token::{NewToken, TokenAction};
use crate::base::clock::rfc3339;
use crate::shell::event_loop::sys;
use crate::task::access::credentials::{Credential, CredentialsFile, Former, RightWord, Time, check_id};
use crate::task::access::token::{self, Hash};
use serde_json::json;
use std::path::Path;

/// Carries out an action on the credentials file, and returns the text to print. A new token is printed alone, so that it can be piped.
pub fn run(action: &TokenAction, path: &Path, now_unix_ms: u64) -> Result<String, String> {
    match action {
        TokenAction::List { json } => list(path, *json, now_unix_ms),
        TokenAction::Add(new) => add(new, path, now_unix_ms),
        TokenAction::Rotate { id, overlap_ms } => rotate(id, *overlap_ms, path, now_unix_ms),
        TokenAction::Revoke(id) => change(path, |file| {
            let before = file.credentials.len();
            file.credentials.retain(|credential| *credential.id != **id);
            if file.credentials.len() == before { Err(unknown(file, id)) } else { Ok(format!("revoked {id}\n")) }
        }),
    }
}

fn add(new: &NewToken, path: &Path, now_unix_ms: u64) -> Result<String, String> {
    check_id(&new.id)?;
    let token = token::make(&new.id, &sys::random());
    let credential = Credential {
        id: new.id.as_str().into(),
        subject: new.subject.as_deref().unwrap_or(&new.id).into(),
        rights: new.rights.iter().map(|right| RightWord(*right)).collect(),
        sha256: Hash::of(&token),
        was: None,
        not_after: new.expires_ms.map(|after| time(now_unix_ms.saturating_add(after))),
        roots: new.roots.clone(),
        tenant: None,
        rate: None,
        note: new.note.clone(),
    };
    change(path, |file| {
        if file.credentials.iter().any(|known| known.id == credential.id) {
            return Err(format!("there is a credential {} already; rotate it, or choose another id", new.id));
        }
        file.credentials.push(credential);
        Ok(())
    })?;
    Ok(format!("{token}\n"))
}

fn rotate(id: &str, overlap_ms: u64, path: &Path, now_unix_ms: u64) -> Result<String, String> {
    let token = token::make(id, &sys::random());
    change(path, |file| {
        let missing = unknown(file, id);
        let credential = file.credentials.iter_mut().find(|known| &*known.id == id).ok_or(missing)?;
        let until = time(now_unix_ms.saturating_add(overlap_ms));
        credential.was = (overlap_ms > 0).then_some(Former { sha256: credential.sha256, until });
        credential.sha256 = Hash::of(&token);
        Ok(())
    })?;
    Ok(format!("{token}\n"))
}

fn time(unix_ms: u64) -> Time {
    let text = rfc3339(unix_ms);
    Time { text, unix_ms }
}

fn unknown(file: &CredentialsFile, id: &str) -> String {
    let known: Vec<&str> = file.credentials.iter().map(|credential| &*credential.id).collect();
    match known.is_empty() {
        true => format!("there is no credential {id}, and no other"),
        false => format!("there is no credential {id}, only {}", known.join(", ")),
    }
}

fn list(path: &Path, as_json: bool, now_unix_ms: u64) -> Result<String, String> {
    // The file contains only hashes of tokens, so listing is safe even if others can read the file.
    let (_, file) = CredentialsReader::open(path, Readers::Platform)?;
    let state = |credential: &Credential| match &credential.not_after {
        Some(end) if end.unix_ms <= now_unix_ms => "expired",
        _ => "valid",
    };
    let rights = |credential: &Credential| {
        let words: Vec<&str> = credential.rights.iter().map(|right| right.0.word()).collect();
        words.join(",")
    };
    if as_json {
        let line = |credential: &Credential| {
            let mut line = json!({
                "id": credential.id, "subject": credential.subject, "rights": credential.rights,
                "state": state(credential), "roots": credential.roots, "note": credential.note,
            });
            if let Some(end) = &credential.not_after {
                line["not_after"] = end.text.as_str().into();
            }
            if let Some(was) = credential.was.as_ref().filter(|was| was.until.unix_ms > now_unix_ms) {
                line["former_until"] = was.until.text.as_str().into();
            }
            format!("{line}\n")
        };
        return Ok(file.credentials.iter().map(line).collect());
    }
    if file.credentials.is_empty() {
        return Ok(format!("There are no credentials in {}.\n", path.display()));
    }
    let line = |credential: &Credential| {
        let end = credential.not_after.as_ref().map_or(String::new(), |end| format!("  until {}", end.text));
        let note = if credential.note.is_empty() { String::new() } else { format!("  {}", credential.note) };
        let (id, subject) = (&credential.id, credential.subject.as_str());
        let (rights, state) = (rights(credential), state(credential));
        format!("{id:<16}  {subject:<16}  {rights:<26}  {state}{end}{note}\n")
    };
    Ok(file.credentials.iter().map(line).collect())
}
