//! The rows around the composer: what the agent does, queued prompts, a passing message, and the footer.

use crate::task::policy::Mode;
use crate::ui::Thoughts;
use crate::ui::format::style::{Role, SPINNER};
use crate::ui::format::text::width;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::output::block::{Viewer, count, name_of, running, shell_running, spell};
use crate::ui::output::transcript::Transcript;
use crate::ui::scene::{Call, Item, Phase, Scene, Stage};

/// Rows above the cursor are short, so that narrowing the terminal leaves nothing behind.
const SHORT: usize = 40;

/// The step of the spinner.
pub fn spinner(now: u64) -> char {
    SPINNER[(now / 100) as usize % SPINNER.len()]
}

/// What is going on, in at most so many rows: the calls that run, or what the model does.
pub fn busy(transcript: &Transcript, now: u64, most: usize, room: usize) -> Vec<Line> {
    let scene = &transcript.scene;
    let mut calls: Vec<_> = scene.calls.values().filter(|call| call.stage == Stage::Running).collect();
    calls.sort_by_key(|call| call.started_at);
    let stop = "esc stops";
    let mut lines = transcript.held(most);
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    let row = |(at, call): (usize, &&Call)| {
        let facts: &[&str] = if at == 0 { &[stop] } else { &[] };
        running(call, &transcript.viewer, spinner(now), now, most, facts)
    };
    let mut running: Vec<Vec<Line>> = calls.iter().enumerate().map(row).collect();
    if running.is_empty() {
        let time = spell(now.saturating_sub(scene.turn_at)).map_or(String::new(), |time| format!(" · {time}"));
        let facts = format!("{time} · {stop}");
        let room = SHORT - 2 - width(&facts);
        if let Some(text) = doing(transcript, now, room) {
            let text = Line::new(Role::Text, &text).clipped(room).content();
            running.push(vec![Line::new(Role::Text, &format!("{} {text}", spinner(now))).add(Role::Muted, &facts)]);
        }
    }
    if let Some(shell) = scene.shell.as_ref().filter(|shell| shell.runs()) {
        running.push(shell_running(shell, &transcript.viewer, spinner(now), now, most));
    }
    shorten(&mut running, room);
    let rows: usize = running.iter().map(Vec::len).sum();
    let cut = (lines.len() + rows).saturating_sub(room).min(lines.len());
    lines.drain(..cut);
    lines.extend(running.into_iter().flatten());
    lines
}

/// Leaves out the oldest rows below the heads of calls, then the newest calls.
fn shorten(running: &mut Vec<Vec<Line>>, room: usize) {
    while running.iter().map(Vec::len).sum::<usize>() > room {
        match running.iter_mut().max_by_key(|rows| rows.len()) {
            Some(longest) if longest.len() > 1 => drop(longest.remove(1)),
            _ => drop(running.pop()),
        }
    }
}

/// What the turn does, in a few words. None if it rests or waits for the user.
fn doing(transcript: &Transcript, now: u64, room: usize) -> Option<String> {
    let scene = &transcript.scene;
    Some(match &scene.phase {
        Phase::Idle | Phase::Interrupted | Phase::Closed => return None,
        Phase::Attaching => "reading files".into(),
        Phase::Command => "running the command".into(),
        Phase::Compacting => "summarising".into(),
        Phase::BackedOff { until, tries, .. } => {
            let left = spell(until.saturating_sub(now)).unwrap_or_else(|| "0s".into());
            format!("try {} in {left}", tries + 1)
        }
        Phase::Tools if !scene.asked.is_empty() => return None,
        Phase::Tools => "working".into(),
        Phase::Thinking => match transcript.newest(room) {
            text if text.is_empty() => thought(transcript).unwrap_or_else(|| "thinking".into()),
            text => text,
        },
    })
}

/// The subject of the newest thought of the answer under way.
fn thought(transcript: &Transcript) -> Option<String> {
    match transcript.scene.items.last().filter(|_| transcript.thoughts != Thoughts::Off) {
        Some(Item::Thought { subject, .. }) if !subject.is_empty() => Some(subject.clone()),
        _ => None,
    }
}

/// The reason of a wait, which is too long for the status row: two rows at most.
pub fn trouble(scene: &Scene, most: usize) -> Vec<Line> {
    let Phase::BackedOff { reason, .. } = &scene.phase else {
        return Vec::new();
    };
    let (first, next) = (Span::new(Role::Warn, "! "), Span::new(Role::Text, "  "));
    let mut rows = paragraph(&first, &next, &[Span::prose(Role::Text, reason.trim())], most);
    if rows.len() > 2 {
        // The second row has as much of the rest as it takes, and a mark.
        let rest: Vec<String> = rows.drain(1..).map(|row| row.content().trim().to_owned()).collect();
        rows.push(Line::new(Role::Text, &format!("  {}", rest.join(" "))).clipped(most));
    }
    rows
}

/// Prompts that wait for their turn, and those that the server does not know yet.
pub fn queue(scene: &Scene, viewer: &Viewer, unsent: &[String]) -> Vec<Line> {
    let own = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let queued = scene.queue.iter().map(|prompt| match viewer.is_me(&prompt.by) {
        true => own(&prompt.text),
        false => format!("[A2A] {}: {}", name_of(&prompt.by.client, &prompt.by.via), own(&prompt.text)),
    });
    let all: Vec<String> = queued.chain(unsent.iter().map(|text| own(text))).collect();
    let row = |(at, text): (usize, &String)| {
        let word = if at == 0 { "  next  " } else { "  then  " };
        Line::new(Role::Muted, word).text(text).clipped(SHORT)
    };
    all.iter().enumerate().map(row).collect()
}

/// The mode in a word.
pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::Default => "asks",
        Mode::AutoEdit => "edits",
        Mode::Yolo => "yolo",
    }
}

/// What the footer is made of.
pub struct Footer<'a> {
    pub directory: &'a str,
    pub branch: &'a str,
    pub model: &'a str,
    /// Tokens of the last request, and how many the model takes; 0 if it is not known.
    pub tokens: u64,
    pub window: u64,
    /// Tokens at which the conversation is summarised; 0 if it is not known.
    pub compress_tokens: u64,
    pub mode: Mode,
    pub clients: usize,
    pub questions: usize,
    pub first: bool,
}

impl Footer<'_> {
    /// The footer. In a narrow terminal clients, branch and directory are dropped, in this order; then the model is cut. Mode and
    /// context are always seen.
    pub fn line(&self, most: usize) -> Line {
        let mut line = Line::default();
        for dropped in 0..4 {
            line = self.with_model(dropped, self.model);
            if line.width() <= most {
                return line;
            }
        }
        let room = width(self.model).saturating_sub(line.width() - most);
        let model = Line::new(Role::Text, self.model).clipped(room.max(4)).content();
        self.with_model(3, &model).clipped(most)
    }

    fn with_model(&self, dropped: usize, model: &str) -> Line {
        let place = [self.directory, self.branch].map(str::to_owned);
        let directory = match (self.first, dropped) {
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
        parts.extend((self.questions > 0).then(|| (Role::Accent, count(self.questions, "question"))));
        let clients = (self.clients > 1 && dropped < 1).then(|| count(self.clients, "client"));
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
