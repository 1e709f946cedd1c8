//! `GET /metrics`: everything that is counted, as text. The shell is asked for what only it can measure; the rest is read from the
//! state when the text is made.

use crate::base::clock::Now;
use crate::base::http::Response;
use crate::core::connections::connection::Conn;
use crate::core::operation::exchange::{CloseReason, Shape};
use crate::core::operation::metrics::labels::{
    BucketOperation, BucketResult, ConnectionKind, Group, Refused, TurnPhase, open_questions, turn_phase,
};
use crate::core::operation::metrics::method;
use crate::core::operation::metrics::text::{MEDIA_TYPE, Text, decimal};
use crate::core::operation::process::{BucketTimings, Figures};
use crate::core::requests::Caller;
use crate::core::{Core, Out};
use crate::task::fault::Fault;
use crate::task::machine::state::TaskState;
use crate::task::spec::Choice;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Core {
    /// Carries out the call that reads the metrics.
    pub(in crate::core) fn scrape(&mut self, caller: &Caller) -> Result<(), Fault> {
        self.connections.begin_call(caller.conn);
        self.out.push(Out::Scrape(Arc::new(caller.clone())));
        Ok(())
    }

    /// The answer to [`Out::Scrape`].
    pub(in crate::core) fn scraped(&mut self, caller: &Caller, figures: &Figures, now: Now) {
        self.connections.end_call(caller.conn);
        let body = self.metrics_text(figures);
        let headers = vec![("Content-Type", MEDIA_TYPE.to_owned()), ("Cache-Control", "no-store".to_owned())];
        self.answer(caller.conn, &Response { status: 200, headers, body: body.into() }, now);
        self.read_on(caller.conn, now);
    }

    fn metrics_text(&self, figures: &Figures) -> Vec<u8> {
        let mut text = Text::default();
        self.add_requests(&mut text);
        self.add_model(&mut text);
        self.add_tasks(&mut text);
        self.add_connections(&mut text);
        add_figures(&mut text, figures);
        if self.settings.shared_store.is_some() {
            add_bucket(&mut text, &figures.timings.bucket);
            let help = "Tasks that another instance has taken over while this one worked on them.";
            text.single("a2a_store_fenced_total", "counter", help, self.operation.metrics.fenced);
        }
        let help = "The version that runs.";
        text.family("a2a_build_info", "gauge", help);
        text.sample("a2a_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        text.into_bytes()
    }

    fn add_requests(&self, text: &mut Text) {
        let name = "http_server_request_duration_seconds";
        text.family(name, "histogram", "Duration of HTTP requests, streams and sockets to their end.");
        for ((method, route, status), histogram) in &self.operation.metrics.requests {
            let (route, status) = (format!("{}{}", route.base, route.pattern), status.to_string());
            let labels = [
                ("http_request_method", *method),
                ("http_route", route.as_str()),
                ("http_response_status_code", status.as_str()),
            ];
            text.histogram(name, &labels, histogram);
        }
        let mut active: BTreeMap<&str, u64> = BTreeMap::new();
        for exchange in self.connections.iter().filter_map(|(_, conn)| conn.exchange()) {
            *active.entry(method(exchange.method)).or_default() += 1;
        }
        let name = "http_server_active_requests";
        text.family(name, "gauge", "HTTP requests, streams and sockets under way.");
        for (method, count) in active {
            text.sample(name, &[("http_request_method", method)], count);
        }
    }

    fn add_model(&self, text: &mut Text) {
        let metrics = &self.operation.metrics;
        let provider = self.settings.operation.provider.word();
        let labels = |model, error| {
            [
                ("gen_ai_operation_name", "chat"),
                ("gen_ai_provider_name", provider),
                ("gen_ai_request_model", model),
                ("error_type", error),
            ]
        };
        let name = "gen_ai_client_operation_duration_seconds";
        text.family(name, "histogram", "Duration of model requests.");
        for ((model, error), histogram) in &metrics.model {
            text.histogram(name, &labels(model, error), histogram);
        }
        let name = "gen_ai_client_operation_time_to_first_chunk_seconds";
        text.family(name, "histogram", "Time until a model begins to answer.");
        for (model, histogram) in &metrics.first_chunk {
            text.histogram(name, &labels(model, "")[..3], histogram);
        }
        let name = "gen_ai_client_token_usage";
        text.family(name, "histogram", "Tokens of model requests.");
        for (kind, histogram) in [("input", &metrics.tokens_in), ("output", &metrics.tokens_out)] {
            text.histogram(name, &[("gen_ai_token_type", kind)], histogram);
        }
        let name = "gen_ai_execute_tool_duration_seconds";
        text.family(name, "histogram", "Duration of tool calls, without the wait for approval.");
        for ((tool, error), histogram) in &metrics.tools {
            let tool = tool.name(&self.operation.tools);
            text.histogram(name, &[("gen_ai_tool_name", tool), ("error_type", error)], histogram);
        }
    }

    fn add_tasks(&self, text: &mut Text) {
        let mut states = [0_u64; TaskState::ALL.len()];
        for (_, brief) in self.tasks.known.iter() {
            states[brief.state as usize] += 1;
        }
        text.family("a2a_tasks", "gauge", "Tasks by state.");
        for (state, count) in TaskState::ALL.into_iter().zip(states) {
            text.sample("a2a_tasks", &[("state", state.word())], count);
        }
        let (mut phases, mut questions) = ([0_u64; TurnPhase::ALL.len()], 0);
        for loaded in self.tasks.values() {
            if let Some(phase) = turn_phase(&loaded.state) {
                phases[phase as usize] += 1;
            }
            phases[TurnPhase::Queued as usize] += loaded.state.queue.len() as u64;
            questions += open_questions(&loaded.state);
        }
        text.family("a2a_turns", "gauge", "Turns under way or queued.");
        for (phase, count) in TurnPhase::ALL.into_iter().zip(phases) {
            text.sample("a2a_turns", &[("phase", phase.word())], count);
        }
        text.single("a2a_questions_open", "gauge", "Questions that wait for an answer.", questions);
        let metrics = &self.operation.metrics;
        text.family("a2a_question_wait_seconds", "histogram", "Time until a question was answered.");
        for (choice, histogram) in Choice::ALL.into_iter().zip(&metrics.question_wait) {
            text.histogram("a2a_question_wait_seconds", &[("choice", choice.word())], histogram);
        }
        text.family("a2a_events_total", "counter", "Events of tasks.");
        for (group, count) in Group::ALL.into_iter().zip(metrics.events) {
            text.sample("a2a_events_total", &[("group", group.word())], count);
        }
        text.family("a2a_webhook_deliveries_total", "counter", "Deliveries to webhooks.");
        for (result, count) in ["ok", "failed"].into_iter().zip(metrics.deliveries) {
            text.sample("a2a_webhook_deliveries_total", &[("result", result)], count);
        }
    }

    fn add_connections(&self, text: &mut Text) {
        let mut kinds = [0_u64; ConnectionKind::ALL.len()];
        for (_, conn) in self.connections.iter() {
            kinds[kind(conn) as usize] += 1;
        }
        text.family("a2a_connections", "gauge", "Open connections.");
        for (kind, count) in ConnectionKind::ALL.into_iter().zip(kinds) {
            text.sample("a2a_connections", &[("kind", kind.word())], count);
        }
        let metrics = &self.operation.metrics;
        text.family("a2a_connections_closed_total", "counter", "Connections that were closed.");
        for (reason, count) in CloseReason::ALL.into_iter().zip(metrics.closed) {
            // Whatever is done, a connection is closed by its peer or for one of the other reasons.
            if reason != CloseReason::Done {
                text.sample("a2a_connections_closed_total", &[("reason", reason.word())], count);
            }
        }
        text.family("a2a_refused_total", "counter", "Requests that were refused before they were carried out.");
        for (reason, count) in Refused::ALL.into_iter().zip(metrics.refused) {
            text.sample("a2a_refused_total", &[("reason", reason.word())], count);
        }
    }
}

fn kind(conn: &Conn) -> ConnectionKind {
    match conn.exchange().map(|exchange| exchange.shape) {
        _ if conn.is_local() => ConnectionKind::Local,
        Some(Shape::Stream) => ConnectionKind::Stream,
        Some(Shape::Socket) => ConnectionKind::Socket,
        Some(Shape::Answer) | None => ConnectionKind::Http,
    }
}

/// Requests to the bucket that the tasks are in.
fn add_bucket(text: &mut Text, bucket: &[BucketTimings; BucketOperation::ALL.len()]) {
    let of = || BucketOperation::ALL.into_iter().map(BucketOperation::word).zip(bucket);
    text.family("a2a_store_requests_total", "counter", "Requests to the bucket, each attempt.");
    for (op, timings) in of() {
        for (result, count) in BucketResult::ALL.into_iter().zip(timings.results).filter(|(_, count)| *count > 0) {
            text.sample("a2a_store_requests_total", &[("op", op), ("status", result.word())], count);
        }
    }
    text.family("a2a_store_seconds", "histogram", "Duration of requests to the bucket.");
    for (op, timings) in of() {
        text.histogram("a2a_store_seconds", &[("op", op)], &timings.duration);
    }
}

fn add_figures(text: &mut Text, figures: &Figures) {
    let timings = &figures.timings;
    for (name, help, histogram) in [
        ("a2a_loop_turn_seconds", "Duration of a turn of the event loop, without its wait.", &timings.turn),
        ("a2a_log_append_seconds", "Duration of appends to journals.", &timings.append),
        ("a2a_log_sync_seconds", "Duration of fsync of journals.", &timings.sync),
    ] {
        text.family(name, "histogram", help);
        text.histogram(name, &[], histogram);
    }
    text.single("a2a_log_errors_total", "counter", "Appends and fsyncs that failed.", timings.log_errors);
    text.family("a2a_lane_jobs", "gauge", "Jobs of workers.");
    for lane in &figures.lanes {
        for (state, count) in [("queued", lane.queued), ("running", lane.running)] {
            text.sample("a2a_lane_jobs", &[("lane", lane.lane), ("state", state)], count);
        }
    }
    if let Some(process) = figures.process {
        let help = "Resident memory.";
        text.single("process_resident_memory_bytes", "gauge", help, process.resident_bytes);
        text.single("process_open_fds", "gauge", "Open file descriptors.", process.open_files);
        let help = "User and system CPU time.";
        text.single("process_cpu_seconds_total", "counter", help, decimal(process.cpu_ms, 1_000));
        let help = "Start time since the Unix epoch.";
        text.single("process_start_time_seconds", "gauge", help, decimal(process.started_ms, 1_000));
    }
}
