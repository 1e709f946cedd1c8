//! Access tokens of Google: of a service account, of a user who logged in with gcloud, or of the machine's metadata server.
//!
//! All threads share one [`Tokens`] per scope. If several threads need a new token, only one of them requests it; the others use the old token
//! while it is valid, and otherwise wait. Messages never contain private keys, refresh tokens or access tokens.

use crate::base::lock::lock;
use crate::base::percent;
use crate::base::secret::Secret;
use crate::bucket::{BucketError, BucketErrorKind};
use crate::limits::bucket::{
    ANSWER_BYTES, ASSERTION_SECONDS, CREDENTIALS_BYTES, TOKEN_AGAIN_MS, TOKEN_EARLY_MS, TOKEN_LAST_MS, TOKEN_MS,
};
use crate::shell::bucket::http::{self, Outgoing, explanation, unknown};
use crate::shell::event_loop::sys::unix_ms;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::tls::TlsConfig;

pub const STORAGE_SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
pub const CLOUD_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const METADATA_HOST: &str = "metadata.google.internal";
const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// The grant type of RFC 7523.
const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// The access tokens of one scope.
pub struct Tokens {
    source: Source,
    scope: &'static str,
    agent: Agent,
    unix_ms: Clock,
    state: Mutex<State>,
    /// Notified when a renewal has ended.
    renewed: Condvar,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    is_renewing: bool,
    /// While the present token is valid, no new one is requested before this time.
    retry_at_ms: u64,
    /// Why the last request failed.
    failure: Option<BucketError>,
}

#[derive(Clone)]
struct Token {
    value: Secret,
    expires_ms: u64,
}

impl Token {
    fn is_valid_for(&self, now: u64, ms: u64) -> bool {
        self.expires_ms > now.saturating_add(ms)
    }
}

enum Source {
    ServiceAccount(ServiceAccount),
    AuthorizedUser(AuthorizedUser),
    Metadata { url: String },
}

struct ServiceAccount {
    email: String,
    key: RsaKeyPair,
    key_id: Option<String>,
    token_uri: String,
}

#[derive(Deserialize)]
struct AuthorizedUser {
    client_id: String,
    client_secret: Secret,
    refresh_token: Secret,
    token_uri: Option<String>,
    quota_project_id: Option<String>,
}

/// Where credentials come from: variables of the operator's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin<'a> {
    /// `GOOGLE_APPLICATION_CREDENTIALS`; without it the metadata server is asked.
    pub file: Option<&'a Path>,
    /// `GCE_METADATA_HOST`.
    pub metadata_host: Option<&'a str>,
}

impl Tokens {
    /// Reads the credentials, but makes no request. `proxy` gives the proxy for a URL. Fails with a message for the operator.
    pub fn new(
        origin: &Origin<'_>,
        scope: &'static str,
        tls: TlsConfig,
        proxy: impl Fn(&str) -> Option<String>,
    ) -> Result<Tokens, String> {
        let source = match origin.file {
            Some(file) => read_credentials(file)
                .and_then(|text| parse_credentials(&text))
                .map_err(|why| format!("GOOGLE_APPLICATION_CREDENTIALS: {} {why}", file.display()))?,
            None => {
                let host = origin.metadata_host.unwrap_or(METADATA_HOST);
                Source::Metadata { url: format!("http://{host}{METADATA_PATH}?scopes={}", percent::encoded(scope)) }
            }
        };
        let proxy = match &source {
            // The metadata server is a part of the machine.
            Source::Metadata { .. } => None,
            Source::ServiceAccount(_) | Source::AuthorizedUser(_) => proxy(source.url()),
        };
        let agent = http::agent(tls, proxy.as_deref())?;
        let (unix_ms, state, renewed) = (Box::new(unix_ms), Mutex::default(), Condvar::new());
        Ok(Tokens { source, scope, agent, unix_ms, state, renewed })
    }

    /// The same tokens with another clock.
    pub fn with_clock(self, unix_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Tokens {
        Tokens { unix_ms: Box::new(unix_ms), ..self }
    }

    /// The project whose quota a user's requests count against.
    pub fn quota_project(&self) -> Option<&str> {
        match &self.source {
            Source::AuthorizedUser(user) => user.quota_project_id.as_deref(),
            Source::ServiceAccount(_) | Source::Metadata { .. } => None,
        }
    }

    /// A valid token. Waits, at most until the deadline, only if there is none.
    pub fn token(&self, deadline: Instant) -> Result<Secret, BucketError> {
        let mut state = lock(&self.state);
        let now = (self.unix_ms)();
        let usable = state.token.as_ref().filter(|token| token.is_valid_for(now, TOKEN_LAST_MS));
        if let Some(token) = usable
            && (token.is_valid_for(now, TOKEN_EARLY_MS) || state.is_renewing || now < state.retry_at_ms)
        {
            return Ok(token.value.clone());
        }
        if state.is_renewing {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.renewed.wait_timeout_while(state, left, |state| state.is_renewing);
            let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return Err(unknown("no time was left to get an access token"));
            }
            return self.outcome(&state);
        }
        state.is_renewing = true;
        drop(state);
        let renewal = Renewal(self);
        let fetched = self.fetch(deadline);
        let mut state = lock(&self.state);
        state.retry_at_ms = (self.unix_ms)().saturating_add(TOKEN_AGAIN_MS);
        match fetched {
            Ok(token) => (state.token, state.failure) = (Some(token), None),
            Err(error) => state.failure = Some(error),
        }
        let outcome = self.outcome(&state);
        drop(state);
        drop(renewal);
        outcome
    }

    /// Discards this token, because a server refused it. The next call requests another.
    pub fn refused(&self, token: &Secret) {
        let mut state = lock(&self.state);
        if state.token.as_ref().is_some_and(|known| known.value == *token) {
            state.token = None;
        }
    }

    /// The result of a renewal. If the renewal failed and the old token is still valid, that token.
    fn outcome(&self, state: &State) -> Result<Secret, BucketError> {
        let now = (self.unix_ms)();
        match (&state.token, &state.failure) {
            (Some(token), _) if token.is_valid_for(now, 0) => Ok(token.value.clone()),
            (_, Some(failure)) => Err(failure.clone()),
            (_, None) => Err(unknown("the access token ended before it was used")),
        }
    }

    fn fetch(&self, deadline: Instant) -> Result<Token, BucketError> {
        let deadline = deadline.min(Instant::now() + Duration::from_millis(TOKEN_MS));
        let now = (self.unix_ms)();
        let form = match &self.source {
            Source::ServiceAccount(account) => Some(percent::pairs(&[
                ("grant_type", JWT_GRANT),
                ("assertion", &account.assertion(self.scope, now / 1_000)?),
            ])),
            Source::AuthorizedUser(user) => Some(percent::pairs(&[
                ("grant_type", "refresh_token"),
                ("client_id", &user.client_id),
                ("client_secret", user.client_secret.reveal()),
                ("refresh_token", user.refresh_token.reveal()),
            ])),
            Source::Metadata { .. } => None,
        };
        let (method, header) = match form {
            Some(_) => ("POST", ("Content-Type", "application/x-www-form-urlencoded")),
            None => ("GET", ("Metadata-Flavor", "Google")),
        };
        let (url, body) = (self.source.url(), form.as_ref().map(|form| form.as_bytes()));
        let outgoing = Outgoing { method, url, headers: &[header], body, max_bytes: ANSWER_BYTES, deadline };
        let answer = http::send(&self.agent, &outgoing).map_err(|error| self.error(error))?;
        let received: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status != 200 {
            let kind = match answer.status {
                408 | 429 | 500.. => BucketErrorKind::Unknown,
                _ => BucketErrorKind::Forbidden,
            };
            let words = [&received["error"], &received["error_description"]].into_iter().filter_map(Value::as_str);
            let details = explanation(&words.collect::<Vec<_>>().join(": "));
            return Err(self.error(BucketError::new(kind, format!("the status is {} {details}", answer.status))));
        }
        let value = received["access_token"].as_str().filter(|text| is_token(text));
        match (value, received["expires_in"].as_u64()) {
            (Some(value), Some(seconds)) => {
                Ok(Token { value: Secret::new(value), expires_ms: now.saturating_add(seconds.saturating_mul(1_000)) })
            }
            (_, _) => Err(self.error(unknown("there is no token in the answer"))),
        }
    }

    /// Adds to an error which token could not be obtained and, if there is something, what the operator can do.
    fn error(&self, error: BucketError) -> BucketError {
        let (kind, why) = (error.kind, error.message.trim_end());
        let message = match &self.source {
            Source::ServiceAccount(account) => {
                format!("{} gives no token for {}: {why}", account.token_uri, account.email)
            }
            Source::AuthorizedUser(_) => format!(
                "{} gives no token for the user of GOOGLE_APPLICATION_CREDENTIALS: {why}. gcloud auth application-default login makes a new one",
                self.source.url()
            ),
            Source::Metadata { .. } => format!(
                "the metadata server gives no token: {why}. Outside of Google Cloud, set GOOGLE_APPLICATION_CREDENTIALS to the key of a service account"
            ),
        };
        BucketError { kind, message }
    }
}

/// Ends a renewal when it is dropped, so also after a panic.
struct Renewal<'a>(&'a Tokens);

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).is_renewing = false;
        self.0.renewed.notify_all();
    }
}

impl Source {
    /// The URL at which tokens are requested.
    fn url(&self) -> &str {
        match self {
            Source::ServiceAccount(account) => &account.token_uri,
            Source::AuthorizedUser(user) => user.token_uri.as_deref().unwrap_or(TOKEN_URI),
            Source::Metadata { url } => url,
        }
    }
}

impl ServiceAccount {
    /// A signed request for a token: a JSON Web Token.
    fn assertion(&self, scope: &str, unix_seconds: u64) -> Result<String, BucketError> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut header = json!({ "alg": "RS256", "typ": "JWT" });
        if let Some(id) = &self.key_id {
            header["kid"] = id.as_str().into();
        }
        let claims = json!({
            "iss": self.email,
            "scope": scope,
            "aud": self.token_uri,
            "iat": unix_seconds,
            "exp": unix_seconds + ASSERTION_SECONDS,
        });
        let signed = format!("{}.{}", part(&header), part(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        let done = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature);
        done.map_err(|_| unknown("the key of the service account cannot sign now"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read_credentials(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(CREDENTIALS_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 <= CREDENTIALS_BYTES => Ok(text),
        Ok(_) => Err(format!("is larger than {CREDENTIALS_BYTES} bytes")),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn parse_credentials(text: &str) -> Result<Source, String> {
    // The parser's message would quote a part of the file, which is secret.
    let value: Value = serde_json::from_str(text).map_err(|_| "is not JSON")?;
    let source = match value["type"].as_str() {
        Some("service_account") => Source::ServiceAccount(service_account(&value)?),
        Some("authorized_user") => Source::AuthorizedUser(
            serde_json::from_value(value).map_err(|_| "needs client_id, client_secret and refresh_token")?,
        ),
        Some(other) => {
            return Err(format!(
                "has credentials of the type {}, which is not supported. Use the key of a service account or what gcloud auth application-default login wrote; on Google Cloud unset the variable, and the metadata server is asked",
                explanation(other)
            ));
        }
        None => return Err("has no type: it is not a file with Google credentials".into()),
    };
    let url = source.url();
    let is_local =
        ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"].iter().any(|local| url.starts_with(local));
    match url.starts_with("https://") || is_local {
        true => Ok(source),
        false => Err("has a token_uri that is not https".into()),
    }
}

fn service_account(value: &Value) -> Result<ServiceAccount, String> {
    let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty());
    let need = |name: &str| text(name).ok_or_else(|| format!("has no {name}"));
    let pem = need("private_key")?;
    let body = pem
        .split_once("-----BEGIN PRIVATE KEY-----")
        .and_then(|(_, rest)| rest.split_once("-----END PRIVATE KEY-----"))
        .ok_or("has a private_key that is not PKCS #8 in PEM")?
        .0;
    let body: String = body.split_ascii_whitespace().collect();
    let key = STANDARD.decode(body).ok().and_then(|der| RsaKeyPair::from_pkcs8(&der).ok());
    Ok(ServiceAccount {
        email: need("client_email")?.to_owned(),
        key: key.ok_or("has a private_key that is not an RSA key of 2048 bits or more")?,
        key_id: text("private_key_id").map(str::to_owned),
        token_uri: text("token_uri").unwrap_or(TOKEN_URI).to_owned(),
    })
}
