//! The states of a server, their words in the protocol, and when an ended server is started again.

use crate::limits::mcp::{FAILURES_REPORTED, RESTART_MS, RESTARTS_WITHIN_MS, UNREACHED_MS};
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The settings do not allow the server. With the reason.
    Blocked(String),
    /// The user has switched the server off.
    Disabled,
    /// The folder is not trusted.
    Untrusted,
    Connecting,
    Connected,
    NeedsLogin,
    Failed(String),
    Stopping,
    /// The server was stopped because it was not used. It is started again when it is needed.
    Idle,
}

impl State {
    pub fn word(&self) -> &'static str {
        match self {
            State::Blocked(_) => "blocked",
            State::Disabled => "disabled",
            State::Connecting => "connecting",
            State::Connected => "connected",
            State::Stopping => "disconnecting",
            State::Untrusted | State::NeedsLogin | State::Failed(_) | State::Idle => "disconnected",
        }
    }

    /// Why the server is not connected, and what to do about it.
    pub fn error(&self, server: &str) -> Option<String> {
        match self {
            State::Blocked(why) | State::Failed(why) => Some(why.clone()),
            State::Untrusted => Some("folder is not trusted".into()),
            State::NeedsLogin => Some(format!("needs login: gemini-a2a mcp login {server}")),
            State::Disabled | State::Connecting | State::Connected | State::Stopping | State::Idle => None,
        }
    }
}

/// The recent starts of one server.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    recent: VecDeque<u64>,
}

impl Starts {
    pub fn started(&mut self, now_ms: u64) {
        self.recent.push_back(now_ms);
        if self.recent.len() > RESTART_MS.len() + 1 {
            self.recent.pop_front();
        }
    }

    /// How long to wait before an ended server is started again. `None` if it was started too often.
    pub fn wait_ms(&mut self, now_ms: u64) -> Option<u64> {
        self.recent.retain(|start| start + RESTARTS_WITHIN_MS > now_ms);
        match self.recent.len() {
            0 => RESTART_MS.first().copied(),
            count => RESTART_MS.get(count - 1).copied(),
        }
    }

    /// Clears the recorded starts, because the user has asked for a start.
    pub fn reset(&mut self) {
        self.recent.clear();
    }
}

/// Whether to try again to reach a server, `since_ms` after the last failure.
pub fn is_retry_due(since_ms: u64) -> bool {
    since_ms >= UNREACHED_MS
}

/// The failures of a server that were reported to the user.
#[derive(Debug, Default)]
pub struct ReportedFailures(BTreeSet<String>);

impl ReportedFailures {
    /// Records a failure. Returns whether it was not reported before.
    pub fn is_new(&mut self, why: &str) -> bool {
        if self.0.len() >= FAILURES_REPORTED && !self.0.contains(why) {
            self.0.clear();
        }
        self.0.insert(why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_server_is_tried_again_after_a_minute() {
        assert!(!is_retry_due(UNREACHED_MS - 1) && is_retry_due(UNREACHED_MS));
    }

    #[test]
    fn a_failure_is_reported_once() {
        let mut reported = ReportedFailures::default();
        let mut is_new = |number: usize| reported.is_new(&format!("failure {number}"));
        assert!((0..FAILURES_REPORTED).all(&mut is_new));
        assert!(!(0..FAILURES_REPORTED).any(&mut is_new), "as many as are remembered");
        assert!(is_new(FAILURES_REPORTED) && is_new(0) && !is_new(0), "one more empties the memory");
    }

    #[test]
    fn states_have_the_words_of_the_wire() {
        for (state, word, error) in [
            (State::Blocked("b".into()), "blocked", Some("b")),
            (State::Disabled, "disabled", None),
            (State::Untrusted, "disconnected", Some("folder is not trusted")),
            (State::Connecting, "connecting", None),
            (State::Connected, "connected", None),
            (State::NeedsLogin, "disconnected", Some("needs login: gemini-a2a mcp login s")),
            (State::Failed("f".into()), "disconnected", Some("f")),
            (State::Stopping, "disconnecting", None),
            (State::Idle, "disconnected", None),
        ] {
            assert_eq!((state.word(), state.error("s").as_deref()), (word, error));
        }
    }

    #[test]
    fn check_6_a_server_is_started_five_times_in_ten_minutes() {
        let (mut starts, mut now, mut waits) = (Starts::default(), 1_000, Vec::new());
        starts.started(now);
        while let Some(wait) = starts.wait_ms(now) {
            waits.push(wait);
            now += wait;
            starts.started(now);
        }
        assert_eq!(waits, RESTART_MS, "five starts");
        assert_eq!(starts.wait_ms(1_000 + RESTARTS_WITHIN_MS - 1), None);
        assert_eq!(starts.wait_ms(1_000 + RESTARTS_WITHIN_MS), Some(8_000), "the first one is long ago");
        starts.reset();
        assert_eq!(starts.wait_ms(now), Some(1_000));
    }
}
