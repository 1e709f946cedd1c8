//! Classifies failed model requests: whether to try again and when, and the message for the user.
//!
//! The API explains an error in up to three ways: the HTTP status, a `Retry-After` field, and an error object whose message may
//! contain another error object as text. The error object is the most exact one and is used first. A failure that waiting cannot
//! correct is `Fatal`, and its message ends with what the user can do. The key is not known here, so no message can contain it.

use crate::task::machine::job::{ModelError, ModelErrorKind};
use regex_lite::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// The beginning of the message if the API does not accept the key.
pub const KEY_REFUSED: &str = "The API refused the key";

/// An error response of the API.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// The model that was asked for.
    pub model: &'a str,
    pub status: u16,
    /// The `Retry-After` field, as sent.
    pub retry_after: Option<&'a str>,
    pub body: &'a [u8],
}

/// Why a request got no complete response from the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// No connection, or it ended before the answer began.
    Unreachable(String),
    /// No connection through a proxy: the address of the proxy, and what happened.
    NotThroughProxy(String, String),
    /// The answer did not begin in time.
    Slow,
    /// The server's certificate is not trusted.
    Untrusted(String),
    /// The address or the proxy cannot be used.
    Unusable(String),
    /// The stream ended in the middle.
    Cut(String),
    /// The stream sent nothing for too long.
    Silent,
    /// The request was canceled, because its turn was stopped.
    Canceled,
}

/// Classifies an error response. If the API asks to wait longer than `longest_ms`, the request is not repeated.
pub fn classify(refusal: &Refusal, longest_ms: u64) -> ModelError {
    let report = Report::read(refusal.body);
    let said = report.sentence(refusal.status);
    let model = refusal.model;
    match refusal.status {
        404 => unusable(format!("The model {model} was not found: {said} Choose another one with --model.")),
        401 | 403 => fatal(format!(
            "{KEY_REFUSED}: {said} Check that GEMINI_API_KEY is set to a valid key that may use {model}."
        )),
        400 if report.has_reason(&["API_KEY_INVALID", "API_KEY_EXPIRED"]) || said.contains("API key not valid") => {
            fatal(format!("{KEY_REFUSED}: {said} Check that GEMINI_API_KEY is set to a valid key."))
        }
        429 | 499 | 503 => over_quota(refusal, &report, said, longest_ms),
        408 | 500..=599 => busy_after(retry_after(refusal), longest_ms, said),
        status => fatal(format!(
            "The API refused the request (status {status}): {said} Change the request or start a new task."
        )),
    }
}

/// Which tool declaration an error is about. None: the error is not about the content of the request. `Some(None)`: it may be about a
/// declaration, but the API does not say which. `Some(Some(n))`: it is about the declaration with index `n`.
pub fn refused_declaration(error: &ModelError) -> Option<Option<usize>> {
    if error.kind != ModelErrorKind::Fatal || !error.message.contains("(status 400)") {
        return None;
    }
    let numbers =
        ["function_declarations[", "functionDeclarations["].iter().find_map(|name| error.message.split_once(name));
    Some(numbers.and_then(|(_, rest)| rest.split(']').next()?.parse().ok()))
}

/// Classifies an error that says that the API has no capacity for the request: for a short time, or for longer than a turn can wait.
fn over_quota(refusal: &Refusal, report: &Report, said: String, longest_ms: u64) -> ModelError {
    let model = refusal.model;
    if report.text.contains("limit: 0") {
        return unusable(format!(
            "This key has no quota for {model}: {said} Choose another model with --model, or use another key."
        ));
    }
    if report.has_quota(&["PerDay", "Daily"]) {
        return unusable(format!(
            "The daily quota for {model} is used up: {said} Choose another model with --model, or go on tomorrow."
        ));
    }
    if report.has_reason(&[
        "MODEL_CAPACITY_EXHAUSTED",
        "MODEL_CAPACITY_EXCEEDED",
        "INSUFFICIENT_G1_CREDITS_BALANCE",
        "QUOTA_EXHAUSTED",
    ]) {
        return unusable(format!(
            "{model} is not available to this key now: {said} Choose another model with --model, or try again later."
        ));
    }
    let minute = || report.has_quota(&["PerMinute"]).then_some(60_000);
    let after_ms = report.retry_ms.or_else(minute).or_else(|| retry_after(refusal));
    busy_after(after_ms, longest_ms, said)
}

/// Classifies a failure of the connection.
pub fn network(error: &TransportError) -> ModelError {
    let busy = |message: String| ModelError { kind: ModelErrorKind::Busy { after_ms: None }, message };
    let broken = |message: String| ModelError { kind: ModelErrorKind::BadStream, message };
    match error {
        TransportError::Unreachable(what) => {
            busy(format!("The model API cannot be reached: {what}. Check the network and GOOGLE_GEMINI_BASE_URL."))
        }
        TransportError::NotThroughProxy(proxy, what) => busy(format!(
            "The model API cannot be reached through the proxy {proxy}: {what}. Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY."
        )),
        TransportError::Slow => {
            busy("The model API did not answer in time. Check the network, or try again later.".into())
        }
        TransportError::Untrusted(what) => fatal(format!(
            "The model API's certificate is not trusted: {what}. Behind a proxy that opens TLS, set SSL_CERT_FILE to its certificate."
        )),
        TransportError::Unusable(what) => fatal(format!(
            "The model API's address cannot be used: {what}. Check GOOGLE_GEMINI_BASE_URL and the proxy."
        )),
        TransportError::Cut(what) => broken(format!("The model's answer broke off: {what}. Send the message again.")),
        TransportError::Silent => {
            broken("The model fell silent in the middle of its answer. Send the message again.".into())
        }
        TransportError::Canceled => fatal("The request was canceled."),
    }
}

/// The error for the same failure after a part of the answer was shown: that part is void, so it counts as a broken stream.
pub fn after_partial_answer(error: ModelError) -> ModelError {
    let kind = match error.kind {
        ModelErrorKind::Busy { .. } | ModelErrorKind::BadStream => ModelErrorKind::BadStream,
        kind @ (ModelErrorKind::Unusable
        | ModelErrorKind::TooLong
        | ModelErrorKind::NeedsKey
        | ModelErrorKind::Fatal) => kind,
    };
    ModelError { kind, ..error }
}

/// This model cannot be used; another one may be.
fn unusable(message: String) -> ModelError {
    ModelError { kind: ModelErrorKind::Unusable, message }
}

pub fn fatal(message: impl Into<String>) -> ModelError {
    ModelError { kind: ModelErrorKind::Fatal, message: message.into() }
}

fn busy_after(after_ms: Option<u64>, longest_ms: u64, said: String) -> ModelError {
    match after_ms {
        Some(ms) if ms > longest_ms => fatal(format!(
            "The model API asks to wait {} s: {said} Try again then, or choose another model with --model.",
            ms.div_ceil(1000)
        )),
        Some(_) | None => ModelError {
            kind: ModelErrorKind::Busy { after_ms },
            message: format!("The model API is busy: {said} Try again later, or choose another model with --model."),
        },
    }
}

/// The `Retry-After` field in milliseconds, if it has the form in seconds. The other form, a date, would need a clock; with it the normal
/// backoff is used.
fn retry_after(refusal: &Refusal) -> Option<u64> {
    let seconds: u64 = refusal.retry_after?.trim().parse().ok()?;
    seconds.checked_mul(1000)
}

/// The content of an error body. If its message contains further error objects, the innermost one counts.
#[derive(Default)]
struct Report {
    message: String,
    reasons: Vec<String>,
    quotas: Vec<String>,
    retry_ms: Option<u64>,
    /// The whole body, for phrases that may be anywhere in it.
    text: String,
}

impl Report {
    fn read(body: &[u8]) -> Report {
        /// Error objects inside error messages; deeper nesting has not been observed.
        const NESTING: usize = 4;
        let text = String::from_utf8_lossy(body).into_owned();
        let mut report = Report::default();
        let mut value = serde_json::from_slice::<Value>(body).ok();
        for _ in 0..NESTING {
            let Some(error) = value.take().and_then(error_object) else {
                break;
            };
            report.read_error(&error);
            value = serde_json::from_str(&report.message).ok();
        }
        let phrase = || text.split_once("Please retry in ").and_then(|(_, rest)| duration_ms(rest));
        report.retry_ms = report.retry_ms.or_else(phrase);
        report.text = text;
        report
    }

    fn read_error(&mut self, error: &Value) {
        if let Some(message) = error.get("message").and_then(Value::as_str) {
            self.message = message.trim().to_owned();
        }
        let details = error.get("details").and_then(Value::as_array);
        for detail in details.into_iter().flatten() {
            let word = |value: &Value| value.as_str().map(str::to_owned);
            self.reasons.extend(detail.get("reason").and_then(word));
            let limit = detail.pointer("/metadata/quota_limit").and_then(word);
            self.quotas.extend(limit);
            let violations = detail.get("violations").and_then(Value::as_array);
            for violation in violations.into_iter().flatten() {
                self.quotas.extend(violation.get("quotaId").and_then(word));
            }
            if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
                self.retry_ms = duration_ms(delay);
            }
        }
    }

    /// The message of the API as one sentence.
    fn sentence(&self, status: u16) -> String {
        const LONGEST: usize = 600;
        let mut sentence: String = match self.message.as_str() {
            "" => format!("it answered with status {status}"),
            message => message.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        if let Some((cut, _)) = sentence.char_indices().nth(LONGEST) {
            sentence.truncate(cut);
            sentence.push('…');
        }
        if !sentence.ends_with(['.', '!', '?', '…']) {
            sentence.push('.');
        }
        sentence
    }

    fn has_reason(&self, reasons: &[&str]) -> bool {
        self.reasons.iter().any(|reason| reasons.contains(&reason.as_str()))
    }

    fn has_quota(&self, words: &[&str]) -> bool {
        self.quotas.iter().any(|quota| words.iter().any(|word| quota.contains(word)))
    }
}

/// The error object of a body; a streaming endpoint may wrap the body into an array.
fn error_object(mut body: Value) -> Option<Value> {
    if let Some(first) = body.as_array_mut().and_then(|all| all.first_mut()) {
        body = first.take();
    }
    body.get_mut("error").map(Value::take).filter(Value::is_object)
}

/// The time at the beginning of a text: `12.3s` or `900ms`.
fn duration_ms(text: &str) -> Option<u64> {
    static DURATION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s*([0-9.]+)\s*(ms|s)").expect("the expression is valid"));
    let found = DURATION.captures(text)?;
    let unit_ms = if &found[2] == "ms" { 1.0 } else { 1000.0 };
    // Saturates: a huge delay is longer than we wait.
    Some((found[1].parse::<f64>().ok()? * unit_ms).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LONGEST: u64 = 300_000;

    fn judge(status: u16, retry_after: Option<&str>, body: &Value) -> ModelError {
        let body = body.to_string();
        let refusal = Refusal { model: "gemini-x", status, retry_after, body: body.as_bytes() };
        classify(&refusal, LONGEST)
    }

    fn error(message: &str, details: Value) -> Value {
        json!({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}})
    }

    fn quota(id: &str) -> Value {
        json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]}])
    }

    fn retry(delay: &str) -> Value {
        json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}])
    }

    fn busy(after_ms: Option<u64>) -> ModelErrorKind {
        ModelErrorKind::Busy { after_ms }
    }

    #[test]
    fn the_kind_follows_from_status_field_and_body() {
        let bare = json!({});
        let reason = |word: &str| error("x", json!([{"reason": word}]));
        let nested = error(&error("inner", retry("7s")).to_string(), json!([{"reason": "OUTER"}]));
        let metadata = json!([{"reason": "X", "metadata": {"quota_limit": "RequestsPerMinutePerProject"}}]);
        let table = [
            (400, None, bare.clone(), ModelErrorKind::Fatal),
            (400, Some("3"), retry_body(), ModelErrorKind::Fatal),
            (401, None, bare.clone(), ModelErrorKind::Fatal),
            (403, None, bare.clone(), ModelErrorKind::Fatal),
            (404, None, bare.clone(), ModelErrorKind::Unusable),
            (413, None, bare.clone(), ModelErrorKind::Fatal),
            (302, None, bare.clone(), ModelErrorKind::Fatal),
            (408, None, bare.clone(), busy(None)),
            (429, None, bare.clone(), busy(None)),
            (499, None, bare.clone(), busy(None)),
            (500, None, bare.clone(), busy(None)),
            (502, Some("4"), bare.clone(), busy(Some(4_000))),
            (503, Some(" 12 "), bare.clone(), busy(Some(12_000))),
            (503, Some("300"), bare.clone(), busy(Some(300_000))),
            (503, Some("301"), bare.clone(), ModelErrorKind::Fatal),
            (503, Some("Sun, 06 Nov 1994 08:49:37 GMT"), bare.clone(), busy(None)),
            (503, Some("99999999999999999999"), bare.clone(), busy(None)),
            (429, None, error("quota exceeded, limit: 0", json!([])), ModelErrorKind::Unusable),
            (429, None, error("x", quota("GenerateRequestsPerDayPerProjectPerModel")), ModelErrorKind::Unusable),
            (429, None, error("x", quota("DailyTokens")), ModelErrorKind::Unusable),
            (429, None, error("x", quota("GenerateRequestsPerMinute")), busy(Some(60_000))),
            (429, None, error("x", metadata), busy(Some(60_000))),
            (429, None, error("x", retry("12.3s")), busy(Some(12_300))),
            (429, None, error("x", retry("900ms")), busy(Some(900))),
            (429, Some("99"), error("x", retry("5s")), busy(Some(5_000))),
            (429, None, error("x", retry("301s")), ModelErrorKind::Fatal),
            (429, None, error("Please retry in 2.5s.", json!([])), busy(Some(2_500))),
            (429, None, error("Please retry in 40ms.", json!([])), busy(Some(40))),
            (503, None, reason("MODEL_CAPACITY_EXHAUSTED"), ModelErrorKind::Unusable),
            (429, None, reason("QUOTA_EXHAUSTED"), ModelErrorKind::Unusable),
            (429, None, nested, busy(Some(7_000))),
            (429, None, json!([error("x", retry("8s"))]), busy(Some(8_000))),
        ];
        for (status, field, body, kind) in table {
            assert_eq!(judge(status, field, &body).kind, kind, "{status} {field:?} {body}");
        }
    }

    fn retry_body() -> Value {
        error("x", retry("5s"))
    }

    #[test]
    fn messages_say_what_happened_and_what_to_do() {
        assert_eq!(
            judge(404, None, &error("models/gemini-x is not found", json!([]))).message,
            "The model gemini-x was not found: models/gemini-x is not found. Choose another one with --model."
        );
        assert_eq!(
            judge(403, None, &json!("")).message,
            "The API refused the key: it answered with status 403. Check that GEMINI_API_KEY is set to a valid key that may use gemini-x."
        );
        assert_eq!(
            judge(400, None, &error("API key not valid.", json!([{"reason": "API_KEY_INVALID"}]))).message,
            "The API refused the key: API key not valid. Check that GEMINI_API_KEY is set to a valid key."
        );
        assert_eq!(
            judge(429, None, &error("slow\n down", retry("400s"))).message,
            "The model API asks to wait 400 s: slow down. Try again then, or choose another model with --model."
        );
        let nested = error(&error("the inner one", json!([])).to_string(), json!([]));
        assert_eq!(
            judge(500, None, &nested).message,
            "The model API is busy: the inner one. Try again later, or choose another model with --model."
        );
    }

    #[test]
    fn a_body_that_is_not_json_is_classified_by_its_status() {
        let refusal = Refusal { model: "m", status: 502, retry_after: None, body: b"<html>\xff bad gateway" };
        let error = classify(&refusal, LONGEST);
        assert_eq!(error.kind, busy(None));
        assert!(error.message.contains("status 502"), "{}", error.message);
    }

    #[test]
    fn failures_before_the_answer_are_retried_and_later_ones_break_the_stream() {
        let table = [
            (TransportError::Unreachable("x".into()), busy(None)),
            (TransportError::Slow, busy(None)),
            (TransportError::Untrusted("x".into()), ModelErrorKind::Fatal),
            (TransportError::Unusable("x".into()), ModelErrorKind::Fatal),
            (TransportError::Cut("x".into()), ModelErrorKind::BadStream),
            (TransportError::Silent, ModelErrorKind::BadStream),
            (TransportError::Canceled, ModelErrorKind::Fatal),
        ];
        for (trouble, kind) in table {
            assert_eq!(network(&trouble).kind, kind, "{trouble:?}");
        }
        assert_eq!(after_partial_answer(network(&TransportError::Slow)).kind, ModelErrorKind::BadStream);
        assert_eq!(after_partial_answer(fatal("x")).kind, ModelErrorKind::Fatal);
    }
}
