//! Access tokens for Vertex AI, from the operator's Google credentials.

use crate::base::secret::Secret;
use crate::bucket::BucketErrorKind;
use crate::limits::bucket::TOKEN_MS;
use crate::model::gemini::{Endpoint, KeyOrigin};
use crate::shell::bucket::google::{CLOUD_SCOPE, Origin, Tokens};
use crate::task::machine::job::{ModelError, ModelErrorKind};
use std::time::{Duration, Instant};
use ureq::tls::TlsConfig;

pub struct GoogleTokens(Tokens);

impl GoogleTokens {
    /// None if the key of the endpoint does not come from Google credentials. With a user's credentials, requests also name the project
    /// whose quota they use.
    pub fn open(endpoint: &mut Endpoint, tls: &TlsConfig, proxy: Option<&str>) -> Result<Option<GoogleTokens>, String> {
        let KeyOrigin::Google { file, metadata_host } = &endpoint.key_origin else { return Ok(None) };
        let origin = Origin { file: file.as_deref(), metadata_host: metadata_host.as_deref() };
        let tokens = Tokens::new(&origin, CLOUD_SCOPE, tls.clone(), |_| proxy.map(str::to_owned))?;
        let project = tokens.quota_project().map(|project| ("x-goog-user-project".into(), Secret::new(project)));
        endpoint.extra.extend(project);
        Ok(Some(GoogleTokens(tokens)))
    }

    pub fn token(&self) -> Result<Secret, ModelError> {
        let token = self.0.token(Instant::now() + Duration::from_millis(TOKEN_MS));
        token.map_err(|error| ModelError {
            kind: match error.kind {
                BucketErrorKind::Unknown => ModelErrorKind::Busy { after_ms: None },
                BucketErrorKind::Forbidden | BucketErrorKind::Unsupported | BucketErrorKind::Damaged => {
                    ModelErrorKind::Fatal
                }
            },
            message: format!("There is no token for Vertex AI: {}.", error.message),
        })
    }

    /// The API has refused a request with this token: the next request gets another token.
    pub fn refused(&self, token: &Secret) {
        self.0.refused(token);
    }
}
