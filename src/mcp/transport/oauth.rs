//! OAuth logins to servers, without I/O: the URLs of the metadata, checks of the metadata, and the forms and responses. The shell sends the
//! requests.

use crate::base::percent;
use crate::base::secret::Secret;
use crate::mcp::config::OAuth;
use crate::mcp::text::clean_line;
use crate::mcp::transport::url::Url;
use crate::wire::uri;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A stored login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    pub issuer: String,
    /// The tokens are valid for this URL and the URLs below it.
    pub resource: String,
    pub token_endpoint: String,
    pub client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    pub access: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scopes: String,
}

impl Login {
    /// Whether the access token expires within this time.
    pub fn expires_within(&self, now_ms: u64, time_ms: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now_ms.saturating_add(time_ms))
    }

    /// The body of the request for new tokens.
    pub fn refresh_form(&self) -> Option<String> {
        let refresh = self.refresh.as_ref()?;
        let mut fields = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.reveal()),
            ("client_id", &self.client_id),
            ("resource", &self.resource),
        ];
        fields.extend(self.client_secret.iter().map(|secret| ("client_secret", secret.reveal())));
        Some(percent::pairs(&fields))
    }

    /// This login with the tokens of a response.
    pub fn with_tokens(self, tokens: Tokens, now_ms: u64) -> Login {
        let Tokens { access, refresh, expires_in, scopes } = tokens;
        let expires_at = expires_in.map(|seconds| now_ms.saturating_add(seconds.saturating_mul(1_000)));
        let refresh = refresh.or(self.refresh);
        Login { access, refresh, expires_at, scopes: scopes.unwrap_or(self.scopes), ..self }
    }
}

/// The stored login for a URL: the one with the longest resource that contains the URL.
pub fn find<'a>(logins: &'a [Login], url: &Url, issuer: Option<&str>) -> Option<&'a Login> {
    let fits = |login: &&Login| {
        let is_issuer = issuer.is_none_or(|issuer| is_same_url(issuer, &login.issuer));
        is_issuer && Url::parse(&login.resource).is_ok_and(|resource| is_below(url, &resource))
    };
    logins.iter().filter(fits).max_by_key(|login| login.resource.len())
}

/// Whether a URL is the resource or below it, at the same origin.
fn is_below(url: &Url, resource: &Url) -> bool {
    let (path, base) = (url.path(), resource.path());
    let rest = path.strip_prefix(base.trim_end_matches('/'));
    url.has_origin_of(resource) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The parameters of a server's request for credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    pub resource_metadata: Option<String>,
    pub scope: Option<String>,
}

/// Reads a `WWW-Authenticate` field.
pub fn challenge(text: &str) -> Challenge {
    let member = |name: &str| {
        let at = text.match_indices(name).find(|(at, _)| text[..*at].ends_with([' ', ',', '\t']))?.0;
        let value = text[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        Some(match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?.to_owned(),
            None => value.split([',', ' ']).next()?.to_owned(),
        })
    };
    Challenge { resource_metadata: member("resource_metadata"), scope: member("scope") }
}

/// The URLs at which the metadata of a server may be, in the order to try them.
pub fn resource_metadata_urls(url: &Url, challenge: &Challenge) -> Vec<String> {
    let base = format!("{}/.well-known/oauth-protected-resource", url.site());
    let own = challenge.resource_metadata.iter().cloned();
    own.chain([format!("{base}{}", url.path().trim_end_matches('/')), base]).collect()
}

/// The metadata of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub resource: String,
    pub issuer: String,
    pub scopes: Vec<String>,
}

pub fn read_resource(value: &Value, url: &Url) -> Result<Resource, String> {
    let resource = value["resource"].as_str().map_or_else(|| url.shown(), str::to_owned);
    let named = Url::parse(&resource).map_err(|why| format!("the resource of the server's metadata {why}"))?;
    if !is_below(url, &named) {
        return Err(format!("the metadata of the server is about {}, which is not {}", named.shown(), url.shown()));
    }
    let issuer = value["authorization_servers"][0].as_str();
    let issuer = issuer.ok_or("the metadata of the server names no authorization server")?.to_owned();
    Ok(Resource { resource, issuer, scopes: texts(&value["scopes_supported"]) })
}

/// The URLs at which the metadata of an authorization server may be, in the order to try them.
pub fn issuer_metadata_urls(issuer: &Url) -> Vec<String> {
    let (base, path) = (issuer.site(), issuer.path().trim_end_matches('/'));
    let mut urls = vec![
        format!("{base}/.well-known/oauth-authorization-server{path}"),
        format!("{base}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{base}{path}/.well-known/openid-configuration"));
    }
    urls
}

/// The metadata of an authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub registration_endpoint: Option<String>,
    pub scopes: Vec<String>,
}

pub fn read_issuer(value: &Value, expected: &str) -> Result<Issuer, String> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let needed = |name: &str| text(name).ok_or_else(|| format!("the metadata of {expected} has no {name}"));
    let issuer = needed("issuer")?;
    if !is_same_url(&issuer, expected) {
        return Err(format!("the metadata of {expected} is that of {}", clean_line(&issuer, 200)));
    }
    if !texts(&value["code_challenge_methods_supported"]).iter().any(|method| method == "S256") {
        return Err(format!("{expected} does not say that it supports PKCE with S256, which is needed for a login"));
    }
    Ok(Issuer {
        issuer,
        authorization_endpoint: needed("authorization_endpoint")?,
        token_endpoint: needed("token_endpoint")?,
        registration_endpoint: text("registration_endpoint"),
        scopes: texts(&value["scopes_supported"]),
    })
}

/// The authorization server of the settings, which replaces its metadata if the settings name both endpoints.
pub fn configured(oauth: &OAuth) -> Option<Issuer> {
    let (authorization, token) = (oauth.authorization_url.clone()?, oauth.token_url.clone()?);
    let base = Url::parse(&token).ok().map(|url| url.site().to_owned());
    Some(Issuer {
        issuer: oauth.issuer.clone().or(base).unwrap_or_default(),
        authorization_endpoint: authorization,
        token_endpoint: token,
        registration_endpoint: oauth.registration_url.clone(),
        scopes: Vec::new(),
    })
}

/// The body of a registration.
pub fn registration(redirect: &str) -> Value {
    json!({
        "client_name": "gemini-a2a",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    })
}

/// One login that is under way.
pub struct LoginAttempt<'a> {
    pub issuer: &'a Issuer,
    pub resource: &'a str,
    pub client_id: &'a str,
    pub client_secret: Option<&'a Secret>,
    pub redirect: &'a str,
    pub scope: &'a str,
    pub audience: &'a str,
    /// `state` and `verifier` are random; `challenge` is derived from `verifier`.
    pub state: &'a str,
    pub verifier: &'a str,
    pub challenge: &'a str,
}

impl LoginAttempt<'_> {
    /// The URL that the user opens.
    pub fn url(&self) -> String {
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect),
            ("state", self.state),
            ("code_challenge", self.challenge),
            ("code_challenge_method", "S256"),
            ("resource", self.resource),
        ];
        fields
            .extend([("scope", self.scope), ("audience", self.audience)].iter().filter(|(_, value)| !value.is_empty()));
        let end = &self.issuer.authorization_endpoint;
        format!("{end}{}{}", if end.contains('?') { '&' } else { '?' }, percent::pairs(&fields))
    }

    /// The code in the target of the browser's callback request. The error is for people.
    pub fn code(&self, target: &str) -> Result<Secret, String> {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let member = |name: &str| {
            let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?.1;
            uri::decoded(&pair.replace('+', " "))
        };
        let state = member("state").unwrap_or_default();
        let differs = state.bytes().zip(self.state.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        if state.len() != self.state.len() || differs != 0 {
            return Err("the answer does not belong to this login".into());
        }
        if member("iss").is_some_and(|issuer| !is_same_url(&issuer, &self.issuer.issuer)) {
            return Err("the answer comes from another authorization server".into());
        }
        if let Some(error) = member("error") {
            let more = member("error_description").map(|text| format!(": {text}")).unwrap_or_default();
            return Err(format!(
                "{} refused the login: {}",
                self.issuer.issuer,
                clean_line(&format!("{error}{more}"), 500)
            ));
        }
        member("code").map(Secret::new).ok_or_else(|| "the answer has no code".into())
    }

    /// The body of the request for tokens.
    pub fn token_form(&self, code: &Secret) -> String {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code.reveal()),
            ("redirect_uri", self.redirect),
            ("client_id", self.client_id),
            ("code_verifier", self.verifier),
            ("resource", self.resource),
        ];
        fields.extend(self.client_secret.iter().map(|secret| ("client_secret", secret.reveal())));
        percent::pairs(&fields)
    }
}

/// The tokens in the response of a token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    pub access: Secret,
    pub refresh: Option<Secret>,
    /// Seconds.
    pub expires_in: Option<u64>,
    pub scopes: Option<String>,
}

/// Why there are no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// `invalid_grant`: the login is not valid any more.
    InvalidGrant,
    /// Another error, for people.
    Failed(String),
}

pub fn read_tokens(status: u16, body: &[u8]) -> Result<Tokens, TokenError> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| value[name].as_str();
    match (text("access_token"), text("error")) {
        (Some(access), None) if (200..300).contains(&status) => Ok(Tokens {
            access: Secret::new(access),
            refresh: text("refresh_token").map(Secret::new),
            expires_in: value["expires_in"].as_u64(),
            scopes: text("scope").map(str::to_owned),
        }),
        (_, Some("invalid_grant")) => Err(TokenError::InvalidGrant),
        (_, error) => {
            let error = clean_line(error.unwrap_or("there is no token in the answer"), 200);
            Err(TokenError::Failed(format!("the authorization server answered {status}: {error}")))
        }
    }
}

/// Whether two URLs are equal except for a trailing slash.
fn is_same_url(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
