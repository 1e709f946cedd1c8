//! The screen: the rows of the live region, the frames for the painter, notifications, and the sequences that begin and end the use
//! of the terminal.

use crate::base::clock::Now;
use crate::limits::ui::{FRAME_MS, NOTIFY_EVERY_MS, NOTIFY_TURN_MS};
use crate::ui::Notify;
use crate::ui::app::{Keyboard, Ui};
use crate::ui::dialogs::dialog::Room;
use crate::ui::format::columns::broken_columns;
use crate::ui::format::style::Role;
use crate::ui::format::text::{Reading, plain, width};
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::output::block::{duration_text, name_of, plural, short_id, tool_name};
use crate::ui::output::paint::Frame;
use crate::ui::output::status::{self, Footer};
use crate::ui::scene::Item;

/// Turns on bracketed paste and focus events; then queries the terminal: keyboard protocol, background, name, synchronised output,
/// device attributes. Nothing waits for the replies. The attributes are last, because every terminal replies to that query.
pub const START: &str = "\x1b[?2004h\x1b[?1004h\x1b[?u\x1b]11;?\x1b\\\x1b[>0q\x1b[?2026$p\x1b[c";

/// On a lower screen a dialog has no blank row between itself and a message below it.
const SPACIOUS: usize = 12;

const HINT: &str = "Ask anything · / commands · @ files · ! shell · ? keys";

/// `2 clients share this session`.
pub fn sharing(clients: usize) -> String {
    match clients {
        1 => "1 client shares this session".into(),
        clients => format!("{clients} clients share this session"),
    }
}

impl Ui {
    /// The sequence that restores the terminal's modes. It is sent however the program ends.
    pub fn restore(&self) -> &'static str {
        match self.keyboard {
            Keyboard::Legacy => "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[m",
            Keyboard::Kitty => "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[m",
            Keyboard::Xterm => "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[>4m\x1b[m",
        }
    }

    /// The sequence that turns the modes on again after another program has used the terminal.
    pub fn resume(&self) -> &'static str {
        match self.keyboard {
            Keyboard::Legacy => "\x1b[?2004h\x1b[?1004h",
            Keyboard::Kitty => "\x1b[?2004h\x1b[?1004h\x1b[>1u",
            Keyboard::Xterm => "\x1b[?2004h\x1b[?1004h\x1b[>4;2m",
        }
    }

    /// The bytes of the next frame. Empty if nothing changed, or too soon after the last frame. To be called when all bytes of the
    /// last frame are written.
    pub fn paint(&mut self, now: Now) -> Vec<u8> {
        if self.linear.is_some() {
            self.print_banner();
        }
        if let Some(linear) = &mut self.linear {
            self.transcript.print_queue.take();
            (self.dirty, self.painted_at) = (false, now.mono_ms);
            return linear.take();
        }
        let is_first = self.painted_at == 0;
        if !is_first && now.mono_ms < self.painted_at + FRAME_MS {
            return Vec::new();
        }
        self.print_banner();
        let is_tiny = self.is_tiny();
        let mut frame = Frame { control_sequences: std::mem::take(&mut self.control_sequences), ..Frame::default() };
        (frame.live, frame.cursor) = self.live(now);
        frame.redraw = std::mem::take(&mut self.redraw);
        frame.finished = match frame.redraw {
            // What is not printed yet comes with the next frame.
            true => {
                let rows = self.size.rows.saturating_sub(frame.live.len() + 1);
                self.transcript.print_queue.screenful(rows, self.columns())
            }
            false => self.transcript.print_queue.take(),
        };
        if let Some(open) = &mut self.dialog
            && open.focused
            && !is_tiny
        {
            open.painted.get_or_insert(now.mono_ms);
        }
        (self.dirty, self.painted_at) = (false, now.mono_ms.max(1));
        self.painter.paint(&frame, self.size)
    }

    /// The bytes that remove the live region, before another program uses the terminal.
    pub fn clear_live(&mut self) -> Vec<u8> {
        match self.linear {
            Some(_) => Vec::new(),
            None => self.painter.paint(&Frame::default(), self.size),
        }
    }

    /// The bytes of the last frame, which has no live region: statistics of the session, and how to continue it.
    pub fn farewell(&mut self) -> Vec<u8> {
        let mut lines = match self.transcript.tally.requests {
            0 => Vec::new(),
            _ => self.transcript.tally.lines(&self.transcript.scene, self.columns()),
        };
        if let Some(task) = self.task.as_ref().filter(|_| !self.has_no_prompt()) {
            let command = match self.is_attached {
                true => format!("gemini-a2a attach {}", self.setup.server),
                false => format!("gemini-a2a --resume {}", short_id(task)),
            };
            lines.push(Line::new(Role::Muted, &format!("Continue with: {command}")));
        }
        self.print(lines);
        if let Some(linear) = &mut self.linear {
            return linear.take();
        }
        let mut bytes = Vec::new();
        loop {
            let frame = Frame { finished: self.transcript.print_queue.take(), ..Frame::default() };
            bytes.extend(self.painter.paint(&frame, self.size));
            if !self.transcript.print_queue.is_waiting() {
                return bytes;
            }
        }
    }

    /// Prints the first lines once: version, workspace, and the address and clients of a shared session. They precede all lines of
    /// records.
    pub(in crate::ui) fn print_banner(&mut self) {
        if self.banner_printed || self.dialog.as_ref().is_some_and(|open| open.purpose.is_some()) {
            return;
        }
        // The server's answer to `about` has the workspace.
        if self.transcript.viewer.workspace.is_empty() && self.client.is_about_open() {
            return;
        }
        self.banner_printed = true;
        let viewer = &self.transcript.viewer;
        let facts = [viewer.directory(&viewer.workspace), self.setup.branch.clone()];
        let mut line = Line::new(Role::Strong, "gemini-a2a").add(Role::Muted, &format!(" {}", self.setup.version));
        for fact in facts.iter().filter(|fact| !fact.is_empty()) {
            line = line.add(Role::Muted, " · ").text(fact);
        }
        let mut lines = vec![line];
        if let Some(url) = &self.setup.url {
            let others: Vec<&str> = self.other_clients().collect();
            let clients = match others.len() {
                0 => String::new(),
                number => format!(" · {}: {}", plural(number, "client"), others.join(", ")),
            };
            lines.push(Line::new(Role::Muted, "Shared: ").text(url).add(Role::Muted, &clients));
        }
        self.print(lines);
    }

    /// Whether the screen is so small that only the composer is shown.
    pub(in crate::ui) fn is_tiny(&self) -> bool {
        self.size.columns < 20 || self.size.rows < 6
    }

    /// The rows of the live region, from the top, and the position of the cursor.
    fn live(&mut self, now: Now) -> (Vec<Line>, Option<(usize, usize)>) {
        let (columns, rows) = (self.size.columns.saturating_sub(1).max(1), self.size.rows);
        let third = (rows / 3).clamp(3, 12);
        if self.dialog.as_ref().is_some_and(|open| open.focused) && !self.is_tiny() {
            return self.live_dialog(now, columns, third);
        }
        let hint = match (self.has_no_prompt(), self.composer.is_shell()) {
            (true, false) => HINT,
            _ => "",
        };
        let (composer, (row, column)) = self.composer.rows(self.columns(), third, hint);
        if self.is_tiny() {
            return (composer, Some((row, column)));
        }
        let mut lines: Vec<Line> = Vec::new();
        // Each group begins with a blank line, also the first one: above it are finished lines.
        let group = |lines: &mut Vec<Line>, rows: Vec<Line>| {
            if !rows.is_empty() {
                lines.push(Line::default());
                lines.extend(rows);
            }
        };
        group(&mut lines, self.busy_rows(now, third));
        group(&mut lines, self.waiting_question(now).into_iter().collect());
        group(
            &mut lines,
            status::queued_prompts(&self.transcript.scene, &self.transcript.viewer, &self.client.unsent_prompts()),
        );
        group(&mut lines, self.toast_rows());
        let above = lines.len() + 1;
        group(&mut lines, composer);
        lines.extend(self.composer.popup_rows(columns));
        lines.push(Line::default());
        lines.push(self.footer(columns));
        // What does not fit is cut from the top: it will be printed when it is done.
        let cut = lines.len().saturating_sub(rows.saturating_sub(1));
        let lines: Vec<Line> = lines.drain(cut..).map(|line| line.clipped(columns)).collect();
        (lines, Some((above + row - cut.min(above + row), column)))
    }

    fn live_dialog(&mut self, now: Now, columns: usize, third: usize) -> (Vec<Line>, Option<(usize, usize)>) {
        let waiting = self.transcript.scene.asked.len();
        let mut facts = match waiting {
            0 | 1 => String::new(),
            waiting => format!("question 1 of {waiting} · "),
        };
        let others: Vec<&str> = self.other_clients().collect();
        if !others.is_empty() {
            facts += &format!("also asked: {} · ", others.join(", "));
        }
        // The dialog gets the rows that the toast leaves; the activity is shown only above a dialog that fits.
        let max_rows = self.size.rows.saturating_sub(1);
        let mut toast = self.toast_rows();
        if !toast.is_empty() && max_rows > SPACIOUS {
            toast.insert(0, Line::default());
        }
        let room = Room { columns, rows: max_rows.saturating_sub(toast.len()), body: third };
        let Some(open) = &mut self.dialog else {
            return (Vec::new(), None);
        };
        let (rows, cursor) = open.dialog.rows(&self.transcript.viewer, room, &facts);
        let free_rows = room.rows.saturating_sub(rows.len());
        let mut lines = self.busy_rows(now, free_rows.saturating_sub(2).min(3));
        if !lines.is_empty() {
            lines.insert(0, Line::default());
        }
        if self.banner_printed && lines.len() < free_rows {
            lines.push(Line::default());
        }
        let above = lines.len();
        lines.extend(rows);
        lines.extend(toast);
        // If a dialog does not fit, its last rows are shown: the choices.
        let cut = lines.len().saturating_sub(max_rows);
        lines.drain(..cut);
        (lines, cursor.map(|(row, column)| (above + row - cut.min(above + row), column)))
    }

    fn toast_rows(&self) -> Vec<Line> {
        let none = Span::new(Role::Warn, "");
        let rows = |(text, _): &(String, u64)| paragraph(&none, &none, &[Span::new(Role::Warn, text)], self.columns());
        self.toast.as_ref().map(rows).unwrap_or_default()
    }

    /// The names of the other clients.
    fn other_clients(&self) -> impl Iterator<Item = &str> {
        let me = &self.transcript.viewer.me;
        self.clients
            .iter()
            .filter(move |info| info.client != me.client || info.via != me.via)
            .map(|info| name_of(&info.client, &info.via))
    }

    /// Whether the session has no prompt yet.
    fn has_no_prompt(&self) -> bool {
        !self.transcript.scene.items.iter().any(|item| matches!(item, Item::Prompt { .. }))
            && self.transcript.scene.turn == 0
    }

    /// The rows for the present activity, or for the lost connection.
    fn busy_rows(&self, now: Now, max_rows: usize) -> Vec<Line> {
        if max_rows == 0 {
            return Vec::new();
        }
        if let Some(at) = self.retry_at {
            let wait = duration_text(at.saturating_sub(now.mono_ms)).map_or("now".into(), |time| format!("in {time}"));
            let text = format!("Lost {}; trying again {wait} · what you type is kept", self.setup.server);
            return vec![Line::new(Role::Text, &format!("{} ", status::spinner(now.unix_ms))).add(Role::Warn, &text)];
        }
        let mut lines = Vec::new();
        lines.extend(status::retry_reason(&self.transcript.scene, self.columns()));
        lines.truncate(max_rows);
        if self.is_busy() {
            let room = max_rows.saturating_sub(lines.len());
            lines.extend(status::activity_rows(&self.transcript, now.unix_ms, self.columns(), room));
        }
        lines
    }

    /// The row for a question that does not have the focus.
    fn waiting_question(&self, now: Now) -> Option<Line> {
        let open = self.dialog.as_ref().filter(|open| !open.focused)?;
        let call = self.transcript.scene.calls.get(open.dialog.call()?)?;
        let subject = crate::ui::output::block::subject(call, &self.transcript.viewer);
        let since = duration_text(now.mono_ms.saturating_sub(open.since))
            .map_or(String::new(), |time| format!(" since {time}"));
        let line = Line::new(Role::Accent, "? ").add(Role::Strong, tool_name(call)).text(" ").text(&subject);
        // The subject has precedence; a narrow terminal shows shorter facts.
        let all = [format!(" · asks{since} · tab answers, typing goes on"), " · tab answers, typing goes on".into()];
        let room = |facts: &String| self.columns().saturating_sub(width(facts));
        let least = line.width().min(self.columns() / 3);
        let facts = all.into_iter().find(|facts| room(facts) >= least).unwrap_or_else(|| " · tab answers".into());
        Some(line.clipped(room(&facts)).add(Role::Muted, &facts))
    }

    pub(in crate::ui) fn footer(&self, columns: usize) -> Line {
        let viewer = &self.transcript.viewer;
        let directory = viewer.directory(&viewer.workspace);
        if self.composer.is_shell() {
            let text = format!("  runs as you in {directory} · the agent sees command and output");
            return Line::new(Role::Muted, &text).clipped(columns);
        }
        let scene = &self.transcript.scene;
        let first = || self.about.models.first().map_or("", String::as_str);
        let model = match (&scene.model, &self.about.model) {
            (model, _) | (_, model) if !model.is_empty() => model,
            _ => first(),
        };
        let footer = Footer {
            directory: &directory,
            branch: &self.setup.branch,
            model,
            tokens: scene.usage.last.map_or(0, |usage| usage.total),
            window: self.about.window,
            compress_tokens: self.about.compress_tokens,
            mode: self.mode(),
            clients: self.clients.len(),
            questions: if self.dialog.is_some() { scene.asked.len() } else { 0 },
            is_new_session: self.has_no_prompt(),
        };
        footer.line(columns)
    }

    /// Notifies a user who is looking elsewhere: by a bell, and by a desktop notification if the terminal has them. The notification
    /// never contains the command.
    pub(in crate::ui) fn notify(&mut self, what: &str, now: Now) {
        let recently = self.notified_at.is_some_and(|at| now.mono_ms.saturating_sub(at) < NOTIFY_EVERY_MS);
        if self.focus == Some(true) || recently || self.setup.notify == Notify::Off || self.linear.is_some() {
            return;
        }
        self.notified_at = Some(now.mono_ms);
        self.control_sequences.push('\x07');
        let name =
            self.dialog.as_ref().and_then(|open| self.transcript.scene.calls.get(open.dialog.call()?)).map(tool_name);
        let folder = self.transcript.viewer.workspace.rsplit('/').next().unwrap_or_default();
        let subject = name.map_or(String::new(), |name| format!(": {name}"));
        let text: String =
            plain(&format!("gemini-a2a {what}{subject} ({folder})"), Reading::Literal).chars().take(100).collect();
        let program = self.setup.terminal.to_lowercase();
        let knows = |names: &[&str]| names.iter().any(|name| program.contains(name));
        let message = match () {
            _ if self.setup.notify == Notify::Bell => return,
            _ if knows(&["iterm", "wezterm", "ghostty", "kitty", "warp"]) => format!("\x1b]9;{text}\x07"),
            _ if knows(&["foot", "rxvt"]) => format!("\x1b]777;notify;gemini-a2a;{text}\x07"),
            _ if self.setup.inside_tmux => format!("\x1bPtmux;\x1b\x1b]9;{text}\x07\x1b\\"),
            _ => return,
        };
        self.control_sequences.push_str(&message);
    }

    pub(in crate::ui) fn turn_ended(&mut self, at: u64, now: Now) {
        if at.saturating_sub(self.transcript.scene.turn_at) >= NOTIFY_TURN_MS && self.history_end.is_none() {
            self.notify("is done", now);
        }
    }

    /// The lines of `/clients`.
    pub(in crate::ui) fn client_lines(&self, now: Now) -> Vec<Line> {
        let me = &self.transcript.viewer.me;
        let row = |info: &crate::ui::client::ClientInfo| {
            let mine = info.client == me.client && info.via == me.via;
            let name = if mine { "you" } else { name_of(&info.client, &info.via) };
            let via = if mine { "this terminal".into() } else { info.via.clone() };
            let via = if mine || info.live { via } else { format!("{via}, idle") };
            let ago = |at: u64| duration_text(now.unix_ms.saturating_sub(at) / 1_000 * 1_000);
            let mut facts = ago(info.since).map_or("now".into(), |time| format!("for {time}"));
            let tally = self.transcript.tally.client(&info.client).cloned().unwrap_or_default();
            if tally.answered > 0 {
                facts += &format!(" · answered {}", plural(tally.answered, "question"));
            }
            if let Some(time) = tally.said_at.and_then(ago) {
                facts += &format!(" · last said {time} ago");
            }
            vec![format!("  {name}"), via, facts]
        };
        let rows: Vec<Vec<String>> = self.clients.iter().map(row).collect();
        let title = match self.clients.len() {
            1 => "You are alone in this session".to_owned(),
            clients => format!("{} share this session", plural(clients, "client")),
        };
        let mut lines = vec![Line::new(Role::Strong, &title)];
        lines.extend(broken_columns(&rows, &[Role::Text, Role::Muted, Role::Muted], self.columns()));
        lines
    }
}
