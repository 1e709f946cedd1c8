//! The Gemini API as a back-end. A worker thread makes a request, which may take minutes.
//!
//! `model` makes the requests and decodes the answers; this file only sends and receives them. A chunk is reported as soon as its bytes
//! have arrived. A canceled request must end at once, but the HTTP library can only shut down a whole agent, so every request has an agent
//! of its own; idle agents, with their connections still open, are kept in a pool for the next request. There may be hundreds of requests
//! at a time, so buffers are small.

#[cfg(feature = "bucket")]
mod google;
#[cfg(not(feature = "bucket"))]
#[path = "client/google/none.rs"]
mod google;
pub mod responses;
#[cfg(test)]
mod tests;

use crate::base::cancel::Cancel;
use crate::base::json;
use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::limits::Limits;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::error::{self, Refusal, TransportError};
use crate::model::gemini::{self, Auth, Endpoint, KeyOrigin};
use crate::model::stream::{Asked, Decoder};
use crate::shell::event_loop::sys;
use crate::task::log::answer::Answer;
use crate::task::machine::job::{ModelError, ModelErrorKind, NoteBody, Think};
use crate::task::machine::state::Item;
use crate::task::message::{Message, Part, Role};
use crate::tool::Ask;
use crate::wire::sse;
use google::GoogleTokens;
use responses::Recorder;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Proxy};

/// Makes model requests, from any number of threads at once.
pub struct Client {
    endpoint: Endpoint,
    limits: Limits,
    config: Config,
    /// The address of the proxy, without a password.
    proxy: Option<String>,
    /// Access tokens, if the endpoint's key comes from Google credentials.
    tokens: Option<GoogleTokens>,
    idle: Mutex<Vec<Agent>>,
    recorder: Option<Recorder>,
}

impl Client {
    /// Fails when the proxy or the Google credentials cannot be used, with a message for the user.
    pub fn new(mut endpoint: Endpoint, tls: TlsConfig, proxy: Option<&str>, limits: Limits) -> Result<Client, String> {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        let tokens = GoogleTokens::open(&mut endpoint, &tls, proxy)?;
        let proxy = proxy.map(Proxy::new).transpose().map_err(|e| format!("The proxy cannot be used: {e}."))?;
        let address = proxy.as_ref().map(|proxy| format!("{}:{}", proxy.host(), proxy.port()));
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(proxy)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(ms(limits.model_head_ms))
            .timeout_recv_response(ms(limits.model_head_ms))
            .timeout_per_read(ms(limits.model_silence_ms))
            .timeout_per_write(ms(limits.model_head_ms))
            .input_buffer_size(limits.model_buffer_bytes)
            .output_buffer_size(limits.model_buffer_bytes)
            .max_response_header_size(limits.model_buffer_bytes)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(Duration::from_millis(limits.model_idle_ms))
            .build();
        Ok(Client { endpoint, limits, config, proxy: address, tokens, idle: Mutex::default(), recorder: None })
    }

    /// Adds every response to a file.
    pub fn recording(self, recorder: Recorder) -> Client {
        Client { recorder: Some(recorder), ..self }
    }

    /// Makes a request that costs nothing, with the key and the model of all others. Returns the date of the answer.
    pub fn probe(&self, model: &str) -> Result<Option<String>, ModelError> {
        let body = serde_json::json!({ "contents": [{ "role": "user", "parts": [{ "text": "." }] }] });
        let cancel = Cancel::default();
        self.with_key(None, &cancel, |endpoint| {
            let model = gemini::resolve(model)?;
            let url = endpoint.count_url(model)?;
            let wait = Duration::from_millis(self.limits.model_head_ms);
            self.interruptible(&cancel, |agent| {
                let response = self.request(agent, endpoint, model, &url, wait, &json::bytes(&body))?;
                Ok(response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned))
            })
        })
    }

    /// Requests an answer in one piece, not as a stream.
    fn whole(&self, model: &str, body: &Value, key: Option<&Secret>, cancel: &Cancel) -> Result<Value, ModelError> {
        self.with_key(key, cancel, |endpoint| {
            let model = gemini::resolve(model)?;
            let url = endpoint.whole_url(model)?;
            // The API sends the head only when the whole answer is complete.
            let wait = Duration::from_millis(self.limits.model_silence_ms);
            self.interruptible(cancel, |agent| {
                let response = self.request(agent, endpoint, model, &url, wait, &json::bytes(body))?;
                let most = self.limits.model_answer_bytes as u64;
                let mut bytes = Vec::new();
                let mut stream = response.into_body().into_reader().take(most);
                let read = stream.read_to_end(&mut bytes);
                read.map_err(|e| error::network(&midway(e.into())))?;
                let whole: Value =
                    serde_json::from_slice(&bytes).map_err(|e| error::network(&TransportError::Cut(e.to_string())))?;
                self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.record(responses::WHOLE, &whole))?;
                Ok(whole)
            })
        })
    }

    /// Makes a request with the current key. Its error never contains the key, and says so if the request was canceled.
    fn with_key<T>(
        &self,
        key: Option<&Secret>,
        cancel: &Cancel,
        ask: impl FnOnce(&Endpoint) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let endpoint = match key {
            Some(key) => {
                let key_origin = KeyOrigin::Given;
                Cow::Owned(Endpoint { key: key.clone(), key_origin, auth: Auth::Key, ..self.endpoint.clone() })
            }
            None => self.endpoint()?,
        };
        ask(&endpoint).map_err(|error| {
            if cancel.is_set() {
                return error::network(&TransportError::Canceled);
            }
            if let (Some(tokens), ModelErrorKind::Fatal) = (&self.tokens, &error.kind) {
                tokens.refused(&endpoint.key);
            }
            // The API never repeats a key, but a proxy or gateway might.
            ModelError { message: endpoint.key.hide_in(&error.message), ..error }
        })
    }

    /// The endpoint with the current key.
    fn endpoint(&self) -> Result<Cow<'_, Endpoint>, ModelError> {
        let with_key = |key| Ok(Cow::Owned(Endpoint { key, ..self.endpoint.clone() }));
        let file = match (&self.tokens, &self.endpoint.key_origin) {
            (Some(tokens), _) => return with_key(tokens.token()?),
            (None, KeyOrigin::File(file)) => file,
            (None, KeyOrigin::Given | KeyOrigin::Google { .. }) => return Ok(Cow::Borrowed(&self.endpoint)),
        };
        let wrong = |why: &str| {
            let file = file.display();
            error::fatal(format!("The token for the model API cannot be read from {file}: {why}."))
        };
        let token = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("there must be one word in it"));
        }
        with_key(Secret::new(token))
    }

    fn attempt(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let think = request.think;
        let model = gemini::resolve(&think.model)?;
        let body = gemini::body(think, request.tools, &(request.context)(), sys::unix_ms())?;
        let url = endpoint.url(model)?;
        let wait = Duration::from_millis(self.limits.model_head_ms);
        self.interruptible(cancel, |agent| {
            let response = self.request(agent, endpoint, model, &url, wait, &body)?;
            // The body may be long, and the answer may take long.
            drop(body);
            self.read(model, asked(think), response, cancel, emit)
        })
    }

    /// Makes a request with an agent of its own, which a cancellation shuts down.
    fn interruptible<T>(
        &self,
        cancel: &Cancel,
        request: impl FnOnce(&Agent) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let agent = self.take_agent();
        let used = agent.clone();
        cancel.on_set(move || used.shutdown());
        let answer = request(&agent);
        cancel.clear();
        // The flag is set before the agent is shut down, so an agent that goes back to the pool is never shut down.
        if !cancel.is_set() {
            self.give_back(agent);
        }
        answer
    }

    /// Sends the request and waits at most `wait` for the head of the response. A status other than 200 is an error.
    fn request(
        &self,
        agent: &Agent,
        endpoint: &Endpoint,
        model: &str,
        url: &str,
        wait: Duration,
        body: &[u8],
    ) -> Result<Response<Body>, ModelError> {
        let request = agent.post(url).config();
        let mut request = request.timeout_recv_response(Some(wait)).build();
        for (name, value) in endpoint.headers(model) {
            request = request.header(name, value.reveal());
        }
        let response = request.send(body).map_err(|e| error::network(&self.before_answer(e)))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        let retry_after = response.headers().get("retry-after").cloned();
        let mut explanation = Vec::new();
        let most = self.limits.model_error_bytes as u64;
        // Best effort: the status is enough if the explanation is incomplete.
        let _ = response.into_body().into_reader().take(most).read_to_end(&mut explanation);
        let refusal = Refusal {
            model,
            status,
            retry_after: retry_after.as_ref().and_then(|value| value.to_str().ok()),
            body: &explanation,
        };
        Err(error::classify(&refusal, self.limits.backoff_longest_ms))
    }

    fn read(
        &self,
        model: &str,
        asked: Asked,
        response: Response<Body>,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let mut decoder = Decoder::new(model, self.limits.model_answer_bytes, self.limits.backoff_longest_ms);
        let mut events = sse::Decoder::new(self.limits.model_event_bytes);
        let mut stream = response.into_body().into_reader();
        let mut bytes = vec![0; self.limits.model_buffer_bytes];
        let mut notes = Vec::new();
        let mut chunks: Vec<Box<RawValue>> = Vec::new();
        loop {
            let read = stream.read(&mut bytes);
            if cancel.is_set() {
                return Err(error::network(&TransportError::Canceled));
            }
            let n = match read {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if decoder.has_begun() => return Err(error::network(&midway(e.into()))),
                Err(e) => return Err(error::network(&self.before_answer(e.into()))),
            };
            events.feed(&bytes[..n]);
            for event in events.by_ref() {
                let event = event.map_err(|sse::TooLarge| {
                    error::fatal("The model API sent an event that is too long. Ask for less at once.")
                })?;
                let result = decoder.chunk(&event.data, &mut notes);
                notes.drain(..).for_each(&mut *emit);
                result?;
                if self.recorder.is_some() {
                    chunks.extend(serde_json::from_slice(&event.data).ok());
                }
            }
        }
        if events.ends_inside_event() {
            let what = "its last event is incomplete".into();
            return Err(error::network(&TransportError::Cut(what)));
        }
        self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.record(responses::STREAM, &chunks))?;
        let answer = decoder.finish(asked, &mut notes);
        notes.drain(..).for_each(emit);
        answer
    }

    /// An error before any part of an answer came.
    fn before_answer(&self, error: ureq::Error) -> TransportError {
        match (before_answer(error), &self.proxy) {
            (TransportError::Unreachable(what), Some(proxy)) => TransportError::NotThroughProxy(proxy.clone(), what),
            (trouble, _) => trouble,
        }
    }

    /// The agent used last: its connection is the most likely to be still open.
    fn take_agent(&self) -> Agent {
        let idle = lock(&self.idle).pop();
        idle.unwrap_or_else(|| self.config.new_agent())
    }

    fn give_back(&self, agent: Agent) {
        let mut idle = lock(&self.idle);
        if idle.len() < self.limits.model_idle {
            idle.push(agent);
        }
    }
}

impl ModelBackend for Client {
    fn answer(
        &self,
        request: &ModelRequest,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        self.with_key(request.key, cancel, |endpoint| self.attempt(endpoint, request, cancel, emit))
    }

    fn consult(&self, request: &ModelRequest, question: &str, cancel: &Cancel) -> Result<Answer, ModelError> {
        let model = &request.think.model;
        // The question is added as a prompt, so that the rules for the order of turns hold: the conversation may end with the user.
        let mut think = request.think.clone();
        let question = Message::new("question", Role::User, vec![Part::text(question)]);
        think.history.push(Arc::new(Item::Said(question.into())));
        let body = gemini::body(&think, request.tools, &(request.context)(), sys::unix_ms())?;
        let body: Value = serde_json::from_slice(&body).map_err(|e| error::fatal(e.to_string()))?;
        let answer = self.whole(model, &body, request.key, cancel)?;
        whole_answer(model, &json::bytes(&answer), &self.limits)
    }
}

impl Ask for Client {
    fn ask(&self, body: &Value, cancel: &Cancel) -> Result<Value, ModelError> {
        self.whole(gemini::UTILITY_MODEL, body, None, cancel)
    }
}

/// The answer in a response that is not a stream.
fn whole_answer(model: &str, response: &[u8], limits: &Limits) -> Result<Answer, ModelError> {
    let mut decoder = Decoder::new(model, limits.model_answer_bytes, limits.backoff_longest_ms);
    let mut notes = Vec::new();
    decoder.chunk(response, &mut notes)?;
    decoder.finish(Asked::Prompt, &mut notes)
}

fn asked(think: &Think) -> Asked {
    match think.history.last().map(AsRef::as_ref) {
        Some(Item::Results(_)) => Asked::Results,
        Some(
            Item::Said(_)
            | Item::Steered(_)
            | Item::Dropped(_)
            | Item::Answered(_)
            | Item::Summary(_)
            | Item::Nudge(_)
            | Item::Media(_),
        )
        | None => Asked::Prompt,
    }
}

/// The certificates that are trusted.
pub fn tls(roots: Option<&[u8]>) -> Result<TlsConfig, String> {
    let Some(pem) = roots else {
        return Ok(TlsConfig::default());
    };
    let certificates: Vec<_> = parse_pem(pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(
            "There is no certificate in the file that SSL_CERT_FILE names. It must hold PEM certificates.".into()
        );
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::from(certificates)).build())
}

fn before_answer(error: ureq::Error) -> TransportError {
    match error {
        ureq::Error::Timeout(_) => TransportError::Slow,
        ureq::Error::HostNotFound => TransportError::Unreachable("the host name was not found".into()),
        ureq::Error::BadUri(_)
        | ureq::Error::Http(_)
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::Tls(_)
        | ureq::Error::RequireHttpsOnly(_) => TransportError::Unusable(error.to_string()),
        error => {
            let what = words(&error);
            if what.contains("invalid peer certificate") {
                TransportError::Untrusted(what)
            } else {
                TransportError::Unreachable(what)
            }
        }
    }
}

/// An error in the middle of an answer.
fn midway(error: ureq::Error) -> TransportError {
    match error {
        ureq::Error::Timeout(_) => TransportError::Silent,
        error => TransportError::Cut(words(&error)),
    }
}

fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}
