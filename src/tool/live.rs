//! Text of a call that others carry out, which is shown while it comes: at most every so often, and up to a limit.

use crate::limits::Limits;
use std::time::{Duration, Instant};

const END: &str = "\n[live output ends here]\n";

pub struct Live<'a> {
    out: &'a mut dyn FnMut(String),
    unsent: String,
    last: Option<Instant>,
    every: Duration,
    /// Bytes that may still be shown.
    left: usize,
    is_over: bool,
}

impl<'a> Live<'a> {
    pub fn new(out: &'a mut dyn FnMut(String), limits: &Limits) -> Live<'a> {
        let every = Duration::from_millis(limits.live_ms);
        Live { out, unsent: String::new(), last: None, every, left: limits.live_bytes, is_over: false }
    }

    pub fn push(&mut self, text: &str) {
        if self.is_over {
            return;
        }
        let shown = &text[..text.floor_char_boundary(self.left)];
        self.unsent.push_str(shown);
        self.left -= shown.len();
        if shown.len() < text.len() {
            self.is_over = true;
            self.unsent.push_str(END);
        }
        if self.due().is_some_and(|due| due.is_zero()) {
            self.flush();
        }
    }

    /// When the text that waits is to be shown with [`flush`](Live::flush); None if there is none.
    pub fn due(&self) -> Option<Duration> {
        let elapsed = |last: Instant| self.every.saturating_sub(last.elapsed());
        (!self.unsent.is_empty()).then(|| self.last.map_or(Duration::ZERO, elapsed))
    }

    pub fn flush(&mut self) {
        if !self.unsent.is_empty() {
            (self.out)(std::mem::take(&mut self.unsent));
            self.last = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_text_comes_at_most_every_so_often() {
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
    fn live_text_of_others_stops_at_its_limit() {
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
