//! A build without the feature `identity`: there is no identity provider.

use crate::base::clock::Now;
use crate::base::http::Request;
use crate::core::Core;
use crate::task::access::Principal;
use std::sync::Arc;

/// Has no value.
#[derive(Clone, Debug)]
pub enum IdentitySetup {}

/// Has no value.
#[derive(Clone, Debug)]
pub enum Key {}

pub(in crate::core) struct IdentityProvider(IdentitySetup);

impl IdentityProvider {
    pub fn new(setup: IdentitySetup) -> IdentityProvider {
        IdentityProvider(setup)
    }

    pub fn token<'a>(&self, _: &'a Request) -> Option<&'a str> {
        match self.0 {}
    }

    pub fn problem(&self) -> Option<&str> {
        match self.0 {}
    }

    pub fn principal_of(&self, _: &str) -> Option<Principal> {
        match self.0 {}
    }
}

impl Core {
    pub(in crate::core) fn identify_token(&mut self, _: &str, _: Now) -> Option<Arc<Principal>> {
        None
    }

    pub(in crate::core) fn fetch_keys(&mut self, _: Now) {}

    pub(in crate::core) fn keys_fetched(&mut self, _: Result<(Vec<Key>, u64), String>, _: Now) {}
}
