//! The rows around the composer: the agent's activity, queued prompts, and the footer.

use crate::task::policy::Mode;
use crate::ui::Thoughts;
use crate::ui::format::style::{Role, SPINNER};
use crate::ui::format::text::width;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::output::block::{Viewer, duration_text, name_of, plural, running_call, shell_running};
use crate::ui::output::transcript::Transcript;
use crate::ui::scene::{Call, Item, Phase, Scene, Stage};

/// Rows above the cursor are short, so that a narrower terminal does not wrap them and leave a part behind.
const MAX_STATUS_COLUMNS: usize = 40;

/// The character of the spinner at this time.
pub fn spinner(now: u64) -> char {
    SPINNER[(now / 100) as usize % SPINNER.len()]
}

/// The present activity in at most `room` rows: the running calls, or what the model does.
pub fn activity_rows(transcript: &Transcript, now: u64, max_width: usize, room: usize) -> Vec<Line> {
    let scene = &transcript.scene;
    let mut calls: Vec<_> = scene.calls.values().filter(|call| call.stage == Stage::Running).collect();
    calls.sort_by_key(|call| call.started_at);
    let stop = "esc stops";
    let mut lines = transcript.unfinished_table(max_width);
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    let row = |(at, call): (usize, &&Call)| {
        let facts: &[&str] = if at == 0 { &[stop] } else { &[] };
        running_call(call, &transcript.viewer, spinner(now), now, max_width, facts)
    };
    let mut running: Vec<Vec<Line>> = calls.iter().enumerate().map(row).collect();
    if running.is_empty() {
        let time = duration_text(now.saturating_sub(scene.turn_at)).map_or(String::new(), |time| format!(" · {time}"));
        let facts = format!("{time} · {stop}");
        let room = MAX_STATUS_COLUMNS - 2 - width(&facts);
        if let Some(text) = activity(transcript, now, room) {
            let text = Line::new(Role::Text, &text).clipped(room).content();
            running.push(vec![Line::new(Role::Text, &format!("{} {text}", spinner(now))).add(Role::Muted, &facts)]);
        }
    }
    if let Some(shell) = scene.shell.as_ref().filter(|shell| shell.runs()) {
        running.push(shell_running(shell, &transcript.viewer, spinner(now), now, max_width));
    }
    shorten(&mut running, room);
    let rows: usize = running.iter().map(Vec::len).sum();
    let cut = (lines.len() + rows).saturating_sub(room).min(lines.len());
    lines.drain(..cut);
    lines.extend(running.into_iter().flatten());
    lines
}

/// Removes rows until the rest fits: first the oldest output of the longest call, then the newest calls.
fn shorten(running: &mut Vec<Vec<Line>>, room: usize) {
    while running.iter().map(Vec::len).sum::<usize>() > room {
        match running.iter_mut().max_by_key(|rows| rows.len()) {
            Some(longest) if longest.len() > 1 => drop(longest.remove(1)),
            _ => drop(running.pop()),
        }
    }
}

/// What the turn does, in a few words. None if it does nothing or waits for the user.
fn activity(transcript: &Transcript, now: u64, room: usize) -> Option<String> {
    let scene = &transcript.scene;
    Some(match &scene.phase {
        Phase::Idle | Phase::Interrupted | Phase::Closed => return None,
        Phase::Attaching => "reading files".into(),
        Phase::Command => "running the command".into(),
        Phase::Compacting => "summarising".into(),
        Phase::BackedOff { until, tries, .. } => {
            let remaining = duration_text(until.saturating_sub(now)).unwrap_or_else(|| "0s".into());
            format!("try {} in {remaining}", tries + 1)
        }
        Phase::Tools if !scene.asked.is_empty() => return None,
        Phase::Tools => "working".into(),
        Phase::Thinking => match transcript.newest_words(room) {
            text if text.is_empty() => newest_thought(transcript).unwrap_or_else(|| "thinking".into()),
            text => text,
        },
    })
}

/// The subject of the newest thought of the answer under way.
fn newest_thought(transcript: &Transcript) -> Option<String> {
    match transcript.scene.items.last().filter(|_| transcript.thoughts != Thoughts::Off) {
        Some(Item::Thought { subject, .. }) if !subject.is_empty() => Some(subject.clone()),
        _ => None,
    }
}

/// The reason why a request is retried, in at most two rows: it is too long for the row of the activity.
pub fn retry_reason(scene: &Scene, max_width: usize) -> Vec<Line> {
    let Phase::BackedOff { reason, .. } = &scene.phase else {
        return Vec::new();
    };
    let (first, next) = (Span::new(Role::Warn, "! "), Span::new(Role::Text, "  "));
    let mut rows = paragraph(&first, &next, &[Span::prose(Role::Text, reason.trim())], max_width);
    if rows.len() > 2 {
        // The second row has as much of the rest as fits, and an ellipsis.
        let rest: Vec<String> = rows.drain(1..).map(|row| row.content().trim().to_owned()).collect();
        rows.push(Line::new(Role::Text, &format!("  {}", rest.join(" "))).clipped(max_width));
    }
    rows
}

/// The rows for queued prompts, and for prompts that the server has not accepted yet.
pub fn queued_prompts(scene: &Scene, viewer: &Viewer, unsent_prompts: &[String]) -> Vec<Line> {
    let own = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let queued = scene.queue.iter().map(|prompt| match viewer.is_me(&prompt.by) {
        true => own(&prompt.text),
        false => format!("[A2A] {}: {}", name_of(&prompt.by.client, &prompt.by.via), own(&prompt.text)),
    });
    let all: Vec<String> = queued.chain(unsent_prompts.iter().map(|text| own(text))).collect();
    let row = |(at, text): (usize, &String)| {
        let word = if at == 0 { "  next  " } else { "  then  " };
        Line::new(Role::Muted, word).text(text).clipped(MAX_STATUS_COLUMNS)
    };
    all.iter().enumerate().map(row).collect()
}

/// The name of the mode that is shown.
pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::Default => "asks",
        Mode::AutoEdit => "edits",
        Mode::Yolo => "yolo",
    }
}

/// The contents of the footer.
pub struct Footer<'a> {
    pub directory: &'a str,
    pub branch: &'a str,
    pub model: &'a str,
    /// Tokens of the last request. `window` is the model's context window; 0 if it is unknown.
    pub tokens: u64,
    pub window: u64,
    /// Tokens at which the conversation is summarised; 0 if that is unknown.
    pub compress_tokens: u64,
    pub mode: Mode,
    pub clients: usize,
    pub questions: usize,
    pub is_new_session: bool,
}

impl Footer<'_> {
    /// The footer. In a narrow terminal clients, branch and directory are left out, in this order; then the model is cut. The mode
    /// and the use of the context window are always shown.
    pub fn line(&self, max_width: usize) -> Line {
        let mut line = Line::default();
        for dropped in 0..4 {
            line = self.with_model(dropped, self.model);
            if line.width() <= max_width {
                return line;
            }
        }
        let room = width(self.model).saturating_sub(line.width() - max_width);
        let model = Line::new(Role::Text, self.model).clipped(room.max(4)).content();
        self.with_model(3, &model).clipped(max_width)
    }

    fn with_model(&self, dropped: usize, model: &str) -> Line {
        let place = [self.directory, self.branch].map(str::to_owned);
        let directory = match (self.is_new_session, dropped) {
            (true, _) | (_, 3..) => String::new(),
            (false, 2) => place[0].clone(),
            (false, _) => place.join(" ").trim_end().to_owned(),
        };
        let mut parts = vec![(Role::Muted, directory), (Role::Muted, model.to_owned())];
        parts.extend((self.tokens * 100).checked_div(self.window).map(|percent| {
            let role = match percent {
                100.. => Role::Err,
                _ if self.compress_tokens > 0 && self.tokens >= self.compress_tokens => Role::Warn,
                _ => Role::Muted,
            };
            (role, format!("{percent}%"))
        }));
        parts.push((if self.mode == Mode::Yolo { Role::Warn } else { Role::Muted }, mode_word(self.mode).into()));
        parts.extend((self.questions > 0).then(|| (Role::Accent, plural(self.questions, "question"))));
        let clients = (self.clients > 1 && dropped < 1).then(|| plural(self.clients, "client"));
        parts.extend(clients.map(|clients| (Role::Muted, clients)));
        let mut line = Line::new(Role::Text, "  ");
        for (role, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            if line.spans.len() > 1 {
                line = line.add(Role::Muted, " · ");
            }
            line = line.add(*role, part);
        }
        line
    }
}
