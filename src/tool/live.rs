//! Live output of calls that servers and agents carry out: pieces of text are collected and shown at an interval, up to a limit.

use crate::limits::Limits;
use std::time::{Duration, Instant};

const END: &str = "\n[live output ends here]\n";

pub struct Live<'a> {
    out: &'a mut dyn FnMut(String),
    pending: String,
    /// When text was last shown.
    last: Option<Instant>,
    interval: Duration,
    /// Bytes that may still be shown.
    remaining: usize,
    /// The limit was reached; nothing more is shown.
    is_over: bool,
}

impl<'a> Live<'a> {
    pub fn new(out: &'a mut dyn FnMut(String), limits: &Limits) -> Live<'a> {
        let interval = Duration::from_millis(limits.live_ms);
        Live { out, pending: String::new(), last: None, interval, remaining: limits.live_bytes, is_over: false }
    }

    pub fn push(&mut self, text: &str) {
        if self.is_over {
            return;
        }
        let shown = &text[..text.floor_char_boundary(self.remaining)];
        self.pending.push_str(shown);
        self.remaining -= shown.len();
        if shown.len() < text.len() {
            self.is_over = true;
            self.pending.push_str(END);
        }
        if self.due().is_some_and(|due| due.is_zero()) {
            self.flush();
        }
    }

    /// The time until the pending text is to be shown with [`flush`](Live::flush); None if there is no pending text.
    pub fn due(&self) -> Option<Duration> {
        let until_next = |last: Instant| self.interval.saturating_sub(last.elapsed());
        (!self.pending.is_empty()).then(|| self.last.map_or(Duration::ZERO, until_next))
    }

    pub fn flush(&mut self) {
        if !self.pending.is_empty() {
            (self.out)(std::mem::take(&mut self.pending));
            self.last = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_text_is_shown_at_an_interval() {
        let (mut pieces, limits) = (Vec::new(), Limits { live_ms: 3_600_000, ..Limits::default() });
        let mut out = |text: String| pieces.push(text);
        let mut live = Live::new(&mut out, &limits);
        assert_eq!(live.due(), None);
        ["a", "b", "c"].iter().for_each(|text| live.push(text));
        assert!(live.due().is_some_and(|due| !due.is_zero()));
        live.flush();
        assert_eq!(pieces, ["a", "bc"], "the first at once, the others together");
    }

    #[test]
    fn live_text_is_limited() {
        let limits = Limits { live_ms: 0, live_bytes: 4, ..Limits::default() };
        let shown = |texts: &[&str]| {
            let mut all = String::new();
            let mut out = |text: String| all.push_str(&text);
            let mut live = Live::new(&mut out, &limits);
            texts.iter().for_each(|text| live.push(text));
            all
        };
        assert_eq!(shown(&["ab", "cd"]), "abcd", "as much as the limit");
        assert_eq!(shown(&["ab", "cde", "f"]), format!("abcd{END}"));
        assert_eq!(shown(&["abc", "é", "f"]), format!("abc{END}"), "no half character");
    }
}
