//! Logins to servers: `mcp-tokens.json` in the state directory, which only its owner can read, and the requests that obtain and refresh tokens.
//! Several processes may use the file. A process that changes the file or refreshes a token holds the lock on a separate lock file, and first
//! checks whether another process has already done so.

use crate::base::json;
use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::config::Variables;
use crate::config::proxy::Proxies;
use crate::limits::mcp::{OAUTH_BODY_BYTES, OAUTH_MS, TOKEN_EARLY_MS};
use crate::mcp::config::{Layer, Server, Transport};
use crate::mcp::text::Redactor;
use crate::mcp::transport::oauth::{self, Login, TokenError};
use crate::mcp::transport::url::Url;
use crate::shell::event_loop::sys::unix_ms;
use crate::shell::journal::user_files::replace;
use crate::shell::start::workspace_settings::{SettingsReader, read_plain};
use crate::tool::public_hosts::{CheckedResolver, is_public};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::TlsConfig;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Proxy};

/// The logins of all servers.
pub struct TokenStore {
    file: PathBuf,
    max_bytes: u64,
    tls: TlsConfig,
    proxies: Proxies,
    /// The access token that a server refused last, by the server's URL.
    refused: Mutex<HashMap<String, Option<Secret>>>,
}

impl TokenStore {
    pub fn new(state_dir: &Path, max_bytes: u64, tls: TlsConfig, reader: &SettingsReader) -> TokenStore {
        let none = Variables::default();
        let proxies = Proxies::new(&|name| reader.variable(&none, name));
        TokenStore { file: state_dir.join("mcp-tokens.json"), max_bytes, tls, proxies, refused: Mutex::default() }
    }

    fn read(&self) -> io::Result<Vec<Login>> {
        let text = read_plain(&self.file, self.max_bytes)?;
        let read: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
        let logins = read.and_then(|mut value| serde_json::from_value(value["logins"].take()).ok());
        // A file with invalid content counts as empty.
        Ok(logins.unwrap_or_default())
    }

    /// Changes the file while holding the lock.
    pub fn change<T>(&self, change: impl FnOnce(&mut Vec<Login>) -> T) -> io::Result<T> {
        let _lock = self.lock_file()?;
        let mut logins = self.read()?;
        let (before, done) = (logins.clone(), change(&mut logins));
        if logins != before {
            replace(&self.file, &json::bytes(&json!({ "logins": logins })), 0o600)?;
        }
        Ok(done)
    }

    /// Waits for the lock of the file. The lock is held until the returned value is dropped.
    fn lock_file(&self) -> io::Result<File> {
        if let Some(dir) = self.file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let beside = self.file.with_extension("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(beside)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }
}

/// The login of one server.
#[derive(Clone)]
pub struct Credentials {
    store: Arc<TokenStore>,
    pub url: Url,
    issuer: Option<String>,
    redactor: Redactor,
}

impl Credentials {
    /// The credentials of a server. `None` if its settings have credentials or disable logins, or if a client has named it. Tokens that are
    /// used are added to the redactor.
    pub fn of(store: &Arc<TokenStore>, server: &Server, redactor: &Redactor) -> Option<Credentials> {
        let Transport::Network { url, .. } = &server.transport else { return None };
        let is_off = server.oauth.as_ref().is_some_and(|oauth| !oauth.enabled);
        let is_possible = server.layer != Layer::Client && !server.has_authorization() && !is_off;
        let issuer = server.oauth.as_ref().and_then(|oauth| oauth.issuer.clone());
        let (store, url, redactor) = (store.clone(), url.clone(), redactor.clone());
        is_possible.then_some(Credentials { store, url, issuer, redactor })
    }

    fn stored(&self) -> Result<Option<Login>, String> {
        let logins = self.store.read().map_err(|error| self.file_error(&error))?;
        let found = oauth::find(&logins, &self.url, self.issuer.as_deref()).cloned();
        if let Some(login) = &found {
            [Some(&login.access), login.refresh.as_ref(), login.client_secret.as_ref()]
                .into_iter()
                .flatten()
                .for_each(|secret| self.redactor.add(secret.clone()));
        }
        Ok(found)
    }

    fn file_error(&self, error: &io::Error) -> String {
        format!("{} cannot be used: {error}", self.store.file.display())
    }

    /// The token for the next request. Refreshes the token if it expires soon.
    pub fn token(&self) -> Result<Option<Secret>, String> {
        match self.stored()? {
            Some(login) if login.expires_within(unix_ms(), TOKEN_EARLY_MS) && login.refresh.is_some() => {
                self.refresh(&login.access)
            }
            login => Ok(login.map(|login| login.access)),
        }
    }

    /// Returns another token to try, after the server has refused a request with the token `used` or without one.
    pub fn after_refusal(&self, used: Option<&Secret>) -> Result<Option<Secret>, String> {
        let other = match self.stored()? {
            Some(login) if Some(&login.access) != used => Some(login.access),
            Some(login) if login.refresh.is_some() => self.refresh(&login.access)?,
            Some(_) | None => None,
        };
        if other.is_none() {
            lock(&self.store.refused).insert(self.url.shown(), used.cloned());
        }
        Ok(other)
    }

    pub fn note_refused(&self, token: &Secret) {
        lock(&self.store.refused).insert(self.url.shown(), Some(token.clone()));
    }

    /// Whether there is a token that the server has not refused.
    pub fn has_new_token(&self) -> bool {
        let stored = self.stored().ok().flatten().map(|login| login.access);
        let refused = lock(&self.store.refused).get(&self.url.shown()).cloned().flatten();
        stored.is_some() && stored != refused
    }

    /// Refreshes the token, unless another process has just done so. `None` if the login is not valid any more.
    fn refresh(&self, old: &Secret) -> Result<Option<Secret>, String> {
        let _lock = self.store.lock_file().map_err(|error| self.file_error(&error))?;
        let mut logins = self.store.read().map_err(|error| self.file_error(&error))?;
        let Some(login) = oauth::find(&logins, &self.url, self.issuer.as_deref()).cloned() else { return Ok(None) };
        let Some(form) = login.refresh_form().filter(|_| login.access == *old) else {
            return Ok(Some(login.access).filter(|access| access != old));
        };
        let (status, body) = Fetcher::new(&self.store, &self.url).post_form(&login.token_endpoint, &form)?;
        let place = logins.iter().position(|known| *known == login).unwrap_or_default();
        let new = match oauth::read_tokens(status, &body) {
            Ok(tokens) => login.with_tokens(tokens, unix_ms()),
            Err(TokenError::InvalidGrant) => Login { refresh: None, ..login },
            Err(TokenError::Failed(why)) => return Err(format!("its token cannot be refreshed: {why}")),
        };
        self.redactor.add(new.access.clone());
        new.refresh.iter().for_each(|refresh| self.redactor.add(refresh.clone()));
        let access = new.refresh.is_some().then(|| new.access.clone());
        logins[place] = new;
        let bytes = json::bytes(&json!({ "logins": logins }));
        replace(&self.store.file, &bytes, 0o600).map_err(|error| self.file_error(&error))?;
        Ok(access)
    }

    /// Stores a login. It replaces earlier ones for the same resource.
    pub fn store_login(&self, login: Login) -> Result<(), String> {
        let changed = self.store.change(|logins| {
            logins.retain(|known| (&known.issuer, &known.resource) != (&login.issuer, &login.resource));
            logins.push(login);
        });
        changed.map_err(|error| self.file_error(&error))
    }

    /// Deletes the login. Returns whether there was one.
    pub fn delete_login(&self) -> Result<bool, String> {
        let changed = self.store.change(|logins| {
            let found = oauth::find(logins, &self.url, self.issuer.as_deref()).cloned();
            logins.retain(|login| Some(login) != found.as_ref());
            found.is_some()
        });
        changed.map_err(|error| self.file_error(&error))
    }

    pub fn fetcher(&self) -> Fetcher<'_> {
        Fetcher::new(&self.store, &self.url)
    }
}

/// Requests for metadata and tokens on behalf of a server.
pub struct Fetcher<'a> {
    store: &'a TokenStore,
    url: &'a Url,
    /// Whether the server is not on the public internet. Then its authorization server need not be either.
    is_private: bool,
}

impl<'a> Fetcher<'a> {
    fn new(store: &'a TokenStore, url: &'a Url) -> Fetcher<'a> {
        let mut addresses = url.host_and_port().to_socket_addrs().into_iter().flatten();
        Fetcher { store, url, is_private: addresses.any(|address| !is_public(address.ip())) }
    }

    pub fn get(&self, url: &str) -> Result<(u16, Vec<u8>), String> {
        self.read(url, self.agent(url)?.get(url).call())
    }

    /// The `WWW-Authenticate` field of the response to a request without credentials.
    pub fn challenge(&self) -> Result<String, String> {
        let url = self.url.whole().reveal();
        let request = self.agent(url)?.post(url).header("Content-Type", "application/json");
        let request = request.header("Accept", "application/json, text/event-stream");
        let response =
            request.send("{}").map_err(|error| format!("{} cannot be reached: {error}", self.url.shown()))?;
        let field = response.headers().get("www-authenticate").and_then(|field| field.to_str().ok());
        Ok(field.unwrap_or_default().to_owned())
    }

    pub fn post_form(&self, url: &str, form: &str) -> Result<(u16, Vec<u8>), String> {
        let request = self.agent(url)?.post(url).header("Content-Type", "application/x-www-form-urlencoded");
        self.read(url, request.header("Accept", "application/json").send(form))
    }

    pub fn post_json(&self, url: &str, value: &Value) -> Result<(u16, Vec<u8>), String> {
        let request = self.agent(url)?.post(url).header("Content-Type", "application/json");
        self.read(url, request.send(&json::bytes(value)[..]))
    }

    fn agent(&self, url: &str) -> Result<Agent, String> {
        let parsed = Url::parse(url).map_err(|why| format!("an address of the login {why}"))?;
        if !parsed.is_https() && !self.url.is_loopback() {
            return Err(format!("{} is not https, so no login is sent there", parsed.shown()));
        }
        let proxy = self.store.proxies.to(url).map(Proxy::new).transpose();
        let proxy = proxy.map_err(|error| format!("the proxy cannot be used: {error}"))?;
        let is_direct = proxy.is_none();
        let config = Agent::config_builder()
            .tls_config(self.store.tls.clone())
            .proxy(proxy)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_millis(OAUTH_MS)))
            .build();
        // With a proxy, only the proxy's own address is resolved here.
        Ok(match self.is_private || !is_direct {
            true => config.new_agent(),
            false => Agent::with_parts(config, DefaultConnector::default(), CheckedResolver::new(is_public)),
        })
    }

    fn read(&self, url: &str, response: Result<Response<Body>, ureq::Error>) -> Result<(u16, Vec<u8>), String> {
        let shown = Url::parse(url).map(|url| url.shown()).unwrap_or_default();
        let response = response.map_err(|error| format!("{shown} cannot be reached: {error}"))?;
        let (head, body) = response.into_parts();
        let mut bytes = Vec::new();
        let read = body.into_reader().take(OAUTH_BODY_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        Ok((head.status.as_u16(), bytes))
    }
}
