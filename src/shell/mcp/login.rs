//! Login to a server: finds its authorization server, lets the user log in with a browser, and stores the tokens.

use super::tokens::{Credentials, Fetcher};
use crate::base::secret::Secret;
use crate::limits::mcp::LOGIN_MS;
use crate::mcp::config::OAuth;
use crate::mcp::transport::oauth::{self, Issuer, Login, LoginAttempt, Resource, TokenError};
use crate::mcp::transport::url::Url;
use crate::shell::event_loop::sys::unix_ms;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The path of the callback URL, unless the settings name another URL.
const CALLBACK: &str = "/oauth/callback";
/// The timeout of the browser's request, and its maximum size.
const REQUEST_TIME: Duration = Duration::from_secs(5);
const REQUEST_BYTES: u64 = 16 * 1024;

/// Logs in and stores the tokens. `tell` shows the user what to do.
pub fn login(credentials: &Credentials, oauth: &OAuth, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    let fetcher = credentials.fetcher();
    let (resource, issuer, scope) = discover(&fetcher, &credentials.url, oauth)?;
    let (listener, redirect) = listen(oauth)?;
    let registered = match &oauth.client_id {
        Some(id) => (id.clone(), oauth.client_secret.clone()),
        None => register(&fetcher, &issuer, oauth, &redirect)?,
    };
    let (state, verifier) = (random()?, random()?);
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    let attempt = LoginAttempt {
        issuer: &issuer,
        resource: &resource,
        client_id: &registered.0,
        client_secret: registered.1.as_ref(),
        redirect: &redirect,
        scope: &scope,
        audience: &oauth.audiences.join(" "),
        state: &state,
        verifier: &verifier,
        challenge: &challenge,
    };
    tell(&format!("Open this URL in a browser of this machine and log in:\n{}", attempt.url()));
    let path = redirect.splitn(4, '/').nth(3).unwrap_or_default();
    let code = attempt.code(&await_browser(&listener, &format!("/{path}"))?)?;
    let (status, body) = fetcher.post_form(&issuer.token_endpoint, &attempt.token_form(&code))?;
    let tokens = oauth::read_tokens(status, &body).map_err(|error| match error {
        TokenError::InvalidGrant => {
            "the authorization server does not accept the code of the login; try again".to_owned()
        }
        TokenError::Failed(why) => why,
    })?;
    let login = Login {
        issuer: issuer.issuer.clone(),
        resource,
        token_endpoint: issuer.token_endpoint.clone(),
        client_id: registered.0,
        client_secret: registered.1,
        access: tokens.access.clone(),
        refresh: None,
        expires_at: None,
        scopes: scope,
    };
    credentials.store_login(login.with_tokens(tokens, unix_ms()))
}

/// Finds the resource, its authorization server and the scope to request.
fn discover(fetcher: &Fetcher<'_>, url: &Url, oauth: &OAuth) -> Result<(String, Issuer, String), String> {
    if let Some(issuer) = oauth::configured(oauth) {
        return Ok((url.shown(), issuer, oauth.scopes.join(" ")));
    }
    let challenge = oauth::challenge(&fetcher.challenge()?);
    let found = oauth::resource_metadata_urls(url, &challenge).into_iter().find_map(|url| metadata(fetcher, &url));
    // A server with an older version of the protocol is its own authorization server.
    let resource = match (found, &oauth.issuer) {
        (Some(value), _) => oauth::read_resource(&value, url)?,
        (None, issuer) => {
            let issuer = issuer.clone().unwrap_or_else(|| url.site().to_owned());
            Resource { resource: url.shown(), issuer, scopes: Vec::new() }
        }
    };
    let issuer_url = Url::parse(&resource.issuer).map_err(|why| format!("the authorization server {why}"))?;
    let found = oauth::issuer_metadata_urls(&issuer_url).into_iter().find_map(|url| metadata(fetcher, &url));
    let found = found.ok_or_else(|| format!("{} has no metadata of an authorization server", issuer_url.shown()))?;
    let issuer = oauth::read_issuer(&found, &resource.issuer)?;
    let scope = challenge.scope.filter(|scope| !scope.is_empty()).unwrap_or_else(|| {
        let supported = if resource.scopes.is_empty() { &issuer.scopes } else { &resource.scopes };
        if oauth.scopes.is_empty() { supported } else { &oauth.scopes }.join(" ")
    });
    Ok((resource.resource, issuer, scope))
}

fn metadata(fetcher: &Fetcher<'_>, url: &str) -> Option<Value> {
    let (status, body) = fetcher.get(url).ok()?;
    let value: Value = serde_json::from_slice(&body).ok()?;
    (status == 200 && value.is_object()).then_some(value)
}

/// Registers this program at the authorization server. Returns the client id, and the client secret if there is one.
fn register(
    fetcher: &Fetcher<'_>,
    issuer: &Issuer,
    oauth: &OAuth,
    redirect: &str,
) -> Result<(String, Option<Secret>), String> {
    let url = oauth.registration_url.as_ref().or(issuer.registration_endpoint.as_ref());
    let by_hand = "register this program there and give its id as oauth.clientId";
    let url = url.ok_or_else(|| format!("{} does not register programs; {by_hand}", issuer.issuer))?;
    let (status, body) = fetcher.post_json(url, &oauth::registration(redirect))?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = value["client_id"].as_str().filter(|_| (200..300).contains(&status));
    let id = id.ok_or_else(|| format!("{} answered {status} to a registration; {by_hand}", issuer.issuer))?;
    Ok((id.to_owned(), value["client_secret"].as_str().map(Secret::new)))
}

/// Listens for the callback. Returns the listener and the callback URL.
fn listen(oauth: &OAuth) -> Result<(TcpListener, String), String> {
    let given = oauth.redirect_uri.as_deref().map(Url::parse).transpose();
    let given = given.map_err(|why| format!("oauth.redirectUri {why}"))?;
    if given.as_ref().is_some_and(|url| !url.is_loopback() || url.is_https()) {
        return Err(
            "oauth.redirectUri must be an http URL on this machine, such as http://127.0.0.1:7777/oauth/callback"
                .into(),
        );
    }
    let port = given.as_ref().map_or(0, |url| url.host_and_port().1);
    let listener = TcpListener::bind(("127.0.0.1", port));
    let listener =
        listener.map_err(|error| format!("port {port} of 127.0.0.1 cannot be used for the login: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let redirect = given.map_or_else(|| format!("http://{address}{CALLBACK}"), |url| url.whole().reveal().to_owned());
    Ok((listener, redirect))
}

/// Waits for the callback request of the browser. Returns its target.
fn await_browser(listener: &TcpListener, path: &str) -> Result<String, String> {
    let until = Instant::now() + Duration::from_millis(LOGIN_MS);
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err("nobody has logged in for five minutes; try again".into());
        }
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        let _ = poll(&mut fds, Timespec::try_from(rest).ok().as_ref());
        if fds[0].revents().is_empty() {
            continue;
        }
        let Some((mut stream, target)) = listener.accept().ok().and_then(|(stream, _)| read_request_target(stream))
        else {
            continue;
        };
        let is_callback = target.split('?').next() == Some(path);
        let (status, text) = match is_callback {
            true => ("200 OK", "The answer has arrived. Go on in the terminal; this page can be closed."),
            false => ("404 Not Found", "There is nothing here."),
        };
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        if is_callback {
            return Ok(target);
        }
    }
}

/// Reads a GET request. Returns its target.
fn read_request_target(stream: TcpStream) -> Option<(TcpStream, String)> {
    stream.set_read_timeout(Some(REQUEST_TIME)).ok()?;
    let mut head = Vec::new();
    let mut byte = [0];
    let mut reader = (&stream).take(REQUEST_BYTES);
    while !head.ends_with(b"\r\n\r\n") {
        reader.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let line = String::from_utf8(head).ok()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    Some((stream, target))
}

fn random() -> Result<String, String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "there are no random numbers")?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
