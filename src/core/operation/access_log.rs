//! The lines of the access log: one JSON object per request, written at its end. A line contains no query and no body, and its length is
//! limited.

use crate::base::clock::rfc3339;
use crate::base::level::Level;
use crate::base::log_line::{LogFormat, push_json, severity};
use crate::core::operation::exchange::Exchange;
use crate::limits::{ACCESS_AGENT_BYTES, ACCESS_NAME_BYTES, ACCESS_PATH_BYTES};
use ::core::net::IpAddr;
use std::fmt::{Display, Write};

/// A request that has ended.
#[derive(Debug)]
pub struct Entry {
    pub exchange: Exchange,
    /// The address of its peer; None on a Unix socket.
    pub peer: Option<IpAddr>,
    pub ms: u64,
}

/// A JSON object that is being written.
struct Object {
    text: String,
}

impl Object {
    fn name(&mut self, name: &str) {
        let before = if self.text.ends_with('{') { "" } else { "," };
        write!(self.text, "{before}\"{name}\":").expect("memory takes it");
    }

    fn text(&mut self, name: &str, value: Option<&str>, most: usize) {
        if let Some(value) = value {
            self.name(name);
            push_json(&mut self.text, value, most);
        }
    }

    fn number(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.name(name);
            write!(self.text, "{value}").expect("memory takes it");
        }
    }

    fn quoted(&mut self, name: &str, value: impl Display) {
        self.name(name);
        write!(self.text, "\"{value}\"").expect("memory takes it");
    }
}

impl Entry {
    /// The line with its line feed; `project` is the Google Cloud project that traces belong to.
    pub fn line(&self, format: LogFormat, project: Option<&str>) -> String {
        let mut line = Object { text: String::with_capacity(512) };
        line.text.push('{');
        if format == LogFormat::Gcp {
            self.add_cloud(&mut line, project);
        }
        let exchange = &self.exchange;
        line.text("id", Some(&exchange.id.text), ACCESS_NAME_BYTES);
        line.number("at", Some(exchange.at));
        line.text("subject", exchange.subject.as_deref(), ACCESS_NAME_BYTES);
        line.text("credential", exchange.credential.as_deref(), ACCESS_NAME_BYTES);
        if let Some(peer) = self.peer {
            line.quoted("peer", peer);
        }
        line.text("method", Some(exchange.method.word()), ACCESS_NAME_BYTES);
        line.text("path", Some(self.path()), ACCESS_PATH_BYTES);
        line.text("call", exchange.call, ACCESS_NAME_BYTES);
        line.text("dialect", exchange.dialect, ACCESS_NAME_BYTES);
        line.text("task", exchange.task.as_ref().map(|task| task.as_str()), ACCESS_NAME_BYTES);
        line.number("status", exchange.status);
        line.number("in", Some(exchange.bytes_in));
        line.number("out", Some(exchange.bytes_out));
        line.number("ms", Some(self.ms));
        line.number("from", exchange.from);
        line.number("to", exchange.to);
        line.text("ended", exchange.ended.map(|ended| ended.word()), ACCESS_NAME_BYTES);
        line.text.push_str("}\n");
        line.text
    }

    fn path(&self) -> &str {
        self.exchange.details.as_ref().map_or("", |details| &details.path)
    }

    /// Adds the fields that Google Cloud Logging interprets.
    fn add_cloud(&self, line: &mut Object, project: Option<&str>) {
        let exchange = &self.exchange;
        let level = match exchange.status {
            Some(500..) => Level::Error,
            Some(400..) => Level::Warn,
            Some(_) | None => Level::Info,
        };
        line.text("severity", Some(severity(level)), ACCESS_NAME_BYTES);
        line.quoted("time", rfc3339(exchange.at + self.ms));
        let status = exchange.status.map(|status| format!(" {status}")).unwrap_or_default();
        let message = format!("{} {}{status}", exchange.method.word(), self.path());
        line.text("message", Some(&message), ACCESS_PATH_BYTES);
        let details = exchange.details.as_ref();
        if let (Some(project), Some(trace)) = (project, details.and_then(|details| details.trace.as_deref())) {
            let trace = format!("projects/{project}/traces/{trace}");
            line.text("logging.googleapis.com/trace", Some(&trace), ACCESS_NAME_BYTES);
        }
        line.name("httpRequest");
        line.text.push('{');
        line.text("requestMethod", Some(exchange.method.word()), ACCESS_NAME_BYTES);
        line.text("requestUrl", Some(self.path()), ACCESS_PATH_BYTES);
        line.number("status", exchange.status);
        line.quoted("requestSize", exchange.bytes_in);
        line.quoted("responseSize", exchange.bytes_out);
        line.quoted("latency", format_args!("{}.{:03}s", self.ms / 1000, self.ms % 1000));
        if let Some(peer) = self.peer {
            line.quoted("remoteIp", peer);
        }
        let agent = details.map(|details| details.user_agent.as_str()).filter(|agent| !agent.is_empty());
        line.text("userAgent", agent, ACCESS_AGENT_BYTES);
        line.text.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Route;
    use crate::base::http::Method;
    use crate::base::id::Seq;
    use crate::core::operation::exchange::{CloseReason, Details, RequestId};
    use crate::limits::LOG_LINE_BYTES;
    use serde_json::{Value, json};

    fn entry(path: &str) -> Entry {
        let id = RequestId { text: "r-1".into(), is_sent: true };
        let mut exchange = Exchange::new(id, Method::Post, Route::OTHER);
        exchange.at = 1_772_357_400_125;
        exchange.status = Some(200);
        (exchange.bytes_in, exchange.bytes_out) = (10, 2_000);
        let trace = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
        exchange.details = Some(Box::new(Details { path: path.into(), user_agent: "curl/8".into(), trace }));
        Entry { exchange, peer: Some(IpAddr::from([10, 0, 0, 7])), ms: 1_012 }
    }

    fn read(line: &str) -> Value {
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
        serde_json::from_str(line).expect("JSON")
    }

    #[test]
    fn a_line_has_what_is_known_and_nothing_else() {
        let mut entry = entry("/message:stream");
        let base = json!({"id": "r-1", "at": 1_772_357_400_125_u64, "peer": "10.0.0.7", "method": "POST",
            "path": "/message:stream", "status": 200, "in": 10, "out": 2_000, "ms": 1_012});
        for format in [LogFormat::Text, LogFormat::Json] {
            assert_eq!(read(&entry.line(format, None)), base);
        }
        entry.exchange.subject = Some("operator".into());
        entry.exchange.credential = Some("laptop".into());
        (entry.exchange.call, entry.exchange.dialect) = (Some("say"), Some("rest-1.0"));
        entry.exchange.task = Some("t-1".into());
        (entry.exchange.from, entry.exchange.to) = (Some(Seq(2)), Some(Seq(9)));
        entry.exchange.ended = Some(CloseReason::Drain);
        let line = read(&entry.line(LogFormat::Json, None));
        let names: Vec<&String> = line.as_object().expect("an object").keys().collect();
        assert_eq!(names.len(), 16 + 1, "{names:?}");
        assert_eq!((&line["from"], &line["to"], &line["ended"]), (&json!(2), &json!(9), &json!("drain")));
    }

    #[test]
    fn lines_for_google_cloud_have_its_fields() {
        let line = read(&entry("/x").line(LogFormat::Gcp, Some("p-1")));
        assert_eq!(line["severity"], "INFO");
        assert_eq!(line["time"], "2026-03-01T09:30:01.137Z");
        assert_eq!(line["message"], "POST /x 200");
        assert_eq!(line["logging.googleapis.com/trace"], "projects/p-1/traces/4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            line["httpRequest"],
            json!({"requestMethod": "POST", "requestUrl": "/x", "status": 200, "requestSize": "10",
                "responseSize": "2000", "latency": "1.012s", "remoteIp": "10.0.0.7", "userAgent": "curl/8"})
        );
        assert_eq!(line["id"], "r-1");
        assert_eq!(read(&entry("/x").line(LogFormat::Gcp, None))["logging.googleapis.com/trace"], Value::Null);
    }

    #[test]
    fn the_longest_line_is_short_enough_and_json() {
        let mut entry = entry(&"/\x1b\"ä".repeat(5_000));
        let long = "\x1b".repeat(5_000);
        entry.exchange.subject = Some(long.as_str().into());
        entry.exchange.credential = Some(long.as_str().into());
        entry.exchange.task = Some(long.as_str().into());
        entry.exchange.id.text = "x".repeat(64).into();
        entry.exchange.status = Some(503);
        (entry.exchange.from, entry.exchange.to) = (Some(Seq(u64::MAX)), Some(Seq(u64::MAX)));
        (entry.exchange.bytes_in, entry.exchange.bytes_out, entry.ms) = (u64::MAX, u64::MAX, 1 << 40);
        if let Some(details) = &mut entry.exchange.details {
            details.user_agent = long.clone();
        }
        for format in LogFormat::ALL {
            let line = entry.line(format, Some(&long));
            assert!(line.len() <= LOG_LINE_BYTES, "{} bytes", line.len());
            read(&line);
        }
    }
}
