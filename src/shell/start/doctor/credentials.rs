//! Checks whether a server could use the credentials file, and how many credentials it has.

use super::{Finding, failure, fine, warning};
use crate::shell::access::credentials::{CredentialsReader, Readers};
use crate::shell::event_loop::sys;
use crate::shell::start::access;
use crate::shell::start::embed::Plan;
use crate::shell::start::workspace_settings::Env;
use crate::task::access::AccessMode;
use crate::task::access::credentials::{Credential, CredentialsFile};

const SUBJECT: &str = "credentials";
const MAKE: &str = "make one with gemini-a2a token add NAME --rights view,prompt";

pub fn check(plan: &Plan, env: &Env) -> Finding {
    let settings = &plan.settings.access;
    let path = access::path(settings.credentials.as_deref(), &plan.state);
    let is_needed = settings.mode() == AccessMode::Token;
    if !is_needed && !path.exists() {
        return fine(SUBJECT, "none are needed with --access local");
    }
    match CredentialsReader::open(&path, Readers::of_environment(&**env)) {
        Err(why) if is_needed => failure(SUBJECT, why, "the server does not start with it"),
        Err(why) => warning(SUBJECT, why, "a server with --access token would not start with it"),
        Ok((_, file)) => of_file(&file, settings.token.is_some(), is_needed, &path.display().to_string()),
    }
}

fn of_file(file: &CredentialsFile, has_variable: bool, is_needed: bool, path: &str) -> Finding {
    let now = sys::unix_ms();
    let is_expired = |credential: &&Credential| credential.not_after.as_ref().is_some_and(|end| now >= end.unix_ms);
    let expired: Vec<&str> = file.credentials.iter().filter(is_expired).map(|credential| &*credential.id).collect();
    let count = file.credentials.len();
    let variable = if has_variable { ", and that of A2A_TOKEN" } else { "" };
    let found = format!("{count} in {path}{variable}");
    if is_needed && count == expired.len() && !has_variable {
        let why = if count == 0 { "the server does not start without one" } else { "all have expired" };
        return failure(SUBJECT, format!("{found}; {why}"), MAKE);
    }
    match expired.is_empty() {
        true => fine(SUBJECT, found),
        false => {
            let advice = "revoke them with gemini-a2a token revoke ID";
            warning(SUBJECT, format!("{found}; expired: {}", expired.join(", ")), advice)
        }
    }
}
