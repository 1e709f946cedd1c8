//! A shell command that a user runs in the session, with `!` in the terminal.

use crate::task::log::record::Record;
use crate::task::message::Source;
use crate::ui::scene::call::append_output;
use crate::ui::scene::{NoteWord, Scene};
use serde::Serialize;

/// The shell command of a user that runs, or that ran last.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellRun {
    pub command: String,
    pub by: Source,
    /// The newest part of the output.
    pub output: String,
    pub output_lines: u64,
    /// How the command ended: `exit 1`, or why it was stopped.
    pub end: String,
    pub began_at: u64,
    /// 0 while it runs.
    pub ended_at: u64,
}

impl ShellRun {
    pub fn runs(&self) -> bool {
        self.ended_at == 0
    }

    /// Whether the exit status is 0.
    pub fn has_succeeded(&self) -> bool {
        self.end == "exit 0"
    }
}

impl Scene {
    /// Whether a command of the user runs.
    pub fn runs_shell(&self) -> bool {
        self.shell.as_ref().is_some_and(ShellRun::runs)
    }

    pub(super) fn begin_shell(&mut self, command: &str, by: &Source, record: &Record) {
        self.note(record.seq, NoteWord::ShellBegan, command);
        self.shell = Some(ShellRun {
            command: command.to_owned(),
            by: by.clone(),
            output: String::new(),
            output_lines: 0,
            end: String::new(),
            began_at: record.at,
            ended_at: 0,
        });
    }

    pub(super) fn append_shell_output(&mut self, text: &str) {
        if let Some(shell) = self.shell.as_mut().filter(|shell| shell.runs()) {
            append_output(&mut shell.output, &mut shell.output_lines, text);
        }
    }

    /// The command has ended. `text` is the result as the model gets it; people are shown only the output and how the command ended.
    pub(super) fn end_shell(&mut self, text: &str, record: &Record) {
        let result = ShellResult::of(text);
        let mut shown = result.output;
        if let Some(shell) = self.shell.as_mut().filter(|shell| shell.runs()) {
            if shell.output.trim().is_empty() {
                shell.output_lines = shown.lines().count() as u64;
                shell.output.clone_from(&shown);
            }
            shown.clone_from(&shell.output);
            shell.ended_at = record.at;
            shell.end.clone_from(&result.end);
        }
        let text = [shown.trim_end(), &result.end].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
        self.note(record.seq, NoteWord::ShellEnded, &text.join("\n"));
    }
}

/// The parts of a command's result, read from the text that the model gets.
struct ShellResult {
    output: String,
    end: String,
}

impl ShellResult {
    /// Reads a result: it is marked as untrusted content, and lines about the end follow the output. Any other text says why there
    /// is no result.
    fn of(text: &str) -> ShellResult {
        const CUT: &str = "\n[The rest was left out.]";
        let marked = text.strip_prefix("<untrusted_context>\n");
        let unmarked = |text: &str| {
            let text = text.strip_suffix("\n</untrusted_context>").unwrap_or(text);
            text.replace("&lt;/untrusted_context", "</untrusted_context")
        };
        let body = marked.map(unmarked);
        let body = body.as_deref().unwrap_or(text);
        let Some(output) = body.strip_prefix("Output: ") else {
            return ShellResult { output: String::new(), end: text.trim_end_matches('.').to_owned() };
        };
        let is_fact = |line: &str| {
            ["Exit Code: ", "Signal: ", "Background PIDs: ", "The command was ended "]
                .iter()
                .any(|word| line.starts_with(word))
        };
        let (mut shown, mut facts) = (output.trim_end_matches('\n'), Vec::new());
        loop {
            let (before, last) = shown.rsplit_once('\n').unwrap_or(("", shown));
            if !is_fact(last) {
                break;
            }
            facts.push(last.trim_end_matches('\r'));
            shown = before;
        }
        facts.reverse();
        let shown = shown.trim_end_matches('\n').replace(CUT, "");
        let end = facts.iter().map(|fact| match fact.split_once(": ") {
            Some(("Exit Code", code)) => format!("exit {code}"),
            Some(("Signal", signal)) => format!("signal {signal}"),
            _ => (*fact).to_owned(),
        });
        let end: Vec<String> = end.collect();
        let end = if end.is_empty() { "exit 0".to_owned() } else { end.join(" · ") };
        ShellResult { output: if shown == "(empty)" { String::new() } else { shown }, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_split_into_output_and_end() {
        let marked = |text: &str| format!("<untrusted_context>\n{text}\n</untrusted_context>");
        for (text, output, end) in [
            (marked("Output: a\n\tb  c\n"), "a\n\tb  c", "exit 0"),
            (marked("Output: (empty)"), "", "exit 0"),
            (marked("Output: (empty)\nExit Code: 7"), "", "exit 7"),
            (
                marked("Output: x\n\nExit Code: 1\nBackground PIDs: 8 (ended with the command)"),
                "x",
                "exit 1 · Background PIDs: 8 (ended with the command)",
            ),
            (marked("Output: a&lt;/untrusted_context>\nSignal: 9"), "a</untrusted_context>", "signal 9"),
            // The output of a command may look like the lines that follow it, and have carriage returns.
            (marked(&format!("Output: {}", "Signal: é\r\n".repeat(2))), "", "signal é · signal é"),
            ("The user stopped the command.".to_owned(), "", "The user stopped the command"),
        ] {
            let result = ShellResult::of(&text);
            assert_eq!((result.output.as_str(), result.end.as_str()), (output, end), "{text}");
        }
    }
}
