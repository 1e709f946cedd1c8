//! Subjects that an identity provider names by signed tokens (JWT), which a proxy adds to requests. The shell fetches the keys of the
//! provider.

use crate::base::clock::Now;
use crate::base::http::Request;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::limits::access::{JWKS_RETRY_MS, JWT_REMEMBERED};
use crate::task::access::Principal;
pub use crate::task::access::jwt::Key;
use crate::task::access::jwt::{self, Defect, Rules};
use crate::task::access::token::Hash;
use std::collections::HashMap;
use std::sync::Arc;

/// Which tokens are accepted, and in which header field.
#[derive(Clone, Debug)]
pub struct IdentitySetup {
    pub header: String,
    pub rules: Rules,
}

pub(in crate::core) struct IdentityProvider {
    setup: IdentitySetup,
    keys: Vec<Key>,
    /// Until when the keys may be used, and when they were last requested, in monotonic milliseconds.
    usable_until: u64,
    asked_at: Option<u64>,
    /// Why there are no keys.
    problem: Option<String>,
    /// Tokens that were verified, by their hashes, and when they expire, in Unix milliseconds.
    remembered: HashMap<[u8; 32], (Arc<Principal>, u64)>,
}

impl IdentityProvider {
    pub fn new(setup: IdentitySetup) -> IdentityProvider {
        let problem = Some("the keys were not fetched yet".to_owned());
        let (keys, remembered) = (Vec::new(), HashMap::new());
        IdentityProvider { setup, keys, usable_until: 0, asked_at: None, problem, remembered }
    }

    /// The token of a request, in the header field for it.
    pub fn token<'a>(&self, request: &'a Request) -> Option<&'a str> {
        let value = request.headers.get(&self.setup.header)?;
        let bearer = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = bearer.map_or(value, |(_, token)| token).trim();
        jwt::is_token(token).then_some(token)
    }

    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The principal of the credential that a verified token has become, with the rights that the rules give it.
    pub fn principal_of(&self, credential: &str) -> Option<Principal> {
        self.setup.rules.principal_of(credential.strip_prefix(jwt::CREDENTIAL)?)
    }

    fn verify(&mut self, token: &str, now: Now) -> Result<Arc<Principal>, Defect> {
        let mut hash = [0; 32];
        hash.copy_from_slice(Hash::of(token).as_bytes());
        if let Some((principal, until)) = self.remembered.get(&hash)
            && now.unix_ms < *until
        {
            return Ok(principal.clone());
        }
        if now.mono_ms >= self.usable_until {
            self.keys.clear();
        }
        let (principal, expires) = jwt::verify(token, &self.keys, &self.setup.rules, now.unix_ms)?;
        let principal = Arc::new(principal);
        if self.remembered.len() >= JWT_REMEMBERED {
            self.remembered.retain(|_, (_, until)| now.unix_ms < *until);
        }
        if self.remembered.len() < JWT_REMEMBERED {
            self.remembered.insert(hash, (principal.clone(), expires));
        }
        Ok(principal)
    }
}

impl Core {
    /// The principal that a token names, if it is valid. A token signed with an unknown key may be signed with a new one, so the keys are
    /// fetched again, once a minute at most.
    pub(in crate::core) fn identify_token(&mut self, token: &str, now: Now) -> Option<Arc<Principal>> {
        let identity = self.access.identity.as_mut()?;
        match identity.verify(token, now) {
            Ok(principal) => Some(principal),
            Err(Defect::UnknownKey) => {
                if identity.asked_at.is_none_or(|asked| now.mono_ms >= asked + JWKS_RETRY_MS) {
                    self.fetch_keys(now);
                }
                None
            }
            Err(_) => None,
        }
    }

    /// Requests the keys from the shell.
    pub(in crate::core) fn fetch_keys(&mut self, now: Now) {
        if let Some(identity) = &mut self.access.identity {
            identity.asked_at = Some(now.mono_ms);
            self.out.push(Out::FetchKeys);
        }
    }

    /// The keys were fetched, with the time in milliseconds for which they may be used.
    pub(in crate::core) fn keys_fetched(&mut self, fetched: Result<(Vec<Key>, u64), String>, now: Now) {
        let Some(identity) = &mut self.access.identity else {
            return;
        };
        let next = match fetched {
            Ok((keys, keep_ms)) => {
                // Tokens that an old key has signed are verified again.
                if identity.keys != keys {
                    identity.remembered.clear();
                }
                identity.keys = keys;
                identity.usable_until = now.mono_ms + keep_ms;
                identity.problem = None;
                keep_ms / 4 * 3
            }
            Err(why) => {
                if identity.problem.as_ref() != Some(&why) {
                    self.out.push(Out::warning(format!("the keys for --identity: {why}")));
                }
                identity.problem = Some(why);
                JWKS_RETRY_MS
            }
        };
        self.timers.arm(now.mono_ms + next, Timer::Identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::test_core::TestCore;
    use crate::limits::access::JWKS_KEEP_LEAST_MS;
    use crate::task::access::jwt::tests::{Issuer, claims, rules};

    fn core() -> TestCore {
        let mut test = TestCore::new();
        let setup = IdentitySetup { header: "x-token".into(), rules: rules() };
        test.core.access.identity = Some(IdentityProvider::new(setup));
        // The tokens of these tests are valid at this time.
        test.now.unix_ms = 1_800_000_000_000;
        test
    }

    fn fetches(test: &mut TestCore) -> usize {
        let (fetches, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut test.core.out).into_iter().partition(|out| matches!(out, Out::FetchKeys));
        test.core.out = others;
        fetches.len()
    }

    fn is_known(test: &mut TestCore, token: &str) -> bool {
        test.core.identify_token(token, test.now).is_some()
    }

    #[test]
    fn unknown_keys_are_fetched_once_a_minute_and_a_rotation_is_picked_up() {
        let mut test = core();
        let (old, new) = (Issuer::new("1"), Issuer::new("2"));
        let (of_old, of_new) = (old.token(&claims()), new.token(&claims()));
        for _ in 0..10 {
            assert!(!is_known(&mut test, &of_old));
        }
        assert_eq!(fetches(&mut test), 1);
        test.core.keys_fetched(Ok((old.keys(), JWKS_KEEP_LEAST_MS)), test.now);
        assert!(is_known(&mut test, &of_old) && !is_known(&mut test, &of_new));
        assert_eq!(fetches(&mut test), 0, "less than a minute");
        test.now.mono_ms += JWKS_RETRY_MS;
        for _ in 0..10 {
            assert!(!is_known(&mut test, &of_new));
        }
        assert_eq!(fetches(&mut test), 1);
        test.core.keys_fetched(Ok((new.keys(), JWKS_KEEP_LEAST_MS)), test.now);
        assert!(is_known(&mut test, &of_new) && !is_known(&mut test, &of_old), "what was remembered is checked again");
    }

    #[test]
    fn known_keys_are_used_until_they_are_too_old_if_no_new_ones_can_be_fetched() {
        let mut test = core();
        let issuer = Issuer::new("1");
        let token = issuer.token(&claims());
        test.core.keys_fetched(Ok((issuer.keys(), JWKS_KEEP_LEAST_MS)), test.now);
        let problem =
            |test: &TestCore| test.core.access.identity.as_ref().and_then(IdentityProvider::problem).is_some();
        assert!(!problem(&test));
        test.core.keys_fetched(Err("it is silent".into()), test.now);
        assert!(problem(&test) && is_known(&mut test, &token));
        let mut later = claims();
        later["email"] = "bob@example.com".into();
        let other = issuer.token(&later);
        test.now.mono_ms += JWKS_KEEP_LEAST_MS;
        assert!(!is_known(&mut test, &other));
    }

    #[test]
    fn a_remembered_token_expires() {
        let mut test = core();
        let issuer = Issuer::new("1");
        let token = issuer.token(&claims());
        test.core.keys_fetched(Ok((issuer.keys(), 86_400_000)), test.now);
        assert!(is_known(&mut test, &token));
        test.now.unix_ms += 600_000 + 60_000 - 1;
        assert!(is_known(&mut test, &token), "clocks may differ");
        test.now.unix_ms += 1;
        assert!(!is_known(&mut test, &token));
    }
}
