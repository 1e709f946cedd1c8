//! A build without the feature `bucket` uses no Google credentials.

use crate::base::secret::Secret;
use crate::model::gemini::Endpoint;
use crate::task::machine::job::ModelError;
use ureq::tls::TlsConfig;

pub enum GoogleTokens {}

impl GoogleTokens {
    pub fn open(_: &mut Endpoint, _: &TlsConfig, _: Option<&str>) -> Result<Option<GoogleTokens>, String> {
        Ok(None)
    }

    pub fn token(&self) -> Result<Secret, ModelError> {
        match *self {}
    }

    pub fn refused(&self, _: &Secret) {
        match *self {}
    }
}
